#pragma once
// A simulated cluster: the processes of a training, of which one thread runs at a time, on a clock that advances only
// while they wait. A seed determines which thread runs next, how long messages take and what fails, so a run can be
// repeated exactly. The processes are those of `braid train`, unchanged: a library that they load first
// (apps/simulation/inside) replaces the functions that wait, tell the time, communicate and write files. The
// state of the cluster is in memory that all of them map at the same address.

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/base/random.h"

namespace braid::simulation {

using Time = std::int64_t;  // nanoseconds since the cluster started
inline constexpr Time kNever = std::numeric_limits<Time>::max();
inline constexpr Time kMicrosecond = 1'000, kMillisecond = 1'000'000, kSecond = 1'000'000'000;

inline constexpr std::size_t kMostRanks = 8, kMostThreads = 256, kMostSockets = 64, kMostFiles = 64, kMostRenames = 64,
                             kMostFaults = 8;

/// A failure.
struct Fault {
  enum class Kind : std::uint8_t {
    kill,       ///< a process dies
    silence,    ///< a process is suspended for a while
    slow,       ///< a process is slow for a while
    cut,        ///< a process cannot be reached for a while
    full,       ///< the disk is full for a while
    crash,      ///< all processes die, and files lose what had not reached the disk
    terminate,  ///< a process gets SIGTERM
    save,       ///< a process gets SIGUSR1
    stop,       ///< the launcher is asked to stop: all processes get SIGUSR2
  };
  Kind kind = Kind::kill;
  int rank = 0;
  Time time = 0, lasts = 0;
};

struct Thread {
  enum class State : std::uint8_t { none, ready, waiting };
  State state;
  bool was_used;     // only its rank uses it again: a thread of a killed process may still wait for its futex
  bool is_notified;  // whether its last wait ended by a notification
  int rank;
  std::uintptr_t key;     // what it waits for
  Time until;             // when it no longer waits
  std::uint32_t resumed;  // the number of times it was resumed; a futex
};

/// A listener, an end of a TCP connection, or an eventfd.
struct Socket {
  enum class Kind : std::uint8_t { none, created, listener, stream, event };
  Kind kind;
  bool is_accepted, is_over;  // is_over: the other end has closed
  int rank, other_rank;       // rank of this end, and of the other
  int port;                   // port of the listener
  Socket* peer;               // the other end; null once that has closed
  std::uint32_t arrived;      // bytes; the count of an eventfd
  std::array<std::byte, 1024> bytes;
};

/// A file of which only the first bytes are on the disk.
struct UnsyncedFile {
  dev_t device;
  ino_t number;
  off_t synced;
};

/// A rename in a folder that has not been synchronised since.
struct UnsyncedRename {
  std::uint64_t number;  // 1 for the first; 0: none
  dev_t device;          // of the folder
  ino_t folder;
  std::array<char, 512> from, to, replaced;  // replaced: another name of the file that was replaced, if there was one
};

struct Rank {
  pid_t process;
  bool has_ended, was_killed;
  bool is_watched;        // another rank has a connection whose end or silence it would notice
  std::uint32_t signals;  // a bit for each signal that its main thread raises when it next runs
  Time silent_until, slow_until, cut_until;
};

struct Operation;  // of MPI (apps/simulation/inside/mpi.cpp)

/// The state of the cluster. Zeros, but for `random`, are a cluster in which nothing has happened. Only the running
/// thread changes it; if its process ends, the process that made the cluster does.
struct World {
  Generator random;           // of the cluster's seed
  std::uint64_t hash;         // hash of all decisions: equal for equal runs
  Time now, latency;          // latency: the most that a message takes
  std::uint32_t switch_rate;  // a thread that could continue yields in one call of this many, on average
  Thread* current;            // the running thread, or null
  bool is_stuck;              // no thread could continue
  Time killed_at;             // time at which the launcher kills what still runs
  int ranks, fault_count, faults_begun, last_port, communicators;
  Time full_until;
  std::array<Rank, kMostRanks> rank;
  std::array<Thread, kMostThreads> threads;  // the first are the main threads of the ranks
  std::array<Socket, kMostSockets> sockets;
  std::array<UnsyncedFile, kMostFiles> files;
  std::array<UnsyncedRename, kMostRenames> renames;
  std::uint64_t last_rename;
  std::array<Fault, kMostFaults> faults;  // by time
  Operation* operations;
  std::size_t heap_used;
  std::array<void*, 40> heap_free;  // the first free block of 2^i bytes
};

/// Maps the world of a memory file. Aborts if its address is taken.
World& map_world(int descriptor);
void unmap_world(World& world, int descriptor);
/// Creates a memory file with an empty world; returns its descriptor, or -1.
int make_world();

/// Whether an address is in the memory of the cluster, where it means the same to all processes.
bool contains(const World& world, std::uintptr_t address);

/// Begins the faults that are due, and returns the thread to run next; null if none ever can.
Thread* choose(World& world);
/// Lets a thread run. Null kills all processes that are left.
void resume(World& world, Thread* thread);
/// Waits until this thread has been resumed for the count-th time.
void await_resume(const Thread& thread, std::uint32_t count);

/// Closes a socket. The other end of a connection reads what has arrived, then its end.
void close_socket(Socket& socket);
/// Forgets the threads of a process that has ended, and closes its sockets.
void end_rank(World& world, int rank);
/// Ends the wait of up to `most` threads for a key.
void notify(World& world, std::uintptr_t key, int rank, int most);

}  // namespace braid::simulation
