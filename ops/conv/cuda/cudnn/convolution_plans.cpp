#include "ops/conv/cuda/cudnn/convolution_plans.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "core/base/dynamic_library.h"

namespace braid::cuda {

namespace {

/// Plans built per problem. Costs differ little further down the ranking, but only measuring finds the best engine.
constexpr std::size_t kPlans = 4, kAutotunedPlans = 12;
/// Problems remembered per thread.
constexpr std::size_t kMostRemembered = 8192;
/// The alignment that all kernels may assume; arenas and parameters are aligned to more (kArenaAlignment).
constexpr std::int64_t kAlignment = 16;

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDNN_DATA_FLOAT;
    case DType::f64: return CUDNN_DATA_DOUBLE;
    case DType::f16: return CUDNN_DATA_HALF;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    default: throw DeviceError(message("[conv2d] cuDNN has no convolution of ", dtype, " tensors"));
  }
}

cudnnDataType_t compute_type(DType dtype) { return dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT; }

/// A tensor that is stored [N,H,W,C]. cuDNN names extents in the order NCHW whatever the strides.
Descriptor tensor(std::int64_t id, DType dtype, const Shape& shape, bool is_virtual = false) {
  const std::int64_t n = shape[0], h = shape[1], w = shape[2], c = shape[3];
  const std::array<std::int64_t, 4> extents{n, c, h, w}, strides{h * w * c, 1, w * c, c};
  Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, is_virtual ? compute_type(dtype) : data_type(dtype))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const std::int64_t>(extents))
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const std::int64_t>(strides))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual);
  descriptor.finalize();
  return descriptor;
}

Descriptor convolution(const Conv2dOptions& options, DType dtype) {
  const std::array<std::int64_t, 2> padding{options.padding.h, options.padding.w},
      stride{options.stride.h, options.stride.w}, dilation{options.dilation.h, options.dilation.w};
  Descriptor descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute_type(dtype))
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span<const std::int64_t>(padding))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span<const std::int64_t>(padding))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span<const std::int64_t>(stride))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span<const std::int64_t>(dilation));
  descriptor.finalize();
  return descriptor;
}

/// The attributes of a convolution node, which have other names for each direction.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
};
constexpr OperationNames kOperationNames[] = {  // by direction
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

Descriptor convolution_node(const ConvolutionProblem& problem, const Descriptor& x, const Descriptor& w,
                            const Descriptor& y) {
  const OperationNames& name = kOperationNames[static_cast<std::size_t>(problem.direction)];
  const Descriptor shape = convolution(problem.options, problem.dtype);
  Descriptor node(name.type);
  node.set(name.convolution, shape).set(name.x, x).set(name.w, w).set(name.y, y);
  if (problem.dtype == DType::f64) {
    node.set(name.alpha, 1.0).set(name.beta, 0.0);
  } else {
    node.set(name.alpha, 1.0f).set(name.beta, 0.0f);
  }
  node.finalize();
  return node;
}

/// y = mode(x, b), or mode(x) without b.
Descriptor pointwise_node(cudnnPointwiseMode_t mode, DType dtype, const Descriptor& x, const Descriptor* b,
                          const Descriptor& y) {
  Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute_type(dtype));
  function.finalize();
  Descriptor node(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  node.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) node.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  node.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  node.finalize();
  return node;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/// Deprecated since a described device may take the place of a handle. With a device, NVIDIA's front end, which PyTorch
/// uses, sets the same as we do: that of the graph always, that of the plan only if it comes from JSON. A plan that is
/// made of an engine config has the handle of its graph.
constexpr auto kGraphHandle = CUDNN_ATTR_OPERATIONGRAPH_HANDLE, kPlanHandle = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop

/// This thread's handle for making plans for a device. It is never destroyed: plans may refer to it, and the driver may
/// be unloaded before thread-local objects are destroyed.
cudnnHandle_t planning_handle(int device) {
  static thread_local std::map<int, cudnnHandle_t> handles;
  cudnnHandle_t& handle = handles[device];
  if (handle == nullptr) {
    BRAID_CUDA(cudaSetDevice(device));
    BRAID_CUDNN(cudnnCreate(&handle));
  }
  return handle;
}

/// Convolution, then bias and ReLU where they are asked for; what is between them is never stored.
Descriptor operation_graph(const ConvolutionProblem& problem) {
  constexpr std::int64_t kConvolved = 11, kBiased = 12;
  const DType dtype = problem.dtype;
  std::vector<Descriptor> nodes;
  const Descriptor x = tensor(kX, dtype, problem.x), w = tensor(kW, dtype, problem.w), y = tensor(kY, dtype, problem.y);
  if (!problem.bias && !problem.relu) {
    nodes.push_back(convolution_node(problem, x, w, y));
  } else {
    Descriptor last = tensor(kConvolved, dtype, problem.y, true);
    nodes.push_back(convolution_node(problem, x, w, last));
    if (problem.bias) {
      const Descriptor bias = tensor(kBias, dtype, {1, 1, 1, problem.y[3]});
      Descriptor sum = problem.relu ? tensor(kBiased, dtype, problem.y, true) : Descriptor();
      nodes.push_back(pointwise_node(CUDNN_POINTWISE_ADD, dtype, last, &bias, problem.relu ? sum : y));
      last = std::move(sum);
    }
    if (problem.relu) nodes.push_back(pointwise_node(CUDNN_POINTWISE_RELU_FWD, dtype, last, nullptr, y));
  }
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Descriptor& node : nodes) raw.push_back(node.get());
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<const cudnnBackendDescriptor_t>(raw));
  if (problem.properties.empty()) graph.set(kGraphHandle, planning_handle(problem.device));
  graph.finalize();
  return graph;
}

