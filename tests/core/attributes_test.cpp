#include "core/graph/attributes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "core/graph/op.h"

namespace braid {
namespace {

enum class Colour { red, green };
constexpr std::string_view name_of(Colour colour) { return colour == Colour::red ? "red" : "green"; }
enum class Unnamed : std::uint8_t { zero, one };

struct Inner {
  std::int32_t count = 3;
  Colour colour = Colour::green;
  static constexpr std::string_view kNames[] = {"count", "colour"};
};

struct All {
  bool flag = true;
  double number = 0.1;
  std::int64_t integer = -5;
  Unnamed plain = Unnamed::one;
  std::string text = "a \"b\"\\\n";
  Shape shape = {2, 3};
  std::vector<double> list = {1, 2.5};
  Inner inner;
  static constexpr std::string_view kNames[] = {"flag", "number", "integer", "plain", "text", "shape", "list", "inner"};
};

template <class T>
std::string printed(const T& value, Notation notation) {
  std::ostringstream out;
  attribute::print(out, value, notation);
  return out.str();
}

template <class T>
Hash hash_of(const T& value) {
  Hash hash;
  attribute::add_to(hash, value);
  return hash;
}

template <class T>
void check_different(const T& a, const T& b) {
  CAPTURE(printed(a, Notation::plain));
  CAPTURE(printed(b, Notation::plain));
  CHECK(hash_of(a) != hash_of(b));
  CHECK_FALSE(attribute::equal(a, b));
  CHECK(printed(a, Notation::plain) != printed(b, Notation::plain));
  CHECK(printed(a, Notation::json) != printed(b, Notation::json));
}

class Named final : public OpWith<Named, Inner> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "named"; }
  void infer(std::span<const ValueDesc>, std::vector<OutputDesc>&) const override {}
};

class Other final : public OpWith<Other, Inner> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "other"; }
  void infer(std::span<const ValueDesc>, std::vector<OutputDesc>&) const override {}
};

class Bare final : public OpWith<Bare> {
 public:
  std::string_view name() const override { return "bare"; }
  void infer(std::span<const ValueDesc>, std::vector<OutputDesc>&) const override {}
};

TEST_CASE("attributes print as a person or as JSON reads them") {
  CHECK(printed(All{}, Notation::plain) ==
        "{flag: true, number: 0.1, integer: -5, plain: 1, text: a \"b\"\\\n, shape: [2,3], list: [1,2.5], "
        "inner: {count: 3, colour: green}}");
  CHECK(printed(All{}, Notation::json) ==
        R"({"flag":true,"number":0.1,"integer":-5,"plain":1,"text":"a \"b\"\\\n","shape":[2,3],"list":[1,2.5],)"
        R"("inner":{"count":3,"colour":"green"}})");
  CHECK(printed(std::vector{1e300, std::numeric_limits<double>::infinity()}, Notation::json) == R"([1e+300,"inf"])");
}

TEST_CASE("attributes that differ in one member differ, whichever it is") {
  const auto changed = [](auto change) {
    All all;
    change(all);
    return all;
  };
  const All variants[] = {
      All{},
      changed([](All& a) { a.flag = false; }),
      changed([](All& a) { a.number = std::nextafter(0.1, 1); }),
      changed([](All& a) { a.number = 0; }),
      changed([](All& a) { a.number = -0.0; }),
      changed([](All& a) { a.integer = 5; }),
      changed([](All& a) { a.plain = Unnamed::zero; }),
      changed([](All& a) { a.text.clear(); }),
      changed([](All& a) {
        a.shape = {2, 3, 1};
      }),
      changed([](All& a) { a.shape = {2}; }),
      changed([](All& a) {
        a.list = {1, 2.5, 0};
      }),
      changed([](All& a) { a.list = {}; }),
      changed([](All& a) {
        a.list = {1, 2};
      }),
      changed([](All& a) { a.inner.count = 4; }),
      changed([](All& a) { a.inner.colour = Colour::red; }),
  };
  for (const All& a : variants) {
    for (const All& b : variants) {
      if (&a != &b) check_different(a, b);
    }
    const All copy = a;
    CHECK(hash_of(copy) == hash_of(a));
    CHECK(attribute::equal(copy, a));
  }
  const All not_a_number = changed([](All& a) { a.number = std::numeric_limits<double>::quiet_NaN(); });
  CHECK(attribute::equal(not_a_number, not_a_number));  // else its plan would never be found again
}

TEST_CASE("ops are equal if class and attributes are") {
  const Named op(Inner{.count = 4}), same(4, Colour::green), changed(5, Colour::green);
  CHECK(op.equals(same));
  CHECK_FALSE(op.equals(changed));
  CHECK_FALSE(op.equals(Other(op.attributes())));
  CHECK(Bare().equals(Bare()));
  CHECK_FALSE(Bare().equals(op));
  CHECK(message(op, ' ', Bare()) == "named{count: 4, colour: green} bare");
}

}  // namespace
}  // namespace braid
