#include "apps/plan_files.h"

#include "core/base/exception_text.h"
#include "train/checkpoint/files.h"
#include "train/report/plan/chrome_trace.h"
#include "train/report/plan/plan_page.h"

namespace braid::apps {

void PlanFiles::add_to(Command& command, const std::string& what, const Rules& rules) {
  command.add_option("--trace", "FILE", &trace, "Write " + what + ": a Chrome trace (JSON) for ui.perfetto.dev", rules);
  command.add_option("--html", "FILE", &html, "Write " + what + ": a page for a browser", rules);
}

void PlanFiles::check() const {
  for (const std::string& path : {trace, html}) {
    if (!path.empty()) check_writable(path);
  }
}

void PlanFiles::try_to_write(const scheduler::PlanView& view, Progress& progress) {
  const auto attempt = [&](std::string& path, std::string (*draw)(const scheduler::PlanView&)) {
    try {
      if (!path.empty()) write_file(path, draw(view));
    } catch (const std::exception&) {
      progress.warn(exception_text(std::current_exception()) + "; training continues");
      path.clear();
    }
  };
  attempt(trace, scheduler::chrome_trace);
  attempt(html, scheduler::plan_page);
}

void PlanFiles::write(const scheduler::PlanView& view) const {
  if (!trace.empty()) write_file(trace, scheduler::chrome_trace(view));
  if (!html.empty()) write_file(html, scheduler::plan_page(view));
}

}  // namespace braid::apps
