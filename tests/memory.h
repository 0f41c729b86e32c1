#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace braid {

/// Memory that the process has, in bytes. Sanitizers take additional memory.
inline std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, pages = 0;
  file >> all >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace braid
