#pragma once
// Functions of libraries that are loaded when they are first used. A variable of the function's name, in a namespace
// that comes before the global one, takes its place:
//
//   namespace braid::nccl {
//   inline constinit LoadedFunction<decltype(::ncclGroupStart), find_function> ncclGroupStart{"ncclGroupStart"};
//   }

#include <atomic>

#include "core/base/dynamic_library.h"

namespace braid {

/// Calls a function that `find`, which may throw, finds by its name. May be called from any thread.
template <class Function, Symbol (*find)(const char*)>
class LoadedFunction;

template <class Result, class... Parameters, Symbol (*find)(const char*)>
class LoadedFunction<Result(Parameters...), find> {
 public:
  constexpr explicit LoadedFunction(const char* name) : name_(name) {}
  Result operator()(Parameters... arguments) {
    auto* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) function_.store(function = find(name_), std::memory_order_relaxed);
    return function(arguments...);
  }

 private:
  const char* name_;
  std::atomic<Result (*)(Parameters...)> function_ = nullptr;
};

}  // namespace braid
