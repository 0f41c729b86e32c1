#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "core/text/json.h"
#include "core/text/text_table.h"
#include "models/registry.h"
#include "train/config/keys.h"
#include "train/run/factories.h"

namespace braid::apps {
namespace {

struct Item {
  std::string name;
  std::string_view description;
  std::vector<std::string> options = {};  ///< keys of its section other than the name
};

std::vector<Item> models() {
  std::vector<Item> items;
  for (const std::string& name : models::model_names()) {
    items.push_back({name, models::model_description(name), models::model_option_names(name)});
  }
  return items;
}

std::vector<Item> datasets() {
  std::vector<Item> items;
  for (const std::string& name : dataset_names()) items.push_back({name, dataset_description(name)});
  return items;
}

std::string to_json(const std::vector<Item>& items) {
  Json list;
  for (const auto& [name, description, options] : items) {
    auto& item = list.push_back({{"name", name}, {"description", description}});
    if (!options.empty()) item["options"] = options;
  }
  return list.dump() + '\n';
}

std::string to_text(const std::vector<Item>& items) {
  std::vector<std::vector<std::string>> cells;
  for (const Item& item : items) cells.push_back({item.name, std::string(item.description)});
  return text_table(cells, "ll");
}

Command& add_list(Command& app, const std::string& name, const std::string& description, std::vector<Item> (*items)()) {
  const auto json = std::make_shared<bool>(false);
  Command& command = app.add_command(name, description);
  command.add_flag("--json", json.get(), "Print one line of JSON");
  command.run = [json, items] { std::cout << (*json ? to_json(items()) : to_text(items())); };
  return command;
}

}  // namespace

void add_models(Command& app) {
  add_list(app, "models", "List the models that configs and commands can name", models).footer =
      "Example:\n  braid models\n  braid summary resnet18";
}

void add_datasets(Command& app) {
  add_list(app, "datasets", "List the datasets that configs can name", datasets).footer =
      "Example:\n  braid datasets\n  braid train configs/resnet18_synthetic.yaml --set data.size=64";
}

void add_config(Command& app) {
  const auto what = std::make_shared<std::string>();
  Command& command = app.add_command("config", "Print the keys of configs as a JSON Schema or as tables");
  command.add_option("what", "schema|table", what.get(),
                     "schema: a JSON Schema for editors; table: the tables of docs/configuration.md",
                     {.required = true, .check = one_of({"schema", "table"})});
  command.footer = "Example:\n  braid config schema > braid.schema.json";
  command.run = [what] { std::cout << (*what == "schema" ? config_schema() : config_tables()); };
}

}  // namespace braid::apps
