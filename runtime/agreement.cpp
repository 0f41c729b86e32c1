#include "runtime/agreement.h"

#include <algorithm>
#include <cstring>

namespace braid {

namespace {

template <class T>
std::vector<T> gathered(const ParallelOptions& parallel, const T& value) {
  std::vector<T> values(static_cast<std::size_t>(parallel.ranks()), value);
  if (parallel.ranks() > 1) parallel.communicator->all_gather(&value, values.data(), sizeof(T), {});
  return values;
}

template <class T>
std::vector<T> values_of_ranks(const ParallelOptions& parallel, const T& value) {
  require_same_call(parallel, Hash().add("gather").add(static_cast<std::uint64_t>(sizeof(T))));
  return gathered(parallel, value);
}

template <class List>
List broadcast(const ParallelOptions& parallel, List list, int root) {
  require_same_call(parallel, Hash().add("broadcast").add(root));
  auto size = static_cast<std::int64_t>(list.size());
  parallel.communicator->broadcast(&size, sizeof(size), root, {});
  list.resize(static_cast<std::size_t>(size));
  const auto bytes = size * static_cast<std::int64_t>(sizeof(list.front()));
  parallel.communicator->broadcast(list.data(), bytes, root, {});
  return list;
}

/// The first rank whose hash differs from that of rank 0; 0 if there is none.
int first_other(const std::vector<Hash>& hashes) {
  const auto other = std::ranges::find_if(hashes, [&](const Hash& its) { return its != hashes.front(); });
  return other == hashes.end() ? 0 : static_cast<int>(other - hashes.begin());
}

/// The line of a text that this place is in, without its indentation.
std::string line_at(const std::string& text, std::size_t place) {
  const std::size_t begin = place == 0 ? 0 : text.rfind('\n', place - 1) + 1;
  const std::string line = text.substr(begin, text.find('\n', place) - begin);
  return line.substr(std::min(line.size(), line.find_first_not_of(' ')));
}

}  // namespace

void require_same_call(const ParallelOptions& parallel, const Hash& call) {
  const int other = first_other(gathered(parallel, call));
  BRAID_CHECK(other == 0, CommunicationError, "[parallel] rank ", other,
              " is about to do something else than rank 0: all ranks must record the same steps in the same order");
}

void require_agreement(const ParallelOptions& parallel, const Hash& hash, std::string_view what) {
  const int other = first_other(values_of_ranks(parallel, hash));
  BRAID_CHECK(other == 0, CommunicationError, "[parallel] ", what, " of rank ", other,
              " is not that of rank 0: all ranks must run the same program with the same config on like devices");
}

void require_same_text(const ParallelOptions& parallel, const std::string& text, std::string_view what) {
  const int other = first_other(values_of_ranks(parallel, Hash().add(text)));
  if (other == 0) return;
  const std::string first = broadcast(parallel, text, 0), second = broadcast(parallel, text, other);
  const auto place = static_cast<std::size_t>(std::ranges::mismatch(first, second).in1 - first.begin());
  throw CommunicationError(message("[parallel] ", what, " of rank ", other, " has '", line_at(second, place),
                                   "' where that of rank 0 has '", line_at(first, place),
                                   "': all ranks must be given the same"));
}

void require_same_bits(Context& context, std::span<Parameter* const> tensors, std::string_view what) {
  Hash hash;
  for (const Parameter* tensor : tensors) {
    const Array array = context.read(*tensor);
    const auto* const bytes = reinterpret_cast<const char*>(array.data());
    std::size_t at = 0;
    for (std::uint64_t word = 0; at + sizeof word <= array.bytes(); at += sizeof word) {
      std::memcpy(&word, bytes + at, sizeof word);
      hash.add(word);
    }
    hash.add(std::string_view(bytes + at, array.bytes() - at));
  }
  require_agreement(context.parallel(), hash, what);
}

std::vector<std::string> of_all_ranks(const ParallelOptions& parallel, const std::string& text) {
  std::vector<std::string> texts(static_cast<std::size_t>(parallel.ranks()), text);
  for (int root = 0; parallel.ranks() > 1 && root < parallel.ranks(); ++root) {
    texts[static_cast<std::size_t>(root)] = broadcast(parallel, text, root);
  }
  return texts;
}

template <class List>
List of_first_rank(const ParallelOptions& parallel, List list) {
  return parallel.ranks() > 1 ? broadcast(parallel, std::move(list), 0) : list;
}
template std::string of_first_rank(const ParallelOptions& parallel, std::string list);
template std::vector<std::int32_t> of_first_rank(const ParallelOptions& parallel, std::vector<std::int32_t> list);
template std::vector<std::int64_t> of_first_rank(const ParallelOptions& parallel, std::vector<std::int64_t> list);

void abandon_ranks(const ParallelOptions& parallel, const std::string& why) {
  if (parallel.ranks() > 1) parallel.communicator->abort(message("rank ", rank(parallel), ' ', why));
}

double largest(const ParallelOptions& parallel, double value) {
  return std::ranges::max(values_of_ranks(parallel, value));
}

}  // namespace braid
