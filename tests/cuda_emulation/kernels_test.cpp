// Runs the CUDA kernels' own code on the CPU (see toolkit/cuda_runtime.h) and compares them with the CPU's kernels,
// over the op table and over what only a launch can get wrong: addresses, more inputs than fit into one, and the order
// of threads. What it cannot show: anything about warps that run in step, memory ordering, or speed.

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "core/base/random.h"
#include "core/device/cuda/stream_handles.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/weighted_sum.h"
#include "ops/layout/concat.h"
#include "ops/loss/cross_entropy.h"
#include "ops/matmul/linear.h"
#include "ops/norm/batch_norm.h"
#include "ops/optimizer/blend.h"
#include "ops/optimizer/clip_factor.h"
#include "ops/optimizer/loss_scale.h"
#include "ops/optimizer/optimizer.h"
#include "ops/pool/cuda/pixels.cuh"
#include "tests/ops/check_close.h"
#include "tests/ops/compressed.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/op_table.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// Bytes on the device: aligned as in an arena, or just not, and with nothing behind them that may be written. An
/// address sanitizer sees their end exactly.
class DeviceBytes {
 public:
  DeviceBytes(std::size_t size, std::size_t offset, std::uint8_t garbage)
      : size_(size),
        offset_(offset),
        bytes_(static_cast<std::byte*>(operator new(offset + size + kGuard, kAlignment))) {
    std::memset(bytes_, kPattern, offset + size + kGuard);
    std::memset(address(), garbage, size);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  ~DeviceBytes() { operator delete(bytes_, kAlignment); }

  std::byte* address() { return bytes_ + offset_; }
  bool is_intact() const {
    const auto untouched = [](std::byte byte) { return byte == std::byte{kPattern}; };
    return std::all_of(bytes_, bytes_ + offset_, untouched) &&
           std::all_of(bytes_ + offset_ + size_, bytes_ + offset_ + size_ + kGuard, untouched);
  }

 private:
  static constexpr std::align_val_t kAlignment{256};
  static constexpr std::uint8_t kPattern = 0xa5;
#if defined(__SANITIZE_ADDRESS__)
  static constexpr std::size_t kGuard = 0;
#else
  static constexpr std::size_t kGuard = 64;
#endif

  std::size_t size_, offset_;
  std::byte* bytes_;
};

struct EmulationOptions {
  cuda_emulation::Order order = cuda_emulation::Order::forward;
  int units = 3;                ///< SMs; few, so that threads stride
  bool in_place = false;        ///< outputs take over the inputs that they may take over
  bool misaligned = false;      ///< every address is one element off
  std::uint8_t garbage = 0xff;  ///< what outputs and workspace hold before the run
};

struct EmulatedRun {
  std::vector<Array> outputs;
  cuda::DataFault fault;
  std::vector<unsigned> grids;  ///< blocks of every launch
};

EmulatedRun emulate(const Op& op, const std::vector<Array>& given, const EmulationOptions& options = {}) {
  std::vector<ValueDesc> input_descs;
  std::vector<OutputDesc> inferred;
  for (const Array& array : given) input_descs.push_back(desc_of(array));
  op.infer(input_descs, inferred);
  const std::vector<ValueDesc> output_descs = descs_of(inferred);

  std::vector<std::unique_ptr<DeviceBytes>> memory;
  const auto allocate = [&](const ValueDesc& desc) {
    const std::size_t size = size_of(desc.dtype) * static_cast<std::size_t>(desc.shape.size());
    memory.push_back(
        std::make_unique<DeviceBytes>(size, options.misaligned ? size_of(desc.dtype) : 0, options.garbage));
    return static_cast<void*>(memory.back()->address());
  };
  std::vector<void*> inputs, outputs;
  for (const Array& array : given) {
    inputs.push_back(allocate(desc_of(array)));
    if (array.bytes() > 0) std::memcpy(inputs.back(), array.data(), array.bytes());
  }
  for (std::size_t i = 0; i < inferred.size(); ++i) {
    const int shared = inferred[i].overwrites >= 0 ? inferred[i].overwrites
                       : options.in_place          ? inferred[i].reuses
                                                   : -1;
    outputs.push_back(shared >= 0 ? inputs[static_cast<std::size_t>(shared)] : allocate(output_descs[i]));
  }

  EmulatedRun run;
  DeviceInfo info;
  info.capacity = options.units;
  memory.push_back(std::make_unique<DeviceBytes>(cuda::kArrivalCounters * sizeof(unsigned), 0, 0));
  auto* const arrivals = reinterpret_cast<unsigned*>(memory.back()->address());
  const cuda::StreamHandles stream{.fault = &run.fault, .arrivals = arrivals};
  const auto kernel =
      make_kernel(DeviceType::cuda, {.op = op, .inputs = input_descs, .outputs = output_descs, .info = &info});
  memory.push_back(std::make_unique<DeviceBytes>(kernel->workspace_bytes(), 0, options.garbage));
  kernel->bind(inputs, outputs, memory.back()->address());
  cuda_emulation::set_order(options.order);
  cuda_emulation::take_grids();
  kernel->launch({.native = &stream});
  run.grids = cuda_emulation::take_grids();

  for (const auto& bytes : memory) CHECK(bytes->is_intact());
  // Ready for the next launch.
  CHECK(std::count(arrivals, arrivals + cuda::kArrivalCounters, 0u) == cuda::kArrivalCounters);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Array array(output_descs[i].dtype, output_descs[i].shape);
    if (array.bytes() > 0) std::memcpy(array.data(), outputs[i], array.bytes());
    run.outputs.push_back(array);
  }
  return run;
}

