#include "scheduler/lowering/stream_clocks.h"

#include <algorithm>
#include <utility>

namespace braid::scheduler {

StreamClocks::StreamClocks(std::size_t nodes, int streams)
    : last_(streams, kNoNode), clocks_(nodes * streams), stream_(nodes, -1), position_(nodes, -1) {}

std::span<const NodeId> StreamClocks::waits(NodeId node, std::span<const NodeId> predecessors, int stream,
                                            ScheduleLog* log) {
  using Order = ScheduleLog::Order;
  const auto note = [&](NodeId before, Order order, NodeId by = kNoNode) {
    if (log != nullptr) log->dependences.push_back({before, node, order, by});
  };
  now_.assign(last_.size(), 0);
  if (last_[stream] != kNoNode) std::ranges::copy(clock(last_[stream]), now_.begin());

  // The latest predecessor on each stream that the stream's own past does not cover; a log is about all of them.
  latest_.assign(last_.size(), kNoNode);
  for (const NodeId before : log == nullptr ? latest_predecessors(node, predecessors) : predecessors) {
    if (before == kNoNode || !is_placed(before)) continue;
    NodeId& other = latest_[stream_[before]];
    if (covers(now_, before)) {
      note(before, stream_[before] == stream ? Order::stream : Order::known);
    } else if (other != before) {
      const bool is_later = other == kNoNode || position_[before] > position_[other];
      const NodeId earlier = is_later ? std::exchange(other, before) : before;
      if (earlier != kNoNode) note(earlier, Order::later, other);
    }
  }

  // Keep the ones that no other covers.
  waits_.clear();
  for (const NodeId before : latest_) {
    if (before == kNoNode) continue;
    const auto by = std::ranges::find_if(
        latest_, [&](NodeId other) { return other != kNoNode && other != before && covers(clock(other), before); });
    if (by == latest_.end()) waits_.push_back(before);
    note(before, by == latest_.end() ? Order::wait : Order::implied, by == latest_.end() ? kNoNode : *by);
  }
  return waits_;
}

/// Per stream. A node is tried on one stream after another, so the last result is kept until a node is placed.
std::span<const NodeId> StreamClocks::latest_predecessors(NodeId node, std::span<const NodeId> predecessors) {
  if (std::exchange(last_tried_, node) == node) return tried_;
  tried_.assign(last_.size(), kNoNode);
  for (const NodeId before : predecessors) {
    if (!is_placed(before)) continue;
    NodeId& latest = tried_[stream_[before]];
    if (latest == kNoNode || position_[before] > position_[latest]) latest = before;
  }
  return tried_;
}

std::span<const NodeId> StreamClocks::place(NodeId node, std::span<const NodeId> predecessors, int stream,
                                            ScheduleLog* log) {
  for (const NodeId before : waits(node, predecessors, stream, log)) {
    std::ranges::transform(now_, clock(before), now_.begin(), [](auto a, auto b) { return std::max(a, b); });
  }
  stream_[node] = stream;
  position_[node] = now_[stream]++;
  std::ranges::copy(now_, clock(node).begin());
  last_[stream] = node;
  last_tried_ = kNoNode;
  return waits_;
}

}  // namespace braid::scheduler
