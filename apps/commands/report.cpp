#include "train/report/report.h"

#include <iostream>
#include <limits>
#include <memory>
#include <optional>

#include "apps/commands.h"
#include "apps/serve.h"
#include "train/checkpoint/files.h"

namespace braid::apps {

void add_report(Command& app) {
  struct Arguments {
    std::vector<std::string> runs;
    ConfigArguments config;
    std::string output, checkpoint;
    std::optional<std::uint16_t> port;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command =
      app.add_command("report", "Show runs on a page: curves, mistakes, and a step as planned and as measured");
  command.add_option("runs", "RUN...", &arguments->runs, "Folders of runs, or of jobs of runs", {.required = true});
  command.add_option("-o,--output", "FILE", &arguments->output,
                     "The page; default: report.html in the folder of the first run");
  command.add_option("--checkpoint", "FILE", &arguments->checkpoint,
                     "Which model to run: best, last (the default), or a checkpoint file");
  command.add_option("--serve", "PORT", &arguments->port,
                     "Instead show the curves while the runs train, at http://127.0.0.1:PORT/; 0: any free port",
                     {.check = in_range(0, int{std::numeric_limits<std::uint16_t>::max()}), .excludes = "--output"});
  arguments->config.add_overrides_to(command);
  command.footer =
      "Example:\n  braid report runs/lenet5-1 runs/lenet5-2\n"
      "  braid report runs/lenet5-3 --serve 8080    # while it trains";
  command.run = [arguments] {
    const auto& [runs, config, output, checkpoint, port] = *arguments;
    const std::vector<std::filesystem::path> folders(runs.begin(), runs.end());
    if (port) {
      const LiveReport live(folders, config.overrides);
      serve(*port, [&](const std::string& path) { return find_in(live, path.substr(1)); });
    }
    const std::filesystem::path file = output.empty() ? folders.front() / kReportFile : std::filesystem::path(output);
    check_writable(file);
    write_file(file, report_page(folders, config.overrides, checkpoint));
    std::cout << "wrote " << file.string() << std::endl;
  };
}

}  // namespace braid::apps
