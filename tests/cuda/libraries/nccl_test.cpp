// Whether NCCL is found at run time, with a stand-in (nccl_stub.cpp) in its place.

#include <doctest/doctest.h>

#include "core/comm/nccl/library.h"

namespace braid::nccl {

TEST_CASE("functions of NCCL are called with their arguments once it is found") {
  CHECK(ncclGetErrorString(ncclRemoteError) == std::string("a stub's text"));
  CHECK_THROWS_WITH_AS(ncclGroupStart(), doctest::Contains("libnccl.so.2 has no ncclGroupStart"), CommunicationError);
}

TEST_CASE("a library that cannot be loaded is an error with what to install, for NCCL" * doctest::skip()) {
  CHECK_THROWS_WITH_AS(ncclGroupStart(), doctest::Contains("[nccl] libnccl.so.2 cannot be loaded ("),
                       CommunicationError);
  CHECK_THROWS_WITH_AS(ncclGroupStart(), doctest::Contains("): install libnccl2, or nvidia-nccl-cu"),
                       CommunicationError);
}

}  // namespace braid::nccl
