#include <doctest/doctest.h>

#include "models/zoo/wired/nasnet_cells.h"
#include "runtime/session.h"
#include "tests/models/small_model.h"

namespace braid {
namespace {

using models::Cell;
using models::CellShape;
using models::NasNetCell;
using models::Previous;

Array evaluate(Session& session, NasNetCell& cell, const Array& x, const Array& previous) {
  cell.eval();
  Step step = session.step();
  const Tensor y = cell(x, previous);
  y.keep();
  step.run();
  return y.array();
}

TEST_CASE("a cell after a reduction sees even pixels in one half of its channels and odd ones in the other") {
  const std::int64_t filters = 4;
  Session session({.device = "cpu", .streams = 1});
  const CellShape shape{.in = 3, .previous_in = 2, .filters = filters, .previous = Previous::halved};
  NasNetCell cell(session, Cell::normal, shape);
  const Array x = noise({1, 3, 3, 3});
  // 5x5 pixels become 3x3: (2i,2j) in the first half of the channels, (2i+1,2j+1) in the second.
  Array previous(DType::f32, {1, 5, 5, 2});
  for (float& v : previous.as<float>()) v = 1;
  const Array before = evaluate(session, cell, x, previous);
  for (std::int64_t row = 0; row < 5; ++row) {
    for (std::int64_t column = 0; column < 5; ++column) {
      Array changed(DType::f32, previous.shape());
      for (float& v : changed.as<float>()) v = 1;
      for (std::int64_t c = 0; c < 2; ++c)
        changed.as<float>()[static_cast<std::size_t>((row * 5 + column) * 2 + c)] = 9;
      const Array after = evaluate(session, cell, x, changed);
      for (std::int64_t i = 0; i < 9; ++i) {
        for (std::int64_t c = 0; c < filters; ++c) {  // the first channels are the adjusted input itself
          const std::int64_t odd = c < filters / 2 ? 0 : 1;
          const bool sees = row == 2 * (i / 3) + odd && column == 2 * (i % 3) + odd;
          const auto index = static_cast<std::size_t>(i * cell.channels() + c);
          CHECK((before.as<float>()[index] != after.as<float>()[index]) == sees);
        }
      }
    }
  }
}

TEST_CASE("a normal cell has six times as many channels as filters, a reduction cell four times and half the size") {
  for (const std::int64_t side : {7, 8}) {
    Session session({.device = "cpu", .streams = 1});
    const CellShape shape{.in = 3, .previous_in = 5, .filters = 4, .previous = Previous::projected};
    NasNetCell normal(session, Cell::normal, shape);
    const Context::Scope scope(session, "reduction");
    NasNetCell reduction(session, Cell::reduction, shape);
    const Array x = noise({1, side, side, 3}), previous = noise({1, side, side, 5});
    CHECK(evaluate(session, normal, x, previous).shape() == Shape{1, side, side, 24});
    CHECK(evaluate(session, reduction, x, previous).shape() == Shape{1, 4, 4, 16});
  }
}

}  // namespace
}  // namespace braid
