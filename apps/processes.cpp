#include "apps/processes.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/commands.h"
#include "core/base/error.h"

namespace braid::apps {

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
