#pragma once
// The options of commands that show a plan in files: --trace and --html.

#include <CLI/CLI.hpp>
#include <string>

#include "scheduler/plan_view.h"

namespace braid::apps {

struct PlanFiles {
  std::string trace, html;  ///< empty: not wanted

  void add_to(CLI::App& command);
  /// Throws Error that names the file that cannot be written.
  void write(const PlanView& view) const;
};

}  // namespace braid::apps
