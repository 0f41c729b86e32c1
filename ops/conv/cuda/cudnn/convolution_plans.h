#pragma once
// The implementations that cuDNN has for a convolution. cuDNN's heuristics rank its engines for a problem and a device;
// those that violate the caller's requirements (bitwise reproducible, direct, no tf32, limited workspace) are left out,
// and a few of the others become execution plans. Given the properties of a device, none of this needs the device;
// otherwise plans are made with this thread's cuDNN handle for the device, and any handle of the device may execute
// them.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "ops/conv/conv2d.h"
#include "ops/conv/cuda/cudnn/descriptor.h"
#include "ops/kernels/kernels.h"

namespace braid::cuda {

/// A convolution or one of its gradients, and the requirements for its plans.
struct ConvolutionProblem {
  enum class Direction : std::uint8_t { forward, backward_data, backward_filter };
  Direction direction = Direction::forward;
  DType dtype = DType::f32;  ///< type of all tensors; f16 and bf16 are accumulated in f32
  Shape x, w, y;             ///< [N,H,W,C], [K,R,S,C/groups], [N,P,Q,K]
  Conv2dOptions options;
  bool bias = false;  ///< forward: add a bias [K]
  bool relu = false;  ///< forward: ReLU after the bias (the activation of `options` is ignored)
  bool tf32 = false;
  bool direct = false;  ///< neither Winograd's algorithm nor Fourier transforms
  bool deterministic = true;
  bool autotune = false;                                 ///< plans will be timed: offer more, of different engines
  std::size_t workspace_limit = std::size_t{256} << 20;  ///< bytes
  /// The most multiprocessors that the kernel should use, as a target of the heuristics; 0: all. cuDNN 9.19 then has
  /// tensor-core plans only, for an H200 up to about 16 multiprocessors, and no candidate at all in other cases, where
  /// convolution_plans does without the target.
  int multiprocessors = 0;
  int device = 0;               ///< CUDA index, if `properties` is empty
  std::string_view properties;  ///< the device as cuDNN describes it (JSON); then the device is not needed

  /// Text such as "forward f32 [32,56,56,64] * [64,3,3,64] stride 1x1, …", for messages.
  std::string description() const;
  Hash hash() const;
};

/// An engine with its settings, as the heuristics rank them.
struct ConvolutionCandidate {
  std::string name;         ///< as "eng55_k2=9_k13=1": the engine and its knobs
  std::int64_t engine = 0;  ///< cuDNN's index of the engine
  int rank = 0;             ///< 0: the heuristics expect it to be the fastest
  std::size_t workspace_bytes = 0;
  std::vector<cudnnBackendNumericalNote_t> numerical_notes;
  std::vector<cudnnBackendBehaviorNote_t> behavior_notes;
  Descriptor config;

  bool deterministic() const { return !has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC); }
  bool has(cudnnBackendNumericalNote_t note) const;
  /// Whether its kernel is compiled when the plan is built.
  bool compiles() const;
  /// Whether it meets the problem's requirements.
  bool suits(const ConvolutionProblem& problem) const;
};

/// A candidate made ready to execute.
struct ConvolutionPlan {
  std::string name;
  int rank = 0;
  std::size_t workspace_bytes = 0;
  Descriptor config, plan;
  bool executed = false;     ///< once, without an error
  std::string failure = {};  ///< why it cannot be executed, in cuDNN's words
};
using ConvolutionPlans = std::vector<std::shared_ptr<ConvolutionPlan>>;

/// Unique ids of the tensors in a plan's variant pack.
enum TensorId : std::int64_t { kX = 1, kW, kY, kBias };

/// A plan could not be built, or one of cuDNN's heuristics failed, for a reason other than lack of support.
struct UnusablePlan : UnusableKernel {
  UnusablePlan(std::string name, const std::string& text) : UnusableKernel(text), plan(std::move(name)) {}
  std::string plan;
};

/// Everything cuDNN offers for the problem, by rank, suitable or not, without what is known to be unusable (names, and
/// why). Empty if it has nothing. Skips candidates that cuDNN does not describe. Throws UnusablePlan if one of its
/// heuristics fails, DeviceError if that skips all of them.
std::vector<ConvolutionCandidate> convolution_candidates(const ConvolutionProblem& problem,
                                                         const std::map<std::string, std::string>& unusable = {});

/// The best few suitable plans, by rank, one with the least workspace always among them. Empty if there is none.
/// Remembered per thread and problem: layers repeat, and cuDNN does not promise that a plan may be executed by two
/// threads at a time. Throws UnusablePlan; called again, it does without that plan, and without those that failed when
/// they were executed.
ConvolutionPlans convolution_plans(const ConvolutionProblem& problem);

/// The same from given candidates, and not remembered: at most `most` plans.
ConvolutionPlans build_plans(const ConvolutionProblem& problem, std::vector<ConvolutionCandidate> candidates,
                             std::size_t most);

/// Enqueues a plan. One that cuDNN does not execute the first time is reloaded and executed again. Throws
/// UnusableKernel if that fails too, and DeviceError if the device is lost or a plan fails that has worked.
void execute(ConvolutionPlan& plan, cudnnHandle_t handle, const Descriptor& variant_pack);

/// The same plan made from its JSON, for a device: NVIDIA's method to plan without a device and execute on one.
Descriptor reload(const Descriptor& plan, cudnnHandle_t device);
Descriptor reload(const Descriptor& plan, std::string_view device_properties);

/// A sentence about a problem without plans, that says what to change.
std::string why_no_plan(const ConvolutionProblem& problem);

}  // namespace braid::cuda