/// The rows of Braid's own kernels; in f16 and bf16 only where they make a difference.
std::vector<const OpRow*> rows_in(DType dtype) {
  std::vector<const OpRow*> rows;
  for (const OpRow& row : op_table()) {
    if (!runs_in_library(row.op->name()) && (computed_in(dtype) == dtype || has_low_precision(row)))
      rows.push_back(&row);
  }
  return rows;
}

/// Sums are held in f64 if all inputs are, else in f32. Chains of additions are as long as inputs are larger than the
/// output.
void check_emulated(const std::vector<Array>& outputs, const std::vector<Array>& exact,
                    const std::vector<Array>& inputs) {
  bool single = false, twice = false;
  double most = 1;
  for (const Array& input : inputs) {
    single |= is_floating(input.dtype()) && input.dtype() != DType::f64;
    twice |= input.dtype() == DType::f64;
    most = std::max(most, static_cast<double>(input.size()));
  }
  const double computed = unit_roundoff(twice && !single ? DType::f64 : DType::f32);
  check_close(outputs, exact, [&](const Array& output) {
    const double elements = std::max(1.0, static_cast<double>(output.size()));
    return sum_error(most * static_cast<double>(inputs.size()) / elements, computed,
                     std::max(unit_roundoff(output.dtype()), computed));
  });
}

void check_against_cpu(const OpRow& row, const std::vector<Array>& inputs, const std::vector<Array>& outputs) {
  check_emulated(outputs, exact_outputs(row, inputs), inputs);
}

void check_same(const std::vector<Array>& a, const std::vector<Array>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bytes(a[i], b[i]));
  }
}

}  // namespace

TEST_CASE("a divisor gives the quotients of the CPU") {
  constexpr int kMost = std::numeric_limits<int>::max();
  Generator random(1);
  for (const int d : {1, 2, 3, 7, 56, 112, 641, 65535, 65536, 65537, 1 << 30, kMost - 1, kMost}) {
    CAPTURE(d);
    const cuda::Divisor divisor(d);
    for (const int n : {0, 1, d - 1, d, kMost - kMost % d, kMost - kMost % d - 1, kMost}) CHECK(n / divisor == n / d);
    for (int i = 0; i < 1000; ++i) {
      const int n = static_cast<int>(random.next() & static_cast<unsigned>(kMost));
      CHECK(n / divisor == n / d);
    }
  }
}

