#pragma once
// Starts the ranks of a training, and again from its newest checkpoint if one of them dies: those of mpirun for
// `braid launch`, and simulated ones for `braid simulate`.

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <vector>

namespace braid::apps {

struct Supervision {
  int ranks = 1, restarts = 0;
  int min_ranks = 0;                 ///< 0: all
  std::vector<std::string> command;  ///< train and its arguments
};

/// Runs ranks with these words of `braid`. Returns their exit status; `stopped` becomes the signal that asked them to
/// stop, if there was one.
using RunRanks = std::function<int(int ranks, const std::vector<std::string>& words, int& stopped)>;

/// Returns the exit status of the last ranks. Says why others are started.
int supervise(const Supervision& training, std::ostream& out, const RunRanks& run);

// Processes of ranks, or of what starts them.

sigset_t signal_set(std::initializer_list<int> signals);

/// Starts a process, in which these signals are not blocked and `execute` runs a program with these words. The process
/// gets the signal `at_end` if this program ends. `command` names the command in an error.
pid_t start_process(const char* command, std::vector<std::string> words, const sigset_t& signals, int at_end,
                    const std::function<void(char* const* argv)>& execute);

/// The exit status of a process that waitpid() has returned: 128 and more for signals.
int exit_status(int status);

}  // namespace braid::apps
