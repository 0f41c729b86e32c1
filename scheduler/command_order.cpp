#include "scheduler/command_order.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"

namespace braid::scheduler {

CommandOrder::CommandOrder(const CommandLists& commands, std::int32_t node_count)
    : launched_(commands.streams.size()),
      stream_(index(node_count), -1),
      position_(index(node_count), -1),
      awaited_(index(node_count)),
      finished_(index(node_count) * commands.streams.size()) {
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

void CommandOrder::launch(NodeId node, std::size_t stream, std::vector<NodeId> awaited) {
  BRAID_CHECK(stream_[index(node)] < 0, PlanError, "[plan] node ", node, " is launched twice");
  stream_[index(node)] = static_cast<std::int32_t>(stream);
  position_[index(node)] = static_cast<std::int32_t>(launched_[stream].size());
  const auto clock = finished_.begin() + static_cast<std::ptrdiff_t>(index(node) * streams());
  const auto follow = [&](NodeId before) {
    for (std::size_t s = 0; s < streams(); ++s) clock[s] = std::max(clock[s], finished(before, s));
    auto& own = clock[stream_[index(before)]];
    own = std::max(own, position(before) + 1);
  };
  if (!launched_[stream].empty()) follow(launched_[stream].back());
  for (const NodeId before : awaited) follow(before);
  awaited_[index(node)] = std::move(awaited);
  launched_[stream].push_back(node);
  sequence_.push_back(node);
}

}  // namespace braid::scheduler
