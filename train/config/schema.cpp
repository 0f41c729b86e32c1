// The JSON Schema of configs, for editors.

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/text/json.h"
#include "train/config/keys.h"

namespace braid {

namespace {

/// The schema of a key's type and limits.
struct TypeSchema {
  const KeyRule& rule;

  Json operator()(bool) const { return {{"type", "boolean"}}; }
  Json operator()(std::uint64_t) const {
    return {{"type", "integer"}, {"minimum", 0}, {"maximum", std::numeric_limits<std::uint64_t>::max()}};
  }
  Json operator()(std::int64_t) const {
    const Json integer = limited<std::int64_t>("integer");
    if (rule.word.empty()) return integer;
    return {{"anyOf", Json::array({integer, Json{{"const", rule.word}}})}};
  }
  Json operator()(double) const { return limited<double>("number"); }
  Json operator()(const std::string&) const {
    Json schema{{"type", "string"}};
    if (!rule.words.empty()) schema["enum"] = rule.words;
    if (!rule.pattern.empty()) schema["pattern"] = message("^(", rule.pattern, ")$");
    return schema;
  }
  template <class T>
  Json operator()(const std::vector<T>&) const {
    Json schema{{"type", "array"}, {"items", (*this)(T{})}};
    if (rule.min_items > 0) schema["minItems"] = static_cast<int>(rule.min_items);
    if (std::isfinite(rule.max_items)) schema["maxItems"] = static_cast<int>(rule.max_items);
    if (rule.single) return {{"anyOf", Json::array({schema, (*this)(T{})})}};
    return schema;
  }

