// The braid command: parses the command line, runs a subcommand, turns exceptions into messages and exit codes.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>
#include <vector>

#include "apps/commands.h"
#include "apps/help.h"
#include "apps/messages/print_error.h"

namespace {

/// The next opened file would get the number of a closed standard stream, and messages would end up in that file.
void open_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) == -1) open("/dev/null", descriptor == 0 ? O_RDONLY : O_WRONLY);
  }
}

int fail(const char* what) {
  braid::apps::print_error(what);
  return braid::apps::kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace braid::apps;
  open_standard_streams();

  int exit_code = kOk;
  Command app{"braid", "Braid trains neural networks on several streams at once"};
  app.add_flag("--version", "braid " BRAID_VERSION, "Print the version and exit");
  app.footer = "Exit status:\n" + exit_statuses(help_entry) +
               "\n'braid COMMAND --help' describes a command.\n\n"
               "Example:\n  braid train configs/lenet5_fashion_mnist.yaml";
  add_init(app);
  add_train(app, exit_code);
  add_eval(app);
  add_report(app);
  add_export(app);
  add_predict(app, exit_code);
  add_sample(app);
  add_bench(app);
  add_summary(app);
  add_profile(app);
  add_plan(app, exit_code);
  add_explain(app);
  add_config(app);
  add_data(app);
  add_devices(app, exit_code);
  add_models(app);
  add_datasets(app);
  add_launch(app, exit_code);
  add_completion(app);
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && words[1] == std::string_view("launch")) {  // the rest is for the ranks
    words.insert(std::ranges::find(words, std::string_view("train")), "--");
  }
  try {
    parse_and_run(app, words);
    if (std::cout.flush()) return exit_code;
    fail("cannot write to standard output");
    return exit_code == kOk ? kFailed : exit_code;  // a terminal that closed is what sent SIGHUP
  } catch (const UsageError& error) {
    fail(error.what());
    return kUsage;
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
