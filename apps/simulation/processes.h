#pragma once
// Processes of this program that the simulation starts and waits for.

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace braid::simulation {

/// The signals that the simulation waits for, and keeps blocked: one of a process that has ended, and those that end
/// the program.
sigset_t awaited_signals();

/// Starts `braid` with these words, after `prepare` in the new process. It prints to the file, and dies with this
/// program.
pid_t start_braid(const std::vector<std::string>& words, const std::filesystem::path& output,
                  const std::function<void()>& prepare);

/// The exit status of a process that waitpid() has returned: 128 and more for signals.
int exit_status(int status);

}  // namespace braid::simulation