 private:
  template <class T>
  Json limited(const char* type) const {
    Json schema{{"type", type}};
    const auto limit = [&](const char* name, double value) {
      if (std::isfinite(value)) schema[name] = static_cast<T>(value);
    };
    limit("minimum", rule.min);
    limit("exclusiveMinimum", rule.above);
    limit("maximum", rule.max);
    limit("exclusiveMaximum", rule.below);
    return schema;
  }
};

Json json_of(const KeyRule& rule, const KeyValue& value) {
  if (!rule.word.empty() && value == KeyValue(std::int64_t{0})) return rule.word;
  const auto plain_value = std::visit([](const auto& plain) { return Json(plain); }, value);
  return rule.single && plain_value.size() == 1 ? plain_value[0] : plain_value;
}

Json section_schema(std::string_view text) {
  Json schema{{"type", "object"}};
  if (!text.empty()) schema["description"] = text;
  schema["properties"] = Json::object();
  schema["additionalProperties"] = false;
  return schema;
}

Json key_schema(const Key& key) {
  if (key.kind == Key::Kind::section) return section_schema(key.text);
  if (key.kind == Key::Kind::list) {
    return {{"type", "array"},
            {"description", key.text},
            {"minItems", static_cast<int>(key.rule.min_items)},
            {"items", section_schema("")}};
  }
  Json schema = std::visit(TypeSchema{key.rule}, key.value);
  schema["description"] = key.rule.unit.empty() ? key.text : message(key.text, " [", key.rule.unit, ']');
  if (!key.rule.required && accepts(key.rule, key.value)) schema["default"] = json_of(key.rule, key.value);
  return schema;
}

/// Adds the rules that depend on one key of a section: which other keys exist, and their defaults.
void add_conditions(Json& section, const std::string& name, const Key& key, const Key& choice) {
  const std::string decisive = choice.path.substr(choice.path.rfind('.') + 1);
  const auto when = [&](const Json& names) {
    Json condition{{"properties", {{decisive, {{"enum", names}}}}}};
    const bool by_default = std::ranges::count(names.elements(), json_of(choice.rule, choice.value)) > 0;
    if (choice.rule.required || !by_default) condition["required"] = Json::array({decisive});
    return condition;
  };
  if (!key.only_for.empty()) {
    section["allOf"].push_back({{"if", when(key.only_for)},
                                {"then", key.rule.required ? Json{{"required", Json::array({name})}} : true},
                                {"else", {{"properties", {{name, false}}}}}});
  }
  for (const auto& [word, value] : key.defaults) {
    section["allOf"].push_back({{"if", when(Json::array({word}))},
                                {"then", {{"properties", {{name, {{"default", json_of(key.rule, value)}}}}}}}});
  }
}

/// The schema of a section within that of a config; `path` is in the form of Key::path.
Json& section_at(Json& config, std::string_view path) {
  if (path.empty()) return config;
  const std::size_t dot = path.rfind('.');
  Json& parent = section_at(config, dot == std::string_view::npos ? "" : path.substr(0, dot));
  const std::string_view name = path.substr(dot + 1);
  if (name == "*") return parent["items"];
  Json& property = parent["properties"][std::string(name)];
  return property.contains("anyOf") ? property["anyOf"].elements().back() : property;
}

Json kind_schema(const std::vector<Key>& keys) {
  Json config = section_schema("");
  for (const Key& key : keys) {
    if (key.kind == Key::Kind::rejected) continue;
    const std::size_t dot = key.path.rfind('.');
    const std::string path = dot == std::string::npos ? "" : key.path.substr(0, dot), name = key.path.substr(dot + 1);
    Json& section = section_at(config, path);
    Json& properties = section["properties"];
    if (properties.contains(name)) {  // the same name for another shape of value
      Json first = std::move(properties[name]);
      Json both{{"anyOf", Json::array({first, key_schema(key)})}};
      if (first.contains("default")) both["default"] = first["default"];
      properties[name] = std::move(both);
    } else {
      properties[name] = key_schema(key);
    }
    if (!key.rule.instead.empty()) {
      for (const std::string_view one : {std::string_view(name), key.rule.instead}) {
        section["oneOf"].push_back({{"required", Json::array({one})}});
      }
    } else if (key.rule.required && key.only_for.empty()) {
      section["required"].push_back(name);
    }
    if (const Key* choice = choice_in(keys, path)) add_conditions(section, name, key, *choice);
  }
  return config;
}

/// A section is required if a key in it is.
bool require_sections(Json& section) {
  std::vector<std::string> required;
  for (auto& [name, property] : section["properties"].members()) {
    if (property.contains("properties") && require_sections(property)) required.push_back(name);
  }
  for (const std::string& name : required) section["required"].push_back(name);
  return section.contains("required") || section.contains("oneOf");
}

/// A section may be in a job or next to the list of jobs, so it is required in neither.
void share_sections(Json& config) {
  Json& properties = config["properties"];
  Json shared = Json::object();
  for (auto& [name, section] : properties["jobs"]["items"]["properties"].members()) {
    if (!section.contains("properties")) continue;
    section.erase("required");
    section.erase("oneOf");
    shared[name] = section;
  }
  for (const auto& [name, section] : shared.members()) properties[name] = section;
}

}  // namespace

std::string config_schema() {
  const auto [single_keys, jobs_keys, pathnet_keys] = config_kinds();
  Json single = kind_schema(single_keys), jobs = kind_schema(jobs_keys), pathnet = kind_schema(pathnet_keys);
  share_sections(jobs);
  require_sections(single);
  require_sections(pathnet);
  const Json list{{"description", jobs["properties"]["jobs"]["description"]}};
  const Json evolution{{"description", pathnet["properties"]["evolution"]["description"]}};
  const Json by_jobs{{"if", {{"required", Json::array({"jobs"})}}}, {"then", jobs}, {"else", single}};
  return Json{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "Braid config"},
              {"type", "object"},
              {"properties", {{"jobs", list}, {"evolution", evolution}}},
              {"if", {{"required", Json::array({"evolution"})}}},
              {"then", pathnet},
              {"else", by_jobs}}
             .dump(2) +
         '\n';
}

}  // namespace braid
