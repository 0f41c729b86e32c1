#pragma once
// Every collective, compared with plain loops.

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/comm/communicator.h"

namespace braid::testing {

/// Makes collectives of `count` elements per rank on host data, and notes those that are not what plain loops make of
/// the same data. Sums must have the bits of a sum in the order of the ranks; where a library chooses the order,
/// elements are `integers`, whose sums are exact.
class CollectiveCheck {
 public:
  CollectiveCheck(Communicator& ranks, std::int64_t count, std::uint64_t seed, bool integers)
      : ranks_(ranks),
        count_(count),
        total_(count * ranks.size()),
        own_(ranks.rank()),
        seed_(seed),
        integers_(integers) {}

  template <class T>
  void sums() {
    auto data = elements<T>(count_, own_);
    ranks_.all_reduce(data.data(), count_, dtype_of<T>(), {});
    compare("all_reduce", data.data(), sum_of<T>(count_).data());
    for (const bool in_place : places()) {
      auto whole = elements<T>(total_, own_);
      std::vector<T> apart(static_cast<std::size_t>(count_));
      T* const part = in_place ? whole.data() + count_ * own_ : apart.data();
      ranks_.reduce_scatter(whole.data(), part, count_, dtype_of<T>(), {});
      compare("reduce_scatter", part, sum_of<T>(total_).data() + count_ * own_);
    }
  }

  void moves() {
    const auto own = elements<std::int32_t>(count_, own_);
    for (const bool in_place : places()) {
      std::vector<std::int32_t> whole(static_cast<std::size_t>(total_));
      std::int32_t* const place = whole.data() + count_ * own_;
      if (in_place) std::ranges::copy(own, place);
      ranks_.all_gather(in_place ? place : own.data(), whole.data(), count_ * 4, {});
      for (int rank = 0; rank < ranks_.size(); ++rank) {
        compare("all_gather", whole.data() + count_ * rank, elements<std::int32_t>(count_, rank).data());
      }
    }
    const auto source = elements<std::int32_t>(total_, own_);
    std::vector<std::int32_t> target(source.size());
    ranks_.all_to_all(source.data(), target.data(), count_ * 4, {});
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      compare("all_to_all", target.data() + count_ * rank, elements<std::int32_t>(total_, rank).data() + count_ * own_);
    }
    for (int root = 0; root < ranks_.size(); ++root) broadcast(root);
    for (const int from : {-1, 1}) {
      const bool has_neighbour = own_ + from >= 0 && own_ + from < ranks_.size();
      std::vector<std::int32_t> arrived(own.size(), 7);
      ranks_.shift(own.data(), arrived.data(), count_ * 4, from, {});
      const std::vector<std::int32_t> none(own.size(), 7);
      compare("shift", arrived.data(), (has_neighbour ? elements<std::int32_t>(count_, own_ + from) : none).data());
    }
  }

  /// Every rank sends to every other, two messages after each other.
  void messages() {
    for (int from = 0; from < ranks_.size(); ++from) {
      for (int to = 0; to < ranks_.size(); ++to) {
        if (from == to || (own_ != from && own_ != to)) continue;
        for (int tag = 0; tag < 2; ++tag) {
          auto data = elements<std::int32_t>(count_ + tag, own_);
          Message message{.direction = Message::Direction::send, .peer = to, .tag = tag, .bytes = 4 * (count_ + tag)};
          if (own_ == to) message.direction = Message::Direction::receive, message.peer = from;
          ranks_.exchange(message, data.data(), {});
          compare("exchange", data.data(), elements<std::int32_t>(count_ + tag, from).data());
        }
      }
    }
  }

  void broadcast(int root) {
    auto data = elements<std::int32_t>(count_, own_);
    ranks_.broadcast(data.data(), count_ * 4, root, {});
    compare("broadcast", data.data(), elements<std::int32_t>(count_, root).data());
  }

  const std::string& wrong() const { return wrong_; }

 private:
  /// Whether data is in place: on no rank, on all, and on some, which must still understand each other.
  std::vector<bool> places() const { return {false, true, own_ == 0}; }

  template <class T>
  std::vector<T> elements(std::int64_t count, int rank) const {
    Generator generator(seed_, static_cast<std::uint64_t>(rank));
    std::vector<T> result(static_cast<std::size_t>(count));
    for (T& element : result) {
      if (integers_) {
        element = static_cast<T>(static_cast<int>(generator.below(101)) - 50);
      } else if constexpr (std::is_same_v<T, std::int32_t>) {
        element = static_cast<T>(generator.next());  // sums wrap around
      } else {
        element = static_cast<T>(to_unit(generator.next()) - 0.5f);
      }
    }
    return result;
  }

  /// The sum over ranks 0, 1, …, in this order.
  template <class T>
  std::vector<T> sum_of(std::int64_t count) const {
    constexpr bool kIsStored = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
    using Sum =
        std::conditional_t<kIsStored, float, std::conditional_t<std::is_same_v<T, std::int32_t>, std::uint32_t, T>>;
    std::vector<Sum> sums(static_cast<std::size_t>(count), Sum{0});
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const auto own = elements<T>(count, rank);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] = rank == 0 ? static_cast<Sum>(own[i]) : sums[i] + static_cast<Sum>(own[i]);
      }
    }
    std::vector<T> result;
    for (const Sum sum : sums) result.push_back(static_cast<T>(sum));
    return result;
  }

  template <class T>
  void compare(const char* what, const T* found, const T* expected) {
    if (count_ == 0 || std::memcmp(found, expected, static_cast<std::size_t>(count_) * sizeof(T)) == 0) return;
    wrong_ += message(what, " of ", count_, ' ', dtype_of<T>(), " on rank ", own_, "; ");
  }

  Communicator& ranks_;
  const std::int64_t count_, total_;
  const int own_;
  const std::uint64_t seed_;
  const bool integers_;
  std::string wrong_;
};

/// All collectives, with sums of these types; which of them were wrong.
template <class... Types>
std::string wrong_collectives(Communicator& ranks, std::int64_t count, std::uint64_t seed, bool integers = false) {
  CollectiveCheck check(ranks, count, seed, integers);
  (check.sums<Types>(), ...);
  check.moves();
  ranks.barrier();
  return check.wrong();
}

/// Messages between all pairs of ranks; which of them were wrong.
inline std::string wrong_messages(Communicator& ranks, std::int64_t count, std::uint64_t seed) {
  CollectiveCheck check(ranks, count, seed, true);
  check.messages();
  ranks.barrier();
  return check.wrong();
}

}  // namespace braid::testing
