#pragma once
// How much memory this process can still get, and what to say when that is too little.

#include <cstddef>
#include <string_view>

namespace braid::cpu {

/// Throws OutOfMemory: that `what` needs so many bytes, how many are free, and what limits the process (ulimit -v).
[[noreturn]] void throw_out_of_memory(std::string_view what, std::size_t bytes);

/// Throws OutOfMemory unless the process could have so many bytes now. For libraries that do not survive a failure.
void check_free_memory(std::string_view what, std::size_t bytes);

}  // namespace braid::cpu