TEST_CASE(
    "emulated kernels agree with plain loops on the CPU, on devices of any size, and give the same bits in any order, "
    "in place of inputs, over any memory") {
  using Order = cuda_emulation::Order;
  const EmulationOptions shuffled{.order = Order::shuffled, .in_place = true, .garbage = 0};
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    std::vector<EmulationOptions> same, close;
    if (dtype == DType::f32) {
      same = {shuffled, {.order = Order::backward}};
      close = {{.units = 1, .misaligned = true}, {.units = 132}};
    } else if (dtype == DType::bf16) {
      same = {shuffled};
    }
    for (const OpRow* row : rows_in(dtype)) {
      CAPTURE(describe(*row));
      CAPTURE(dtype);
      std::vector<Array> inputs = make_inputs(*row, dtype);
      const std::vector<Array> exact = exact_outputs(*row, inputs);
      const std::vector<Array> outputs = emulate(*row->op, inputs, {.misaligned = dtype == DType::f16}).outputs;
      check_emulated(outputs, exact, inputs);
      for (const EmulationOptions& way : same) {
        CAPTURE(static_cast<int>(way.order));
        check_same(outputs, emulate(*row->op, inputs, way).outputs);
      }
      for (const EmulationOptions& way : close) {
        CAPTURE(way.units);
        check_emulated(emulate(*row->op, inputs, way).outputs, exact, inputs);
      }
      const auto* norm = dynamic_cast<const ops::BatchNorm*>(row->op.get());
      if (norm == nullptr) continue;  // this one is applied again with the same bits
      inputs[3] = outputs[1];
      inputs[4] = outputs[2];
      CHECK(same_bytes(emulate(ops::BatchNormApply(norm->attributes()), inputs).outputs[0], outputs[0]));
    }
  }
}

TEST_CASE("emulated kernels take more inputs than one launch does") {
  const auto check = [](const OpRow& row) {
    CAPTURE(describe(row).substr(0, 30));
    const std::vector<Array> inputs = make_inputs(row, DType::f32);
    const EmulatedRun run = emulate(*row.op, inputs, {.order = cuda_emulation::Order::shuffled, .in_place = true});
    check_against_cpu(row, inputs, run.outputs);
  };
  check({std::make_shared<ops::Sum>(), std::vector<Input>(600, {{37}})});
  std::vector<Input> gated(601, {{37}});
  gated[0] = {{600}};
  check({std::make_shared<ops::WeightedSum>(), gated});
  gated.insert(gated.begin(), {{37}});
  check({std::make_shared<ops::WeightedSumBackward>(), gated});
  std::vector<Input> parts;
  for (std::int64_t i = 0; i < 300; ++i) parts.push_back({{3, i % 4}});
  check({std::make_shared<ops::Concat>(), parts});
  check({std::make_shared<ops::SliceSum>(std::vector<std::int64_t>(300, 1), 4), std::vector<Input>(300, {{3, 6}})});
  for (const double momentum : {0.0, 0.9}) {
    std::vector<Input> updates(momentum != 0 ? 3 * 300 : 2 * 300, {{5, 3}});
    updates.insert(updates.begin(), {{}, Data::rate});
    check({std::make_shared<ops::SgdUpdate>(SgdOptions{.momentum = momentum}), updates});
  }
  check({std::make_shared<ops::ClipFactor>(ClipOptions{}), std::vector<Input>(600, {{37}})});
  std::vector<Input> blended(601, {{5, 3}});
  blended[0] = {{2}, Data::rate};
  check({std::make_shared<ops::Blend>(), blended});
  std::vector<Input> updates = {{{}, Data::rate}, {{}, Data::step}};
  for (int i = 0; i < 200; ++i) updates.insert(updates.end(), {{{7}}, {{7}}, {{7}}, {{7}, Data::positive}});
  check({std::make_shared<ops::AdamUpdate>(AdamOptions{}), updates});
}

TEST_CASE("a value may be several terms of an emulated sum that takes its place") {
  const std::int64_t size = 37;
  const Array x = make_inputs({std::make_shared<ops::Relu>(), {{{size}}}}, DType::f32)[0];
  const std::size_t count = 600;
  const ops::Sum op;
  const std::vector<ValueDesc> descs(count, desc_of(x)), outputs(1, desc_of(x));
  DeviceInfo info;
  const auto kernel = make_kernel(DeviceType::cuda, {.op = op, .inputs = descs, .outputs = outputs, .info = &info});
  Array y = copy_of(x);
  std::vector<std::byte> workspace(kernel->workspace_bytes());
  void* const address = y.data();
  kernel->bind(std::vector<void*>(count, address), std::span(&address, 1), workspace.data());
  const cuda::StreamHandles stream;
  kernel->launch({.native = &stream});
  for (std::int64_t i = 0; i < size; ++i) CHECK(element(y, i) == doctest::Approx(600 * element(x, i)).epsilon(1e-5));
}

