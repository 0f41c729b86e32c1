#include "apps/simulation/simulated_training.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

#include "apps/commands.h"
#include "apps/supervision.h"
#include "core/base/read_file.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/files.h"
#include "train/config/config.h"
#include "train/run/log/run_folder.h"

namespace braid::simulation {

struct Outcome {
  std::vector<int> statuses;  ///< exit statuses, 128 and more for signals
  std::vector<std::string> outputs;
  std::unique_ptr<const World> world;  ///< at the end
  bool is_lost = false;                ///< a process waited for something outside of the simulation

  /// The faults that have begun.
  std::span<const Fault> faults() const {
    return std::span(world->faults).first(static_cast<std::size_t>(world->faults_begun));
  }
  bool has(Fault::Kind kind) const { return std::ranges::count(faults(), kind, &Fault::kind) > 0; }
};

/// The attempts of one seed.
struct Course {
  std::uint64_t seed;
  Time latency;
  Generator faults, launchers;  // draw what fails, and what the launcher is told
  std::string story;
  Time took = 0;
  std::uint64_t hash = 0;
  int attempts = 0;
};

namespace {

namespace fs = std::filesystem;

using apps::kFailed, apps::kOk, apps::kSignalled;

constexpr const char* kConfig = R"(name: run
seed: 3
device: cpu
threads: 2
streams: 2
parallel: {virtual_ranks: 6, timeout: 0.5}
model: {name: lenet5}
data: {name: synthetic, size: 72, val_size: 12, image_size: 16}
train: {epochs: 2, batch_size: 12, log_interval: 1, ema_decay: 0.9}
checkpoint: {every_n_steps: 3, keep_last: 3}
eval: {batch_size: 12}
)";

std::string seconds(Time time) { return message(fixed(static_cast<double>(time) / kSecond, 4), " s"); }

std::string text_of(const Fault& fault) {
  const std::string rank = message("rank ", fault.rank), at = " at " + seconds(fault.time);
  const std::string lasting = at + " for " + seconds(fault.lasts);
  switch (fault.kind) {
    case Fault::Kind::kill: return rank + " is killed" + at;
    case Fault::Kind::silence: return rank + " is suspended" + lasting;
    case Fault::Kind::slow: return rank + " is slow" + lasting;
    case Fault::Kind::cut: return rank + " is cut off" + lasting;
    case Fault::Kind::full: return "the disk is full" + lasting;
    case Fault::Kind::crash: return "all ranks crash" + at;
    case Fault::Kind::terminate: return rank + " gets SIGTERM" + at;
    case Fault::Kind::save: return rank + " gets SIGUSR1" + at;
    case Fault::Kind::stop: return "the launcher is asked to stop" + at;
  }
  return "";
}

/// The signals that the simulation waits for, and keeps blocked: one of a process that has ended, and those that end
/// the program.
const sigset_t kAwaited = apps::signal_set({SIGCHLD, SIGINT, SIGTERM});

/// The library that processes in the cluster load first.
fs::path library() { return fs::read_symlink("/proc/self/exe").parent_path() / BRAID_SIMULATION_LIBRARY; }

/// Starts `braid` with these words as a rank of the cluster, which prints to the file.
pid_t start_rank(int descriptor, int rank, int ranks, std::vector<std::string> words, const fs::path& output) {
  words.insert(words.begin(), "braid");
  return apps::start_process("simulate", std::move(words), kAwaited, SIGKILL, [&](char* const* argv) {
    const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    dup2(file, 1);
    dup2(file, 2);
    const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
    set("LD_PRELOAD", library());
    set("BRAID_SIMULATION", message(descriptor, ' ', rank));
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}) set(name, std::to_string(rank));
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}) set(name, std::to_string(ranks));
    execv("/proc/self/exe", argv);
  });
}

/// Ends the ranks that still run.
[[noreturn]] void interrupt(const World& world, int signal) {
  for (const Rank& rank : world.rank) {
    if (rank.process <= 0) continue;
    kill(rank.process, SIGKILL);
    waitpid(rank.process, nullptr, 0);
  }
  throw Interrupted{signal};
}

