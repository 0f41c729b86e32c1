#include "train/report/report.h"

#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "train/checkpoint/files.h"

namespace braid::apps {

void add_report(CLI::App& app) {
  struct Arguments {
    std::vector<std::string> runs;
    ConfigArguments config;
    std::string output;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("report", "Show runs on a page: curves, mistakes, and a step as planned and as measured");
  command->add_option("runs", arguments->runs, "Folders of runs, or of jobs of runs")->type_name("RUN...")->required();
  command->add_option("-o,--output", arguments->output, "The page; default: report.html in the folder of the first run")
      ->type_name("FILE");
  arguments->config.add_overrides_to(*command);
  command->footer("Example:\n  braid report runs/lenet5-1 runs/lenet5-2");
  command->callback([arguments] {
    const auto& [runs, config, output] = *arguments;
    const std::vector<std::filesystem::path> folders(runs.begin(), runs.end());
    const std::filesystem::path file = output.empty() ? folders.front() / kReportFile : std::filesystem::path(output);
    check_writable(file);
    write_file(file, report_page(folders, config.overrides));
    std::cout << "wrote " << file.string() << std::endl;
  });
}

}  // namespace braid::apps
