#pragma once

#include <cstddef>
#include <string_view>

namespace braid::cpu {

/// Throws OutOfMemory, which says that `what` needs `bytes`, what is free, and what limits the process (ulimit -v).
[[noreturn]] void throw_out_of_memory(std::string_view what, std::size_t bytes);

/// Throws OutOfMemory unless the process could allocate `bytes` now. For libraries that do not survive a failure.
void check_free_memory(std::string_view what, std::size_t bytes);

}  // namespace braid::cpu
