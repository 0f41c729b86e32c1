#pragma once
// Why the planner decided as it did, as the half sentences that text, JSON and page of an explanation share.

#include <string>
#include <string_view>
#include <vector>

#include "train/report/plan/explain.h"

namespace braid::scheduler {

class Reasons {
 public:
  /// The explanation must outlive it.
  explicit Reasons(const Explanation& explanation);

  std::string units(int count) const;  ///< "2 cores"
  std::string op(NodeId node) const { return std::string(graph_.node(node).op->name()); }
  std::string label(NodeId node) const;  ///< "29 batch_norm (branch2.1.bn)"
  std::string list(std::span<const NodeId> nodes) const;
  std::string implementations(NodeId node) const;
  std::string stream_of(NodeId node) const;

  /// The attempt whose decisions are shown: the kept one, or the best of the others if those were not logged; nullptr
  /// if no decision was.
  const ScheduleLog::Attempt* shown() const;
  bool shows_the_kept() const { return shown() == &log_.attempts[log_.kept]; }

  /// Why a node starts, or does not. `first`: of the decisions at its time.
  std::string node(const ScheduleLog::Pick& pick, bool first) const;
  std::string width(const ScheduleLog::Pick& pick) const;
  std::string stream(NodeId node) const;  ///< empty if it is not logged
  std::string wait(const ScheduleLog::Dependence& dependence) const;

 protected:
  const PlanView& view_;
  const ScheduleLog& log_;
  const StepGraph& graph_;
  const Edges& edges_;
  const std::vector<double> levels_;
};

std::string microseconds(double value);
/// A policy in one sentence, also of "list".
std::string_view rule_of(std::string_view policy);

}  // namespace braid::scheduler
