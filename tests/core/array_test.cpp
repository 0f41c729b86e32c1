#include "core/graph/array.h"

#include <doctest/doctest.h>

#include <limits>
#include <numeric>
#include <sstream>

namespace braid {
namespace {

template <class T>
std::string printed(std::initializer_list<T> elements, const Shape& shape) {
  std::ostringstream out;
  out << Array::from(std::vector<T>(elements), shape);
  return out.str();
}

TEST_CASE("an array is printed with dtype, shape and aligned elements of every dtype") {
  CHECK(printed<float>({-1.5f, 0, 100, 1e-9f}, {2, 2}) == "f32 [2,2]\n[[ -1.5,     0],\n [  100, 1e-09]]");
  CHECK(printed<float>({3}, {}) == "f32 [] 3");
  CHECK(printed<double>({0.1, std::numeric_limits<double>::infinity()}, {2}) == "f64 [2] [0.1, inf]");
  CHECK(printed<Half>({Half(0.5f), Half(-2.0f)}, {2}) == "f16 [2] [0.5,  -2]");
  CHECK(printed<BFloat16>({BFloat16(3.0f)}, {1}) == "bf16 [1] [3]");
  CHECK(printed<std::int32_t>({-2147483647, 7}, {2}) == "i32 [2] [-2147483647,           7]");
  CHECK(printed<std::uint8_t>({65, 255}, {1, 2, 1}) == "u8 [1,2,1]\n[[[ 65],\n  [255]]]");
  CHECK(printed<float>({}, {0, 3}) == "f32 [0,3]\n[]");
  std::ostringstream out;
  out << Array();
  CHECK(out.str() == "an empty array");
}

TEST_CASE("of a long array, the ends of each axis are printed") {
  Array array(DType::i32, {251, 4});
  std::iota(array.as<std::int32_t>().begin(), array.as<std::int32_t>().end(), 0);
  std::ostringstream out;
  out << array;
  CHECK(out.str() ==
        "i32 [251,4]\n"
        "[[   0,    1,    2,    3],\n"
        " [   4,    5,    6,    7],\n"
        " [   8,    9,   10,   11],\n"
        " ...,\n"
        " [ 992,  993,  994,  995],\n"
        " [ 996,  997,  998,  999],\n"
        " [1000, 1001, 1002, 1003]]");
  std::ostringstream row;
  row << Array(DType::u8, {1001});
  CHECK(row.str() == "u8 [1001] [0, 0, 0, ..., 0, 0, 0]");
  std::ostringstream empty;
  empty << Array(DType::u8, {std::int64_t{1} << 40, 0});
  CHECK(empty.str().size() < 100);
}

}  // namespace
}  // namespace braid
