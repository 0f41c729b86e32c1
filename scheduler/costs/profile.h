#pragma once
// Measured durations of nodes, interference of pairs of nodes, and the cost of the link to other ranks, kept in a file.
// A profile replaces the analytic model's estimates, and lets other machines plan for the one that it measured.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/device/link.h"
#include "scheduler/costs/costs.h"
#include "scheduler/costs/interference.h"

namespace braid::scheduler {

/// An implementation of a node, recognisable in other steps.
struct NodeImplementation {
  std::string node;  ///< node_signature()
  int width = 1;
  std::string algorithm = {};  ///< Cost::algorithm
  friend auto operator<=>(const NodeImplementation&, const NodeImplementation&) = default;
};

/// How long a node takes with one implementation, when it runs alone.
struct Measurement {
  NodeImplementation implementation;
  double microseconds = 0;  ///< median over the samples
  int samples = 0;
  friend bool operator==(const Measurement&, const Measurement&) = default;
};

/// How many times as long as alone a node takes while another one runs alongside it all the time.
struct PairMeasurement {
  NodeImplementation slowed;
  NodeImplementation beside;
  double factor = 1;  ///< median over the samples
  int samples = 0;
  friend bool operator==(const PairMeasurement&, const PairMeasurement&) = default;
};

struct Profile {
  std::string device;           ///< DeviceInfo::name
  int capacity = 1;             ///< its cores or SMs
  std::string software = {};    ///< versions of Braid and its libraries, for the reader of the file
  std::string clock = {};       ///< that measured the nodes, as "graph replay"; likewise
  std::string pair_clock = {};  ///< that measured the pairs, as "CUPTI"; empty if none were measured
  std::vector<Measurement> measurements = {};
  std::vector<PairMeasurement> pairs = {};
  double wait_microseconds = 0;   ///< from an event to the start of a stream that is waiting for it; 0: not measured
  std::optional<Link> link = {};  ///< to other ranks, in place of Communicator::link(); empty: not measured
  friend bool operator==(const Profile&, const Profile&) = default;
};

/// Text of everything that a node's duration depends on: op, its attributes, dtypes and shapes, as
/// "scale{factor: 0.5} f32[8,56,56,64] -> f32[8,56,56,64]". With `tf32`, f32 reads tf32.
std::string node_signature(const StepGraph& graph, NodeId node, bool tf32 = false);

/// How much of a graph a profile covers.
struct ProfileUse {
  std::int32_t known = 0;    ///< nodes with a measured duration
  std::int32_t unknown = 0;  ///< nodes left with the duration they had; views count as neither
  friend bool operator==(const ProfileUse&, const ProfileUse&) = default;
};

/// Replaces the durations of nodes that the profile knows. Where it knows some implementations of a node and not
/// others, these keep their ratio to the nearest known one.
ProfileUse apply(const Profile& profile, const StepGraph& graph, Costs& costs, bool tf32 = false);

/// The interference of a graph's nodes according to the pairs of a profile. A measured factor includes the sharing of
/// the capacity, which is factored out.
Interference interference(const Profile& profile, const StepGraph& graph, const Costs& costs, bool tf32 = false);

/// Throws DeviceError unless the profile is of a device with this name and capacity. `source` is its name in messages.
void check_device(const Profile& profile, const std::string& source, std::string_view device, int capacity);

/// Adds the measurements of `later`, in place of older ones of the same nodes and pairs, and takes its software, its
/// clocks, and its waits and link if it measured them. Keeps the lists sorted.
void merge(Profile& profile, const Profile& later);

/// Throws DataError if the file cannot be read or is not a profile of the current version.
Profile read_profile(const std::filesystem::path& path);
/// Throws DataError if the file cannot be written; an older file then stays as it was.
void write_profile(const std::filesystem::path& path, const Profile& profile);

}  // namespace braid::scheduler
