// A stand-in for NCCL with one of its functions.

#include <nccl.h>

extern "C" const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "a stub's text" : "another result";
}
