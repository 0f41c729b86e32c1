// A supervisor of mpirun: starts the ranks of a training, tells them when to stop, and starts them again from the
// newest checkpoint if one of them dies.

#include "core/comm/launch.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "core/text/text.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/config/config.h"
#include "train/run/log/run_folder.h"

namespace braid::apps {

namespace {

namespace fs = std::filesystem;

struct LaunchArguments {
  int ranks = 1, restarts = 0;
  int min_ranks = 0;  ///< 0: all
  bool oversubscribe = false;
  std::string hostfile, host;        ///< as mpirun takes them; empty: this host
  std::vector<std::string> command;  ///< train and its arguments
};

/// The signals that the supervisor waits for.
sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

/// Whether mpirun runs ranks on this host. Its other children are the ssh to other hosts.
bool has_ranks(pid_t mpirun) {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto process = process_stat(static_cast<pid_t>(std::stol(name)));
    if (!process || process->parent != mpirun || process->state == 'Z') continue;
    std::error_code gone;
    if (fs::read_symlink(entry.path() / "exe", gone) == program) return true;
  }
  return false;
}

/// Starts mpirun with the ranks of one attempt.
pid_t start_mpirun(const LaunchArguments& arguments, int ranks, const std::vector<std::string>& command) {
  std::vector<std::string> words{"mpirun", "-n", std::to_string(ranks)};
  if (arguments.oversubscribe) words.emplace_back("--oversubscribe");
  if (!arguments.hostfile.empty()) words.insert(words.end(), {"--hostfile", arguments.hostfile});
  if (!arguments.host.empty()) words.insert(words.end(), {"--host", arguments.host});
  words.push_back(fs::read_symlink("/proc/self/exe"));
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t supervisor = getpid();
  const pid_t mpirun = fork();
  BRAID_CHECK(mpirun >= 0, Error, "[launch] no process could be started");
  if (mpirun > 0) return mpirun;
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
/// that asked them to stop. Ends an mpirun that outlives its ranks, which Open MPI's sometimes does if a rank is
/// killed while it starts, or if a host becomes unreachable.
int wait_for(pid_t mpirun, int& stopped, bool may_be_elsewhere) {
  constexpr int kStop = SIGUSR2;  // mpirun passes this one on, to the ranks on all hosts
  constexpr int kPatience = 10;
  constexpr timespec kSecond{1, 0};
  const sigset_t signals = awaited_signals();
  int seconds_without_ranks = 0;
  while (true) {
    const int signal = sigtimedwait(&signals, nullptr, &kSecond);
    if (signal < 0 && errno == EAGAIN) {
      if (stopped != 0) kill(mpirun, kStop);  // those that had not started
      const bool runs = has_ranks(mpirun);
      may_be_elsewhere &= !runs;  // the ranks of all hosts end together
      seconds_without_ranks = runs || may_be_elsewhere ? 0 : seconds_without_ranks + 1;
      if (seconds_without_ranks == kPatience) kill(mpirun, SIGKILL);
    }
    int status = 0;
    if (signal == SIGCHLD && waitpid(mpirun, &status, WNOHANG) == mpirun) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
    }
    if (signal == SIGCHLD || signal < 0) continue;
    // Ranks agree on the step after which they save. At the second request to stop, mpirun ends them.
    kill(mpirun, signal == SIGUSR1 ? SIGUSR1 : stopped == 0 ? kStop : SIGTERM);
    if (signal != SIGUSR1) stopped = signal;
  }
}

/// Where a training writes, and its progress.
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
      name_ = run.name;
      first_ = RunFolder::last_number(root_, name_) + 1;
    }
  }

  /// The folder of the run; empty if there is none yet.
  fs::path folder() const {
    if (!folder_.empty() || root_.empty()) return folder_;
    const std::int64_t number = RunFolder::last_number(root_, name_);
    return number < first_ ? fs::path() : root_ / message(name_, '-', number);
  }
  /// The step of its newest checkpoint.
  std::optional<std::int64_t> saved() const {
    if (folder().empty()) return std::nullopt;
    const std::vector<std::int64_t> steps = CheckpointFolder::steps_in(folder() / RunFolder::kCheckpoints);
    return steps.empty() ? std::nullopt : std::optional(steps.front());
  }

 private:
  fs::path folder_, root_;
  std::string name_;
  std::int64_t first_ = 1;
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
  const bool several_hosts = !arguments.hostfile.empty() || !arguments.host.empty();
  const int least = arguments.min_ranks > 0 ? arguments.min_ranks : arguments.ranks;
  std::vector<std::string> command = arguments.command;
  int ranks = arguments.ranks;
  for (int restart = 0;; ++restart) {
    const std::optional<std::int64_t> before = runs.saved();
    int stopped = 0;
    const int status = wait_for(start_mpirun(arguments, ranks, command), stopped, several_hosts);
    if (status == kOk || status == kUsage) return status;
    if (stopped != 0) return kSignalled + stopped;
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

void add_launch(Command& app) {
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
  command.add_option(
      "--hostfile", "FILE", &arguments->hostfile,
      "Hosts to start them on, one per line, as in: node1 slots=4; the same paths must lead there to Braid "
      "and to the run");
  command.add_option("--host", "HOSTS", &arguments->host, "The same as a list, as in: node1:4,node2:4");
  command.add_flag("--oversubscribe", &arguments->oversubscribe, "Allow more ranks than cores, as mpirun does");
  command.add_option("command", "train …", &arguments->command, "train, and its arguments", {.required = true});
  command.footer = "Example:\n  braid launch -n 4 --restarts 3 train configs/resnet20_fashion_mnist.yaml";
  command.run = [arguments, &app] {
    if (arguments->command.front() != "train") {
      throw UsageError(message("expected train and its arguments, got '", arguments->command.front(), "'"));
    }
    if (arguments->min_ranks > arguments->ranks) {
      throw UsageError(message("--min-ranks: expected at most ", arguments->ranks, ", the number of ranks"));
    }
    app.exit_code = supervise(*arguments);
  };
}

}  // namespace braid::apps
