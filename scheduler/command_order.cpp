#include "scheduler/command_order.h"

#include <optional>
#include <utility>

#include "core/base/error.h"

namespace braid::scheduler {

CommandOrder::CommandOrder(const CommandLists& commands, std::int32_t node_count)
    : launched_(commands.streams.size()),
      followed_(static_cast<std::size_t>(node_count)),
      clocks_(followed_.size(), static_cast<int>(launched_.size())) {
  std::vector<std::size_t> next(streams());
  std::vector<std::vector<NodeId>> ahead(streams());  // awaited since the last launch of the stream
  std::vector<std::optional<std::vector<NodeId>>> recorded(static_cast<std::size_t>(commands.events));
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t s = 0; s < streams(); ++s) {
      for (; next[s] < commands.streams[s].size(); ++next[s], progress = true) {
        const auto [kind, i] = commands.streams[s][next[s]];
        if (kind == Command::Kind::launch) {
          launch(i, s, std::exchange(ahead[s], {}));
          continue;
        }
        auto& event = recorded[static_cast<std::size_t>(i)];
        if (kind == Command::Kind::wait) {
          if (!event.has_value()) break;
          ahead[s].insert(ahead[s].end(), event->begin(), event->end());
        } else {
          event = ahead[s];
          if (!launched_[s].empty()) event->push_back(launched_[s].back());
        }
      }
    }
  }
  for (std::size_t s = 0; s < streams(); ++s) {
    BRAID_CHECK(next[s] == commands.streams[s].size(), PlanError, "[plan] stream ", s, " waits forever at command ",
                next[s]);
  }
}

void CommandOrder::launch(NodeId node, std::size_t stream, std::span<const NodeId> awaited) {
  BRAID_CHECK(!clocks_.is_placed(node), PlanError, "[plan] node ", node, " is launched twice");
  std::vector<NodeId>& followed = followed_[static_cast<std::size_t>(node)];
  if (!launched_[stream].empty()) followed.push_back(launched_[stream].back());
  followed.insert(followed.end(), awaited.begin(), awaited.end());
  clocks_.place(node, awaited, static_cast<int>(stream));
  launched_[stream].push_back(node);
  sequence_.push_back(node);
}

}  // namespace braid::scheduler