Descriptor described_device(std::string_view properties) {
  // Where there is no driver, cuDNN opens and closes the run-time compiler with every query. Held open, queries are ten
  // times as fast.
  static const DynamicLibrary runtime_compiler(message("libnvrtc.so.", CUDART_VERSION / 1000));
  Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::span<const char>(properties)).finalize();
  return device;
}

std::string text_of(const Descriptor& descriptor, cudnnBackendAttributeName_t name) {
  const std::vector<char> text = descriptor.get_all<char>(name, descriptor.count(name, CUDNN_TYPE_CHAR));
  return std::string(text.begin(), std::ranges::find(text, '\0'));
}

/// True for success, false for what cuDNN does not support. Throws DeviceError for every other status.
bool is_supported(cudnnStatus_t status, const char* call) {
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  check_cudnn(status, call);
  return true;
}

/// Calls failed(why) if cuDNN refuses what `action` asks for. If the device is lost, rethrows: trying something else
/// would not help.
void unless_lost(const auto& action, const auto& failed) {
  try {
    action();
  } catch (const DeviceLost&) {
    throw;
  } catch (const DeviceError& error) {
    failed(error.what());
  }
}

/// Engine configs by rank; none if the graph is beyond the mode.
std::vector<Descriptor> heuristics(cudnnBackendHeurMode_t mode, const ConvolutionProblem& problem,
                                   const Descriptor& graph, const Descriptor& device) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (device) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  if (problem.multiprocessors > 0) heuristic.set(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, problem.multiprocessors);
  if (!is_supported(cudnnBackendFinalize(heuristic.get()), "cudnnBackendFinalize(heuristics)")) return {};
  const std::int64_t count = heuristic.count(CUDNN_ATTR_ENGINEHEUR_RESULTS);
  return heuristic.get_all(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count);
}

/// Reads the properties of an engine config without building a plan.
ConvolutionCandidate describe(Descriptor config) {
  ConvolutionCandidate candidate;
  const Descriptor engine = config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  candidate.engine = engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  candidate.name = message("eng", candidate.engine);
  for (const Descriptor& knob : config.get_all(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                                               CUDNN_KNOB_TYPE_COUNTS)) {
    candidate.name += message("_k", knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE), '=',
                              knob.get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  candidate.numerical_notes =
      engine.get_all<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  candidate.behavior_notes =
      engine.get_all<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  candidate.workspace_bytes = static_cast<std::size_t>(config.get<std::int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE));
  candidate.config = std::move(config);
  return candidate;
}

/// Null if the engine turns out not to support the problem after all. Throws UnusablePlan.
std::shared_ptr<ConvolutionPlan> build(ConvolutionCandidate& candidate, std::size_t workspace_limit) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, candidate.config);
  bool supported = false;
  unless_lost([&] { supported = is_supported(cudnnBackendFinalize(plan.get()), "cudnnBackendFinalize(plan)"); },
              [&](const std::string& why) { throw UnusablePlan(candidate.name, why); });
  if (!supported) return nullptr;
  const auto workspace = static_cast<std::size_t>(plan.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  if (workspace > workspace_limit) return nullptr;
  return std::make_shared<ConvolutionPlan>(ConvolutionPlan{.name = candidate.name,
                                                           .rank = candidate.rank,
                                                           .workspace_bytes = workspace,
                                                           .config = std::move(candidate.config),
                                                           .plan = std::move(plan)});
}

