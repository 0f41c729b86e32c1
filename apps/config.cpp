#include <iostream>

#include "apps/commands.h"
#include "train/config/keys.h"

namespace braid::apps {

void add_config(CLI::App& app) {
  const auto what = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("config", "Print the keys of configs as a JSON Schema or as tables");
  command->add_option("what", *what, "schema: a JSON Schema for editors; table: the tables of docs/configuration.md")
      ->type_name("schema|table")
      ->required()
      ->check([](const std::string& word) {
        return word == "schema" || word == "table" ? "" : "expected schema or table, got '" + word + '\'';
      });
  command->footer("Example:\n  braid config schema > braid.schema.json");
  command->callback([what] { std::cout << (*what == "schema" ? config_schema() : config_tables()); });
}

}  // namespace braid::apps
