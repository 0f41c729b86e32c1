#pragma once
// Which collective a rank calls, and how long it takes. Engines (core/comm/communicator.h) compare the calls of all
// ranks, ops state which calls they make, and plans use their predicted times.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/device/link.h"

namespace braid {

/// A collective as one rank calls it. The calls of all ranks must be equal.
struct CollectiveCall {
  enum class Kind : std::uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, shift, barrier };
  Kind kind = Kind::barrier;
  std::int64_t count = 0;   ///< elements of a reduction, else bytes
  DType dtype = DType::u8;  ///< element type of a reduction
  int root = 0;             ///< root of a broadcast; -1 or 1 if a shift receives from the rank before or after
  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;

  bool adds() const;
  /// Bytes of one rank's part.
  std::int64_t bytes() const { return count * static_cast<std::int64_t>(size_of(dtype)); }
  /// How many parts a rank reads and writes: 1, or one per rank.
  int parts_read(int size) const;
  int parts_written(int size) const;
  /// Whether this rank sends to another, or receives from one: all do, but for the ends of a shift.
  bool sends(int rank, int size) const { return kind != Kind::shift || is_rank(rank - root, size); }
  bool receives(int rank, int size) const { return kind != Kind::shift || is_rank(rank + root, size); }
  static bool is_rank(int number, int size) { return number >= 0 && number < size; }
  /// Examples: "all_reduce of 12 f32" or "broadcast of 48 bytes from rank 1".
  std::string text() const;
  /// Throws Error if no number of ranks could make this call.
  void validate(int size) const;
};

/// What distinguishes a kind of collective. Most go around a ring of n ranks.
struct CollectiveFacts {
  std::string_view name;
  bool adds, reads_whole, writes_whole;
  double (*messages)(double n);  ///< one after another
  double (*parts)(double n);     ///< of call.bytes() each, that a rank sends
};

/// Names in the order of CollectiveCall::Kind.
inline constexpr CollectiveFacts kCollectives[] = {
    {"all_reduce", true, false, false, [](double n) { return 2 * (n - 1); }, [](double n) { return 2 * (n - 1) / n; }},
    {"reduce_scatter", true, true, false, [](double n) { return n - 1; }, [](double n) { return n - 1; }},
    {"all_gather", false, false, true, [](double n) { return n - 1; }, [](double n) { return n - 1; }},
    {"all_to_all", false, true, true, [](double n) { return n - 1; }, [](double n) { return n - 1; }},
    {"broadcast", false, false, false, [](double n) { return n - 1; }, [](double n) { return n > 1 ? 1.0 : 0.0; }},
    {"shift", false, false, false, [](double n) { return n > 1 ? 1.0 : 0.0; },
     [](double n) { return n > 1 ? 1.0 : 0.0; }},
    {"barrier", false, false, false, [](double n) { return 2 * (n - 1); }, [](double) { return 0.0; }},
};

/// Bytes sent from one rank to another, which receives them at the same time.
struct Message {
  enum class Direction : std::uint8_t { send, receive };
  Direction direction = Direction::send;
  int peer = 0;  ///< the other rank
  int tag = 0;   ///< equal on both sides
  std::int64_t bytes = 0;
  friend bool operator==(const Message&, const Message&) = default;

  /// Text such as "receive of 48 bytes from rank 1, tag 3".
  std::string text() const {
    const bool sends = direction == Direction::send;
    return message(sends ? "send of " : "receive of ", bytes, " bytes ", sends ? "to" : "from", " rank ", peer,
                   ", tag ", tag);
  }
};

/// How the ranks of a step run one of its nodes together: those of each group make these calls, in this order, or two
/// exchange a message.
struct Communication {
  RankGroup group = {};
  std::vector<CollectiveCall> calls = {};
  std::optional<Message> exchanged = {};
  friend bool operator==(const Communication&, const Communication&) = default;

  /// Whether a rank runs the node alone.
  bool empty() const { return calls.empty() && !exchanged.has_value(); }
  /// Text such as "all_to_all of 48 bytes, all_gather of 48 bytes".
  std::string text() const {
    std::string text = exchanged.has_value() ? exchanged->text() : "";
    for (const CollectiveCall& call : calls) text += (text.empty() ? "" : ", ") + call.text();
    return text;
  }
};

/// How long a call takes on `ranks` ranks that each have such a link, counted from when the last rank has called. Parts
/// of the bytes go around a ring, in as many messages as there are other ranks. An all-reduce goes around twice, or up
/// and down a tree if that is faster. Trees and broadcasts are pipelined. A barrier goes around twice, a shift is one
/// message.
double seconds(const CollectiveCall& call, int ranks, const Link& link);
double seconds(const Communication& communication, const Link& link);
/// Bytes that a rank sends, by a ring; or to servers, and they to the rank.
double sent_bytes(const Communication& communication, const Link& link = {});

}  // namespace braid
