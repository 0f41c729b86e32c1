// The functions of NCCL that Braid calls. Each loads the library when it is first called, and passes the call on: a
// program on one rank starts without it. A test defines these functions itself.

#include <nccl.h>

#include "core/base/dynamic_library.h"

namespace braid::nccl {

namespace {

const DynamicLibrary& library() {
  static const DynamicLibrary loaded("libnccl.so.2", BRAID_NCCL_FOLDER);
  return loaded;
}

template <class Function>
Function* find(const char* name) {
  BRAID_CHECK(library().problem().empty(), CommunicationError, "[nccl] ", library().problem(),
              ": install libnccl2, or nvidia-nccl-cu", CUDART_VERSION / 1000,
              " from pip, and put its folder into LD_LIBRARY_PATH");
  Function* const function = library().find(name);
  BRAID_CHECK(function != nullptr, CommunicationError, "[nccl] ", library().name(), " has no ", name,
              ": install NCCL 2.14 or newer");
  return function;
}

}  // namespace

}  // namespace braid::nccl

#define BRAID_LOADED(result, function, parameters, ...)                          \
  extern "C" result function parameters {                                        \
    static const auto loaded = braid::nccl::find<decltype(function)>(#function); \
    return loaded(__VA_ARGS__);                                                  \
  }

BRAID_LOADED(const char*, ncclGetErrorString, (ncclResult_t result), result)
BRAID_LOADED(const char*, ncclGetLastError, (ncclComm_t communicator), communicator)
BRAID_LOADED(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id), id)
BRAID_LOADED(ncclResult_t, ncclCommInitRankConfig,
             (ncclComm_t * communicator, int size, ncclUniqueId id, int rank, ncclConfig_t* config), communicator, size,
             id, rank, config)
BRAID_LOADED(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t communicator, ncclResult_t* result), communicator, result)
BRAID_LOADED(ncclResult_t, ncclCommFinalize, (ncclComm_t communicator), communicator)
BRAID_LOADED(ncclResult_t, ncclCommDestroy, (ncclComm_t communicator), communicator)
BRAID_LOADED(ncclResult_t, ncclCommAbort, (ncclComm_t communicator), communicator)
BRAID_LOADED(ncclResult_t, ncclGroupStart, ())
BRAID_LOADED(ncclResult_t, ncclGroupEnd, ())
BRAID_LOADED(ncclResult_t, ncclAllReduce,
             (const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
              ncclComm_t communicator, cudaStream_t stream),
             in, out, count, type, op, communicator, stream)
BRAID_LOADED(ncclResult_t, ncclReduceScatter,
             (const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
              ncclComm_t communicator, cudaStream_t stream),
             in, out, count, type, op, communicator, stream)
BRAID_LOADED(ncclResult_t, ncclAllGather,
             (const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t communicator,
              cudaStream_t stream),
             in, out, count, type, communicator, stream)
BRAID_LOADED(ncclResult_t, ncclBroadcast,
             (const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t communicator,
              cudaStream_t stream),
             in, out, count, type, root, communicator, stream)
BRAID_LOADED(ncclResult_t, ncclSend,
             (const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
              cudaStream_t stream),
             data, count, type, peer, communicator, stream)
BRAID_LOADED(ncclResult_t, ncclRecv,
             (void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
              cudaStream_t stream),
             data, count, type, peer, communicator, stream)
