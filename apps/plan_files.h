#pragma once
// The options --trace and --html, which write a plan to files.

#include <string>

#include "apps/command_line.h"
#include "train/report/plan/plan_view.h"
#include "train/run/log/progress.h"

namespace braid::apps {

struct PlanFiles {
  std::string trace, html;  ///< empty: not requested

  /// `what` completes the help text "Write …", for example "the plan".
  void add_to(Command& command, const std::string& what, const Rules& rules = {});
  bool wanted() const { return !trace.empty() || !html.empty(); }
  /// Throws Error with the name of the file if one cannot be written.
  void write(const scheduler::PlanView& view) const;
  /// Throws the same error up front, without writing anything.
  void check() const;
  /// Writes each file, or warns and stops requesting it: a file that cannot be written must not end training.
  void try_to_write(const scheduler::PlanView& view, Progress& progress);
};

}  // namespace braid::apps
