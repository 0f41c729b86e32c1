#include "apps/simulation/simulated_training.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "apps/commands.h"
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
  std::vector<Fault> faults;                  ///< that have begun
  std::vector<bool> was_watched, was_killed;  ///< per rank; was_killed: by a fault, or by the launcher
  std::vector<UnsyncedFile> unsynced;
  Time end = 0;
  std::uint64_t hash = 0;
  bool is_stuck = false, is_lost = false;  ///< is_lost: a process waited for something outside of the simulation
};

namespace {

namespace fs = std::filesystem;

using apps::kFailed, apps::kOk, apps::kSignalled;

constexpr const char* kConfig = R"(name: run
seed: 3
device: cpu
threads: 2
streams: 2
parallel: {shards: 6, timeout: 0.5}
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
  }
  return "";
}

/// Signals that wait_for_ranks() waits for: one of a rank that has ended, and those that end the program.
sigset_t awaited_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&signals, signal);
  return signals;
}

/// The library that processes in the cluster load first.
fs::path library() { return fs::read_symlink("/proc/self/exe").parent_path() / BRAID_SIMULATION_LIBRARY; }

/// Starts `braid` with these words as a rank of the cluster.
pid_t start_rank(int descriptor, int rank, int ranks, const std::vector<std::string>& words, const fs::path& output) {
  const pid_t process = fork();
  BRAID_CHECK(process >= 0, Error, "[simulate] no process could be started");
  if (process > 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const sigset_t awaited = awaited_signals();
  sigprocmask(SIG_UNBLOCK, &awaited, nullptr);
  const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
  set("LD_PRELOAD", library());
  set("BRAID_SIMULATION", message(descriptor, ' ', rank));
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}) set(name, std::to_string(rank));
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}) set(name, std::to_string(ranks));
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  dup2(file, 1);
  dup2(file, 2);
  std::string program = "braid";
  std::vector<char*> argv{program.data()};
  std::vector<std::string> copies = words;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv("/proc/self/exe", argv.data());
  _exit(127);
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
  const sigset_t awaited = awaited_signals();
  std::uint64_t seen = 0;
  for (int running = world.ranks, idle = 0; running > 0;) {
    int status = 0;
    const pid_t process = waitpid(-1, &status, WNOHANG);
    if (process == 0) {
      const std::uint64_t hash = __atomic_load_n(&world.hash, __ATOMIC_RELAXED);
      const int signal = sigtimedwait(&awaited, nullptr, &kOneSecond);
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
    const auto rank = std::ranges::find(world.rank, process, &Rank::process) - world.rank.begin();
    if (rank >= world.ranks) continue;  // a child of the program that became this one
    outcome.statuses[static_cast<std::size_t>(rank)] =
        WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
    --running;
    world.rank[static_cast<std::size_t>(rank)].process = 0;  // the system may give its number to another
    const bool was_running =
        world.current != kNobody && world.threads[static_cast<std::size_t>(world.current)].rank == rank;
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
    world.threads[static_cast<std::size_t>(rank)] = {.state = Thread::State::ready,
                                                     .was_used = true,
                                                     .is_notified = false,
                                                     .rank = rank,
                                                     .key = 0,
                                                     .until = 0,
                                                     .resumed = 0};
    world.rank[static_cast<std::size_t>(rank)].process = start_rank(descriptor, rank, ranks, words, output(rank));
  }
  resume(world, choose(world));
  wait_for_ranks(world, outcome);
  for (int rank = 0; rank < ranks; ++rank) outcome.outputs.push_back(read_file(output(rank), "the output of a rank"));
  outcome.faults.assign(faults.begin(), faults.begin() + world.faults_begun);
  for (const UnsyncedFile& file : world.files) {
    if (file.number != 0) outcome.unsynced.push_back(file);
  }
  for (const Rank& rank : world.rank) {
    outcome.was_watched.push_back(rank.is_watched);
    outcome.was_killed.push_back(rank.was_killed);
  }
  outcome.hash = world.hash;
  outcome.end = world.now;
  outcome.is_stuck = world.is_stuck;
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
  if (!outcome.was_watched[static_cast<std::size_t>(rank)]) return true;
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
  const sigset_t awaited = awaited_signals();
  sigprocmask(SIG_BLOCK, &awaited, nullptr);
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
  BRAID_CHECK(parallel.shards > 0, ConfigError,
              "[simulate] expected parallel.shards, with which any number of ranks computes the same weights");
  shards_ = parallel.shards;
  BRAID_CHECK(shards_ % ranks_ == 0, ConfigError, "[simulate] expected a number of ranks that divides the ", shards_,
              " shards, got ", ranks_);
  timeout_ = parallel.timeout.count();
  const Outcome alone = run_cluster(0, 1, kMicrosecond, {}, kNever, train(), folder_);
  check(alone.statuses[0] == 0, alone, "a rank alone failed");
  weights_ = read_file(newest_run() / RunFolder::kModel, "the weights");
}

