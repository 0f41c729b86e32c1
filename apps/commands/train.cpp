#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/messages.h"
#include "apps/plan_files.h"
#include "core/comm/launch.h"
#include "models/registry.h"
#include "train/checkpoint/files.h"
#include "train/pathnet/run.h"
#include "train/report/report.h"
#include "train/run/trainer.h"

namespace braid::apps {

namespace {

/// If the reader of a pipe or the terminal goes away, training continues and further output is discarded.
void outlive_standard_output(Progress& progress) {
  std::signal(SIGPIPE, SIG_IGN);
  progress.on_failure([] {
    std::cerr << "braid: warning: cannot write to standard output: " << std::strerror(errno)
              << "; training continues without output\n";
    if (std::freopen("/dev/null", "w", stdout) != nullptr) std::cout.clear();
  });
}

}  // namespace

void add_train(Command& app) {
  struct Arguments {
    ConfigArguments config;
    bool quiet = false, print_config = false, report = false;
    std::string resumed;
    PlanFiles files;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command = app.add_command("train", "Train the model of a config, or its list of jobs");
  arguments->config.add_to(command, "Config file (YAML); not needed with --resume", {});
  command.add_option("--resume", "RUN", &arguments->resumed,
                     "Continue the run in this folder, from its newest checkpoint");
  command.add_flag("-q,--quiet", &arguments->quiet, "Print only warnings and errors");
  command.add_flag("--print-config", &arguments->print_config, "Print the config with all defaults and exit");
  command.add_flag("--report", &arguments->report, "At the end write the page of `braid report`");
  arguments->files.add_to(command, "one step as planned and as measured");
  command.footer = "Example:\n  braid train configs/mlp_fashion_mnist.yaml --set train.epochs=1 --set seed=2";
  command.run = [arguments, &app] {
    const auto& [config, overrides] = arguments->config;
    const std::filesystem::path run = arguments->resumed;
    if (config.empty() == run.empty()) {
      throw UsageError(message("expected ", config.empty() ? "a" : "only one of", " CONFIG or --resume RUN"));
    }
    BRAID_CHECK(run.empty() || exists(run / RunFolder::kConfig), ConfigError, run.string(), ": there is no ",
                RunFolder::kConfig, ": expected the folder of a run");
    const std::string path = run.empty() ? config : (run / RunFolder::kConfig).string();
    const Launch launch = launch_from_environment();
    arguments->quiet |= launch.rank > 0;  // only rank 0 prints
    // The output of ranks under a launcher is not a terminal, even if it looks like one to them.
    const Progress::Mode mode = Progress::suitable_mode(arguments->quiet);
    Progress progress(std::cout, launch.size > 1 && mode == Progress::Mode::redraw ? Progress::Mode::lines : mode);
    outlive_standard_output(progress);
    const bool model = std::ranges::count(models::model_names(), path) > 0 && !std::filesystem::exists(path);
    BRAID_CHECK(!model, ConfigError, path, " is a model: expected a config that uses it; see configs/");
    const ConfigNode tree = read_config_file(path);
    const auto pathnet = read_pathnet_config(tree, overrides);
    if (arguments->print_config) {
      std::cout << (pathnet ? to_yaml(*pathnet) : to_yaml(read_run_config(tree, overrides)));
      return;
    }
    if (pathnet) {
      BRAID_CHECK(launch.size == 1, ConfigError, "[parallel] a PathNet run is for one rank, got ", launch.size);
      BRAID_CHECK(!arguments->files.wanted() && !arguments->report, ConfigError,
                  "--report, --trace and --html expect a config with identical steps; PathNet paths differ");
      if (!arguments->quiet) warn_about(pathnet->session, pathnet->data.workers);
      const int signal = run_pathnet(*pathnet, progress, run).interrupted;
      app.exit_code = signal != 0 ? kSignalled + signal : kOk;
      return;
    }
    RunConfig run_config = read_run_config(tree, overrides);
    join_ranks(run_config);
    if (!arguments->quiet) warn_about(run_config);
    Trainer trainer(std::move(run_config));
    if (!run.empty()) trainer.resume(run);
    PlanFiles& files = arguments->files;
    if (files.wanted() && launch.rank == 0) {
      files.check();
      trainer.show_a_step([&](const scheduler::PlanView& view) { files.try_to_write(view, progress); });
    }
    const RunResult result = trainer.run(progress);
    if (files.wanted() && launch.rank == 0 && !trainer.shown()) {
      progress.warn("training finished before a plan was chosen: no step is shown");
    }
    if (arguments->report && launch.rank == 0 && result.interrupted == 0) {
      const std::filesystem::path page = result.folder / kReportFile;
      write_file(page, report_page(std::span(&result.folder, 1)));
      progress.print("open " + page.string() + " in a browser");
    }
    for (const TrainResult& job : result.jobs) {
      if (job.failure != nullptr) print_error(message("job ", job.name, ": ", job.failure_text()));
    }
    app.exit_code = result.interrupted != 0 ? kSignalled + result.interrupted : result.failed() ? kFailed : kOk;
  };
}

}  // namespace braid::apps
