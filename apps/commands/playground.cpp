#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "apps/commands.h"
#include "apps/serve.h"
#include "core/base/error.h"

namespace braid::apps {

void add_playground(Command& app) {
  struct Arguments {
    std::optional<std::uint16_t> port;
    std::string site = "build/site";
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command =
      app.add_command("playground", "Show the planner, the course and the documents in a browser, from this machine");
  command.add_option("--port", "PORT", &arguments->port,
                     "Serve at http://127.0.0.1:PORT/; 0: any free port; default: 8080",
                     {.check = in_range(0, int{std::numeric_limits<std::uint16_t>::max()})});
  command.add_option("--site", "FOLDER", &arguments->site, "The site that scripts/site.sh made; default: build/site");
  command.footer = "Example:\n  braid playground --port 8080    # after scripts/site.sh";
  command.run = [arguments] {
    BRAID_CHECK(std::filesystem::exists(arguments->site + "/planner.js"), Error, "there is no site in ",
                arguments->site, ": make it with scripts/site.sh, or name its folder with --site");
    serve(arguments->port.value_or(8080), arguments->site);
  };
}

}  // namespace braid::apps
