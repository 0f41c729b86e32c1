#include "apps/supervision.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>

#include "apps/commands.h"
#include "core/base/error.h"
#include "core/text/text.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/config/config.h"
#include "train/run/log/run_folder.h"

namespace braid::apps {

namespace {

namespace fs = std::filesystem;

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

}  // namespace

int supervise(const Supervision& training, std::ostream& out, const RunRanks& run) {
  const Runs runs(training.command);
  const int least = training.min_ranks > 0 ? training.min_ranks : training.ranks;
  std::vector<std::string> command = training.command;
  int ranks = training.ranks;
  for (int restart = 0;; ++restart) {
    const std::optional<std::int64_t> before = runs.saved();
    int stopped = 0;
    const int status = run(ranks, command, stopped);
    if (status == kOk || status == kUsage) return status;
    if (stopped != 0) return kSignalled + stopped;
    const std::optional<std::int64_t> saved = runs.saved();
    const std::string ended = message(
        "braid launch: ", plural(ranks, "rank"), " ended with status ", status,
        saved.has_value() ? message("; the newest checkpoint is that of step ", *saved) : "; there is no checkpoint");
    if (restart == training.restarts || !saved.has_value()) {
      out << ended << '\n' << std::flush;
      return status;
    }
    ranks = saved != before ? training.ranks : fewer(ranks, training.ranks, least);
    command = {"train", "--resume", runs.folder()};
    if (std::ranges::count(training.command, "-q") + std::ranges::count(training.command, "--quiet") > 0) {
      command.emplace_back("-q");
    }
    out << ended << ". Restart " << restart + 1 << " of " << training.restarts << ", on " << plural(ranks, "rank")
        << '\n'
        << std::flush;
  }
}

sigset_t signal_set(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

pid_t start_process(const char* command, std::vector<std::string> words, const sigset_t& signals, int at_end,
                    const std::function<void(char* const* argv)>& execute) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t process = fork();
  BRAID_CHECK(process >= 0, Error, "[", command, "] no process could be started");
  if (process > 0) return process;
  prctl(PR_SET_PDEATHSIG, at_end);
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  if (getppid() == parent) execute(argv.data());
  _exit(127);
}

int exit_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status); }

}  // namespace braid::apps
