#include "core/comm/collective_call.h"

#include <algorithm>
#include <bit>

namespace braid {

namespace {

using Kind = CollectiveCall::Kind;

const CollectiveFacts& facts(Kind kind) { return kCollectives[static_cast<std::size_t>(kind)]; }

}  // namespace

bool CollectiveCall::adds() const { return facts(kind).adds; }
int CollectiveCall::parts_read(int size) const { return facts(kind).reads_whole ? size : 1; }
int CollectiveCall::parts_written(int size) const { return facts(kind).writes_whole ? size : 1; }

std::string CollectiveCall::text() const {
  const std::string_view name = facts(kind).name;
  if (kind == Kind::barrier) return std::string(name);
  if (adds()) return message(name, " of ", count, ' ', dtype);
  const std::string from = kind == Kind::broadcast ? message(" from rank ", root)
                           : kind == Kind::shift   ? (root < 0 ? " from the rank before" : " from the rank after")
                                                   : "";
  return message(name, " of ", count, " bytes", from);
}

void CollectiveCall::validate(int size) const {
  BRAID_CHECK(count >= 0, Error, "[communicator] ", text(), ": expected a count of at least 0");
  BRAID_CHECK(kind != Kind::broadcast || (root >= 0 && root < size), Error, "[communicator] ", text(), ": there ",
              size == 1 ? "is 1 rank" : message("are ", size, " ranks"));
  BRAID_CHECK(kind != Kind::shift || root == -1 || root == 1, Error, "[communicator] ", text(),
              ": expected -1 or 1, got ", root);
  BRAID_CHECK(!adds() || dtype != DType::u8, Error, "[communicator] ", text(),
              ": sums take f32, f64 and i32, and where the engine adds them f16 and bf16");
}

double seconds(const CollectiveCall& call, int ranks, const Link& link) {
  const double n = ranks, bytes = static_cast<double>(call.count) * static_cast<double>(size_of(call.dtype));
  const auto time = [&](double messages, double sent) {
    return messages * link.latency_seconds + sent / link.bytes_per_second;
  };
  const double ring = time(facts(call.kind).messages(n), facts(call.kind).parts(n) * bytes);
  if (call.kind != Kind::all_reduce) return ring;
  if (link.server_share > 0 && ranks > 1) return time(2, 2 * bytes * link.server_share);
  const double levels = std::bit_width(static_cast<unsigned>(ranks - 1));
  return std::min(ring, time(2 * levels, 2 * bytes));
}

double seconds(const Communication& communication, const Link& link) {
  double sum = 0;
  if (communication.exchanged.has_value()) {
    sum = link.latency_seconds + static_cast<double>(communication.exchanged->bytes) / link.bytes_per_second;
  }
  for (const CollectiveCall& call : communication.calls)
    sum += seconds(call, static_cast<int>(communication.group.ranks), link);
  return sum;
}

double sent_bytes(const Communication& communication, const Link& link) {
  double sum = 0;
  if (const auto& message = communication.exchanged; message && message->direction == Message::Direction::send) {
    sum = static_cast<double>(message->bytes);
  }
  for (const CollectiveCall& call : communication.calls) {
    const bool by_servers = link.server_share > 0 && call.kind == Kind::all_reduce;
    const double parts = by_servers ? 2 : facts(call.kind).parts(static_cast<double>(communication.group.ranks));
    sum += parts * static_cast<double>(call.bytes());
  }
  return sum;
}

}  // namespace braid
