#include <doctest/doctest.h>

#include "core/suggestion.h"
#include "core/text_table.h"

namespace braid {

TEST_CASE("a table is as wide as its cells, counts characters and not bytes, and leaves no blanks at the end") {
  CHECK(text_table({{"name", "us"}, {"é", "10"}, {"long name", ""}}, "lr", "> ") ==
        "> name       us\n"
        "> é          10\n"
        "> long name\n");
  CHECK(text_table({}, "l").empty());
}

TEST_CASE("a suggestion is the closest name, if any is close") {
  const std::string names[] = {"conv1", "conv12", "classifier"};
  CHECK(suggestion("con1", names) == " (did you mean 'conv1'?)");
  CHECK(suggestion("convolution", names).empty());
  CHECK(suggestion("", names).empty());
}

}  // namespace braid
