#pragma once
// Measures the nodes of recorded steps, each alone.

#include <map>
#include <vector>

#include "runtime/session.h"
#include "scheduler/costs/profile.h"

namespace braid {

/// Options of a session for measuring: one stream, so that nodes run alone, and the same width for all nodes. The
/// device must have this width (widths).
SessionOptions profiling_options(SessionOptions options, int width);

class Profiler {
 public:
  /// Throws Error unless the session has such options. The session must outlive the profiler.
  explicit Profiler(Session& session);

  /// Runs a recorded step instead of step.run(), and records the time of every node.
  void run(Step& step);
  /// Medians of the recorded times. Equal nodes of a step count as samples of the same node.
  scheduler::Profile profile() const;

 private:
  Session& session_;
  std::map<scheduler::NodeImplementation, std::vector<double>> microseconds_;
  std::string_view clock_;
};

/// Times all implementations of all nodes of the step that the session has recorded and that has not run, each alone
/// (KernelTimer). On CUDA this is more exact than measuring whole steps.
scheduler::Profile profile_nodes(Session& session);

}  // namespace braid
