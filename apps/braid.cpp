// The braid command: parses the command line, runs a subcommand, turns exceptions into messages and exit codes.

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>
#include <vector>

#include "apps/commands.h"
#include "apps/help.h"
#include "apps/messages.h"

namespace {

/// The next opened file would get the number of a closed standard stream, and messages would end up in that file.
void open_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) == -1) open("/dev/null", descriptor == 0 ? O_RDONLY : O_WRONLY);
  }
}

/// Lets all threads allocate from one arena if the process may use few addresses (ulimit -v). An arena for each takes
/// 64 to 128 MiB of them at any moment, which oneDNN, when it generates code, does not survive.
void share_scarce_addresses() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
}

int fail(const char* what) {
  braid::apps::print_error(what);
  return braid::apps::kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace braid::apps;
  open_standard_streams();
  share_scarce_addresses();

  Command app{"braid", "Braid trains neural networks on several streams at once"};
  app.add_flag("--version", "braid " BRAID_VERSION, "Print the version and exit");
  app.footer = "Exit status:\n" + exit_statuses(help_entry) +
               "\n'braid COMMAND --help' describes a command.\n\n"
               "Example:\n  braid train configs/lenet5_fashion_mnist.yaml";
  for (const auto add :
       {add_init,    add_train,   add_eval,     add_report, add_export,   add_predict,    add_sample,
        add_bench,   add_summary, add_profile,  add_plan,   add_explain,  add_config,     add_data,
        add_devices, add_models,  add_datasets, add_launch, add_simulate, add_playground, add_completion}) {
    add(app);
  }
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && words[1] == std::string_view("launch")) {  // the rest is for the ranks
    words.insert(std::ranges::find(words, std::string_view("train")), "--");
  }
  try {
    parse_and_run(app, words);
    if (std::cout.flush()) return app.exit_code;
    fail("cannot write to standard output");
    return app.exit_code == kOk ? kFailed : app.exit_code;  // a terminal that closed is what sent SIGHUP
  } catch (const UsageError& error) {
    fail(error.what());
    return kUsage;
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
