#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "apps/commands.h"
#include "apps/serve.h"
#include "core/base/error.h"
#include "core/base/read_file.h"
#include "core/text/json.h"
#include "train/report/report.h"
#include "train/run/log/run_folder.h"

namespace braid::apps {

namespace {

namespace fs = std::filesystem;

/// What a page of the site can open.
struct Found {
  std::map<std::string, fs::path> files;  ///< by the path that the reader knows; the configs of runs among them
  std::map<std::string, fs::path> runs;   ///< their folders, by the path without the root's "/": parts of an address
};

/// Adds a file, or a run with its config. False if it is neither.
bool add(const fs::path& path, Found& found) {
  if (exists(path / RunFolder::kConfig)) {
    found.runs[path.relative_path().string()] = path;
    found.files[(path / RunFolder::kConfig).string()] = path / RunFolder::kConfig;
  } else if (is_regular_file(path)) {
    found.files[path.string()] = path;
  } else {
    return false;
  }
  return true;
}
/// What the paths are, or what is in them if they are folders.
Found find(const std::vector<std::string>& paths) {
  constexpr std::string_view kEndings[] = {".yaml", ".yml", ".json"};
  Found found;
  for (const std::string& given : paths) {
    fs::path path = fs::path(given).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    if (add(path, found) || !is_directory(path)) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      if (entry.is_directory() || std::ranges::find(kEndings, entry.path().extension()) != std::end(kEndings))
        add(entry.path(), found);
    }
  }
  return found;
}

/// {"files": {path: content}, "runs": [path]}. Files that cannot be read are left out.
std::string local_things(const Found& found) {
  constexpr std::size_t kMostBytes = 16 << 20;
  Json files = Json::object(), runs = Json::array();
  for (const auto& [name, path] : found.files) {
    try {
      files[name] = read_file(path, "a file", kMostBytes);
    } catch (const DataError&) {
    }
  }
  for (const auto& [name, path] : found.runs) runs.push_back(name);
  return Json{{"files", files}, {"runs", runs}}.dump();
}

/// The live report of a run for its path, as "/runs/lenet5-1/", and what that page asks for.
std::optional<Served> live_report(const Found& found, std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const auto run = found.runs.find(std::string(path.substr(1, slash - 1)));
  if (slash == 0 || run == found.runs.end()) return {};
  return find_in(LiveReport({run->second}), path.substr(slash + 1));
}

}  // namespace

void add_playground(Command& app) {
  struct Arguments {
    std::vector<std::string> paths;
    std::optional<std::uint16_t> port;
    std::string site = "build/site";
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command =
      app.add_command("playground", "Show the planner, the course and the documents in a browser, from this machine");
  command.add_option("paths", "PATH...", &arguments->paths,
                     "What the planner offers: configs, profiles, devices, plans, runs, and folders of them; default: "
                     "configs and runs");
  command.add_option("--port", "PORT", &arguments->port,
                     "Serve at http://127.0.0.1:PORT/; 0: any free port; default: 8080",
                     {.check = in_range(0, int{std::numeric_limits<std::uint16_t>::max()})});
  command.add_option("--site", "FOLDER", &arguments->site, "The site that scripts/site.sh made; default: build/site");
  command.footer =
      "Example:\n  braid playground --port 8080    # after scripts/site.sh\n"
      "  braid playground my_net.yaml profile.json runs/lenet5-1";
  command.run = [arguments] {
    const auto& [paths, port, site] = *arguments;
    BRAID_CHECK(fs::exists(site + "/planner.js"), Error, "there is no site in ", site,
                ": make it with scripts/site.sh, or name its folder with --site");
    for (const std::string& path : paths) BRAID_CHECK(fs::exists(path), Error, path, ": there is no such file");
    const std::vector<std::string> wanted = paths.empty() ? std::vector<std::string>{"configs", "runs"} : paths;
    // What is there is looked up for each request: runs begin and end while the server runs.
    const auto answer = [&](const std::string& path) -> std::optional<Served> {
      if (path == "/local.json") return Served{local_things(find(wanted)), "application/json"};
      return live_report(find(wanted), path);
    };
    serve(port.value_or(8080), answer, site);
  };
}

}  // namespace braid::apps
