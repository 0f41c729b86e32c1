#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "train/config/keys.h"

namespace braid::apps {

void add_config(Command& app) {
  const auto what = std::make_shared<std::string>();
  const auto check = [](const std::string& word) {
    return word == "schema" || word == "table" ? "" : "expected schema or table, got '" + word + '\'';
  };
  Command& command = app.add_command("config", "Print the keys of configs as a JSON Schema or as tables");
  command.add_option("what", "schema|table", what.get(),
                     "schema: a JSON Schema for editors; table: the tables of docs/configuration.md",
                     {.required = true, .check = check});
  command.footer = "Example:\n  braid config schema > braid.schema.json";
  command.run = [what] { std::cout << (*what == "schema" ? config_schema() : config_tables()); };
}

}  // namespace braid::apps
