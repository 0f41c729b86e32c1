#pragma once
// Libraries that are loaded when they are first used, so that programs start on machines that lack them. Header-only:
// tests link core/device/cuda/loaded/libraries.cpp and core/comm/nccl/library.cpp without the rest of core.

#include <dlfcn.h>

#include <string>
#include <utility>

#include "core/base/error.h"

namespace braid {

/// The address of a function or an object, as a pointer of any type.
struct Symbol {
  void* address;
  template <class T>
  operator T*() const {
    return reinterpret_cast<T*>(address);
  }
};

/// A shared library, which stays loaded until the process ends. May be used from any thread.
class DynamicLibrary {
 public:
  /// Loads a library from where the system searches, else from `folder` unless that is empty. `flags` as for dlopen().
  explicit DynamicLibrary(std::string name, const std::string& folder = "", int flags = RTLD_LAZY | RTLD_LOCAL)
      : name_(std::move(name)), handle_(dlopen(name_.c_str(), flags)) {
    if (handle_ != nullptr) return;
    problem_ = message(name_, " cannot be loaded (", dlerror(), ')');
    if (!folder.empty()) handle_ = dlopen((folder + '/' + name_).c_str(), flags);
    if (handle_ != nullptr) problem_.clear();
  }

  const std::string& name() const { return name_; }
  /// As in "libx.so.1 cannot be loaded (no such file)", with the reason where the system searches. Empty if it is
  /// loaded.
  const std::string& problem() const { return problem_; }
  /// Null if there is none of this name.
  Symbol find(const char* symbol) const { return {handle_ == nullptr ? nullptr : dlsym(handle_, symbol)}; }

 private:
  std::string name_, problem_;
  void* handle_;
};

}  // namespace braid
