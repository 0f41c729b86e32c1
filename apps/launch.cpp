// A supervisor of mpirun: starts the ranks of a training, tells them when to stop, and starts them again from the
// newest checkpoint if one of them dies.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "core/text.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/config/config.h"
#include "train/run/run_folder.h"

namespace braid::apps {

namespace {

namespace fs = std::filesystem;

struct LaunchArguments {
  int ranks = 1, restarts = 0;
  int min_ranks = 0;  ///< 0: all
  bool oversubscribe = false;
  std::vector<std::string> command;  ///< train and its arguments
};

/// The signals that the supervisor waits for.
sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

/// The local processes that this one has started and that have not ended.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    const std::size_t after_name = text.rfind(')');  // a name may contain anything
    if (after_name == std::string::npos) continue;   // it has ended
    char state = 0;
    pid_t its = 0;
    std::istringstream(text.substr(after_name + 1)) >> state >> its;
    if (its == parent && state != 'Z') found.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return found;
}

/// mpirun with the ranks of one attempt.
class Attempt {
 public:
  Attempt(const LaunchArguments& arguments, int ranks, const std::vector<std::string>& command) {
    std::vector<std::string> words{"mpirun", "-n", std::to_string(ranks)};
    if (arguments.oversubscribe) words.emplace_back("--oversubscribe");
    words.push_back(fs::read_symlink("/proc/self/exe"));
    words.insert(words.end(), command.begin(), command.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t supervisor = getpid();
    mpirun_ = fork();
    BRAID_CHECK(mpirun_ >= 0, Error, "[launch] no process could be started");
    if (mpirun_ > 0) return;
    // Ctrl-C in a terminal reaches the supervisor alone, and the ranks do not outlive it.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    const sigset_t signals = awaited_signals();
    sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    if (getppid() == supervisor && std::freopen("/dev/null", "r", stdin) != nullptr) execvp(argv[0], argv.data());
    std::cerr << "braid: error: [launch] mpirun could not be started: install Open MPI (openmpi-bin)\n" << std::flush;
    _exit(127);
  }

  /// Waits until all ranks have ended, and passes signals on. Returns the exit status; `stopped` becomes the signal
  /// that asked them to stop. Ends an mpirun that outlives its ranks, as Open MPI's at times does if one is killed
  /// while it starts.
  int wait(int& stopped) {
    constexpr int kPatience = 10;
    constexpr timespec kSecond{1, 0};
    const sigset_t signals = awaited_signals();
    int seconds_without_ranks = 0;
    while (true) {
      const int signal = sigtimedwait(&signals, nullptr, &kSecond);
      seconds_without_ranks =
          signal < 0 && errno == EAGAIN && children_of(mpirun_).empty() ? seconds_without_ranks + 1 : 0;
      if (seconds_without_ranks == kPatience) kill(mpirun_, SIGKILL);
      int status = 0;
      if (signal == SIGCHLD && waitpid(mpirun_, &status, WNOHANG) == mpirun_) {
        return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
      }
      if (signal == SIGCHLD || signal < 0) continue;
      pass(signal, stopped);
      if (signal != SIGUSR1) stopped = signal;
    }
  }

 private:
  /// To a rank, which tells the others in the next step, so that all save the same. Told twice, mpirun ends them.
  void pass(int signal, int stopped) const {
    const std::vector<pid_t> ranks = children_of(mpirun_);
    if (ranks.empty() || (stopped != 0 && signal != SIGUSR1)) {
      kill(mpirun_, SIGTERM);
    } else {
      kill(ranks.front(), signal);
    }
  }

  pid_t mpirun_ = 0;
};

/// Where a training writes, and how far it has come.
class Runs {
 public:
  explicit Runs(const std::vector<std::string>& command) {
    Command train{"train", ""};
    ConfigArguments config;
    std::string resumed;
    config.add_to(train, "", {});
    train.add_option("--resume", "RUN", &resumed, "");
    parse_some(train, {command.begin() + 1, command.end()});
    if (!resumed.empty()) {
      folder_ = resumed;
    } else if (!config.path.empty()) {
      const RunConfig run = read_run_config(read_config_file(config.path), config.overrides);
      root_ = run.output_root;
      prefix_ = run.name + "-";
      first_ = newest() + 1;
    }
  }

