#include "core/comm/collective_call.h"

#include <algorithm>
#include <bit>

namespace braid {

double seconds(const CollectiveCall& call, int ranks, const Link& link) {
  using Kind = CollectiveCall::Kind;
  const double n = ranks, count = static_cast<double>(call.count);
  const double bytes = call.adds() ? count * static_cast<double>(size_of(call.dtype)) : count;
  const auto time = [&](double messages, double sent) {
    return messages * link.latency_seconds + sent / link.bytes_per_second;
  };
  switch (call.kind) {
    case Kind::all_reduce: {
      const double levels = std::bit_width(static_cast<unsigned>(ranks - 1));
      return std::min(time(2 * (n - 1), 2 * (n - 1) / n * bytes), time(2 * levels, 2 * bytes));
    }
    case Kind::broadcast: return time(n - 1, ranks > 1 ? bytes : 0);
    case Kind::barrier: return time(2 * (n - 1), 0);
    default: return time(n - 1, (n - 1) * bytes);
  }
}

double seconds(const Communication& communication, const Link& link) {
  double sum = 0;
  if (communication.exchanged.has_value()) {
    sum = link.latency_seconds + static_cast<double>(communication.exchanged->bytes) / link.bytes_per_second;
  }
  for (const CollectiveCall& call : communication.calls) sum += seconds(call, communication.ranks, link);
  return sum;
}

}  // namespace braid
