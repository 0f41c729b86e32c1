#pragma once
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/comm/local/local_ranks.h"
#include "tests/error_of.h"

namespace braid::testing {

/// Runs a function on a thread for each rank and returns what each threw, or "". An exception of another type ends the
/// program.
template <class Thrown = Error>
std::vector<std::string> on_all(const LocalRanks& ranks, const std::function<void(Communicator&)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks.size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back(
        [&, rank] { errors[static_cast<std::size_t>(rank)] = error_of<Thrown>([&] { body(ranks.of(rank)); }); });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// The same, where what a rank throws ends the others.
inline std::vector<std::string> on_ranks(const LocalRanks& ranks, const std::function<void(Communicator&)>& body) {
  return on_all<std::exception>(ranks, [&](Communicator& own) {
    try {
      body(own);
    } catch (const std::exception& error) {
      own.abort(error.what());
      throw;
    }
  });
}

}  // namespace braid::testing
