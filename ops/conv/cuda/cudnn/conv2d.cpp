// Convolutions by cuDNN: one implementation per execution plan (convolution_plans.h).

#include "ops/conv/conv2d.h"

#include <optional>

#include "ops/conv/cuda/cudnn/convolution_plans.h"
#include "ops/kernels/cuda/cuda_kernel.h"
#include "ops/kernels/cuda/empty.h"
#include "ops/matmul/cuda/bias.h"

namespace braid::cuda {

namespace {

using Direction = ConvolutionProblem::Direction;

/// How much longer each further plan is assumed to take. The heuristics give an order and no times, so this only keeps
/// the order unless something else, such as memory, decides against it.
constexpr double kTimePerRank = 0.05;

/// Adds the bias, if there is one, and activates after a plan that leaves both out. The bias is the node's last input,
/// and not among the plan's ids.
struct Finish {
  bool has_bias;
  Activation activation;
  ValueDesc y;
  int units;
};

/// Executes a plan. The addresses are put into a variant pack once; a launch is one call of cuDNN.
class ConvolutionKernel final : public Kernel {
 public:
  /// `ids` are the plan's ids of the node's inputs, then of its outputs.
  ConvolutionKernel(std::shared_ptr<ConvolutionPlan> plan, std::vector<std::int64_t> ids, std::optional<Finish> finish)
      : plan_(std::move(plan)), ids_(std::move(ids)), finish_(std::move(finish)) {}

  std::size_t workspace_bytes() const override { return plan_->workspace_bytes; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    std::vector<void*> addresses(inputs.begin(), inputs.end());
    if (finish_.has_value() && finish_->has_bias) {
      bias_ = addresses.back();
      addresses.pop_back();
    }
    addresses.insert(addresses.end(), outputs.begin(), outputs.end());
    y_ = outputs[0];
    pack_ = Descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack_.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const std::int64_t>(ids_))
        .set_addresses(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
        .set_addresses(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::span<void* const>(&workspace, 1))
        .finalize();
  }

  bool is_untried() const override { return !plan_->executed; }

  void launch(const LaunchContext& context) override {
    const StreamHandles& stream = handles(context);
    execute(*plan_, stream.cudnn, pack_);
    if (!finish_.has_value()) return;
    const auto& [dtype, shape] = finish_->y;
    add_bias(stream, finish_->units, y_, bias_, finish_->activation, shape.size() / shape[3], shape[3], dtype);
  }

 private:
  std::shared_ptr<ConvolutionPlan> plan_;
  std::vector<std::int64_t> ids_;
  std::optional<Finish> finish_;
  Descriptor pack_;
  void* bias_ = nullptr;
  void* y_ = nullptr;
};

ConvolutionProblem problem_of(const KernelSpec& spec, Direction direction, const Conv2dOptions& options,
                              const ValueDesc& x, const ValueDesc& w, const ValueDesc& y) {
  BRAID_CHECK(spec.info != nullptr, Error, "[", spec.op.name(), "] a CUDA kernel needs to know its device");
  return {.direction = direction,
          .dtype = x.dtype,
          .x = x.shape,
          .w = w.shape,
          .y = y.shape,
          .options = options,
          .tf32 = spec.tf32,
          .direct = spec.direct,
          .deterministic = spec.deterministic,
          .autotune = spec.autotune,
          .workspace_limit = spec.workspace_limit,
          .multiprocessors = spec.multiprocessors,
          .device = spec.device.index,
          .properties = spec.info->properties};
}

Implementations implementations(const ConvolutionPlans& plans, const std::vector<std::int64_t>& ids,
                                const std::optional<Finish>& finish = {}) {
  Implementations list;
  for (const auto& plan : plans) {
    list.push_back({.kernel = std::make_unique<ConvolutionKernel>(plan, ids, finish),
                    .relative_time = (1 + kTimePerRank * plan->rank) / (1 + kTimePerRank * plans.front()->rank),
                    .name = plan->name});
  }
  return list;
}

Implementations gradient(const ConvolutionProblem& problem, const std::vector<std::int64_t>& ids) {
  const ConvolutionPlans plans = convolution_plans(problem);
  if (plans.empty()) throw DeviceError(why_no_plan(problem));
  return implementations(plans, ids);
}

}  // namespace

Implementations make_conv2d(const KernelSpec& spec) {
  if (is_empty(spec)) return zeros(spec);
  const Conv2dOptions& options = spec.attributes<ops::Conv2d>();
  const bool bias = spec.inputs.size() == 3, activates = options.activation != Activation::none;
  ConvolutionProblem problem =
      problem_of(spec, Direction::forward, options, spec.inputs[0], spec.inputs[1], spec.outputs[0]);
  problem.bias = bias;
  problem.relu = activates;
  const bool fuses = options.activation != Activation::relu6;  // whether the plans here do
  const ConvolutionPlans whole = fuses ? convolution_plans(problem) : ConvolutionPlans();
  if (!whole.empty()) {
    return implementations(whole,
                           bias ? std::vector<std::int64_t>{kX, kW, kBias, kY} : std::vector<std::int64_t>{kX, kW, kY});
  }
  problem.bias = problem.relu = false;
  const ConvolutionPlans plain = bias || activates ? convolution_plans(problem) : whole;
  if (plain.empty()) throw DeviceError(why_no_plan(problem));
  return implementations(plain, {kX, kW, kY}, Finish{bias, options.activation, spec.outputs[0], spec.info->capacity});
}

Implementations make_conv2d_backward_data(const KernelSpec& spec) {
  if (is_empty(spec)) return zeros(spec);
  const Conv2dOptions& options = spec.attributes<ops::Conv2dBackwardData>().options;
  const auto &dx = spec.outputs[0], &w = spec.inputs[1], &dy = spec.inputs[0];
  return gradient(problem_of(spec, Direction::backward_data, options, dx, w, dy), {kY, kW, kX});
}

Implementations make_conv2d_backward_filter(const KernelSpec& spec) {
  if (is_empty(spec)) return zeros(spec);
  const Conv2dOptions& options = spec.attributes<ops::Conv2dBackwardFilter>().options;
  const auto &x = spec.inputs[0], &dw = spec.outputs[0], &dy = spec.inputs[1];
  return gradient(problem_of(spec, Direction::backward_filter, options, x, dw, dy), {kX, kY, kW});
}

}  // namespace braid::cuda
