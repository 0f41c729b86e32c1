#pragma once
// The recorded world: memory, streams, events, captures, faults and the log, behind one lock.

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <type_traits>

#include "tests/cuda/recording/recording.h"

struct ncclComm;

namespace braid::recording {

/// A handle that the program holds. Handles are never deleted before reset(), so that a stale one is recognised.
struct Object {
  int id = 0;
  bool alive = true;
};

/// Work of a stream: does it, and says whether it is done. If not, other devices have to get there first.
using Work = std::function<bool()>;

/// Position in the work of a stream: everything before it.
struct Point {
  CUstream_st* stream = nullptr;
  std::size_t position = 0;
};

/// What a captured stream has in front of it: a number of nodes of each captured stream.
using Clock = std::map<CUstream_st*, int>;

struct Capture {
  int id = 0;
  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode{};
  std::thread::id thread;
  cudaError_t invalidated = cudaSuccess;
  Clock nodes;             // nodes of each stream that takes part
  std::vector<Work> work;  // in the order of the calls, which is one that the waits allow
};

}  // namespace braid::recording

/// The primary context of a device (id 0), or that of a green one.
struct CUctx_st : braid::recording::Object {
  int device = 0;
};
struct CUgreenCtx_st : braid::recording::Object {
  CUctx_st context;
};

struct CUstream_st : braid::recording::Object {
  CUctx_st* context = nullptr;  // that was current when it was made; likewise below
  unsigned flags = 0;
  int priority = 0;
  std::deque<braid::recording::Work> work;  // not done yet
  std::size_t done = 0;
  std::size_t busy_until = 0;  // position behind the last work that takes time
  double time = 0;             // microseconds that the work done so far has taken
  braid::recording::Capture* capture = nullptr;
  braid::recording::Clock clock;  // while capturing
};

struct CUevent_st : braid::recording::Object {
  CUctx_st* context = nullptr;
  unsigned flags = 0;
  bool recorded = false;
  braid::recording::Point point;                 // last record
  std::shared_ptr<double> time;                  // when it happened; below 0 before that
  braid::recording::Capture* capture = nullptr;  // capture of the last record, and then its clock
  braid::recording::Clock clock;
};

struct CUgraph_st : braid::recording::Object {
  std::vector<braid::recording::Work> work;
  bool has_priorities = false;  // its streams differ in priority
};
struct CUgraphExec_st : braid::recording::Object {
  std::vector<braid::recording::Work> work;
};

/// Without a stream it is for making plans, or for a stream to come. Such a handle outlives reset(): Alive leaves it
/// out, and all of cuBLASLt's, which know no stream.
struct cudnnContext : braid::recording::Object {
  CUctx_st* context = nullptr;
  CUstream_st* stream = nullptr;
};
struct cublasLtContext : braid::recording::Object {
  CUctx_st* context = nullptr;
};

namespace braid::recording {

/// A call of NCCL as one rank makes it.
struct Collective {
  struct Message {
    int peer;
    std::byte* data;
    std::size_t bytes;
  };
  std::string function, text;  ///< equal on all ranks
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t count = 0;  ///< elements, of a part where there are parts
  int type = 0, root = 0;
  CUstream_st* stream = nullptr;
  std::vector<Message> sent = {}, received = {};
};

/// The communicators of all ranks, and what each of them is waiting for the others in.
struct Clique {
  explicit Clique(int size) : members(static_cast<std::size_t>(size)), waiting(members.size()), done(members.size()) {}
  std::vector<ncclComm*> members;
  std::vector<std::optional<Collective>> waiting;
  std::vector<bool> done;  // and not noticed by the rank yet
};

}  // namespace braid::recording

struct ncclComm : braid::recording::Object {
  int rank = 0, device = 0;
  std::shared_ptr<braid::recording::Clique> clique;
  int error = 0;                      // an ncclResult_t
  std::set<std::string> connected;    // functions that were called before
  std::function<void()> in_progress;  // what the call does that NCCL has not taken yet
  bool aborted = false, finalized = false;
  std::shared_ptr<int> graphs = std::make_shared<int>();  // held by all work that was captured
};

