#pragma once
// The CPU as a device: its cores are the capacity, and one worker thread per stream runs that stream's commands.

#include <memory>

#include "core/device/backend.h"

namespace braid::cpu {

/// Uses up to `threads` cores; 0 means all that the process may run on.
std::unique_ptr<Backend> make_backend(int threads);

}  // namespace braid::cpu
