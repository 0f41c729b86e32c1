#include "train/report/plan/staleness.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/text/json.h"
#include "core/text/text_table.h"

namespace braid::scheduler {

std::string staleness_tables(const ScaleRow& synchronous, const Staleness& asynchronous, bool has_straggler) {
  constexpr std::size_t kRows = 16, kBar = 50;  // the length of a bar of all updates
  const double rate = 1e6 * synchronous.ranks / synchronous.makespan;
  std::vector<std::vector<std::string>> rates{{"training", "batches/s", "mean staleness", "largest"},
                                              {"synchronous", fixed(rate, 1), "0.0", "0"},
                                              {"asynchronous", fixed(asynchronous.updates_per_second, 1),
                                               fixed(asynchronous.mean, 1), std::to_string(asynchronous.largest())}};
  if (has_straggler) rates.push_back({"  its straggler", "", fixed(asynchronous.mean_of_first, 1), ""});

  std::vector<std::vector<std::string>> shares{{"staleness", "updates", ""}};
  const std::vector<std::int64_t>& updates = asynchronous.updates;
  double all = 0;
  for (const std::int64_t number : updates) all += static_cast<double>(number);
  const std::size_t step = (updates.size() + kRows - 1) / kRows;
  for (std::size_t first = 0; first < updates.size(); first += step) {
    const std::size_t last = std::min(first + step, updates.size()) - 1;
    double share = 0;
    for (std::size_t i = first; i <= last; ++i) share += static_cast<double>(updates[i]) / all;
    shares.push_back({step == 1 ? std::to_string(first) : message(first, " to ", last), fixed(100 * share, 1) + " %",
                      std::string(static_cast<std::size_t>(std::lround(kBar * share)), '#')});
  }
  return text_table(rates, "lrrr") + '\n' + text_table(shares, "rrl");
}

Json to_json(const Staleness& staleness) {
  return Json{{"updates_per_second", staleness.updates_per_second},
              {"mean_staleness", staleness.mean},
              {"mean_staleness_of_rank_0", staleness.mean_of_first},
              {"updates_by_staleness", staleness.updates}};
}

}  // namespace braid::scheduler
