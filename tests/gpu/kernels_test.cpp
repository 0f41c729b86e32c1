// Every row of the op table on the device, in every floating type, against plain loops on the CPU in f64.

#include <algorithm>

#include "tests/gpu/gpu_test.h"
#include "tests/ops/check_close.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/op_table.h"
#include "tests/test_program.h"

namespace braid::testing {
namespace {

class OpRunner {
 public:
  OpRunner() : backend_(make_backend(Device::parse(test_device()))), streams_(backend_->make_streams({.count = 1})) {}

  /// The outputs of an op. Outputs, workspace and what lies behind them hold `garbage` before the run.
  std::vector<Array> run(const Op& op, const std::vector<Array>& given, bool tf32, std::uint8_t garbage) {
    std::vector<ValueDesc> input_descs;
    std::vector<OutputDesc> inferred;
    std::vector<Buffer> buffers;
    std::vector<void*> inputs, outputs;
    for (const Array& array : given) {
      input_descs.push_back(desc_of(array));
      inputs.push_back(upload(array, buffers));
    }
    op.infer(input_descs, inferred);
    const std::vector<ValueDesc> output_descs = descs_of(inferred);
    for (std::size_t i = 0; i < inferred.size(); ++i) {
      const int shared = inferred[i].overwrites;
      outputs.push_back(shared >= 0 ? inputs[static_cast<std::size_t>(shared)]
                                    : upload(filled(output_descs[i].dtype, output_descs[i].shape, garbage), buffers));
    }
    const auto kernel = make_kernel(backend_->device().type, {.op = op,
                                                              .inputs = input_descs,
                                                              .outputs = output_descs,
                                                              .tf32 = tf32,
                                                              .device = backend_->device(),
                                                              .info = &backend_->info()});
    const auto workspace_bytes = static_cast<std::int64_t>(kernel->workspace_bytes());
    kernel->bind(inputs, outputs, upload(filled(DType::u8, {workspace_bytes}, garbage), buffers));
    const TestProgram program({{testing::launch(*kernel)}});
    streams_->launch(program);
    streams_->synchronize();

    std::vector<Array> results;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      results.emplace_back(output_descs[i].dtype, output_descs[i].shape);
      if (results.back().bytes() > 0) {
        backend_->copy_to_host(results.back().data(), outputs[i], results.back().bytes());
      }
    }
    return results;
  }

 private:
  void* upload(const Array& array, std::vector<Buffer>& buffers) {
    buffers.push_back(backend_->allocate(std::max<std::size_t>(array.bytes(), 1)));
    if (array.bytes() > 0) backend_->copy_to_device(buffers.back().data(), array.data(), array.bytes());
    return buffers.back().data();
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<StreamGroup> streams_;
};

/// Inputs and outputs are rounded to the row's type, sums are held in f32.
double relative_error(const OpRow& row, const std::vector<Array>& inputs, const Array& output, DType dtype, bool tf32) {
  const auto rounding = [&](DType type) { return tf32 && type == DType::f32 ? 0x1p-11 : unit_roundoff(type); };
  return sum_error(reduction_length(row, inputs, output), rounding(computed_in(dtype)),
                   std::max(rounding(dtype), rounding(output.dtype())));
}

void check_row(OpRunner& runner, const OpRow& row, DType dtype, bool tf32) {
  CAPTURE(describe(row));
  CAPTURE(dtype);
  const std::vector<Array> inputs = make_inputs(row, dtype);
  const std::vector<Array> outputs = runner.run(*row.op, inputs, tf32, 0xff);
  check_close(outputs, exact_outputs(row, inputs),
              [&](const Array& output) { return relative_error(row, inputs, output, dtype, tf32); });
  const std::vector<Array> again = runner.run(*row.op, inputs, tf32, 0x00);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CHECK(same_bytes(outputs[i], again[i]));  // deterministic, and nothing of the garbage is left
  }
}

/// A subcase for each op: the program can run one alone, if another hangs or leaves the device unusable.
void check_every_op(DType dtype, bool tf32 = false) {
  OpRunner runner;
  for (const std::string_view name : kernel_names(DeviceType::cpu)) {
    SUBCASE(std::string(name).c_str()) {
      for (const OpRow& row : op_table()) {
        if (row.op->name() != name || (tf32 && !runs_in_library(name))) continue;
        if (computed_in(dtype) == dtype || has_low_precision(row)) check_row(runner, row, dtype, tf32);
      }
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("smoke");

DEVICE_TEST_CASE("every op agrees with plain loops in f32") { check_every_op(DType::f32); }

TEST_SUITE_END();

GPU_TEST_CASE("every CPU kernel has a CUDA kernel") {
  CHECK(kernel_names(DeviceType::cuda) == kernel_names(DeviceType::cpu));
}
GPU_TEST_CASE("every op in a library agrees with plain loops in tf32") { check_every_op(DType::f32, true); }
DEVICE_TEST_CASE("every op agrees with plain loops in bf16") { check_every_op(DType::bf16); }
DEVICE_TEST_CASE("every op agrees with plain loops in f16") { check_every_op(DType::f16); }

}  // namespace braid::testing
