#include "core/text/json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/text/text.h"

namespace braid {

namespace {

using Library = nlohmann::ordered_json;

/// Builds a value from the events of the library's parser.
class Parser final : public Library::json_sax_t {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Json take() {
    Library::sax_parse(text_, this);
    return std::move(whole_);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Library::binary_t&) override { return false; }  // not in a text
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_array() override { return close(); }
  bool end_object() override { return close(); }
  bool key(std::string& key) override {
    Level& level = levels_.back();
    const auto [found, added] = level.places.try_emplace(key, level.container->size());
    level.place = found->second;
    if (added) level.container->members().push_back({key, nullptr});
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const Library::exception& error) override {
    constexpr int kTooLarge = 406;
    if (error.id == kTooLarge) throw JsonError("expected valid JSON, but a number is too large");
    const std::string_view before = text_.substr(0, std::clamp<std::size_t>(byte, 1, text_.size() + 1) - 1);
    const std::size_t line_start = before.rfind('\n') + 1;  // 0 in the first line
    throw JsonError(message("line ", std::ranges::count(before, '\n') + 1, ", column ", before.size() - line_start + 1,
                            ": expected valid JSON, got ",
                            before.size() == text_.size() ? "the end of the text" : "something else"));
  }

 private:
  struct Level {
    Json* container;
    std::map<std::string, std::size_t> places = {};  // places of an object's members
    std::size_t place = 0;                           // place of the member whose value comes next
  };

  Json& place(Json value) {
    if (levels_.empty()) return whole_ = std::move(value);
    Level& level = levels_.back();
    if (level.container->is_array()) return level.container->push_back(std::move(value));
    return level.container->members()[level.place].value = std::move(value);
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json container) {
    constexpr std::size_t kMostDepth = 100;  // deeper nesting could exhaust the stack when written or copied
    if (levels_.size() >= kMostDepth) throw JsonError(message("nested deeper than ", kMostDepth, " levels"));
    levels_.push_back({&place(std::move(container))});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  std::string_view text_;
  Json whole_;
  std::vector<Level> levels_;
};

}  // namespace

/// Makes the library's value, which it can print.
struct Json::Writer {
  bool sorted = false;

  Library of(const Json& json) const {
    return std::visit([&](const auto& value) { return made(value); }, json.value_);
  }
  Library made(const auto& scalar) const { return scalar; }
  Library made(const std::vector<Json>& elements) const {
    Library list = Library::array();
    for (const Json& element : elements) list.push_back(of(element));
    return list;
  }
  Library made(const std::vector<Member>& members) const {
    std::vector<const Member*> order;
    for (const Member& member : members) order.push_back(&member);
    if (sorted) std::ranges::sort(order, {}, [](const Member* member) -> const std::string& { return member->key; });
    Library object = Library::object();
    auto& list = object.get_ref<Library::object_t&>();  // a vector, which does not look for equal keys
    list.reserve(order.size());
    for (const Member* member : order) list.emplace_back(member->key, of(member->value));
    return object;
  }
};

Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::initializer_list<Field> fields) : Json(object()) {
  for (const Field& field : fields) members().push_back({std::string(field.key), std::move(field.value)});
}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json Json::array(std::initializer_list<Json> elements) {
  Json json;
  json.value_ = std::vector<Json>(elements);
  return json;
}

Json Json::object() {
  Json json;
  json.value_ = std::vector<Member>();
  return json;
}

template <class T>
const T& Json::get(std::string_view expected) const {
  if (const T* value = std::get_if<T>(&value_)) return *value;
  throw JsonError(message("expected ", expected, ", got ", excerpt()));
}

bool Json::is_number() const {
  return is_int64() || std::holds_alternative<std::uint64_t>(value_) || std::holds_alternative<double>(value_);
}
bool Json::as_bool() const { return get<bool>("true or false"); }
std::int64_t Json::as_int64() const { return get<std::int64_t>("an integer of 64 bits"); }
double Json::as_double() const {
  if (is_int64()) return static_cast<double>(as_int64());
  if (const auto* large = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*large);
  return get<double>("a number");
}
const std::string& Json::text() const { return get<std::string>("a string"); }
const std::vector<Json>& Json::elements() const { return get<std::vector<Json>>("a list"); }
std::vector<Json>& Json::elements() { return const_cast<std::vector<Json>&>(std::as_const(*this).elements()); }
const std::vector<Json::Member>& Json::members() const { return get<std::vector<Member>>("an object"); }
std::vector<Json::Member>& Json::members() { return const_cast<std::vector<Member>&>(std::as_const(*this).members()); }

std::size_t Json::size() const {
  if (is_array()) return elements().size();
  if (is_object()) return members().size();
  return is_null() ? 0 : 1;
}

const Json& Json::operator[](std::size_t index) const {
  if (index >= elements().size()) throw JsonError(message("expected more than ", index, " elements, got ", excerpt()));
  return elements()[index];
}
Json& Json::operator[](std::size_t index) { return const_cast<Json&>(std::as_const(*this)[index]); }

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const auto found = std::ranges::find(members(), key, &Member::key);
  return found == members().end() ? nullptr : &found->value;
}

