#pragma once
// What runs leave in their folders, to compare.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace braid::testing {

inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<nlohmann::json> metrics_of(const std::filesystem::path& run) {
  std::vector<nlohmann::json> list;
  std::ifstream file(run / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) list.push_back(nlohmann::json::parse(line));
  return list;
}

/// The metrics without what depends on the clock.
inline std::vector<nlohmann::json> timeless_metrics(const std::filesystem::path& run) {
  std::vector<nlohmann::json> records = metrics_of(run);
  for (nlohmann::json& record : records) {
    for (const char* key : {"seconds", "waiting_seconds", "images_per_second"}) record.erase(key);
  }
  return records;
}

}  // namespace braid::testing