/// A plan made from JSON, not finalized: it has no device yet.
Descriptor from_json_of(const Descriptor& plan) {
  const std::string text = text_of(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  Descriptor again(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  again.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, std::span<const char>(text));
  return again;
}

/// Everything known about a problem.
struct Known {
  bool built = false;
  ConvolutionPlans plans;
  std::map<std::string, std::string> unusable;  // names of plans, and what cuDNN said
};

Known& known(const ConvolutionProblem& problem) {
  static thread_local std::unordered_map<Hash, Known> remembered;
  const Hash key = problem.hash();
  if (remembered.size() >= kMostRemembered && !remembered.contains(key)) remembered.clear();
  return remembered[key];
}

}  // namespace

/// Called by ops/kernels/kernels.cpp.
std::string device_properties(int index) {
  Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, static_cast<std::int32_t>(index));
  device.finalize();
  return text_of(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
}

std::string ConvolutionProblem::description() const {
  constexpr std::string_view kNames[] = {"forward", "backward-data", "backward-filter"};
  std::string text = message(kNames[static_cast<std::size_t>(direction)], ' ', dtype, " convolution of ", x, " with ",
                             w, " (stride ", options.stride, ", padding ", options.padding, ", dilation ",
                             options.dilation, ", groups ", options.groups, ')');
  if (bias) text += " + bias";
  if (relu) text += " + ReLU";
  return text;
}

Hash ConvolutionProblem::hash() const {
  Hash key;
  key.add(static_cast<int>(direction)).add(static_cast<int>(dtype));
  for (const Shape& shape : {x, w, y}) attribute::add_to(key, shape);
  for (const Extent2d& extent : {options.stride, options.padding, options.dilation}) attribute::add_to(key, extent);
  for (const bool flag : {bias, relu, tf32, direct, deterministic, autotune}) key.add(flag);
  return key.add(std::uint64_t{workspace_limit}).add(multiprocessors).add(device).add(properties);
}

bool ConvolutionCandidate::has(cudnnBackendNumericalNote_t note) const {
  return std::ranges::find(numerical_notes, note) != numerical_notes.end();
}

bool ConvolutionCandidate::compiles() const {
  return std::ranges::find(behavior_notes, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != behavior_notes.end();
}

bool ConvolutionCandidate::suits(const ConvolutionProblem& problem) const {
  if (workspace_bytes > problem.workspace_limit) return false;
  if (problem.deterministic && !deterministic()) return false;
  const auto transforms = {CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD,
                           CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
                           CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13};
  if (problem.direct && std::ranges::any_of(transforms, [&](auto note) { return has(note); })) return false;
  if (has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return false;
  const bool rounds_f32 = has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) || has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  return problem.dtype != DType::f32 || problem.tf32 || !rounds_f32;
}

std::vector<ConvolutionCandidate> convolution_candidates(const ConvolutionProblem& problem,
                                                         const std::map<std::string, std::string>& unusable) {
  const Descriptor graph = operation_graph(problem);
  const Descriptor device = problem.properties.empty() ? Descriptor() : described_device(problem.properties);
  std::vector<ConvolutionCandidate> candidates;
  std::string refused;  // why cuDNN did not describe a candidate
  for (const auto& [mode, name] :
       {std::pair{CUDNN_HEUR_MODE_A, "heuristics A"}, std::pair{CUDNN_HEUR_MODE_FALLBACK, "heuristics FALLBACK"}}) {
    if (unusable.contains(name)) continue;
    std::vector<Descriptor> configs;
    unless_lost([&] { configs = heuristics(mode, problem, graph, device); },
                [&](const std::string& why) { throw UnusablePlan(name, why); });
    for (Descriptor& config : configs) {
      ConvolutionCandidate candidate;
      unless_lost([&] { candidate = describe(std::move(config)); }, [&](const std::string& why) { refused = why; });
      if (!candidate.config || unusable.contains(candidate.name)) continue;
      if (std::ranges::find(candidates, candidate.name, &ConvolutionCandidate::name) != candidates.end()) continue;
      candidate.rank = static_cast<int>(candidates.size());
      candidates.push_back(std::move(candidate));
    }
  }
  BRAID_CHECK(!candidates.empty() || refused.empty(), DeviceError, refused);
  return candidates;
}

ConvolutionPlans build_plans(const ConvolutionProblem& problem, std::vector<ConvolutionCandidate> candidates,
                             std::size_t most) {
  std::erase_if(candidates, [&](const ConvolutionCandidate& candidate) { return !candidate.suits(problem); });
  // Compiling takes about a second, and is not possible for a device that is only described: one such plan, if
  // necessary.
  if (std::ranges::all_of(candidates, &ConvolutionCandidate::compiles)) {
    most = std::min<std::size_t>(most, 1);
  } else {
    std::erase_if(candidates, &ConvolutionCandidate::compiles);
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i].rank = static_cast<int>(i);
  if (problem.autotune) {  // the best candidate of each engine comes first
    std::set<std::int64_t> engines;
    std::ranges::stable_partition(candidates, [&](const auto& each) { return engines.insert(each.engine).second; });
  }
  ConvolutionPlans plans;
  const auto add = [&](ConvolutionCandidate& candidate) {
    if (auto plan = build(candidate, problem.workspace_limit)) plans.push_back(std::move(plan));
  };
  std::size_t next = 0;
  for (const std::size_t by_rank = most > 1 ? most - 1 : most; next < candidates.size() && plans.size() < by_rank;) {
    add(candidates[next++]);
  }
  // The last one is for short memory: the best of those with the least workspace, unless one with as little is already
  // included.
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const auto& plan : plans) least = std::min(least, plan->workspace_bytes);
  const std::span rest = std::span(candidates).subspan(next);
  std::ranges::stable_sort(rest, {}, &ConvolutionCandidate::workspace_bytes);
  for (ConvolutionCandidate& candidate : rest) {
    if (plans.size() == most || candidate.workspace_bytes >= least) break;
    add(candidate);
  }
  std::ranges::sort(plans, {}, [](const auto& plan) { return plan->rank; });
  return plans;
}

