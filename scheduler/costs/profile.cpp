#include "scheduler/costs/profile.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "core/base/read_file.h"
#include "core/base/text_stream.h"
#include "core/text/json.h"

namespace braid::scheduler {
namespace {

constexpr int kVersion = 3;  // 1 and 2 named nodes by a hash of their attributes

const NodeImplementation& key_of(const Measurement& m) { return m.implementation; }
auto key_of(const PairMeasurement& p) { return std::tie(p.slowed, p.beside); }

constexpr auto kLessByKey = [](const auto& a, const auto& b) { return key_of(a) < key_of(b); };

/// Both lists, sorted; where a key is in both, the later entry.
template <class Entry>
std::vector<Entry> merged(const std::vector<Entry>& list, std::vector<Entry> all) {
  all.insert(all.end(), list.begin(), list.end());
  std::ranges::stable_sort(all, kLessByKey);
  const auto equal = [](const Entry& a, const Entry& b) { return key_of(a) == key_of(b); };
  all.erase(std::unique(all.begin(), all.end(), equal), all.end());
  return all;
}

void print(std::ostream& out, const std::vector<ValueDesc>& descs, bool tf32) {
  for (const ValueDesc& desc : descs) {
    out << ' ' << (tf32 && desc.dtype == DType::f32 ? "t" : "") << desc.dtype << desc.shape;
  }
}

int positive(const JsonPart& part) { return static_cast<int>(part.integer(1, std::numeric_limits<int>::max())); }

NodeImplementation implementation_from(const JsonPart& part) {
  return {.node = part["node"].text(), .width = positive(part["width"]), .algorithm = part["implementation"].text()};
}

Measurement measurement_from(const JsonPart& part) {
  return {.implementation = implementation_from(part),
          .microseconds = part["microseconds"].number(0),
          .samples = positive(part["samples"])};
}

PairMeasurement pair_from(const JsonPart& part) {
  const PairMeasurement p{.slowed = implementation_from(part),
                          .beside = implementation_from(part["beside"]),
                          .factor = part["factor"].number(0),
                          .samples = positive(part["samples"])};
  if (p.factor == 0) part["factor"].fail("must be above 0");
  return p;
}

Link link_from(const JsonPart& part) {
  const Link link{.latency_seconds = part["latency_microseconds"].number(0) / 1e6,
                  .bytes_per_second = part["bytes_per_second"].number(0),
                  .units = static_cast<int>(part["units"].integer(0, std::numeric_limits<int>::max()))};
  if (link.bytes_per_second == 0) part["bytes_per_second"].fail("must be above 0");
  return link;
}

Profile profile_from(const JsonPart& part) {
  const int version = positive(part["version"]);
  BRAID_CHECK(version == kVersion, DataError, "expected version ", kVersion, ", got ", version,
              ": measure it again with 'braid profile' into a new file");
  Profile profile{
      .device = part["device"].text(), .capacity = positive(part["capacity"]), .software = part["software"].text()};
  if (part.json.contains("clock")) profile.clock = part["clock"].text();  // older files have none
  if (part.json.contains("pair_clock")) profile.pair_clock = part["pair_clock"].text();
  for (const JsonPart& entry : part["measurements"].list()) profile.measurements.push_back(measurement_from(entry));
  std::ranges::sort(profile.measurements, kLessByKey);
  profile.wait_microseconds = part["wait_microseconds"].number(0);
  for (const JsonPart& entry : part["pairs"].list()) profile.pairs.push_back(pair_from(entry));
  std::ranges::sort(profile.pairs, kLessByKey);
  if (part.json.contains("link")) profile.link = link_from(part["link"]);
  return profile;
}

double rounded(double number) { return std::round(number * 1e3) / 1e3; }

Json to_json(const NodeImplementation& implementation) {
  return {{"node", implementation.node}, {"width", implementation.width}, {"implementation", implementation.algorithm}};
}

/// One line per measurement, so that people can read it and diff can compare it.
void print(std::ostream& out, const Profile& profile) {
  out << "{\n \"version\": " << kVersion << ",\n \"device\": " << Json(profile.device).dump()
      << ",\n \"capacity\": " << profile.capacity << ",\n \"software\": " << Json(profile.software).dump()
      << ",\n \"clock\": " << Json(profile.clock).dump() << ",\n \"pair_clock\": " << Json(profile.pair_clock).dump()
      << ",\n \"wait_microseconds\": " << rounded(profile.wait_microseconds);
  if (profile.link.has_value()) {
    out << ",\n \"link\": "
        << Json{{"latency_microseconds", rounded(1e6 * profile.link->latency_seconds)},
                {"bytes_per_second", std::round(profile.link->bytes_per_second)},
                {"units", profile.link->units}}
               .dump();
  }
  out << ",\n \"measurements\": [";
  const char* separator = "\n  ";
  for (const Measurement& m : profile.measurements) {
    Json entry = to_json(m.implementation);
    entry["microseconds"] = rounded(m.microseconds);
    entry["samples"] = m.samples;
    out << std::exchange(separator, ",\n  ") << entry.dump();
  }
  out << "\n ],\n \"pairs\": [";
  separator = "\n  ";
  for (const PairMeasurement& p : profile.pairs) {
    Json entry = to_json(p.slowed);
    entry["beside"] = to_json(p.beside);
    entry["factor"] = rounded(p.factor);
    entry["samples"] = p.samples;
    out << std::exchange(separator, ",\n  ") << entry.dump();
  }
  out << "\n ]\n}\n";
}

}  // namespace

std::string node_signature(const StepGraph& graph, NodeId node, bool tf32) {
  TextStream out;
  out << *graph.node(node).op;
  print(out, graph.input_descs(node), tf32);
  out << " ->";
  print(out, graph.output_descs(node), tf32);
  return out.str();
}

ProfileUse apply(const Profile& profile, const StepGraph& graph, Costs& costs, bool tf32) {
  std::map<NodeImplementation, double> durations;
  for (const Measurement& m : profile.measurements) durations[m.implementation] = m.microseconds;
  ProfileUse use;
  for (const NodeId node : graph.launched_nodes()) {
    const std::string signature = node_signature(graph, node, tf32);
    const std::vector<Cost> before(costs.of(node).begin(), costs.of(node).end());
    const auto count = static_cast<int>(before.size());
    std::vector<int> known;
    for (int i = 0; i < count; ++i) {
      const Cost& cost = before[i];
      const auto found = durations.find({signature, cost.width, cost.algorithm});
      if (found == durations.end()) continue;
      known.push_back(i);
      costs.set_duration(node, i, found->second);
    }
    ++(known.empty() ? use.unknown : use.known);
    for (int i = 0; i < count && !known.empty(); ++i) {
      const int nearest = *std::ranges::min_element(known, {}, [i](int k) { return std::abs(k - i); });
      const double old = before[nearest].duration;
      if (nearest == i || old <= 0) continue;
      costs.set_duration(node, i, before[i].duration * costs.of(node, nearest).duration / old);
    }
  }
  return use;
}

Interference interference(const Profile& profile, const StepGraph& graph, const Costs& costs, bool tf32) {
  Interference result;
  if (profile.pairs.empty()) return result;
  std::map<NodeImplementation, std::int32_t> kinds;
  const auto kind = [&](const NodeImplementation& implementation) {
    return kinds.try_emplace(implementation, static_cast<std::int32_t>(kinds.size())).first->second;
  };
  for (const PairMeasurement& p : profile.pairs) {
    const double share = std::max(1.0, (static_cast<double>(p.slowed.width) + p.beside.width) / profile.capacity);
    result.set_factor(kind(p.slowed), kind(p.beside), p.factor / share);
  }
  for (const NodeId node : graph.launched_nodes()) {
    const std::string signature = node_signature(graph, node, tf32);
    for (int i = 0; i < static_cast<int>(costs.of(node).size()); ++i) {
      const auto found = kinds.find({signature, costs.of(node, i).width, costs.of(node, i).algorithm});
      if (found != kinds.end()) result.set_kind(node, i, found->second);
    }
  }
  return result;
}

void check_device(const Profile& profile, const std::string& source, std::string_view device, int capacity) {
  BRAID_CHECK(profile.device == device && profile.capacity == capacity, DeviceError, source,
              ": expected a profile of '", device, "' with a capacity of ", capacity, ", this is one of '",
              profile.device, "' with ", profile.capacity, ": measure one here with 'braid profile'");
}

void merge(Profile& profile, const Profile& later) {
  profile.software = later.software;
  if (!later.measurements.empty()) profile.clock = later.clock;
  if (!later.pairs.empty()) profile.pair_clock = later.pair_clock;
  if (later.wait_microseconds > 0) profile.wait_microseconds = later.wait_microseconds;
  if (later.link.has_value()) profile.link = later.link;
  profile.measurements = merged(profile.measurements, later.measurements);
  profile.pairs = merged(profile.pairs, later.pairs);
}

Profile read_profile(const std::filesystem::path& path) {
  const std::string text = read_file(path, "the profile");
  try {
    const Json json = parse_json(text);
    return profile_from({json});
  } catch (const DataError& error) {
    throw DataError(message(path.string(), ": is not a profile that 'braid profile' wrote: ", error.what()));
  }
}

void write_profile(const std::filesystem::path& path, const Profile& profile) {
  std::filesystem::path temporary = path;
  temporary += ".new";
  std::ofstream file(temporary);
  file.imbue(std::locale::classic());
  print(file, profile);
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temporary, path, error);
  BRAID_CHECK(file && !error, DataError, path.string(), ": cannot be written");
}

}  // namespace braid::scheduler
