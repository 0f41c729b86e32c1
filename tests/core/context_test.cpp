#include "core/graph/context.h"

#include <doctest/doctest.h>

namespace braid {
namespace {

TEST_CASE("names of tensors follow the scopes they are made in") {
  Context context(make_backend(Device{}), 1);
  const ValueDesc desc{DType::f32, {3}};
  const Context::Scope outer(context, "layer1");
  {
    const Context::Scope inner(context, "conv");
    CHECK(context.add("weight", desc, ValueKind::parameter).name() == "layer1.conv.weight");
  }
  CHECK(context.add("bias", desc, ValueKind::state).name() == "layer1.bias");
}

TEST_CASE("tensors start at zero and hold what is written") {
  Context context(make_backend(Device{}), 1);
  Parameter& small = context.add("small", {DType::f32, {3}}, ValueKind::parameter);
  Parameter& large = context.add("large", {DType::f64, {1 << 20}}, ValueKind::parameter);
  const Array small_values = context.read(small), large_values = context.read(large);
  for (const float v : small_values.as<float>()) CHECK(v == 0);
  double sum = 0;
  for (const double v : large_values.as<double>()) sum += v;
  CHECK(sum == 0);
  context.write(small, Array::from<float>({1, 2, 3}, {3}));
  CHECK(context.read(small).as<float>()[2] == 3);
  CHECK_THROWS_WITH_AS(context.write(small, Array::from<float>({1, 2}, {2})), "[small] expected f32 [3], got f32 [2]",
                       ShapeError);
}

TEST_CASE("initial values depend on seed and name, not on other tensors") {
  Context a(make_backend(Device{}), 1), b(make_backend(Device{}), 1), c(make_backend(Device{}), 2);
  b.add("something else", {DType::f32, {5}}, ValueKind::parameter);
  CHECK(a.generator("w").next() == b.generator("w").next());
  CHECK(a.generator("w").next() != c.generator("w").next());
  CHECK(a.generator("w").next() != a.generator("v").next());
}

TEST_CASE("devices are parsed strictly") {
  CHECK(Device::parse("cpu") == Device{});
  CHECK(Device::parse("cuda") == Device{DeviceType::cuda, 0});
  CHECK(Device::parse("cuda:3") == Device{DeviceType::cuda, 3});
  for (const char* bad : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "CPU"})
    CHECK_THROWS_AS(Device::parse(bad), DeviceError);
  CHECK_THROWS_AS(make_backend(Device{}, -1), DeviceError);
}

TEST_CASE("memory that does not exist is refused with numbers") {
  const auto backend = make_backend(Device{});
  CHECK_THROWS_AS(backend->allocate(std::size_t{1} << 60), DeviceError);
}

TEST_CASE("Philox4x32-10 gives the published test vectors") {
  // From the Random123 distribution, kat_vectors.
  const PhiloxBlock zero = philox(0, 0, 0);
  CHECK(zero.x[0] == 0x6627e8d5u);
  CHECK(zero.x[1] == 0xe169c58du);
  CHECK(zero.x[2] == 0xbc57ac4cu);
  CHECK(zero.x[3] == 0x9b00dbd8u);
  const PhiloxBlock ones = philox(~0ull, ~0ull, ~0ull);
  CHECK(ones.x[0] == 0x408f276du);
  CHECK(ones.x[1] == 0x41c83b0eu);
  CHECK(ones.x[2] == 0xa20bc7c6u);
  CHECK(ones.x[3] == 0x6d5451fdu);
}

TEST_CASE("draws below a bound cover it evenly") {
  Generator generator(7);
  std::vector<int> counts(10);
  for (int i = 0; i < 100000; ++i) ++counts[generator.below(10)];
  for (const int count : counts) CHECK(std::abs(count - 10000) < 500);  // five standard deviations
}

}  // namespace
}  // namespace braid
