#pragma once
// Owned memory on a device.

#include <cstddef>
#include <memory>

namespace braid {

/// Zero-filled bytes, aligned to at least 256. Freed by the backend that made it; must not outlive that backend.
class Buffer {
 public:
  using Release = void (*)(void* data, std::size_t bytes);
  Buffer() = default;
  Buffer(void* data, std::size_t bytes, Release release) : data_(data, Deleter{bytes, release}) {}
  void* data() const { return data_.get(); }
  std::size_t bytes() const { return data_ ? data_.get_deleter().bytes : 0; }

 private:
  struct Deleter {
    std::size_t bytes;
    Release release;
    void operator()(void* data) const { release(data, bytes); }
  };
  std::unique_ptr<void, Deleter> data_{nullptr, Deleter{0, nullptr}};
};

}  // namespace braid