TEST_CASE("an emulated kernel reports the first label out of range and makes a NaN of it") {
  struct Case {
    std::int32_t bad;
    int rows, first, second;  // rows with a bad label
  };
  for (const auto& [bad, rows, first, second] : {Case{-1, 40, 20, 30}, Case{5, 9000, 8600, 8856} /* in two blocks */}) {
    CAPTURE(rows);
    const Array logits = make_inputs({std::make_shared<ops::Relu>(), {{{rows, 5}}}}, DType::f32)[0];
    Array labels(DType::i32, {rows});
    labels.as<std::int32_t>()[static_cast<std::size_t>(first)] = bad;
    labels.as<std::int32_t>()[static_cast<std::size_t>(second)] = 77;
    for (const OpPtr& op :
         {OpPtr(std::make_shared<ops::CrossEntropy>(0.1)), OpPtr(std::make_shared<ops::Accuracy>(2))}) {
      CAPTURE(op->name());
      const EmulatedRun run = emulate(*op, {logits, labels});
      CHECK(run.fault.kind == cuda::DataFault::kLabel);
      CHECK(run.fault.value == bad);
      CHECK(run.fault.bound == 5);
      CHECK(std::isnan(element(run.outputs[0], 0)));
      if (run.outputs.size() > 1) {
        CHECK(std::isnan(element(run.outputs[1], first * 5)));
        CHECK(!std::isnan(element(run.outputs[1], (first - 1) * 5)));
      }
    }
  }
  const Array logits = make_inputs({std::make_shared<ops::Relu>(), {{{4, 5}}}}, DType::f32)[0];
  CHECK(emulate(ops::CrossEntropy(0), {logits, Array(DType::i32, {4})}).fault.kind == 0);
}

