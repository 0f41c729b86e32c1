#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/messages.h"
#include "core/text/json.h"
#include "train/run/trainer.h"

namespace braid::apps {

namespace fs = std::filesystem;

namespace {

/// The evaluation as JSON, with the keys of metrics.jsonl if the split is val.
std::string to_json(const std::string& name, const std::string& split, const Evaluation& result) {
  return Json{{"name", name},
              {"images", result.samples},
              {split + "_loss", result.loss},
              {split + "_accuracy", result.top1},
              {split + "_top5", result.top5}}
      .dump();
}

}  // namespace

void add_eval(Command& app) {
  struct Arguments {
    ConfigArguments config;
    std::string checkpoint, split = "val";
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command = app.add_command("eval", "Evaluate a trained model on the validation or the test set");
  arguments->config.add_to(command, "Folder of a run, or a config file");
  command.add_option("--checkpoint", "FILE", &arguments->checkpoint,
                     "Which model of the run: best, last (the default), or a checkpoint file");
  command.add_option("--split", "SPLIT", &arguments->split,
                     "val (the default), the images that training was validated with; or test, which it never saw",
                     {.check = one_of({"val", "test"})});
  command.add_flag("--json", &arguments->json, "Print one line of JSON for each job");
  command.footer = "Example:\n  braid eval runs/lenet5-1";
  command.run = [arguments] {
    const fs::path path = RunFolder::of_model(arguments->config.path);
    const bool is_folder = fs::is_directory(path);
    const fs::path folder = is_folder ? path : path.parent_path();
    const RunConfig config = read_run_config(is_folder ? path / RunFolder::kConfig : path, arguments->config.overrides);
    const std::string& wanted = arguments->checkpoint;
    warn_about(config);
    for (const JobConfig& job : config.jobs) {
      const fs::path job_folder = config.together ? folder / job.training.name : folder;
      const fs::path checkpoint = RunFolder::checkpoint(job_folder, wanted);
      const bool is_file = checkpoint == wanted;
      BRAID_CHECK(!config.together || !is_file, ConfigError, path.string(),
                  ": --checkpoint FILE is for a single job: give the folder of one of its jobs");
      BRAID_CHECK(is_folder || is_file || fs::exists(checkpoint), ConfigError, path.string(), ": there is no ",
                  checkpoint.string(), " for this config: expected the folder of a run, or --checkpoint FILE");
      const Evaluation result =
          evaluate_checkpoint(job.training, checkpoint, arguments->split == "test" ? Split::test : Split::val,
                              [](const std::string& problem) { std::cerr << "braid: warning: " << problem << '\n'; });
      if (arguments->json) {
        std::cout << to_json(job.training.name, arguments->split, result) << std::endl;
        continue;
      }
      std::cout << (config.together ? job.training.name + ": " : "") << arguments->split << ' ' << to_string(result)
                << std::endl;
    }
  };
}

}  // namespace braid::apps
