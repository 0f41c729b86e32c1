#include "apps/simulation/processes.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/commands.h"
#include "core/base/error.h"

namespace braid::simulation {

sigset_t awaited_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&signals, signal);
  return signals;
}

pid_t start_braid(const std::vector<std::string>& words, const std::filesystem::path& output,
                  const std::function<void()>& prepare) {
  std::vector<std::string> copies{"braid"};
  copies.insert(copies.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t process = fork();
  BRAID_CHECK(process >= 0, Error, "[simulate] no process could be started");
  if (process > 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const sigset_t awaited = awaited_signals();
  sigprocmask(SIG_UNBLOCK, &awaited, nullptr);
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  dup2(file, 1);
  dup2(file, 2);
  prepare();
  execv("/proc/self/exe", argv.data());
  _exit(127);
}

int exit_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : apps::kSignalled + WTERMSIG(status); }

}  // namespace braid::simulation
