#pragma once
// A filter that does not change from step to step, in the layout that a kernel prefers. All kernels of the process that
// want the same filter in the same layout share it, so that plans for many shapes keep it once.

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/base/align.h"
#include "core/base/error.h"

namespace braid::cpu {

class KeptFilter {
 public:
  /// The one for a filter at this address. The layout is any text that differs between layouts; layouts with the same
  /// text take the same number of bytes. Throws OutOfMemory.
  static std::shared_ptr<KeptFilter> of(const void* filter, const std::string& layout, std::size_t bytes) {
    static std::mutex mutex;
    static std::map<std::pair<const void*, std::string>, std::weak_ptr<KeptFilter>> all;
    const std::lock_guard lock(mutex);
    std::erase_if(all, [](const auto& item) { return item.second.expired(); });
    std::weak_ptr<KeptFilter>& found = all[{filter, layout}];
    std::shared_ptr<KeptFilter> kept = found.lock();
    if (kept == nullptr) found = kept = std::make_shared<KeptFilter>(bytes);
    return kept;
  }

  explicit KeptFilter(std::size_t bytes) : memory_(std::aligned_alloc(kAlignment, align_up(bytes, kAlignment))) {
    BRAID_CHECK(memory_ != nullptr, OutOfMemory, "[cpu] no memory for a filter of ", bytes, " bytes");
  }

  void* data() const { return memory_.get(); }
  /// Calls fill() unless the memory holds this version of the filter.
  template <class Fill>
  void update(std::uint64_t version, const Fill& fill) {
    if (version_ == version) return;
    fill();
    version_ = version;
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::uint64_t version_ = 0;  // of the filter; 0 is none
};

}  // namespace braid::cpu
