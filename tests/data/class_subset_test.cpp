#include "data/class_subset.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/error.h"
#include "data/loader/loader.h"
#include "data/synthetic.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

TEST_CASE("a class subset has the samples of its classes, relabelled in the order in which they were named") {
  const auto whole = synthetic({.size = 23, .shape = {4, 4, 1}, .classes = 5});  // labels 0, 1, …, 4, 0, …
  const ClassSubset subset(whole, {4, 1});
  CHECK(subset.size() == 9);
  CHECK(subset.classes() == 2);
  CHECK(subset.image_shape() == Shape{4, 4, 1});
  CHECK(subset.name() == "synthetic[4,1]");
  const std::int64_t indices[] = {1, 4, 6, 9, 11, 14, 16, 19, 21};
  for (std::int64_t i = 0; i < subset.size(); ++i) {
    const std::int64_t original = indices[i];
    CHECK(subset.label(i) == (whole->label(original) == 4 ? 0 : 1));
    CHECK(std::ranges::equal(subset.image(i).pixels, whole->image(original).pixels));
  }
  CHECK_THROWS_AS(static_cast<void>(subset.label(9)), DataError);
  CHECK_THROWS_AS(subset.image(-1), DataError);
}

TEST_CASE("a class subset refuses classes that the dataset does not have, twins and the empty set") {
  const auto whole = synthetic({.size = 3, .shape = {4, 4, 1}, .classes = 5});
  const auto error = [&](const std::vector<int>& classes) {
    return error_of<ConfigError>([&] { ClassSubset(whole, classes); });
  };
  CHECK(contains(error({0, 5}), "synthetic has classes 0 to 4, got class 5"));
  CHECK(contains(error({-1}), "got class -1"));
  CHECK(contains(error({2, 0, 2}), "class 2 is listed twice"));
  CHECK(contains(error_of<DataError>([&] { ClassSubset(whole, {3, 4}); }), "synthetic[3,4] has no samples"));
  CHECK_THROWS_AS(ClassSubset(whole, {}), DataError);
}
