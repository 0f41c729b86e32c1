// Trains in a simulated cluster in which something breaks, continues from what is left, and compares the weights with
// those of an undisturbed training.

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/simulation/world.h"
#include "core/base/random.h"
#include "core/base/read_file.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/files.h"
#include "train/config/config.h"
#include "train/run/log/run_folder.h"

namespace braid::apps {

namespace {

namespace fs = std::filesystem;
using simulation::Fault, simulation::World, simulation::Time, simulation::kNobody, simulation::kSecond;

constexpr const char* kConfig = R"(name: run
seed: 3
device: cpu
threads: 2
streams: 2
parallel: {shards: 6, timeout: 0.5}
model: {name: lenet5}
data: {name: synthetic, size: 72, val_size: 12, image_size: 28}
train: {epochs: 2, batch_size: 12, log_interval: 1, ema_decay: 0.9}
checkpoint: {every_n_steps: 3, keep_last: 3}
eval: {batch_size: 12}
)";

struct SimulateArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::uint64_t seed = 0;
  int seeds = 1, ranks = 3;
};

/// What happened in a cluster.
struct Outcome {
  std::vector<int> statuses;  ///< exit statuses, 128 and more for signals
  std::vector<std::string> outputs;
  std::vector<Fault> faults;      ///< those that came
  std::vector<bool> was_watched;  ///< ranks whose end others would notice
  std::vector<simulation::UnsyncedFile> unsynced;
  Time end = 0;
  bool is_stuck = false, is_lost = false;  ///< is_lost: a process waited for something outside of the simulation
};

std::string seconds(Time time) { return message(fixed(static_cast<double>(time) / kSecond, 4), " s"); }

std::string text_of(const Fault& fault) {
  const std::string rank = message("rank ", fault.rank), at = " at " + seconds(fault.time);
  const std::string lasting = at + " for " + seconds(fault.lasts);
  switch (fault.kind) {
    case Fault::Kind::kill: return rank + " is killed" + at;
    case Fault::Kind::silence: return rank + " stands still" + lasting;
    case Fault::Kind::slow: return rank + " is slow" + lasting;
    case Fault::Kind::cut: return rank + " is cut off" + lasting;
    case Fault::Kind::full: return "the disk is full" + lasting;
    case Fault::Kind::crash: return "all ranks crash" + at;
    case Fault::Kind::terminate: return rank + " gets SIGTERM" + at;
    case Fault::Kind::save: return rank + " gets SIGUSR1" + at;
  }
  return "";
}

/// What processes in the cluster load first: next to this program, where it was built or installed.
fs::path library() { return fs::read_symlink("/proc/self/exe").parent_path() / BRAID_SIMULATION_LIBRARY; }

