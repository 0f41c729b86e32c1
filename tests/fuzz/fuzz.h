#pragma once
// A fuzzer feeds a reader with inputs that libFuzzer makes of those in corpus/<format>. The reader may refuse an input
// with the exception that its header documents. Everything else is a mistake: another exception, a report of a
// sanitizer, a leak, and more memory than the size of the input justifies.
//
// To add one: <format>_fuzz.cpp that defines kFuzzer, and a few valid files in corpus/<format>.

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

namespace braid::fuzz {

struct Fuzzer {
  void (*read)(std::string_view input);
  /// Bytes that may be allocated at the same time: this many, and for each byte of the input.
  std::size_t fixed_bytes, bytes_per_byte;
};

/// The fuzzer of this program.
extern const Fuzzer kFuzzer;

/// Calls `read`, which may throw an ErrorType. Returns whether it did not.
template <class ErrorType, class Read>
bool accepts(const Read& read) {
  try {
    read();
    return true;
  } catch (const ErrorType&) {
    return false;
  }
}

/// Ends the program with a message, which libFuzzer reports with the input.
inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "expected %s\n", what);
  std::abort();
}

/// A folder of files in memory, for readers that open a path.
class MemoryFolder {
 public:
  MemoryFolder();
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Makes a file or replaces its content. Returns its path.
  std::string write(const std::string& name, std::string_view content);

 private:
  std::string path_;
  std::map<std::string, int> descriptors_;
};

}  // namespace braid::fuzz