ConvolutionPlans convolution_plans(const ConvolutionProblem& problem) {
  Known& of = known(problem);
  for (const auto& plan : of.plans) {
    if (plan->failure.empty()) continue;
    of.unusable.emplace(plan->name, plan->failure);
    of.built = false;
  }
  if (of.built) return of.plans;
  of.plans.clear();
  const auto build_for = [&](const ConvolutionProblem& asked) {
    return build_plans(asked, convolution_candidates(asked, of.unusable), asked.autotune ? kAutotunedPlans : kPlans);
  };
  try {
    of.plans = build_for(problem);
    if (of.plans.empty() && problem.multiprocessors > 0) {
      ConvolutionProblem whole = problem;
      whole.multiprocessors = 0;
      of.plans = build_for(whole);
    }
  } catch (const UnusablePlan& error) {
    of.unusable.emplace(error.plan, error.what());
    throw;
  }
  of.built = true;
  return of.plans;
}

Descriptor reload(const Descriptor& plan, cudnnHandle_t device) {
  Descriptor again = from_json_of(plan);
  again.set(kPlanHandle, device).finalize();
  return again;
}

Descriptor reload(const Descriptor& plan, std::string_view device_properties) {
  Descriptor again = from_json_of(plan);
  again.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, described_device(device_properties)).finalize();
  return again;
}

void execute(ConvolutionPlan& plan, cudnnHandle_t handle, const Descriptor& variant_pack) {
  const auto run = [&] { BRAID_CUDNN(cudnnBackendExecute(handle, plan.plan.get(), variant_pack.get())); };
  if (plan.executed) return run();
  try {
    run();
  } catch (const DeviceError& error) {
    cudaStream_t stream = nullptr;
    BRAID_CUDNN(cudnnGetStream(handle, &stream));
    BRAID_CUDA(cudaStreamSynchronize(stream));  // or what ran before has failed, and not the plan
    const auto run_again = [&] {
      plan.plan = reload(plan.plan, handle);
      run();
    };
    unless_lost(run_again, [&](const std::string&) {
      plan.failure = error.what();
      throw UnusableKernel(message("[conv2d] cuDNN does not execute its plan ", plan.name, ": ", plan.failure));
    });
  }
  plan.executed = true;
}

std::string why_no_plan(const ConvolutionProblem& problem) {
  if (const auto& unusable = known(problem).unusable; !unusable.empty()) {
    return message("[conv2d] none of cuDNN's plans works for the ", problem.description(), ": ",
                   unusable.begin()->first, ": ", unusable.begin()->second);
  }
  return message("[conv2d] cuDNN has no ", problem.deterministic ? "deterministic " : "",
                 problem.direct ? "direct " : "", "algorithm for the ", problem.description(), " within ",
                 problem.workspace_limit, " bytes of workspace",
                 problem.dtype == DType::f32 && !problem.tf32 ? " and without tf32" : "", ": allow more workspace",
                 problem.deterministic ? ", or set deterministic: false" : "");
}

}  // namespace braid::cuda
