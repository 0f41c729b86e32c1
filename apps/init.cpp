#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "core/error.h"
#include "train/checkpoint/files.h"
#include "train/inspect/starter_config.h"

namespace braid::apps {

void add_init(CLI::App& app) {
  struct Arguments {
    std::string images, output;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("init", "Write a config for a folder of images");
  command->add_option("images", arguments->images, "Folder that holds a folder of images per class")
      ->type_name("FOLDER")
      ->required();
  command->add_option("-o,--output", arguments->output, "The config; default: the folder's name with .yaml")
      ->type_name("FILE");
  command->footer("Example:\n  braid init photos && braid train photos.yaml");
  command->callback([arguments] {
    const std::filesystem::path folder = std::filesystem::path(arguments->images) / "";
    const std::filesystem::path file =
        arguments->output.empty() ? folder.parent_path().filename().string() + ".yaml" : arguments->output;
    BRAID_CHECK(!exists(file), ConfigError, file.string(), ": exists already: choose another name with -o");
    write_file(file, starter_config(arguments->images));
    std::cout << "wrote " << file.string() << ": train with braid train " << file.string() << std::endl;
  });
}

}  // namespace braid::apps
