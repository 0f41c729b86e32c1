#include <algorithm>
#include <iostream>
#include <memory>
#include <thread>

#include "apps/commands.h"
#include "train/checkpoint/files.h"
#include "train/inspect/data_report.h"

namespace braid::apps {

void add_data(Command& app) {
  struct Arguments {
    ConfigArguments config;
    std::string sheet;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command = app.add_command("data", "Check the images of a config, and show them as a network sees them");
  arguments->config.add_to(command);
  command.add_option("--sheet", "FILE", &arguments->sheet,
                     "Write a PNG of augmented training images with their labels");
  command.add_flag("--json", &arguments->json, "Print one line of JSON for each job");
  command.footer = "Example:\n  braid data configs/resnet20_fashion_mnist.yaml --sheet images.png";
  command.run = [arguments] {
    const RunConfig config = read_run_config(arguments->config.path, arguments->config.overrides);
    const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    for (const JobConfig& job : config.jobs) {
      const DataReport report = inspect_data(job.training, threads);
      if (config.together && !arguments->json) std::cout << "job " << job.training.name << ": ";
      std::cout << (arguments->json ? to_json(report) : to_text(report));
    }
    if (!arguments->sheet.empty()) write_file(arguments->sheet, data_sheet(config.jobs.front().training));
  };
}

}  // namespace braid::apps
