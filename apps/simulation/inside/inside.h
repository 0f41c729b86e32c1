#pragma once
// What the replaced functions share: the cluster as a thread of one of its processes sees it.

#include <dlfcn.h>

#include "apps/simulation/world.h"

namespace braid::simulation {

extern World* world;  // null: this process is in no simulation
extern int own_rank;  // of this process
extern thread_local Thread* own_thread __attribute__((tls_model("initial-exec")));  // null: it is not simulated

/// Whether the calling thread takes part.
inline bool is_inside() { return own_thread != nullptr; }

/// The function of the C library that one with the same name replaces: looked up at the first use.
template <class Function>
Function* original(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define BRAID_ORIGINAL(name)                                                 \
  ([] {                                                                      \
    static const auto found = ::braid::simulation::original(&(name), #name); \
    return found;                                                            \
  }())

inline std::uintptr_t key_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }
inline Rank& rank_state(int rank) { return world->rank[static_cast<std::size_t>(rank)]; }

/// The calling thread waits for a notification of this key; false if the time comes first.
bool wait_for(const void* key, Time until = kNever);
inline void notify_all(const void* key) { notify(*world, key_of(key), own_rank, kMostThreads); }
/// Another thread may run now. Every replaced call begins with it.
void may_switch();

/// Whether messages between two ranks arrive at the moment, and when they do again.
inline bool is_cut(int rank, int other) {
  return rank != other && (rank_state(rank).cut_until > world->now || rank_state(other).cut_until > world->now);
}

/// Adds to an eventfd; false if the descriptor is something else.
bool write_event(int descriptor, std::uint64_t count);

}  // namespace braid::simulation