/// Waits for the ranks to end. If the one that ran has ended, another one continues.
void wait_for_ranks(World& world, Outcome& outcome) {
  constexpr int kPatience = 600;  // seconds without a decision, of which a busy machine may need many
  constexpr timespec kOneSecond{1, 0};
  std::uint64_t seen = 0;
  for (int running = world.ranks, idle = 0; running > 0;) {
    int status = 0;
    const auto ended = std::ranges::find_if(world.rank, [&](const Rank& rank) {
      return rank.process > 0 && waitpid(rank.process, &status, WNOHANG) == rank.process;
    });
    if (ended == world.rank.end()) {
      const std::uint64_t hash = __atomic_load_n(&world.hash, __ATOMIC_RELAXED);
      const int signal = sigtimedwait(&kAwaited, nullptr, &kOneSecond);
      if (signal == SIGINT || signal == SIGTERM) interrupt(world, signal);
      idle = signal == SIGCHLD || hash != seen ? 0 : idle + 1;
      seen = hash;
      if (idle < kPatience) continue;
      outcome.is_lost = true;
      for (const Rank& rank : world.rank) {
        if (rank.process > 0 && !rank.has_ended) kill(rank.process, SIGKILL);
      }
      continue;
    }
    const auto rank = ended - world.rank.begin();
    outcome.statuses[static_cast<std::size_t>(rank)] = apps::exit_status(status);
    --running;
    world.rank[static_cast<std::size_t>(rank)].process = 0;  // the system may give its number to another
    const bool was_running = world.current != nullptr && world.current->rank == rank;
    if (world.rank[static_cast<std::size_t>(rank)].has_ended) continue;
    end_rank(world, static_cast<int>(rank));
    if (was_running) resume(world, choose(world));
  }
}

/// Runs `braid` with these words on the ranks of a new cluster, which the launcher kills when the time is up.
Outcome run_cluster(std::uint64_t seed, int ranks, Time latency, const std::vector<Fault>& faults, Time limit,
                    const std::vector<std::string>& words, const fs::path& folder) {
  const int descriptor = make_world();
  BRAID_CHECK(descriptor >= 0, Error, "[simulate] the memory of the cluster cannot be made");
  World& world = map_world(descriptor);
  world.random = Generator(seed);
  world.ranks = ranks;
  world.switch_rate = 2U << world.random.next() % 6;
  world.latency = latency;
  world.killed_at = limit;
  world.fault_count = static_cast<int>(faults.size());
  std::ranges::copy(faults, world.faults.begin());
  Outcome outcome;
  outcome.statuses.resize(static_cast<std::size_t>(ranks));
  const auto output = [&](int rank) { return folder / message("rank-", rank, ".txt"); };
  for (int rank = 0; rank < ranks; ++rank) {
    Thread& main = world.threads[static_cast<std::size_t>(rank)];
    main.state = Thread::State::ready;
    main.was_used = true;
    main.rank = rank;
    world.rank[static_cast<std::size_t>(rank)].process = start_rank(descriptor, rank, ranks, words, output(rank));
  }
  resume(world, choose(world));
  wait_for_ranks(world, outcome);
  for (int rank = 0; rank < ranks; ++rank) outcome.outputs.push_back(read_file(output(rank), "the output of a rank"));
  outcome.world = std::make_unique<const World>(world);
  unmap_world(world, descriptor);
  return outcome;
}

/// Draws the failures of an attempt that takes about this long without any.
std::vector<Fault> draw_faults(Generator& random, int ranks, Time duration) {
  constexpr std::uint32_t kKinds = static_cast<std::uint32_t>(Fault::Kind::save) + 1;
  std::vector<Fault> faults(1 + random.next() % 3);
  for (Fault& fault : faults) {
    fault.kind = static_cast<Fault::Kind>(random.next() % kKinds);
    fault.rank = static_cast<int>(random.next() % static_cast<std::uint32_t>(ranks));
    fault.time = static_cast<Time>(random.next() / 0x1p32 * static_cast<double>(duration));
    fault.lasts = kMillisecond << random.next() % 12;  // up to 2 s
  }
  std::ranges::sort(faults, {}, &Fault::time);
  return faults;
}

void check(bool is_right, const Outcome& outcome, const std::string& what) {
  if (is_right) return;
  std::string all = what;
  for (std::size_t rank = 0; rank < outcome.statuses.size(); ++rank) {
    all += message("\nrank ", rank, " ended with status ", outcome.statuses[rank], ":\n", outcome.outputs[rank]);
  }
  throw Error(all);
}

