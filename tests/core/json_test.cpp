#include "core/text/json.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/error_of.h"

using namespace braid;

namespace {

std::string error_in(std::string_view text) {
  return testing::error_of<JsonError>([&] { parse_json(text); });
}

template <class Library>
std::string of_library(const std::string& text, int indentation) {
  return Library::parse(text).dump(indentation, ' ', false, Library::error_handler_t::replace);
}

std::string nested(std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

}  // namespace

TEST_CASE("texts are written as nlohmann-json writes them") {
  const std::string texts[] = {"null",
                               "true",
                               "-9223372036854775808",
                               "18446744073709551615",
                               "-0",
                               "-0.0",
                               "1e300",
                               "0.1",
                               "1.0",
                               "5e-324",
                               "123456789.123456789",
                               R"("quote \" backslash \\ slash \/ tab \t null \u0000 é \u00e9 \ud83d\ude00")",
                               "[]",
                               "{}",
                               R"([1, [], {}, [2.5, "x"], {"b": {"z": 1, "a": []}, "a": [null, false]}])",
                               R"({"again": 1, "other": 2, "again": {"b": 3, "a": 4}})"};
  for (const std::string& text : texts) {
    CAPTURE(text);
    for (const int indentation : {-1, 1, 2}) {
      CHECK(parse_json(text).dump(indentation) == of_library<nlohmann::ordered_json>(text, indentation));
      CHECK(parse_json(text).dump_sorted(indentation) == of_library<nlohmann::json>(text, indentation));
    }
    CHECK(parse_json(parse_json(text).dump()) == parse_json(text));
  }
}

TEST_CASE("every kind of value is written as nlohmann-json writes it") {
  CHECK(Json(std::numeric_limits<std::int64_t>::min()).dump() == "-9223372036854775808");
  CHECK(Json(std::numeric_limits<std::uint64_t>::max()).dump() == "18446744073709551615");
  CHECK(Json(std::int8_t{-3}).dump() == "-3");
  CHECK(Json(true).dump() == "true");
  CHECK(Json(0.1F).dump() == nlohmann::json(0.1F).dump());
  for (const double number : {1e21, 1.0, 1.0 / 3, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    CHECK(Json(number).dump() == nlohmann::json(number).dump());
  }
  CHECK(Json(std::string_view("a\n\x01\x7f")).dump() == R"("a\n\u0001)"
                                                        "\x7f\"");
  CHECK(Json(std::vector<std::vector<int>>{{1, 2}, {}}).dump() == "[[1,2],[]]");
  CHECK(Json(std::vector<std::pair<int, double>>{{1, 2}}).dump() == "[[1,2.0]]");
  CHECK(Json{{"one", nullptr}, {"list", Json::array({1})}, {"object", {{"key", "value"}}}}.dump() ==
        R"({"one":null,"list":[1],"object":{"key":"value"}})");
}

TEST_CASE("what is not UTF-8 is written as the replacement character, in values and in keys") {
  CHECK(Json("a\xff").dump() == "\"a\uFFFD\"");
  CHECK(Json{{"a\xc3", 1}}.dump() == "{\"a\uFFFD\":1}");
  CHECK(error_in("\"a\xff\"") == "line 1, column 3: expected valid JSON, got something else");
}

TEST_CASE("an object keeps the order of its members, and can be written in that of their keys") {
  Json object{{"b", 1}, {"a", {{"d", 2}, {"c", 3}}}};
  object["0"] = 4;
  object["b"] = 5;
  CHECK(object.dump() == R"({"b":5,"a":{"d":2,"c":3},"0":4})");
  CHECK(object.dump_sorted() == R"({"0":4,"a":{"c":3,"d":2},"b":5})");
  CHECK(object == parse_json(object.dump_sorted()));
  object.erase("a");
  CHECK(object == Json{{"0", 4}, {"b", 5}});
  CHECK(object != Json{{"0", 4}, {"c", 5}});
  CHECK(object != Json{{"0", 4}});
}

