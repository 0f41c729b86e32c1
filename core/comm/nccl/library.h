#pragma once
// NCCL is loaded when ranks first need it, so that a program on one rank starts without it. These are the functions
// that Braid calls.

#include <nccl.h>

#include "core/base/loaded_function.h"

namespace braid::nccl {

/// A function of NCCL. Throws CommunicationError if it is not there. A test that stands in for it defines this itself.
Symbol find_function(const char* name);

#define BRAID_LOADED(function) inline constinit LoadedFunction<decltype(::function), find_function> function(#function)
BRAID_LOADED(ncclGetErrorString);
BRAID_LOADED(ncclGetLastError);
BRAID_LOADED(ncclGetUniqueId);
BRAID_LOADED(ncclCommInitRankConfig);
BRAID_LOADED(ncclCommGetAsyncError);
BRAID_LOADED(ncclCommFinalize);
BRAID_LOADED(ncclCommDestroy);
BRAID_LOADED(ncclCommAbort);
BRAID_LOADED(ncclGroupStart);
BRAID_LOADED(ncclGroupEnd);
BRAID_LOADED(ncclAllReduce);
BRAID_LOADED(ncclReduceScatter);
BRAID_LOADED(ncclAllGather);
BRAID_LOADED(ncclBroadcast);
BRAID_LOADED(ncclSend);
BRAID_LOADED(ncclRecv);
#undef BRAID_LOADED

}  // namespace braid::nccl
