// Supervises mpirun: starts the ranks of a training by it, and tells them when to stop.

#include "core/comm/launch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/supervision.h"
#include "core/base/error.h"

namespace braid::apps {

namespace {

namespace fs = std::filesystem;

struct LaunchArguments {
  Supervision training;
  bool oversubscribe = false;
  std::string hostfile, host;  ///< as mpirun takes them; empty: this host
};

/// The signals that the supervisor waits for.
const sigset_t kAwaited = signal_set({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD});

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
  return start_process("launch", words, kAwaited, SIGTERM, [](char* const* argv) {
    setpgid(0, 0);  // Ctrl-C in a terminal reaches the supervisor alone
    if (std::freopen("/dev/null", "r", stdin) != nullptr) execvp(argv[0], argv);
    std::cerr << "braid: error: [launch] mpirun could not be started: install Open MPI (openmpi-bin)\n" << std::flush;
  });
}

/// Waits until all ranks have ended, and passes signals on. Returns the exit status; `stopped` becomes the signal
/// that asked them to stop. Ends an mpirun that outlives its ranks, which Open MPI's sometimes does if a rank is
/// killed while it starts, or if a host becomes unreachable.
int wait_for(pid_t mpirun, int& stopped, bool may_be_elsewhere) {
  constexpr int kStop = SIGUSR2;  // mpirun passes this one on, to the ranks on all hosts
  constexpr int kPatience = 10;
  constexpr timespec kSecond{1, 0};
  int seconds_without_ranks = 0;
  while (true) {
    const int signal = sigtimedwait(&kAwaited, nullptr, &kSecond);
    if (signal < 0 && errno == EAGAIN) {
      if (stopped != 0) kill(mpirun, kStop);  // those that had not started
      const bool runs = has_ranks(mpirun);
      may_be_elsewhere &= !runs;  // the ranks of all hosts end together
      seconds_without_ranks = runs || may_be_elsewhere ? 0 : seconds_without_ranks + 1;
      if (seconds_without_ranks == kPatience) kill(mpirun, SIGKILL);
    }
    int status = 0;
    if (signal == SIGCHLD && waitpid(mpirun, &status, WNOHANG) == mpirun) return exit_status(status);
    if (signal == SIGCHLD || signal < 0) continue;
    // Ranks agree on the step after which they save. At the second request to stop, mpirun ends them.
    kill(mpirun, signal == SIGUSR1 ? SIGUSR1 : stopped == 0 ? kStop : SIGTERM);
    if (signal != SIGUSR1) stopped = signal;
  }
}

}  // namespace

void add_launch(Command& app) {
  const auto arguments = std::make_shared<LaunchArguments>();
  Command& command = app.add_command(
      "launch", "Train on several ranks by mpirun, and continue from the newest checkpoint if one dies");
  command.add_option("-n,--ranks", "N", &arguments->training.ranks, "Ranks to start",
                     {.required = true, .check = in_range(1, 1 << 16)});
  command.add_option("--restarts", "N", &arguments->training.restarts,
                     "How often to start the ranks again if they fail; default: 0", {.check = in_range(0, 1 << 16)});
  command.add_option("--min-ranks", "N", &arguments->training.min_ranks,
                     "If a restart fails before it has saved, take fewer ranks, but at least N; default: all",
                     {.check = in_range(1, 1 << 16)});
  command.add_option(
      "--hostfile", "FILE", &arguments->hostfile,
      "Hosts to start them on, one per line, as in: node1 slots=4; the same paths must lead there to Braid "
      "and to the run");
  command.add_option("--host", "HOSTS", &arguments->host, "The same as a list, as in: node1:4,node2:4");
  command.add_flag("--oversubscribe", &arguments->oversubscribe, "Allow more ranks than cores, as mpirun does");
  command.add_option("command", "train …", &arguments->training.command, "train, and its arguments",
                     {.required = true});
  command.footer = "Example:\n  braid launch -n 4 --restarts 3 train configs/resnet20_fashion_mnist.yaml";
  command.run = [arguments, &app] {
    const Supervision& training = arguments->training;
    if (training.command.front() != "train") {
      throw UsageError(message("expected train and its arguments, got '", training.command.front(), "'"));
    }
    if (training.min_ranks > training.ranks) {
      throw UsageError(message("--min-ranks: expected at most ", training.ranks, ", the number of ranks"));
    }
    sigprocmask(SIG_BLOCK, &kAwaited, nullptr);
    const bool several_hosts = !arguments->hostfile.empty() || !arguments->host.empty();
    app.exit_code = supervise(training, std::cerr, [&](int ranks, const auto& words, int& stopped) {
      return wait_for(start_mpirun(*arguments, ranks, words), stopped, several_hosts);
    });
  };
}

}  // namespace braid::apps
