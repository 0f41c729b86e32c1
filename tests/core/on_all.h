#pragma once
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/local/local_ranks.h"

namespace braid::testing {

/// Runs a function on a thread for each rank and returns what each threw, or "".
inline std::vector<std::string> on_all(const LocalRanks& ranks, const std::function<void(Communicator&)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks.size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(ranks.of(rank));
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace braid::testing
