#include "apps/plan_files.h"

#include "scheduler/chrome_trace.h"
#include "scheduler/plan_page.h"
#include "train/files.h"

namespace braid::apps {

void PlanFiles::add_to(CLI::App& command) {
  command.add_option("--trace", trace, "Write the plan as a Chrome trace (JSON), which ui.perfetto.dev opens")
      ->type_name("FILE");
  command.add_option("--html", html, "Write the plan as a page for a browser")->type_name("FILE");
}

void PlanFiles::write(const PlanView& view) const {
  if (!trace.empty()) write_file(trace, chrome_trace(view));
  if (!html.empty()) write_file(html, plan_page(view));
}

}  // namespace braid::apps
