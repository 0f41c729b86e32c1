#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "core/base/error.h"
#include "train/checkpoint/files.h"
#include "train/inspect/starter_config.h"

namespace braid::apps {

void add_init(Command& app) {
  struct Arguments {
    std::string images, output;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command = app.add_command("init", "Write a config for a folder of images");
  command.add_option("images", "FOLDER", &arguments->images, "Folder that holds a folder of images per class",
                     {.required = true});
  command.add_option("-o,--output", "FILE", &arguments->output, "The config; default: the folder's name with .yaml");
  command.footer = "Example:\n  braid init photos && braid train photos.yaml";
  command.run = [arguments] {
    const std::filesystem::path folder = std::filesystem::path(arguments->images) / "";
    const std::filesystem::path file =
        arguments->output.empty() ? folder.parent_path().filename().string() + ".yaml" : arguments->output;
    BRAID_CHECK(!exists(file), ConfigError, file.string(), ": exists already: choose another name with -o");
    const StarterConfig config = starter_config(arguments->images);
    write_file(file, config.yaml);
    std::cout << "wrote " << file.string() << ": " << config.summary << "\ntrain with braid train " << file.string()
              << std::endl;
  };
}

}  // namespace braid::apps
