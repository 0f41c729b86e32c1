#pragma once
// Processes that commands start and wait for.

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace braid::apps {

sigset_t signal_set(std::initializer_list<int> signals);

/// Starts a process, in which these signals are not blocked and `execute` runs a program with these words. The process
/// gets the signal `at_end` if this program ends. `command` names the command in an error.
pid_t start_process(const char* command, std::vector<std::string> words, const sigset_t& signals, int at_end,
                    const std::function<void(char* const* argv)>& execute);

/// The exit status of a process that waitpid() has returned: 128 and more for signals.
int exit_status(int status);

}  // namespace braid::apps
