#pragma once
// The options of commands that show a plan in files: --trace and --html.

#include <CLI/CLI.hpp>
#include <string>

#include "scheduler/plan_view.h"

namespace braid::apps {

struct PlanFiles {
  std::string trace, html;  ///< empty: not wanted

  /// `what` is shown, as "the plan".
  void add_to(CLI::App& command, const std::string& what);
  bool wanted() const { return !trace.empty() || !html.empty(); }
  /// Throws Error that names the file that cannot be written.
  void write(const PlanView& view) const;
  /// The same with empty files, to know early whether they can be written.
  void write_nothing() const;
};

}  // namespace braid::apps
