#pragma once
// What the streams of a device do in one step. The planner makes the command lists, the verifier proves them safe, and
// the executors run the same lists: what is verified is what runs.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/device/kernel.h"

namespace braid {

/// Launch a node, record an event after everything before it in this stream, or wait for an event of another stream.
struct Command {
  enum class Kind : std::uint8_t { launch, record, wait };
  Kind kind = Kind::launch;
  std::int32_t index = 0;  ///< node for launch, event otherwise
  friend bool operator==(const Command&, const Command&) = default;
};

/// One list per stream. Every event is recorded exactly once, by one stream.
struct CommandLists {
  std::vector<std::vector<Command>> streams;
  std::int32_t events = 0;

  std::int32_t waits() const {
    std::int32_t count = 0;
    for (const auto& list : streams) {
      count += static_cast<std::int32_t>(std::ranges::count(list, Command::Kind::wait, &Command::kind));
    }
    return count;
  }
  /// Streams that have work.
  std::size_t used_streams() const {
    return static_cast<std::size_t>(std::ranges::count_if(streams, [](const auto& list) { return !list.empty(); }));
  }
  friend bool operator==(const CommandLists&, const CommandLists&) = default;
};

/// Command lists and the kernels that they launch. All of it must stay alive and unchanged until the streams have been
/// synchronised.
struct Program {
  const CommandLists& commands;
  std::vector<Kernel*> kernels;         ///< by the index of the launch
  std::vector<std::string> names = {};  ///< likewise, for profilers; may be empty
  bool brief = false;                   ///< waking a thread for it would take about as long as running it
};

}  // namespace braid
