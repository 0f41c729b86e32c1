#pragma once
// A CUDA runtime for tests, linked in place of cudart, cuBLASLt, NCCL and the parts of cuDNN that touch a device. It
// reports one H200, records every call, and fails on request.
//
// Memory is real: device memory is host memory filled with garbage, and copies and fills are carried out. Kernels are
// not: they do nothing. The device is as late as it may be: work lies in its stream until some call of the host has to
// wait for it (a synchronisation, an event, a copy from pageable memory), and then only that work and what it waits for
// is done. So a missing wait or synchronisation shows in the data, every time.
//
// Ranks of NCCL are threads, each with a device. Its calls move and add data once all ranks' streams have reached them,
// and a host that waits for that in a call without a timeout, although some rank never arrives, is a mistake.
//
// Everything here may be called from any thread. One world per process; tests begin with reset().

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace braid::recording {

/// Bytes [data, data + bytes) that a call uses. Bytes are 0 where a call does not tell how many.
struct Bytes {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

/// One call, in the order of the calls.
struct Call {
  enum class Kind {
    launch,
    copy,
    fill,
    record,
    wait,
    synchronize,
    allocate,
    release,
    create,
    destroy,
    capture,
    graph_launch,
    mark,
    other
  };
  Kind kind = Kind::other;
  std::string function;     ///< as "cudaMemcpyAsync"; for marks, their text
  int status = 0;           ///< what it returned: a cudaError_t, cudnnStatus_t or cublasStatus_t
  int stream = -1;          ///< id of the stream, 0 for the legacy default stream and the per-thread one
  int event = -1;           ///< id of the event
  int handle = -1;          ///< id of the cuDNN or cuBLASLt handle, or of NCCL's communicator
  int graph = -1;           ///< id of the capture that the call became part of, or that is launched
  int index = -1;           ///< for marks
  std::string kernel = {};  ///< launches: name of the kernel, "cudnn", "cublasLt", or as "nccl 12 float32"
  std::vector<Bytes> pointers =
      {};                 ///< launches: what they read and write; copies: target, source; else the memory at hand
  Bytes workspace = {};   ///< launches of cuDNN and cuBLASLt
  bool pageable = false;  ///< copies that involve host memory which is not pinned: a hidden synchronisation
  unsigned flags = 0;  ///< flags of stream, event and graph creation; the mode of a capture; the SMs of a green context
  std::thread::id thread;
};

/// Live objects: created or allocated, not yet destroyed or freed.
struct Alive {
  int contexts = 0, streams = 0, events = 0, graphs = 0, handles = 0, descriptors = 0, device_blocks = 0;
  int host_blocks = 0, communicators = 0;
  friend bool operator==(const Alive&, const Alive&) = default;
};

/// Back to a fresh machine: an empty log, no faults, all memory there. Only while nothing of the old world is in use.
void reset();

/// The calls since the last reset() or clear().
std::vector<Call> calls();
void clear();
/// Adds a mark of the test's to the log.
void mark(std::string_view text, int stream, int index);

/// Errors of the program that CUDA does not report, as sentences: a wait for an event that was never recorded, a handle
/// used after its destruction, the legacy default stream, a graph without the priorities of its streams, streams,
/// events and handles of different contexts or devices in one call.
std::vector<std::string> mistakes();
Alive alive();

/// The call of this function after `after` more of them fails with `status`, without doing anything. A sticky error
/// (as cudaErrorIllegalAddress) stays: every later call that needs the device returns it until reset(), which stands
/// for a new process.
void fail_next(std::string_view function, int status, int after = 0);
/// The kernel launched after `after` more of them is accepted, and fails on the device, which is told later, by a call
/// that waits for it. `status` should be sticky.
void fail_kernel(cudaError_t status, int after = 0);
/// A kernel has failed on the device, and no call of the runtime has said so yet.
void lose_device(cudaError_t status);
/// The communicator of this rank of NCCL finds an error, an ncclResult_t, while no call is made.
void fail_communicator(int rank, int status);
/// Faults that were asked for and have not happened yet.
int faults_pending();
/// Sets the memory of the device from now on. Live objects stay.
void set_memory(std::size_t bytes);
/// Sets the number of GPUs from now on, or the CUDA version of the driver (13000; 0: none).
void set_devices(int count);
void set_driver(int version);

/// The block of device memory, or of pinned host memory, that holds this address.
std::optional<Bytes> device_block(const void* address);
std::optional<Bytes> pinned_block(const void* address);
/// All blocks of device memory that live.
std::vector<Bytes> device_blocks();

}  // namespace braid::recording
