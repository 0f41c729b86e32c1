#pragma once
// The results that runs leave in their folders, for comparison.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "tests/data/files.h"

namespace braid::testing {

inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<Json> metrics_of(const std::filesystem::path& run) {
  std::vector<Json> list;
  std::ifstream file(run / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) list.push_back(parse_json(line));
  return list;
}

/// The metrics without what depends on the clock.
inline std::vector<Json> timeless_metrics(const std::filesystem::path& run) {
  std::vector<Json> records = metrics_of(run);
  for (Json& record : records) {
    for (const char* key : {"seconds", "waiting_seconds", "images_per_second"}) record.erase(key);
  }
  return records;
}

/// Sends this process a signal when a line contains a text.
class SignalAt : public std::stringbuf {
 public:
  SignalAt(std::string text, int signal) : text_(std::move(text)), signal_(signal) {}

 private:
  int sync() override {
    if (!text_.empty() && contains(str(), text_)) {
      text_.clear();
      std::raise(signal_);
    }
    return 0;
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    const std::streamsize written = std::stringbuf::xsputn(text, count);
    sync();
    return written;
  }

  std::string text_;
  int signal_;
};

}  // namespace braid::testing
