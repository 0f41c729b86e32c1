#include "core/comm/local/local_ranks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <tuple>

#include "core/base/failure_reason.h"
#include "core/text/text.h"

namespace braid {

namespace local {

/// The buffers that a rank brings to a collective.
struct Buffers {
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
};

}  // namespace local

namespace {

using local::Buffers;
using Clock = std::chrono::steady_clock;
using Kind = CollectiveCall::Kind;

void copy(std::byte* target, const std::byte* source, std::size_t bytes) {
  if (bytes > 0 && target != source) std::memcpy(target, source, bytes);
}

/// Adds two values in the type that sums are kept in. Integers wrap around.
template <class T>
T added(T a, T b) {
  if constexpr (std::is_same_v<T, std::int32_t>) {
    return static_cast<T>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  } else {
    return a + b;
  }
}

/// Writes source[0] + source[1] + … to all targets, which may be among the sources. A block at a time, so that sums
/// stay in the nearest cache.
template <class T>
void add(std::span<const std::byte* const> sources, std::span<std::byte* const> targets, std::int64_t count) {
  constexpr bool kIsStored = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
  using Sum = std::conditional_t<kIsStored, float, T>;
  constexpr std::int64_t kBlock = 1024;
  std::array<Sum, kBlock> sums;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const auto n = static_cast<std::size_t>(std::min(kBlock, count - begin));
    const auto block = [&](const std::byte* buffer) { return reinterpret_cast<const T*>(buffer) + begin; };
    const T* const first = block(sources.front());
    for (std::size_t i = 0; i < n; ++i) sums[i] = static_cast<Sum>(first[i]);
    for (const std::byte* source : sources.subspan(1)) {
      const T* const next = block(source);
      for (std::size_t i = 0; i < n; ++i) sums[i] = added(sums[i], static_cast<Sum>(next[i]));
    }
    for (std::byte* target : targets) {
      T* const place = reinterpret_cast<T*>(target) + begin;
      for (std::size_t i = 0; i < n; ++i) place[i] = static_cast<T>(sums[i]);
    }
  }
}

void add(DType dtype, std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
         std::int64_t count) {
  switch (dtype) {
    case DType::f32: return add<float>(sources, targets, count);
    case DType::f64: return add<double>(sources, targets, count);
    case DType::f16: return add<Half>(sources, targets, count);
    case DType::bf16: return add<BFloat16>(sources, targets, count);
    case DType::i32: return add<std::int32_t>(sources, targets, count);
    case DType::u8: break;  // CollectiveCall::validate() refuses it
  }
}

/// The first element of an all_reduce that rank r adds, for all ranks: whole cache lines, but for the last.
std::int64_t piece_begin(std::int64_t count, int rank, int size) {
  constexpr std::int64_t kLine = 64;
  if (rank == size) return count;
  return count / size * rank / kLine * kLine;
}

/// What one rank does for a collective, once all ranks' buffers are known.
void work(const CollectiveCall& call, int rank, std::span<const Buffers> all) {
  const int size = static_cast<int>(all.size());
  const Buffers& own = all[static_cast<std::size_t>(rank)];
  const auto bytes = static_cast<std::size_t>(call.count);
  // The sources and targets of all ranks, from this offset on.
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> targets;
  const auto parts_at = [&](std::int64_t element) {
    const std::size_t offset = static_cast<std::size_t>(element) * size_of(call.dtype);
    for (const Buffers& buffers : all) sources.push_back(buffers.source + offset);
    for (const Buffers& buffers : all) targets.push_back(buffers.target + offset);
  };
  switch (call.kind) {
    case Kind::all_reduce: {
      const std::int64_t begin = piece_begin(call.count, rank, size), end = piece_begin(call.count, rank + 1, size);
      parts_at(begin);
      add(call.dtype, sources, targets, end - begin);
      break;
    }
    case Kind::reduce_scatter:
      parts_at(call.count * rank);
      targets.assign(1, own.target);
      add(call.dtype, sources, targets, call.count);
      break;
    case Kind::all_gather:
      for (std::size_t r = 0; r < all.size(); ++r) copy(own.target + r * bytes, all[r].source, bytes);
      break;
    case Kind::all_to_all:
      for (std::size_t r = 0; r < all.size(); ++r) {
        copy(own.target + r * bytes, all[r].source + static_cast<std::size_t>(rank) * bytes, bytes);
      }
      break;
    case Kind::broadcast: copy(own.target, all[static_cast<std::size_t>(call.root)].source, bytes); break;
    case Kind::shift:
      if (call.receives(rank, size)) copy(own.target, all[static_cast<std::size_t>(rank + call.root)].source, bytes);
      break;
    case Kind::barrier: break;
  }
}

}  // namespace