/// Whether another rank names this one, if one could: before ranks are connected, only a launcher knows.
bool names(const Outcome& outcome, int rank) {
  if (!outcome.world->rank[static_cast<std::size_t>(rank)].is_watched) return true;
  for (std::size_t other = 0; other < outcome.outputs.size(); ++other) {
    if (std::cmp_equal(other, rank)) continue;
    if (outcome.outputs[other].find(message("rank ", rank)) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

SimulatedTraining::SimulatedTraining(int ranks)
    : ranks_(ranks), folder_(fs::temp_directory_path() / "braid-simulate-XXXXXX") {
  BRAID_CHECK(*BRAID_SIMULATION_LIBRARY != '\0', Error, "[simulate] this build has no MPI, or has sanitizers");
  BRAID_CHECK(fs::exists(library()), Error, library().string(), ": there is no library of the simulation");
  std::string folder = folder_.string();
  BRAID_CHECK(mkdtemp(folder.data()) != nullptr, Error, folder, ": cannot be made");
  folder_ = folder;
  sigprocmask(SIG_BLOCK, &kAwaited, nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // a process that ignores it cannot wait for another
}

SimulatedTraining::SimulatedTraining(std::string config, std::vector<std::string> overrides, int ranks)
    : SimulatedTraining(ranks) {
  config_ = std::move(config);
  overrides_ = std::move(overrides);
  if (config_.empty()) {
    config_ = folder_ / "config.yaml";
    write_file(config_, kConfig);
  }
  overrides_.push_back("output.root=" + runs().string());
  const RunConfig run = read_run_config(read_config_file(config_), overrides_);
  name_ = run.name;
  BRAID_CHECK(!run.together, ConfigError, "[simulate] expected a config with one model, got a list of jobs");
  const ParallelOptions& parallel = run.jobs.front().training.session.parallel;
  BRAID_CHECK(parallel.virtual_ranks > 0, ConfigError,
              "[simulate] expected parallel.virtual_ranks, with which any number of ranks computes the same weights");
  shards_ = parallel.virtual_ranks;
  BRAID_CHECK(shards_ % ranks_ == 0, ConfigError, "[simulate] expected a number of ranks that divides the ", shards_,
              " shards, got ", ranks_);
  timeout_ = parallel.timeout.count();
  const Outcome alone = run_cluster(0, 1, kMicrosecond, {}, kNever, train(), folder_);
  check(alone.statuses[0] == 0, alone, "a rank alone failed");
  weights_ = models();
}

SimulatedTraining::~SimulatedTraining() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string SimulatedTraining::run(std::uint64_t seed) {
  fs::remove_all(runs());
  Course course{.seed = seed, .latency = 0, .faults = Generator(seed, 7), .launchers = Generator(seed, 8), .story = ""};
  course.latency = kMicrosecond << course.faults.next() % 12;
  measure(course.latency);
  int ranks = ranks_;
  while (!launch(course, ranks)) {
    do {
      ranks = 1 + static_cast<int>(course.launchers.next() % static_cast<std::uint32_t>(ranks_));
    } while (shards_ % ranks != 0);
  }
  return message(course.story, "; the right weights after ", seconds(course.took), " (trace ", course.hash, ')');
}

bool SimulatedTraining::launch(Course& course, int ranks) const {
  struct Death {};  // of the launcher
  const bool continues = !checkpoints().empty();
  std::vector<std::string> expected = continues ? resume() : train();
  if (!continues && course.launchers.next() % 2 == 0) {
    expected.insert(expected.end(), {"--set", "checkpoint.keep_last=1"});
  }
  int restarts = static_cast<int>(course.launchers.next() % 3), most = ranks, least = ranks;
  const apps::Supervision training{.ranks = ranks, .restarts = restarts, .min_ranks = 1, .command = expected};
  std::optional<int> status;  // that the launcher must end with
  std::ostringstream said;
  const auto check_launcher = [&](bool is_right, const char* what) {
    BRAID_CHECK(is_right, Error, course.story, ": the launcher ", what, ":\n", said.str());
  };
  const auto run_ranks = [&](int count, const std::vector<std::string>& words, int& stopped) {
    check_launcher(!status.has_value(), "has started ranks again");
    check_launcher(words == expected, "has started something else");
    check_launcher(count >= least && count <= most, "has started an unexpected number of ranks");
    const std::vector<std::int64_t> before = checkpoints();
    const Outcome outcome = run_attempt(course, count, words);
    const auto failed = std::ranges::find_if(outcome.statuses, [](int each) { return each != kOk; });
    if (failed == outcome.statuses.end()) return *(status = kOk);
    const std::size_t saved = std::max(before.size(), checkpoints().size());
    damage(outcome, course);
    const std::vector<std::int64_t> after = checkpoints();
    check(saved < (before.empty() ? 2 : 1) || !after.empty(), outcome, course.story + ": all checkpoints are lost");
    if (course.launchers.next() % 4 == 0) throw Death();
    if (outcome.has(Fault::Kind::stop)) {
      stopped = SIGTERM;
      status = kSignalled + SIGTERM;
    } else if (restarts-- == 0 || after.empty()) {
      status = *failed;
    } else {
      const bool has_saved = before.empty() || before.front() != after.front();
      most = has_saved ? ranks : std::max(1, count - 1);
      least = has_saved ? ranks : 1;
      expected = resume();
      course.story += "; restarted";
    }
    return *failed;
  };
  course.story += course.attempts == 0 ? "" : continues ? "; continued" : "; again";
  try {
    const int ended = apps::supervise(training, said, run_ranks);
    check_launcher(status.has_value(), "has ended");
    check_launcher(ended == *status, "has another status");
    return ended == kOk;
  } catch (const Death&) {
    course.story += "; the launcher dies";
    return false;
  }
}

Outcome SimulatedTraining::run_attempt(Course& course, int ranks, const std::vector<std::string>& words) const {
  constexpr int kAttempts = 4;  // nothing fails in the last
  const Time undisturbed = durations_.at(course.latency);
  std::vector<Fault> faults;
  if (course.attempts + 1 < kAttempts) {
    faults = draw_faults(course.faults, ranks, undisturbed);
    if (course.launchers.next() % 8 == 0) {
      faults.push_back({Fault::Kind::stop, 0, faults.back().time + 1, 0});
    }
  }
  Time limit = undisturbed;
  for (const Fault& fault : faults) limit = std::max(limit, fault.time + fault.lasts);
  limit += 2 * timeout_ + 4 * kSecond;
  const std::uint64_t order = course.seed + (static_cast<std::uint64_t>(course.attempts++) << 32);
  Outcome outcome = run_cluster(order, ranks, course.latency, faults, limit, words, folder_);
  course.took += outcome.world->now;
  course.hash ^= outcome.world->hash;
  course.story += " on " + plural(ranks, "rank");
  for (const Fault& fault : outcome.faults()) course.story += ", " + text_of(fault);
  check(outcome.world->now < limit, outcome, course.story + ": had not ended after " + seconds(limit));
  judge(outcome, course.story);
  if (std::ranges::count(outcome.statuses, kOk) == std::ssize(outcome.statuses)) {
    check(models() == weights_, outcome, course.story + ": other weights");
  } else {
    check(course.attempts < kAttempts, outcome, course.story + ": failed in every attempt");
  }
  return outcome;
}

std::vector<std::string> SimulatedTraining::train() const {
  std::vector<std::string> words{"train", config_};
  for (const std::string& override : overrides_) words.insert(words.end(), {"--set", override});
  return words;
}

std::vector<std::string> SimulatedTraining::resume() const { return {"train", "--resume", newest_run()}; }

fs::path SimulatedTraining::newest_run() const {
  return runs() / message(name_, '-', RunFolder::last_number(runs(), name_));
}

std::string SimulatedTraining::models() const {
  std::string bytes = read_file(newest_run() / RunFolder::kModel, "the weights");
  const fs::path best = newest_run() / RunFolder::kBest;
  if (fs::exists(best)) bytes += read_file(best, "the best weights");
  return bytes;
}

std::vector<std::int64_t> SimulatedTraining::checkpoints() const {
  return CheckpointFolder::steps_in(newest_run() / RunFolder::kCheckpoints);
}

void SimulatedTraining::measure(Time latency) {
  if (durations_.contains(latency)) return;
  const Outcome outcome = run_cluster(0, ranks_, latency, {}, kNever, train(), folder_);
  check(outcome.statuses == std::vector<int>(outcome.statuses.size()), outcome, "ranks failed without a fault");
  fs::remove_all(runs());
  durations_[latency] = outcome.world->now;
}

void SimulatedTraining::judge(const Outcome& outcome, const std::string& story) const {
  check(!outcome.world->is_stuck, outcome, story + ": no thread can continue");
  check(!outcome.is_lost, outcome, story + ": a process waits for what is not simulated");
  bool has_failed = false, is_signalled = false;
  for (std::size_t rank = 0; rank < outcome.statuses.size(); ++rank) {
    const int status = outcome.statuses[rank];
    const bool is_by_signal =
        (status == kSignalled + SIGTERM && outcome.has(Fault::Kind::terminate)) ||
        (status == kSignalled + SIGUSR2 && outcome.has(Fault::Kind::stop)) ||
        (status == kSignalled + SIGUSR1 && outcome.has(Fault::Kind::save));  // before it has a handler
    const bool is_killed = status == kSignalled + SIGKILL && outcome.world->rank[rank].was_killed;
    check(status == kOk || status == kFailed || is_by_signal || is_killed, outcome,
          story + message(": unexpected status of rank ", rank));
    has_failed |= status == kFailed;
    is_signalled |= is_by_signal;
  }
  if (!has_failed || is_signalled) return;
  // Short silences may add up.
  Time silence = 0;
  for (const Fault& fault : outcome.faults()) {
    if (fault.kind == Fault::Kind::silence || fault.kind == Fault::Kind::cut) silence += fault.lasts;
  }
  const auto is_said = [&](std::string_view what) {
    return std::ranges::any_of(outcome.outputs,
                               [&](const std::string& text) { return text.find(what) != std::string::npos; });
  };
  const bool is_told = std::ranges::any_of(outcome.faults(), [&](const Fault& fault) {
    switch (fault.kind) {
      case Fault::Kind::cut:  // the rank itself cannot tell whether the others are silent
        return silence >= timeout_ / 2 &&
               (names(outcome, fault.rank) || is_said("no sign of life") || is_said("has come to its end"));
      case Fault::Kind::silence:
        return silence >= timeout_ / 2 && (names(outcome, fault.rank) || is_said("has come to its end"));
      case Fault::Kind::kill: return names(outcome, fault.rank) || is_said("has come to its end");
      case Fault::Kind::full: return is_said("No space left");
      default: return false;
    }
  });
  check(is_told, outcome, story + ": no error names what failed");
}

void SimulatedTraining::damage(const Outcome& outcome, Course& course) const {
  if (outcome.has(Fault::Kind::crash) && fs::exists(runs())) {
    cut_files(outcome, course.faults);
    undo_renames(outcome, course);
  }
  for (const UnsyncedRename& rename : outcome.world->renames) {
    if (rename.number > 0) fs::remove(rename.replaced.data());
  }
  const std::vector<std::int64_t> steps = checkpoints();
  if (steps.size() < 2 || course.faults.next() % 3 != 0) return;
  const fs::path newest = newest_run() / RunFolder::kCheckpoints / message("step-", steps.front(), ".safetensors");
  std::string bytes = read_file(newest, "a checkpoint");
  const std::size_t bit = course.faults.next() % (bytes.size() * 8);
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  write_file(newest, bytes);
  course.story += message("; bit ", bit, " of step-", steps.front(), " flips");
}

void SimulatedTraining::cut_files(const Outcome& outcome, Generator& random) const {
  for (const UnsyncedFile& file : outcome.world->files) {
    if (file.number == 0) continue;
    for (const auto& entry : fs::recursive_directory_iterator(runs())) {
      struct stat status {};
      if (stat(entry.path().c_str(), &status) != 0 || file.device != status.st_dev || file.number != status.st_ino) {
        continue;
      }
      const off_t lost = std::max<off_t>(0, status.st_size - file.synced);
      const off_t left = status.st_size - static_cast<off_t>(random.next()) % (lost + 1);
      check(truncate(entry.path().c_str(), left) == 0, outcome, "a file cannot be cut");
    }
  }
}

void SimulatedTraining::undo_renames(const Outcome& outcome, Course& course) const {
  std::vector<UnsyncedRename> renames(outcome.world->renames.begin(), outcome.world->renames.end());
  std::erase_if(renames, [](const UnsyncedRename& rename) { return rename.number == 0; });
  std::ranges::sort(renames, std::ranges::greater{}, &UnsyncedRename::number);  // the last first
  const std::size_t lost = course.launchers.next() % (renames.size() + 1);
  for (const UnsyncedRename& rename : renames | std::views::take(lost)) {
    std::error_code removed_since;
    fs::rename(rename.to.data(), rename.from.data(), removed_since);
    if (fs::exists(rename.replaced.data())) fs::rename(rename.replaced.data(), rename.to.data());
  }
  if (lost > 0) course.story += message("; ", plural(lost, "rename"), lost == 1 ? " is lost" : " are lost");
}

}  // namespace braid::simulation