const Json& Json::operator[](std::string_view key) const {
  if (const Json* found = find(key)) return *found;
  throw JsonError(message("expected an object with a key '", key, "', got ", excerpt()));
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) *this = object();
  if (const Json* found = find(key)) return const_cast<Json&>(*found);
  return members().emplace_back(Member{std::string(key), nullptr}).value;
}

void Json::erase(std::string_view key) {
  std::erase_if(members(), [&](const Member& member) { return member.key == key; });
}

Json& Json::push_back(Json element) {
  if (is_null()) *this = array();
  return elements().emplace_back(std::move(element));
}

std::string Json::dump(int indentation) const {
  return Writer().of(*this).dump(indentation, ' ', false, Library::error_handler_t::replace);
}
std::string Json::dump_sorted(int indentation) const {
  return Writer{.sorted = true}.of(*this).dump(indentation, ' ', false, Library::error_handler_t::replace);
}
std::string Json::excerpt() const {
  return shortened(Writer{.sorted = true}.of(*this).dump(-1, ' ', true, Library::error_handler_t::replace), 61);
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number() && a.value_.index() != b.value_.index()) return a.as_double() == b.as_double();
  if (!a.is_object() || !b.is_object()) return a.value_ == b.value_;
  return a.size() == b.size() && std::ranges::all_of(a.members(), [&](const Json::Member& member) {
           const Json* other = b.find(member.key);
           return other != nullptr && *other == member.value;
         });
}

Json parse_json(std::string_view text) { return Parser(text).take(); }

void JsonPart::fail(std::string_view expected) const {
  throw JsonError(message(path.empty() ? "the whole" : "'" + path + "'", ' ', expected, ", got ", json.excerpt()));
}

JsonPart JsonPart::operator[](const char* key) const {
  if (!json.is_object()) fail(message("must be an object with a key '", key, "'"));
  if (!json.contains(key)) fail(message("has no key '", key, "'"));
  return {json[key], path.empty() ? key : path + "." + key};
}

std::vector<JsonPart> JsonPart::list() const {
  if (!json.is_array()) fail("must be a list");
  std::vector<JsonPart> parts;
  for (const Json& element : json.elements()) parts.push_back({element, message(path, "[", parts.size(), "]")});
  return parts;
}

void JsonPart::check_size(std::size_t size) const {
  if (json.size() != size) fail(message("has ", json.size(), " entries instead of ", size));
}

std::int64_t JsonPart::integer(std::int64_t low, std::int64_t high) const {
  const bool fits = json.is_int64() && json.as_int64() >= low && json.as_int64() <= high;
  if (!fits) fail(message("must be an integer from ", low, " to ", high));
  return json.as_int64();
}

double JsonPart::number(double least) const {
  const bool fits = json.is_number() && std::isfinite(json.as_double()) && json.as_double() >= least;
  if (!fits) fail(message("must be a number of at least ", least));
  return json.as_double();
}

bool JsonPart::flag() const {
  if (!json.is_bool()) fail("must be true or false");
  return json.as_bool();
}

std::string JsonPart::text() const {
  if (!json.is_string()) fail("must be a string");
  return json.text();
}

}  // namespace braid
