#pragma once
// A plan as one page for a browser: when each node runs, the graph with its critical path, the memory map, and the
// numbers, with explanations for someone who has never seen a schedule.

#include <string>

#include "train/report/plan/plan_view.h"

namespace braid::scheduler {

/// The data that the page draws, as JSON.
std::string plan_page_data(const PlanView& view);

/// HTML that needs nothing else: no network and no other file.
std::string plan_page(const PlanView& view);

/// The page without its data: train/report/page/, put together by the build. The data go in the place of kPageData.
extern const char* const kPageTemplate;
inline constexpr std::string_view kPageData = "/*DATA*/";
/// A page with its data, which are JSON.
std::string filled_page(std::string page, std::string data);

}  // namespace braid::scheduler
