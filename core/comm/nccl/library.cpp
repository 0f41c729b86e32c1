// The functions of NCCL that Braid calls. Each loads the library when it is first called, and passes the call on: a
// program on one rank starts without it. A test defines these functions itself.

#include <dlfcn.h>
#include <nccl.h>

#include <string>

#include "core/base/error.h"

namespace braid::nccl {

namespace {

constexpr const char* kName = "libnccl.so.2";

/// Searches the system's folders, then the folder where the build found it.
void* open() {
  void* library = dlopen(kName, RTLD_LAZY | RTLD_LOCAL);
  const std::string why = library == nullptr ? dlerror() : "";
  if (library == nullptr) library = dlopen(message(BRAID_NCCL_FOLDER, '/', kName).c_str(), RTLD_LAZY | RTLD_LOCAL);
  BRAID_CHECK(library != nullptr, CommunicationError, "[nccl] ", kName, " cannot be loaded (", why,
              "): install libnccl2, or nvidia-nccl-cu", CUDART_VERSION / 1000,
              " from pip, and put its folder into LD_LIBRARY_PATH");
  return library;
}

template <class Function>
Function* find(const char* name) {
  static void* const library = open();
  void* function = dlsym(library, name);
  BRAID_CHECK(function != nullptr, CommunicationError, "[nccl] ", kName, " has no ", name,
              ": install NCCL 2.14 or newer");
  return reinterpret_cast<Function*>(function);
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