TEST_CASE("null becomes what is added to it") {
  Json object, list;
  object["key"].push_back("element");
  list.push_back(1);
  list.push_back(nullptr);
  CHECK(object.dump() == R"({"key":["element"]})");
  CHECK(list.dump() == "[1,null]");
}

TEST_CASE("numbers are equal if their values are") {
  CHECK(Json(1) == Json(1.0));
  CHECK(Json(1) == Json(std::uint64_t{1}));
  CHECK(Json(std::numeric_limits<std::uint64_t>::max()) != Json(-1));
  CHECK(Json(1) != Json(true));
  CHECK(Json(1) != Json("1"));
}

TEST_CASE("a value of another type is refused, and the message shows it") {
  const Json json = parse_json(R"({"list": [1.5, "é"], "large": 18446744073709551615})");
  CHECK(json["large"].as_double() == 18446744073709551615.0);
  CHECK(json["list"][0].as_double() == 1.5);
  CHECK_THROWS_WITH_AS(json["large"].as_int64(), "expected an integer of 64 bits, got 18446744073709551615", JsonError);
  CHECK_THROWS_WITH_AS(json["list"][0].as_int64(), "expected an integer of 64 bits, got 1.5", JsonError);
  CHECK_THROWS_WITH_AS(json["list"][1].as_double(), R"(expected a number, got "\u00e9")", JsonError);
  CHECK_THROWS_WITH_AS(json["list"][2], R"(expected more than 2 elements, got [1.5,"\u00e9"])", JsonError);
  CHECK_THROWS_WITH_AS(json["list"].text(), R"(expected a string, got [1.5,"\u00e9"])", JsonError);
  CHECK_THROWS_WITH_AS(json["list"]["key"], R"(expected an object with a key 'key', got [1.5,"\u00e9"])", JsonError);
  CHECK_THROWS_AS(json["list"][0].elements(), JsonError);
  CHECK_THROWS_AS(json["list"].members(), JsonError);
  CHECK_THROWS_AS(json["list"].as_bool(), JsonError);
  CHECK(json.find("none") == nullptr);
  CHECK(json["list"].find("key") == nullptr);
}

TEST_CASE("an error says where a text is not JSON") {
  CHECK(error_in("") == "line 1, column 1: expected valid JSON, got the end of the text");
  CHECK(error_in("[1, 2") == "line 1, column 6: expected valid JSON, got the end of the text");
  CHECK(error_in("{\n\"a\": 1,\n  b}") == "line 3, column 3: expected valid JSON, got something else");
  CHECK(error_in("[1] 2") == "line 1, column 5: expected valid JSON, got something else");
  CHECK(error_in("[NaN]") == "line 1, column 2: expected valid JSON, got something else");
  CHECK(error_in("[1e999]") == "expected valid JSON, but a number is too large");
}

TEST_CASE("a text that is nested very deeply is refused") {
  CHECK(error_in(nested(100)).empty());
  CHECK(error_in(nested(101)) == "nested deeper than 100 levels");
  CHECK(error_in(std::string(100'000, '[')) == "nested deeper than 100 levels");
}

TEST_CASE("a part of a text names its place") {
  const Json json = parse_json(R"({"streams": [[1, "two"], {"wait": -1}]})");
  const JsonPart whole{json};
  const auto streams = whole["streams"].list();
  CHECK(streams[0].list()[0].integer(0, 1) == 1);
  CHECK(streams[0].list()[1].text() == "two");
  CHECK_THROWS_WITH_AS(streams[1]["wait"].index(4), "'streams[1].wait' must be an integer from 0 to 3, got -1",
                       JsonError);
  for (const char* no_integer : {"1.5", "true", "5000000000", "null"}) {
    const Json other = parse_json(no_integer);
    CHECK_THROWS_AS(JsonPart{other}.index(4), JsonError);
  }
  CHECK_THROWS_WITH_AS(streams[0].list()[1].number(0), "'streams[0][1]' must be a number of at least 0, got \"two\"",
                       JsonError);
  CHECK_THROWS_WITH_AS(whole.check_size(2),
                       R"(the whole has 1 entries instead of 2, got {"streams":[[1,"two"],{"wait":-1}]})", JsonError);
}