/// Starts `braid` with these words as a rank of the cluster.
pid_t start_rank(int descriptor, int rank, int ranks, const std::vector<std::string>& words, const fs::path& output) {
  const pid_t process = fork();
  BRAID_CHECK(process >= 0, Error, "[simulate] no process could be started");
  if (process > 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
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

/// Waits for the ranks, and gives the turn of one that has ended to another.
void wait_for_ranks(World& world, Outcome& outcome) {
  constexpr int kPatience = 60;  // seconds of one turn
  constexpr timespec kOneSecond{1, 0};
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  std::uint64_t seen = 0;
  for (int running = world.ranks, idle = 0; running > 0;) {
    int status = 0;
    const pid_t process = waitpid(-1, &status, WNOHANG);
    if (process == 0) {
      const std::uint64_t hash = __atomic_load_n(&world.hash, __ATOMIC_RELAXED);
      idle = sigtimedwait(&child, nullptr, &kOneSecond) >= 0 || hash != seen ? 0 : idle + 1;
      seen = hash;
      if (idle < kPatience) continue;
      outcome.is_lost = true;
      for (const simulation::Rank& rank : world.rank) {
        if (rank.process > 0 && !rank.has_ended) kill(rank.process, SIGKILL);
      }
      continue;
    }
    const auto rank = std::ranges::find(world.rank, process, &simulation::Rank::process) - world.rank.begin();
    outcome.statuses[static_cast<std::size_t>(rank)] =
        WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
    --running;
    const bool had_turn =
        world.current != kNobody && world.threads[static_cast<std::size_t>(world.current)].rank == rank;
    if (world.rank[static_cast<std::size_t>(rank)].has_ended) continue;
    end_rank(world, static_cast<int>(rank));
    if (had_turn) give_turn(world, choose(world));
  }
}

/// Runs `braid` with these words on the ranks of a new cluster.
Outcome run_cluster(std::uint64_t seed, int ranks, const std::vector<Fault>& faults,
                    const std::vector<std::string>& words, const fs::path& folder) {
  const int descriptor = simulation::make_world();
  BRAID_CHECK(descriptor >= 0, Error, "[simulate] the memory of the cluster cannot be made");
  World& world = simulation::map_world(descriptor);
  world.random = seed;
  world.ranks = ranks;
  world.switch_rate = 1 << (1 + draw(world) % 6);
  world.latency = simulation::kMicrosecond << draw(world) % 12;
  world.fault_count = static_cast<int>(faults.size());
  std::ranges::copy(faults, world.faults.begin());
  Outcome outcome;
  outcome.statuses.resize(static_cast<std::size_t>(ranks));
  const auto output = [&](int rank) { return folder / message("rank-", rank, ".txt"); };
  for (int rank = 0; rank < ranks; ++rank) {
    world.threads[static_cast<std::size_t>(rank)] = {.state = simulation::Thread::State::ready,
                                                     .is_notified = false,
                                                     .rank = rank,
                                                     .key = 0,
                                                     .until = 0,
                                                     .turns = 0};
    world.rank[static_cast<std::size_t>(rank)].process = start_rank(descriptor, rank, ranks, words, output(rank));
  }
  give_turn(world, choose(world));
  wait_for_ranks(world, outcome);
  for (int rank = 0; rank < ranks; ++rank) outcome.outputs.push_back(read_file(output(rank), "the output of a rank"));
  outcome.faults.assign(faults.begin(), faults.begin() + world.faults_begun);
  for (const simulation::UnsyncedFile& file : world.files) {
    if (file.number != 0) outcome.unsynced.push_back(file);
  }
  for (const simulation::Rank& rank : world.rank) outcome.was_watched.push_back(rank.is_watched);
  outcome.end = world.now;
  outcome.is_stuck = world.is_stuck;
  simulation::unmap_world(world, descriptor);
  return outcome;
}

/// What breaks in an attempt that takes about this long by itself.
std::vector<Fault> draw_faults(Generator& random, int ranks, Time duration) {
  constexpr std::uint32_t kKinds = static_cast<std::uint32_t>(Fault::Kind::save) + 1;
  std::vector<Fault> faults(1 + random.next() % 3);
  for (Fault& fault : faults) {
    fault.kind = static_cast<Fault::Kind>(random.next() % kKinds);
    fault.rank = static_cast<int>(random.next() % static_cast<std::uint32_t>(ranks));
    fault.time = static_cast<Time>(random.next() / 0x1p32 * static_cast<double>(duration));
    fault.lasts = simulation::kMillisecond << random.next() % 12;  // up to 2 s
  }
  std::ranges::sort(faults, {}, &Fault::time);
  return faults;
}

class Simulation {
 public:
  Simulation(const SimulateArguments& arguments, fs::path folder) : arguments_(arguments), folder_(std::move(folder)) {
    if (arguments_.config.empty()) {
      arguments_.config = folder_ / "config.yaml";
      write_file(arguments_.config, kConfig);
    }
    arguments_.overrides.push_back("output.root=" + (folder_ / "runs").string());
    const RunConfig run = read_run_config(read_config_file(arguments_.config), arguments_.overrides);
    name_ = run.name;
    BRAID_CHECK(!run.together, ConfigError, "[simulate] expected a config with one model, got a list of jobs");
    const ParallelOptions& parallel = run.jobs.front().training.session.parallel;
    BRAID_CHECK(parallel.shards > 0, ConfigError,
                "[simulate] expected parallel.shards, with which any number of ranks computes the same weights");
    shards_ = parallel.shards;
    BRAID_CHECK(shards_ % arguments_.ranks == 0, ConfigError, "[simulate] expected a number of ranks that divides the ",
                shards_, " shards, got ", arguments_.ranks);
    timeout_ = parallel.timeout.count();
    const Outcome alone = run_cluster(0, 1, {}, train(), folder_);
    check(alone.statuses[0] == 0, alone, "a rank alone failed");
    weights_ = read_file(newest_run() / RunFolder::kModel, "the weights");
    const Outcome together = run_cluster(0, arguments_.ranks, {}, train(), folder_);
    check(together.statuses == std::vector<int>(together.statuses.size()), together, "ranks without a fault failed");
    check(read_file(newest_run() / RunFolder::kModel, "the weights") == weights_, together, "ranks have other weights");
    duration_ = together.end;
  }

  /// Throws Error, with what happened, unless the training ends with the right weights.
  std::string run(std::uint64_t seed) {
    fs::remove_all(folder_ / "runs");
    Generator random(seed, 7);
    std::string story;
    Time took = 0;
    constexpr int kAttempts = 4;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      int ranks = arguments_.ranks;
      while (attempt > 0 && (ranks = 1 + static_cast<int>(random.next() % static_cast<std::uint32_t>(arguments_.ranks)),
                             shards_ % ranks != 0)) {
      }
      const std::vector<Fault> faults =
          attempt + 1 < kAttempts ? draw_faults(random, ranks, duration_) : std::vector<Fault>();
      const bool continues = has_checkpoint();
      const auto words = continues ? std::vector<std::string>{"train", "--resume", newest_run()} : train();
      const Outcome outcome =
          run_cluster(seed + (static_cast<std::uint64_t>(attempt) << 32), ranks, faults, words, folder_);
      took += outcome.end;
      story += message(attempt == 0 ? "" : continues ? "; continued" : "; again", " on ", plural(ranks, "rank"));
      for (const Fault& fault : outcome.faults) story += ", " + text_of(fault);
      judge(outcome, story);
      if (std::ranges::all_of(outcome.statuses, [](int status) { return status == 0; })) {
        check(read_file(newest_run() / RunFolder::kModel, "the weights") == weights_, outcome,
              story + ": other weights");
        return story + "; the right weights after " + seconds(took);
      }
      check(!outcome.faults.empty(), outcome, story + ": failed, although nothing broke");
      damage(outcome, random, story);
    }
    throw Error(story);
  }

 private:
  std::vector<std::string> train() const {
    std::vector<std::string> words{"train", arguments_.config};
    for (const std::string& override : arguments_.overrides) words.insert(words.end(), {"--set", override});
    return words;
  }
  fs::path newest_run() const {
    return folder_ / "runs" / message(name_, '-', RunFolder::last_number(folder_ / "runs", name_));
  }
  std::vector<std::int64_t> checkpoints() const {
    return CheckpointFolder::steps_in(newest_run() / RunFolder::kCheckpoints);
  }
  bool has_checkpoint() const { return !checkpoints().empty(); }

  static void check(bool is_right, const Outcome& outcome, const std::string& what) {
    if (is_right) return;
    std::string all = what;
    for (std::size_t rank = 0; rank < outcome.statuses.size(); ++rank) {
      all += message("\nrank ", rank, " ended with status ", outcome.statuses[rank], ":\n", outcome.outputs[rank]);
    }
    throw Error(all);
  }

  /// Ranks end soon after a fault, and say what it was. Before they are connected, only the launcher could.
  void judge(const Outcome& outcome, const std::string& story) const {
    check(!outcome.is_stuck, outcome, story + ": no thread can continue");
    check(!outcome.is_lost, outcome, story + ": a process waits for what is not simulated");
    Time over = 0;
    for (const Fault& fault : outcome.faults) over = std::max(over, fault.time + fault.lasts);
    check(outcome.end <= std::max(over, duration_) + 3 * timeout_ + 10 * kSecond, outcome,
          story + message(": the end came only after ", seconds(outcome.end)));
    const bool has_failed = std::ranges::count(outcome.statuses, kFailed) > 0;
    const bool is_told = std::ranges::any_of(outcome.faults, [&](const Fault& fault) {
      const auto rank = static_cast<std::size_t>(fault.rank);
      if (!outcome.was_watched[rank]) return true;
      const bool is_full = fault.kind == Fault::Kind::full;
      const std::string named = is_full ? "No space left" : message("rank ", fault.rank);
      for (std::size_t other = 0; other < outcome.outputs.size(); ++other) {
        // What a rank says about itself does not count.
        if ((is_full || other != rank) && outcome.outputs[other].find(named) != std::string::npos) return true;
      }
      return false;
    });
    check(!has_failed || is_told, outcome, story + ": no error names what broke");
  }

  /// Takes from files what a crash loses, and flips a bit of the newest of several checkpoints at times.
  void damage(const Outcome& outcome, Generator& random, std::string& story) const {
    const bool has_crashed =
        std::ranges::any_of(outcome.faults, [](const Fault& fault) { return fault.kind == Fault::Kind::crash; });
    fs::create_directories(folder_ / "runs");
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "runs")) {
      struct stat status {};
      if (!has_crashed || !entry.is_regular_file() || stat(entry.path().c_str(), &status) != 0) continue;
      for (const simulation::UnsyncedFile& file : outcome.unsynced) {
        if (file.device != status.st_dev || file.number != status.st_ino) continue;
        const auto lost = static_cast<std::uint32_t>(status.st_size - file.synced);
        const off_t left = file.synced + static_cast<off_t>(random.next() % (lost + 1));
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

  SimulateArguments arguments_;
  fs::path folder_;
  std::string name_, weights_;
  std::int64_t shards_ = 1;
  Time timeout_ = 0, duration_ = 0;
};

}  // namespace

void add_simulate(Command& app) {
  const auto arguments = std::make_shared<SimulateArguments>();
  Command& command = app.add_command("simulate", "Train in a simulated cluster in which ranks, links and disks fail");
  command.add_option("config", "CONFIG", &arguments->config,
                     "Config file (YAML) with parallel.shards; without one, a small network");
  command.add_option("--set", "KEY=VALUE", &arguments->overrides, "Override a key of the config; can be repeated");
  command.add_option("--ranks", "N", &arguments->ranks, "Ranks of the first attempt; later ones have as many or fewer",
                     {.check = in_range(1, static_cast<int>(simulation::kMostRanks)), .shown_default = "3"});
  command.add_option("--seed", "S", &arguments->seed, "What happens, and in which order threads run, follows from it",
                     {.shown_default = "0"});
  command.add_option("--seeds", "N", &arguments->seeds, "Try so many seeds, from --seed on",
                     {.check = in_range(1, 1'000'000'000), .shown_default = "1"});
  command.footer = "Example:\n  braid simulate --seed 17";
  command.run = [arguments, &app] {
    BRAID_CHECK(*BRAID_SIMULATION_LIBRARY != '\0', Error, "[simulate] this build has no MPI, or has sanitizers");
    BRAID_CHECK(fs::exists(library()), Error, library().string(), ": there is no library of the simulation");
    std::string folder = (fs::temp_directory_path() / "braid-simulate-XXXXXX").string();
    BRAID_CHECK(mkdtemp(folder.data()) != nullptr, Error, folder, ": cannot be made");
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, nullptr);
    const struct Removed {
      fs::path folder;
      ~Removed() {
        std::error_code ignored;
        fs::remove_all(folder, ignored);
      }
    } removed{folder};
    Simulation simulation(*arguments, folder);
    int failed = 0;
    for (int i = 0; i < arguments->seeds; ++i) {
      const std::uint64_t seed = arguments->seed + static_cast<std::uint64_t>(i);
      try {
        std::cout << message("seed ", seed, simulation.run(seed), '\n') << std::flush;
      } catch (const Error& error) {
        ++failed;
        std::cout << message("seed ", seed, error.what(), "\n") << std::flush;
      }
    }
    if (arguments->seeds > 1)
      std::cout << message(arguments->seeds - failed, " of ", plural(arguments->seeds, "seed"),
                           " ended with the right weights\n");
    if (failed > 0) app.exit_code = kFailed;
  };
}

}  // namespace braid::apps
