#include "core/comm/nccl/library.h"

namespace braid::nccl {

namespace {

const DynamicLibrary& library() {
  static const DynamicLibrary loaded("libnccl.so.2", BRAID_NCCL_FOLDER);
  return loaded;
}

}  // namespace

Symbol find_function(const char* name) {
  BRAID_CHECK(library().problem().empty(), CommunicationError, "[nccl] ", library().problem(),
              ": install libnccl2, or nvidia-nccl-cu", CUDART_VERSION / 1000,
              " from pip, and put its folder into LD_LIBRARY_PATH");
  const Symbol found = library().find(name);
  BRAID_CHECK(found.address != nullptr, CommunicationError, "[nccl] ", library().name(), " has no ", name,
              ": install NCCL 2.14 or newer");
  return found;
}

}  // namespace braid::nccl