/// Synchronises the ranks: a collective begins when all have called it, and ends when all have done their share of the
/// work. After a failure no call starts a collective any more, but one that has begun is finished:
/// a rank that returned early would free buffers that others still read.
class LocalRanks::Meeting {
 public:
  /// The meeting of all ranks, or of a group, whose first rank has the number `first` among all.
  Meeting(int size, const Link& link, std::chrono::nanoseconds timeout, Meeting* all = nullptr, int first = 0,
          int stride = 1)
      : link_(link),
        timeout_(timeout),
        all_(all == nullptr ? *this : *all),
        first_(first),
        stride_(stride),
        calls_(static_cast<std::size_t>(size)),
        has_come_(calls_.size()),
        buffers_(calls_.size()) {}

  const Link& link() const { return link_; }

  /// The meeting of a group of ranks. A failure there fails all ranks.
  Meeting& group(const RankGroup& group, int first) {
    const std::lock_guard lock(mutex());
    failure().check();
    std::unique_ptr<Meeting>& made = groups_[{group.ranks, group.stride, first}];
    if (made == nullptr) {
      made = std::make_unique<Meeting>(static_cast<int>(group.ranks), link_, timeout_, &all_, first,
                                       static_cast<int>(group.stride));
    }
    return *made;
  }

  void run(int rank, const CollectiveCall& call, Buffers buffers) {
    call.validate(size());
    std::unique_lock lock(mutex());
    failure().check();
    come(lock, rank, call, buffers);
    lock.unlock();
    work(call, rank, buffers_);
    lock.lock();
    leave(lock);
    if (link_.latency_seconds > 0 || std::isfinite(link_.bytes_per_second)) {
      const auto end = start_ + std::chrono::duration<double>(seconds(call, size(), link_));
      changed().wait_until(lock, std::chrono::ceil<Clock::duration>(end), [this] { return failure().is_set(); });
    }
    failure().check();
  }

  void fail(const std::string& reason) {
    const std::lock_guard lock(mutex());
    fail_locked(reason);
  }

  int size() const { return static_cast<int>(calls_.size()); }

 private:
  // A group shares the mutex, the condition variable and the failure of the meeting of all ranks.
  std::mutex& mutex() { return all_.own_mutex_; }
  std::condition_variable& changed() { return all_.own_changed_; }
  FailureReason& failure() { return all_.own_failure_; }

  void fail_locked(const std::string& reason) {
    failure().set(reason);
    changed().notify_all();
  }

  void come(std::unique_lock<std::mutex>& lock, int rank, const CollectiveCall& call, Buffers buffers) {
    const auto own = static_cast<std::size_t>(rank);
    calls_[own] = call;
    buffers_[own] = buffers;
    has_come_[own] = true;
    compare(rank);
    const std::uint64_t before = begun_;
    if (std::ranges::all_of(has_come_, [](bool has_come) { return has_come; })) {
      has_come_.assign(has_come_.size(), false);
      at_work_ = size();
      start_ = Clock::now();
      ++begun_;
      changed().notify_all();
      return;
    }
    const auto is_over = [&] { return begun_ != before || failure().is_set(); };
    if (!changed().wait_until(lock, deadline_after(timeout_), is_over)) {
      fail_locked(late(rank));
    }
    if (begun_ == before) failure().check();
  }

  /// Fails if another rank that has arrived makes a different call.
  void compare(int rank) {
    for (int other = 0; other < size(); ++other) {
      if (!has_come_[static_cast<std::size_t>(other)] || call_of(other) == call_of(rank)) continue;
      const auto [first, second] = std::minmax(rank, other);
      fail_locked(message("[communicator] rank ", number(first), " calls ", call_of(first).text(), ", rank ",
                          number(second), " calls ", call_of(second).text(),
                          ": all ranks must make the same calls in the same order"));
      failure().check();
    }
  }