namespace braid::recording {

using Blocks = std::map<const std::byte*, std::size_t>;  // bytes by address

class World {
 public:
  static World& get();

  std::mutex mutex;
  std::vector<Call> log;
  std::vector<std::string> mistakes;
  Alive alive;
  cudaError_t lost = cudaSuccess;  // the sticky error of the device
  int devices = 1;
  int driver = 13000;

  Blocks device_memory, host_memory;
  std::size_t memory = 0, used = 0;

  std::deque<CUgreenCtx_st> green_contexts;
  std::deque<CUstream_st> streams;
  std::deque<CUevent_st> events;
  std::deque<CUgraph_st> graphs;
  std::deque<CUgraphExec_st> executables;
  std::deque<cudnnContext> cudnn_handles;
  std::deque<cublasLtContext> cublas_handles;
  int last_handle = 0;  // its number; continues after reset(), because some handles survive it
  std::deque<Capture> captures;
  std::deque<ncclComm> communicators;
  std::map<std::string, std::shared_ptr<Clique>> cliques;  // by unique id
  CUstream_st legacy;

  struct Fault {
    std::string function;
    int status;
    int after;
  };
  std::vector<Fault> faults;

 private:
  cudaError_t add(CUstream_st& stream, Call& call, Work work);

  std::array<CUctx_st, 8> primaries_;

 public:
  void reset();
  void mistake(const std::string& text);

  CUctx_st& primary(int device);
  /// The current context of this thread: at first the primary context of device 0.
  CUctx_st* current();
  void set_current(CUctx_st* context);
  /// Whether what was made in one context may be used with what was made in another: a mistake if not.
  bool same_context(std::string_view function, const CUctx_st* context, const CUctx_st* other);
  /// The status that was asked for instead of carrying out a call of this function; 0: none.
  int take_fault(std::string_view function);

  /// The stream behind a handle, which the call's entry in the log then names; null, and a mistake, if it is stale.
  CUstream_st* stream(cudaStream_t handle, Call& call);
  CUevent_st* event(cudaEvent_t handle, Call& call);

  /// Adds work to a stream, or to the capture it takes part in. A function without a result is done at once.
  template <class Function>
  cudaError_t enqueue(CUstream_st& stream, Call& call, Function work) {
    if constexpr (std::is_same_v<decltype(work()), bool>) {
      return add(stream, call, std::move(work));
    } else {
      return add(stream, call, [work = std::move(work)] {
        work();
        return true;
      });
    }
  }
  /// Does the work up to a point, and what it waits for. False if it has to wait for other devices.
  bool advance(Point point);
  /// The same for a call of the host that returns only then: a mistake if other ranks keep it waiting forever. Other
  /// threads may use the world meanwhile.
  void finish(Point point, std::string_view function);
  void advance_all();
  /// A call that may not happen while this thread captures: invalidates the capture.
  bool breaks_capture();
  /// A call that may not happen while any stream of the current device captures, whatever its mode and thread.
  bool breaks_capture_of_device();

  /// The block that holds [data, data + bytes), if any.
  static std::optional<Bytes> block(const Blocks& memory, const void* data);
};

/// The world, which no other thread uses meanwhile.
struct LockedWorld {
  World* operator->() const { return &world; }
  World& world = World::get();
  const std::lock_guard<std::mutex> lock{world.mutex};
};

/// Everything that a call has in common: the lock, the log, faults asked for and the device's loss. `body` fills in the
/// rest of the call and returns its status.
enum class Needs { device, nothing };
cudaError_t cuda_call(Call::Kind kind, std::string_view function, Needs needs,
                      const std::function<cudaError_t(World&, Call&)>& body);
/// The same for libraries, whose statuses are different numbers; `lost` is what they return on a lost device.
int library_call(Call::Kind kind, std::string_view function, int lost, const std::function<int(World&, Call&)>& body);

/// Enqueues a launch: it may be told to fail on the device.
cudaError_t enqueue_launch(World& world, Call& call, CUstream_st& stream);

bool is_sticky(cudaError_t status);

}  // namespace braid::recording
