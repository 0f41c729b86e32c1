#pragma once
// The options of commands that show a plan in files: --trace and --html.

#include <CLI/CLI.hpp>
#include <string>

#include "scheduler/show/plan_view.h"
#include "train/run/progress.h"

namespace braid::apps {

struct PlanFiles {
  std::string trace, html;  ///< empty: not wanted

  /// `what` is shown, as "the plan".
  void add_to(CLI::App& command, const std::string& what);
  bool wanted() const { return !trace.empty() || !html.empty(); }
  /// Throws Error that names the file that cannot be written.
  void write(const scheduler::PlanView& view) const;
  /// The same, known early, without writing anything.
  void check() const;
  /// Writes what can be written, and warns of the rest, which is not wanted any more: no training should end for want
  /// of its picture.
  void try_to_write(const scheduler::PlanView& view, Progress& progress);
};

}  // namespace braid::apps