TEST_CASE("an emulated update changes nothing if a gradient is not finite") {
  const Data positive = Data::positive;
  const OpRow adam{
      std::make_shared<ops::AdamUpdate>(AdamOptions{.scaled = true}),
      {{{}, Data::rate}, {{}, Data::step}, {{}, Data::rate}, {{5000}}, {{5000}}, {{5000}}, {{5000}, positive}}};
  std::vector<Array> inputs = make_inputs(adam, DType::f32);
  inputs[2].as<double>()[0] = 0;
  inputs[4].as<float>()[4321] = std::numeric_limits<float>::infinity();
  const std::vector<Array> after = emulate(*adam.op, inputs).outputs;
  check_same(after, {inputs[3], inputs[5], inputs[6]});

  const std::vector<Array> state = {Array::scalar(8.0f), Array::scalar(3), Array::scalar(7)};
  for (const float value : {1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<Array> gradients = state;
    for (int i = 0; i < 500; ++i) gradients.push_back(Array(DType::f32, {i == 300 ? 9001 : i % 3}));
    gradients[303].as<float>()[9000] = value;
    const ops::LossScaleUpdate op(LossScaleOptions{});
    check_same(emulate(op, gradients).outputs, run_op(op, gradients));
  }
}

TEST_CASE("emulated compression sends the bytes of the CPU") {
  const auto check = [](Compression::Method method, double ratio, const std::vector<Array>& inputs) {
    CAPTURE(name_of(method));
    CAPTURE(ratio);
    CAPTURE(inputs[1].shape());
    const ops::Compress compress(method, ratio);
    const ops::Decompress decompress(method, ratio, inputs[1].dtype(), Shape{inputs[1].shape()[1]});
    const std::vector<Array> exact = run_op(compress, inputs), outputs = emulate(compress, inputs).outputs;
    check_same(outputs, emulate(compress, inputs, {.order = cuda_emulation::Order::shuffled, .garbage = 0}).outputs);
    check_emulated({outputs[1]}, {exact[1]}, inputs);
    if (method != Compression::Method::sign) CHECK(same_bytes(outputs[0], exact[0]));  // it adds in another order
    check_emulated(emulate(decompress, {outputs[0]}).outputs, run_op(decompress, {exact[0]}), inputs);
  };
  for (const Compression::Method method : kMethods) {
    for (const std::int64_t size : kCompressedSizes) {
      check(method, 0.1, compressed_inputs<float>(3, size));
      check(method, 0.3, compressed_inputs<double>(2, size, true));
    }
    for (const double ratio : {1e-9, 1.0}) check(method, ratio, compressed_inputs<float>(1, 1500, true));
    check(method, 0.01, {Array::scalar(1), filled(DType::f32, {2, 1100}, 0), filled(DType::f32, {2, 1100}, 0)});
  }
}

TEST_CASE("emulated batch norm is right on either side of the size that takes one launch") {
  for (const std::int64_t rows : {2, 3, 1023, 1024, 1025, 7001}) {
    for (const std::int64_t channels : {1, 8, 20, 264}) {
      if (rows * channels > 700000) continue;
      const Input x{{rows, channels}}, c{{channels}, Data::normal, true}, v{{channels}, Data::positive, true};
      const BatchNormOptions options{.activation = Activation::relu, .add = rows % 2 == 1};
      std::vector<Input> inputs = {x, c, c, c, v};
      if (options.add) inputs.push_back(x);
      std::vector<Input> backward = {x, x, c, c, v, options.add ? x : c};
      for (const OpRow& row : {OpRow{std::make_shared<ops::BatchNorm>(options), inputs},
                               OpRow{std::make_shared<ops::BatchNormBackward>(options), backward}}) {
        CAPTURE(describe(row));
        for (const DType dtype : {DType::f32, DType::bf16}) {
          const std::vector<Array> arrays = make_inputs(row, dtype);
          check_against_cpu(row, arrays, emulate(*row.op, arrays).outputs);
        }
      }
    }
  }
}

TEST_CASE(
    "emulated batch norm of few rows and many channels takes two launches whose blocks spread over a large device") {
  for (const std::int64_t channels : {256, 512}) {
    const Input x{{8, 14, 14, channels}}, c{{channels}, Data::normal, true}, v{{channels}, Data::positive, true};
    const BatchNormOptions options{.activation = Activation::relu};
    for (const OpRow& row : {OpRow{std::make_shared<ops::BatchNorm>(options), {x, c, c, c, v}},
                             OpRow{std::make_shared<ops::BatchNormBackward>(options), {x, x, c, c, v, c}}}) {
      CAPTURE(describe(row));
      const std::vector<Array> inputs = make_inputs(row, DType::bf16);
      const EmulatedRun run = emulate(*row.op, inputs, {.units = 132});
      check_against_cpu(row, inputs, run.outputs);
      REQUIRE(run.grids.size() == 2);
      CHECK(std::ranges::min(run.grids) >= 96);
    }
  }
}

TEST_CASE("emulated sums over rows are right with more columns of tiles than a stream has counters") {
  const OpRow row{std::make_shared<ops::ChannelSum>(), {{{40, 32 * 1029 + 1}}}};
  const std::vector<Array> inputs = make_inputs(row, DType::f32);
  check_against_cpu(row, inputs, emulate(*row.op, inputs, {.units = 2000}).outputs);
}

TEST_CASE("emulated batch norm keeps the digits of a small deviation from a large mean") {
  const std::int64_t rows = 5000, channels = 8;
  const Input c{{channels}, Data::normal}, v{{channels}, Data::positive};
  const OpRow row{std::make_shared<ops::BatchNorm>(BatchNormOptions{}), {{{rows, channels}}, c, c, c, v}};
  std::vector<Array> inputs = make_inputs(row, DType::f32);
  for (float& x : inputs[0].as<float>()) x = 1000 + x / 8;
  const std::vector<Array> given = emulate(*row.op, inputs).outputs, exact = run_op(*row.op, inputs);
  for (std::int64_t i = 0; i < channels; ++i) {
    CHECK(element(given[2], i) == doctest::Approx(element(exact[2], i)).epsilon(1e-4));
  }
}
