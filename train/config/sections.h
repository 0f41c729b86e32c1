#pragma once
// The sections of a config file, each read into its struct. Every function throws ConfigError on the first mistake in
// its section, unknown keys included.

#include "train/config/config.h"
#include "train/config/reader.h"

namespace braid {

// Upper limits catch slips of the finger before they exhaust the machine.
inline constexpr double kMaxCount = 1e9;
inline constexpr double kMaxStreams = 64;
inline constexpr double kMaxThreads = 1024;
inline constexpr double kMaxStepsPerTurn = 64;

void read_section(ConfigSection section, ModelConfig& model);
void read_section(ConfigSection section, DataConfig& data);
void read_section(ConfigSection section, OptimizerConfig& optimizer);
void read_section(ConfigSection section, ScheduleOptions& schedule);
/// What a job is made of.
struct TrainingSections {
  /// Asks `parent` for its sections; nothing is read yet, so that mistakes of the parent are found first.
  explicit TrainingSections(ConfigSection& parent);
  void read(TrainConfig& config) const;

  ConfigSection model, data, train, eval, optimizer, schedule;
};
/// The keys seed, device, streams, width, threads, policy, deterministic and costs of `parent`.
void read_session(ConfigSection& parent, SessionOptions& session);
/// The key precision of `parent`, which tells the session whether f32 means tf32, and models what they compute in.
void read_precision(ConfigSection& parent, SessionOptions& session, DType& dtype);
/// The same for one job of several: f32 and tf32 must be what the session says.
void read_job_precision(ConfigSection& parent, const SessionOptions& session, DType& dtype);
/// The word for the precision that these two make.
std::string_view precision_name(const SessionOptions& session, DType dtype);
/// A list of classes of the dataset; `data` must be read as far as they depend on it.
void read_classes(ConfigSection& parent, std::string_view key, const DataConfig& data,
                  std::vector<std::int64_t>& classes);
/// The key name of `parent`, which becomes a part of a path.
void read_name(ConfigSection& parent, std::string& name);
void read_output(ConfigSection section, std::string& root);

}  // namespace braid
