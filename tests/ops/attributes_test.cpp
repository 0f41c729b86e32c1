// Caches, profiles and reports tell ops apart by their attributes: for every op of the op table.

#include <doctest/doctest.h>

#include <set>
#include <sstream>

#include "core/text/json.h"
#include "tests/ops/op_table.h"

using namespace braid;
using namespace braid::testing;

namespace {

Hash hash_of(const Op& op) {
  Hash hash;
  op.hash(hash);
  return hash;
}

std::string json_of(const Op& op) {
  std::ostringstream out;
  op.print_attributes(out, Notation::json);
  return out.str();
}

}  // namespace

TEST_CASE("ops with equal attributes have equal hashes and texts") {
  for (const OpRow& row : op_table()) {
    CAPTURE(message(*row.op));
    const OpPtr copy = copy_of_op(row);
    CHECK(copy->equals(*row.op));
    CHECK(hash_of(*copy) == hash_of(*row.op));
    CHECK(message(*copy) == message(*row.op));
  }
}

TEST_CASE("ops that differ in any one attribute are unequal, and so are their hashes, texts and JSON, which is valid") {
  std::set<std::string_view> with_attributes;
  for (const OpRow& row : op_table()) {
    CAPTURE(message(*row.op));
    const std::vector<OpPtr> changed = neighbours(row);
    const std::string json = json_of(*row.op);
    const Json attributes = parse_json(json);
    CHECK(attributes.dump() == json);
    if (!attributes.empty()) {
      REQUIRE(!changed.empty());
      with_attributes.insert(row.op->name());
    }
    for (const OpPtr& other : changed) {
      CAPTURE(message(*other));
      CHECK_FALSE(other->equals(*row.op));
      CHECK(hash_of(*other) != hash_of(*row.op));
      CHECK(message(*other) != message(*row.op));
      CHECK(json_of(*other) != json);
    }
  }
  CHECK(with_attributes.size() > 20);
}