  std::string late(int rank) const {
    std::vector<int> missing;
    for (int other = 0; other < size(); ++other) {
      if (!has_come_[static_cast<std::size_t>(other)]) missing.push_back(number(other));
    }
    return message("[communicator] rank ", number(rank), " has waited ", in_seconds(timeout_), " in ",
                   call_of(rank).text(), " for rank", missing.size() == 1 ? " " : "s ", comma_list(missing));
  }

  void leave(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t own = begun_;
    if (--at_work_ == 0) {
      ++ended_;
      changed().notify_all();
    }
    changed().wait(lock, [&] { return ended_ >= own; });
  }

  int number(int rank) const { return first_ + rank * stride_; }
  const CollectiveCall& call_of(int rank) const { return calls_[static_cast<std::size_t>(rank)]; }

  const Link link_;
  const std::chrono::nanoseconds timeout_;
  Meeting& all_;  // the meeting of all ranks, perhaps this one
  const int first_, stride_;
  std::mutex own_mutex_;
  std::condition_variable own_changed_;
  FailureReason own_failure_;
  std::map<std::tuple<std::int64_t, std::int64_t, int>, std::unique_ptr<Meeting>>
      groups_;  // by ranks, stride and first rank
  std::vector<CollectiveCall> calls_;
  std::vector<bool> has_come_;
  std::vector<Buffers> buffers_;         // read without the mutex between the begin and the end of a collective
  std::uint64_t begun_ = 0, ended_ = 0;  // collectives
  int at_work_ = 0;                      // ranks in the collective that has begun
  Clock::time_point start_;              // start of that collective
};

class LocalRanks::Rank final : public Communicator {
 public:
  Rank(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_.size(); }
  std::string_view name() const override { return "local"; }
  Link link() const override { return meeting_.link(); }

  void run(const CollectiveCall& call, const void* source, void* target, const LaunchContext&) override {
    meeting_.run(rank_, call, {static_cast<const std::byte*>(source), static_cast<std::byte*>(target)});
  }
  /// A message is a broadcast among its two ranks.
  void exchange(const Message& message, void* data, const LaunchContext&) override {
    const auto [first, second] = std::minmax(rank_, message.peer);
    BRAID_CHECK(first >= 0 && first < second && second < size(), Error, "[communicator] rank ", rank_, " of ", size(),
                " cannot make a ", message.text());
    const int sender = message.direction == Message::Direction::send ? rank_ : message.peer;
    const CollectiveCall call{.kind = Kind::broadcast, .count = message.bytes, .root = sender == first ? 0 : 1};
    auto* const bytes = static_cast<std::byte*>(data);
    meeting_.group({.ranks = 2, .stride = second - first}, first).run(rank_ == first ? 0 : 1, call, {bytes, bytes});
  }
  void abort(const std::string& reason) override { meeting_.fail(reason); }

 private:
  std::unique_ptr<Communicator> make_group(const RankGroup& group, int, int place) override {
    const int first = rank_ - place * static_cast<int>(group.stride);
    return std::make_unique<Rank>(meeting_.group(group, first), place);
  }

  Meeting& meeting_;
  const int rank_;
};

LocalRanks::LocalRanks(int size, const Link& link, std::chrono::nanoseconds timeout) {
  BRAID_CHECK(size >= 1, Error, "[communicator] expected at least one rank, got ", size);
  BRAID_CHECK(timeout.count() > 0, Error, "[communicator] expected a timeout above 0, got ", in_seconds(timeout));
  check_link(link);
  meeting_ = std::make_unique<Meeting>(size, link, timeout);
  for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<Rank>(*meeting_, rank));
}

LocalRanks::~LocalRanks() = default;

Communicator& LocalRanks::of(int rank) const {
  BRAID_CHECK(rank >= 0 && rank < size(), Error, "[communicator] there is no rank ", rank, " among ", size());
  return *ranks_[static_cast<std::size_t>(rank)];
}

}  // namespace braid