SimulatedTraining::~SimulatedTraining() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string SimulatedTraining::run(std::uint64_t seed) {
  fs::remove_all(runs());
  Generator random(seed, 7);
  const Time latency = kMicrosecond << random.next() % 12;
  const Time undisturbed = duration(latency);
  std::string story;
  Time took = 0;
  std::uint64_t hash = 0;
  constexpr int kAttempts = 4;  // nothing fails in the last
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    int ranks = ranks_;
    while (attempt > 0 &&
           (ranks = 1 + static_cast<int>(random.next() % static_cast<std::uint32_t>(ranks_)), shards_ % ranks != 0)) {
    }
    const std::vector<Fault> faults =
        attempt + 1 < kAttempts ? draw_faults(random, ranks, undisturbed) : std::vector<Fault>();
    Time limit = undisturbed;
    for (const Fault& fault : faults) limit = std::max(limit, fault.time + fault.lasts);
    limit += 2 * timeout_ + 4 * kSecond;
    const bool continues = !checkpoints().empty();
    const auto words = continues ? std::vector<std::string>{"train", "--resume", newest_run()} : train();
    const std::uint64_t order = seed + (static_cast<std::uint64_t>(attempt) << 32);
    const Outcome outcome = run_cluster(order, ranks, latency, faults, limit, words, folder_);
    took += outcome.end;
    hash ^= outcome.hash;
    story += message(attempt == 0 ? "" : continues ? "; continued" : "; again", " on ", plural(ranks, "rank"));
    for (const Fault& fault : outcome.faults) story += ", " + text_of(fault);
    check(outcome.end < limit, outcome, story + ": had not ended after " + seconds(limit));
    judge(outcome, story);
    if (std::ranges::all_of(outcome.statuses, [](int status) { return status == 0; })) {
      const bool is_right = read_file(newest_run() / RunFolder::kModel, "the weights") == weights_;
      check(is_right, outcome, story + ": other weights");
      return message(story, "; the right weights after ", seconds(took), " (trace ", hash, ')');
    }
    damage(outcome, random, story);
  }
  throw Error(story + ": failed in every attempt");
}

std::vector<std::string> SimulatedTraining::train() const {
  std::vector<std::string> words{"train", config_};
  for (const std::string& override : overrides_) words.insert(words.end(), {"--set", override});
  return words;
}

fs::path SimulatedTraining::newest_run() const {
  return runs() / message(name_, '-', RunFolder::last_number(runs(), name_));
}

std::vector<std::int64_t> SimulatedTraining::checkpoints() const {
  return CheckpointFolder::steps_in(newest_run() / RunFolder::kCheckpoints);
}

Time SimulatedTraining::duration(Time latency) {
  Time& known = durations_[latency];
  if (known > 0) return known;
  const Outcome outcome = run_cluster(0, ranks_, latency, {}, kNever, train(), folder_);
  check(outcome.statuses == std::vector<int>(outcome.statuses.size()), outcome, "ranks failed without a fault");
  fs::remove_all(runs());
  return known = outcome.end;
}

void SimulatedTraining::judge(const Outcome& outcome, const std::string& story) const {
  check(!outcome.is_stuck, outcome, story + ": no thread can continue");
  check(!outcome.is_lost, outcome, story + ": a process waits for what is not simulated");
  const auto has = [&](Fault::Kind kind) { return std::ranges::count(outcome.faults, kind, &Fault::kind) > 0; };
  bool has_failed = false, is_signalled = false;
  for (std::size_t rank = 0; rank < outcome.statuses.size(); ++rank) {
    const int status = outcome.statuses[rank];
    const bool is_by_signal = (status == kSignalled + SIGTERM && has(Fault::Kind::terminate)) ||
                              (status == kSignalled + SIGUSR1 && has(Fault::Kind::save));  // before it has a handler
    const bool is_killed = status == kSignalled + SIGKILL && outcome.was_killed[rank];
    check(status == kOk || status == kFailed || is_by_signal || is_killed, outcome,
          story + message(": unexpected status of rank ", rank));
    has_failed |= status == kFailed;
    is_signalled |= is_by_signal;
  }
  if (!has_failed || is_signalled) return;
  // Short silences may add up.
  Time silence = 0;
  for (const Fault& fault : outcome.faults) {
    if (fault.kind == Fault::Kind::silence || fault.kind == Fault::Kind::cut) silence += fault.lasts;
  }
  const auto is_said = [&](std::string_view what) {
    return std::ranges::any_of(outcome.outputs,
                               [&](const std::string& text) { return text.find(what) != std::string::npos; });
  };
  const bool is_told = std::ranges::any_of(outcome.faults, [&](const Fault& fault) {
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

void SimulatedTraining::damage(const Outcome& outcome, Generator& random, std::string& story) const {
  const bool has_crashed = std::ranges::count(outcome.faults, Fault::Kind::crash, &Fault::kind) > 0;
  for (const UnsyncedFile& file : outcome.unsynced) {
    if (!has_crashed || !fs::exists(runs())) break;
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
  const std::vector<std::int64_t> steps = checkpoints();
  if (steps.size() < 2 || random.next() % 3 != 0) return;
  const fs::path newest = newest_run() / RunFolder::kCheckpoints / message("step-", steps.front(), ".safetensors");
  std::string bytes = read_file(newest, "a checkpoint");
  const std::size_t bit = random.next() % (bytes.size() * 8);
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  write_file(newest, bytes);
  story += message("; bit ", bit, " of step-", steps.front(), " flips");
}

}  // namespace braid::simulation
