#include "core/text/text.h"

#include <doctest/doctest.h>

#include <locale>

#include "core/base/error.h"
#include "core/text/suggestion.h"
#include "core/text/text_table.h"

namespace braid {

TEST_CASE("a table is as wide as its cells, counts characters instead of bytes, and has no trailing blanks") {
  CHECK(text_table({{"name", "us"}, {"é", "10"}, {"long name", ""}}, "lr", "> ") ==
        "> name       us\n"
        "> é          10\n"
        "> long name\n");
  CHECK(text_table({}, "l").empty());
}

TEST_CASE("numbers look the same in every locale") {
  struct Commas final : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Commas));
  const std::string text = message(1234567, ' ', 0.5), rounded = fixed(1234.5, 1);
  std::locale::global(before);
  CHECK(text == "1234567 0.5");
  CHECK(rounded == "1234.5");
}

TEST_CASE("a count of one is singular") {
  CHECK(plural(1, "step") == "1 step");
  CHECK(plural(0, "step") == "0 steps");
  CHECK(plural(std::size_t{2}, "address", "es") == "2 addresses");
}

TEST_CASE("digits of counts are in groups of three") {
  for (const auto& [count, text] : {std::pair{0, "0 steps"},
                                    {1, "1 step"},
                                    {999, "999 steps"},
                                    {1000, "1,000 steps"},
                                    {272186, "272,186 steps"},
                                    {1234567, "1,234,567 steps"}}) {
    CHECK(counted(count, "step") == text);
  }
}

TEST_CASE("text is shortened to a number of UTF-8 characters and never cut within one") {
  CHECK(utf8_length("né…") == 3);
  CHECK(shortened("né…", 3) == "né…");
  CHECK(shortened("néon", 3) == "né…");
  CHECK(shortened("éé", 1) == "…");
}

TEST_CASE("a suggestion is the closest name, if any is close") {
  const std::string names[] = {"conv1", "conv12", "classifier"};
  CHECK(suggestion("con1", names) == " (did you mean 'conv1'?)");
  CHECK(suggestion("convolution", names).empty());
  CHECK(suggestion("", names).empty());
}

TEST_CASE("two letters that changed places are one mistake") {
  const std::string names[] = {"plan", "train"};
  CHECK(nearest("trian", names) == "train");
  CHECK(nearest("paln", names) == "plan");
  CHECK(nearest("TRAIN", names) == "train");
  CHECK(nearest("tairn", names).empty());  // two mistakes in five letters are too many
}

TEST_CASE("text is broken at blanks, and keeps its own line breaks and blanks") {
  CHECK(wrapped("one two three", 0, 7) == "one two\nthree");
  CHECK(wrapped("  --set  a value of é é", 8, 17) == "  --set  a value\n        of é é");
  CHECK(wrapped("a\nb c", 1, 3) == "a\n b\n c");
  CHECK(wrapped("longest of words", 2, 4) == "longest\n  of\n  words");
  CHECK(wrapped("", 2).empty());
}

}  // namespace braid
