#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace braid {

/// Starts a thread. Throws DeviceError if the system refuses; `purpose` says what the thread is for, as in "a stream".
template <class Thread = std::thread, class Work>
Thread start_thread(std::string_view purpose, Work&& work) {
  try {
    return Thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    throw DeviceError(message("[cpu] cannot start a thread for ", purpose, ": ", error.code().message(),
                              ". Use fewer threads, or raise the limits on processes and memory (ulimit -u, -v)"));
  }
}

}  // namespace braid
