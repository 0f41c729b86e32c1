#include "scheduler/profile.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

namespace braid {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kVersion = 1;

auto key_of(const Measurement& m) { return std::tie(m.node, m.width, m.implementation); }

void print(std::ostream& out, const std::vector<ValueDesc>& descs, bool tf32) {
  for (const ValueDesc& desc : descs) {
    out << ' ' << (tf32 && desc.dtype == DType::f32 ? "t" : "") << desc.dtype << desc.shape;
  }
}

Measurement measurement_from(const Json& json) {
  const Measurement m{.node = json.at("node"),
                      .width = json.at("width"),
                      .implementation = json.at("implementation"),
                      .microseconds = json.at("microseconds"),
                      .samples = json.at("samples")};
  BRAID_CHECK(m.width >= 1 && m.samples >= 1 && std::isfinite(m.microseconds) && m.microseconds >= 0, DataError,
              "expected a width and samples of at least 1 and a time of at least 0, got ", json.dump());
  return m;
}

Profile profile_from(const Json& json) {
  const int version = json.at("version");
  BRAID_CHECK(version == kVersion, DataError, "expected version ", kVersion, ", got ", version,
              ": measure it again with 'braid profile' into a new file");
  Profile profile{.device = json.at("device"), .capacity = json.at("capacity"), .software = json.at("software")};
  BRAID_CHECK(profile.capacity >= 1, DataError, "expected a capacity of at least 1, got ", profile.capacity);
  for (const Json& entry : json.at("measurements")) profile.measurements.push_back(measurement_from(entry));
  std::ranges::sort(profile.measurements, {}, key_of);
  return profile;
}

/// One line per measurement, so that people can read it and diff can compare it.
void print(std::ostream& out, const Profile& profile) {
  out << "{\n \"version\": " << kVersion << ",\n \"device\": " << Json(profile.device)
      << ",\n \"capacity\": " << profile.capacity << ",\n \"software\": " << Json(profile.software)
      << ",\n \"measurements\": [";
  const char* separator = "\n  ";
  for (const Measurement& m : profile.measurements) {
    out << separator
        << Json{{"node", m.node},
                {"width", m.width},
                {"implementation", m.implementation},
                {"microseconds", std::round(m.microseconds * 1e3) / 1e3},
                {"samples", m.samples}};
    separator = ",\n  ";
  }
  out << "\n ]\n}\n";
}

}  // namespace

std::string node_signature(const StepGraph& graph, NodeId node, bool tf32) {
  const Op& op = *graph.node(node).op;
  Hash attributes;
  op.hash(attributes);
  std::ostringstream out;
  out << op.name() << '#' << std::hex << std::setfill('0') << std::setw(16) << attributes.low << std::dec;
  print(out, graph.input_descs(node), tf32);
  out << " ->";
  print(out, graph.output_descs(node), tf32);
  return out.str();
}

ProfileUse apply(const Profile& profile, const StepGraph& graph, Costs& costs, bool tf32) {
  std::map<std::tuple<std::string_view, int, std::string_view>, double> durations;
  for (const Measurement& m : profile.measurements) durations[key_of(m)] = m.microseconds;
  ProfileUse use;
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    if (graph.node(node).is_view) continue;
    const std::string signature = node_signature(graph, node, tf32);
    const std::vector<Choice> before(costs.choices(node).begin(), costs.choices(node).end());
    std::vector<int> known;
    for (int i = 0; i < static_cast<int>(before.size()); ++i) {
      const Choice& choice = before[static_cast<std::size_t>(i)];
      const auto found = durations.find({signature, choice.width, choice.implementation});
      if (found == durations.end()) continue;
      known.push_back(i);
      costs.set_duration(node, i, found->second);
    }
    ++(known.empty() ? use.unknown : use.known);
    for (int i = 0; i < static_cast<int>(before.size()) && !known.empty(); ++i) {
      const int nearest = *std::ranges::min_element(known, {}, [i](int k) { return std::abs(k - i); });
      const double old = before[static_cast<std::size_t>(nearest)].duration;
      if (nearest == i || old <= 0) continue;
      costs.set_duration(node, i,
                         before[static_cast<std::size_t>(i)].duration * costs.choice(node, nearest).duration / old);
    }
  }
  return use;
}

void check_device(const Profile& profile, const std::string& source, std::string_view device, int capacity) {
  BRAID_CHECK(profile.device == device && profile.capacity == capacity, DeviceError, source,
              ": expected a profile of '", device, "' with a capacity of ", capacity, ", this is one of '",
              profile.device, "' with ", profile.capacity, ": measure one here with 'braid profile'");
}

void merge(Profile& profile, const Profile& later) {
  std::map<std::tuple<std::string, int, std::string>, Measurement> all;
  for (const Measurement& m : profile.measurements) all[key_of(m)] = m;
  for (const Measurement& m : later.measurements) all[key_of(m)] = m;
  profile.software = later.software;
  profile.measurements.clear();
  for (auto& [key, m] : all) profile.measurements.push_back(std::move(m));
}

Profile read_profile(const std::filesystem::path& path) {
  std::ifstream file(path);
  BRAID_CHECK(file, DataError, path.string(), ": cannot be read: expected a profile that 'braid profile' wrote");
  try {
    return profile_from(Json::parse(file));
  } catch (const nlohmann::json::exception& error) {
    throw DataError(message(path.string(), ": is not a profile that 'braid profile' wrote: ", error.what()));
  } catch (const DataError& error) {
    throw DataError(message(path.string(), ": ", error.what()));
  }
}

void write_profile(const std::filesystem::path& path, const Profile& profile) {
  std::filesystem::path temporary = path;
  temporary += ".new";
  std::ofstream file(temporary);
  print(file, profile);
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temporary, path, error);
  BRAID_CHECK(file && !error, DataError, path.string(), ": cannot be written");
}

}  // namespace braid