  /// The folder of the run; empty if there is none yet.
  fs::path folder() const {
    if (!folder_.empty() || root_.empty()) return folder_;
    const int number = newest();
    return number < first_ ? fs::path() : root_ / (prefix_ + std::to_string(number));
  }
  /// The step of its newest checkpoint.
  std::optional<std::int64_t> saved() const {
    if (folder().empty()) return std::nullopt;
    const std::vector<std::int64_t> steps = CheckpointFolder::steps_in(folder() / RunFolder::kCheckpoints);
    return steps.empty() ? std::nullopt : std::optional(steps.front());
  }

 private:
  /// The largest number of a run of this name; 0 if there is none.
  int newest() const {
    int number = 0;
    std::error_code none;
    for (const fs::directory_entry& entry : fs::directory_iterator(root_, none)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with(prefix_) || name.size() == prefix_.size()) continue;
      if (name.find_first_not_of("0123456789", prefix_.size()) != std::string::npos) continue;
      number = std::max(number, std::atoi(name.c_str() + prefix_.size()));
    }
    return number;
  }

  fs::path folder_, root_;
  std::string prefix_;
  int first_ = 1;
};

/// The most ranks below `ranks` that share a batch of `all` ranks evenly, if they are at least `least`; else `ranks`.
int fewer(int ranks, int all, int least) {
  for (int count = ranks - 1; count >= least; --count) {
    if (all % count == 0) return count;
  }
  return ranks;
}

int supervise(const LaunchArguments& arguments) {
  const sigset_t signals = awaited_signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const Runs runs(arguments.command);
  const int least = arguments.min_ranks > 0 ? arguments.min_ranks : arguments.ranks;
  std::vector<std::string> command = arguments.command;
  int ranks = arguments.ranks;
  for (int restart = 0;; ++restart) {
    const std::optional<std::int64_t> before = runs.saved();
    int stopped = 0;
    const int status = Attempt(arguments, ranks, command).wait(stopped);
    if (status == kOk || status == kUsage || stopped != 0) return status;
    const std::optional<std::int64_t> saved = runs.saved();
    const std::string ended = message(
        "braid launch: ", plural(ranks, "rank"), " ended with status ", status,
        saved.has_value() ? message("; the newest checkpoint is that of step ", *saved) : "; there is no checkpoint");
    if (restart == arguments.restarts || !saved.has_value()) {
      std::cerr << ended << '\n' << std::flush;
      return status;
    }
    ranks = saved != before ? arguments.ranks : fewer(ranks, arguments.ranks, least);
    command = {"train", "--resume", runs.folder()};
    if (std::ranges::count(arguments.command, "-q") + std::ranges::count(arguments.command, "--quiet") > 0) {
      command.emplace_back("-q");
    }
    std::cerr << ended << ". Restart " << restart + 1 << " of " << arguments.restarts << ", on "
              << plural(ranks, "rank") << '\n'
              << std::flush;
  }
}

}  // namespace

void add_launch(Command& app, int& exit_code) {
  const auto arguments = std::make_shared<LaunchArguments>();
  Command& command =
      app.add_command("launch", "Train on several ranks by mpirun, and go on from the newest checkpoint if one dies");
  command.add_option("-n,--ranks", "N", &arguments->ranks, "Ranks to start",
                     {.required = true, .check = in_range(1, 1 << 16)});
  command.add_option("--restarts", "N", &arguments->restarts,
                     "How often to start the ranks again if they fail; default: 0", {.check = in_range(0, 1 << 16)});
  command.add_option("--min-ranks", "N", &arguments->min_ranks,
                     "If a restart fails before it has saved, take fewer ranks, but at least N; default: all",
                     {.check = in_range(1, 1 << 16)});
  command.add_flag("--oversubscribe", &arguments->oversubscribe, "Allow more ranks than cores, as mpirun does");
  command.add_option("command", "train …", &arguments->command, "train, and its arguments", {.required = true});
  command.footer = "Example:\n  braid launch -n 4 --restarts 3 train configs/resnet20_fashion_mnist.yaml";
  command.run = [arguments, &exit_code] {
    if (arguments->command.front() != "train") {
      throw UsageError(message("expected train and its arguments, got '", arguments->command.front(), "'"));
    }
    if (arguments->min_ranks > arguments->ranks) {
      throw UsageError(message("--min-ranks: expected at most ", arguments->ranks, ", the number of ranks"));
    }
    exit_code = supervise(*arguments);
  };
}

}  // namespace braid::apps
