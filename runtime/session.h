#pragma once
// A session owns a device's streams, the persistent tensors of its models, and the plans of the steps it has seen. A
// step is recorded eagerly, then planned as a whole (or found in the plan cache) and executed on all streams.

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "autograd/tape.h"
#include "core/device/backend.h"
#include "ops/kernels/kernels.h"
#include "scheduler/plan.h"

namespace braid {

class Executable;

struct SessionOptions {
  std::string device = "auto";  ///< auto (runtime/device_check.h), cpu, cuda, cuda:N
  int streams = 0;              ///< streams to schedule on; 0 (auto): the fastest of serial and concurrent plans
  /// CUDA: streams that each own this number of SMs, instead of `streams` that share all; empty for none.
  std::vector<int> partition = {};
  std::string policy = "critical_path";  ///< how nodes are placed on streams
  int intra_op_threads = 0;              ///< cores of every node on CPU; 0: the scheduler chooses for each
  int threads = 0;                       ///< cores to use on CPU; 0: all
  std::uint64_t seed = 1;                ///< seed of weights and dropout
  bool draw_weights = true;              ///< false: weights are zero, for steps that are recorded and do not run
  bool cuda_graphs = true;               ///< replay plans that are used again as one CUDA graph each
  std::size_t workspace_limit = KernelSpec::kWorkspaceLimit;  ///< bytes of scratch memory of a kernel, on CUDA
  /// Time the implementations of a node (algorithms, widths) when a plan is made, instead of trusting estimates.
  bool autotune = false;
  std::int64_t memory_limit = 0;  ///< bytes that the arena of a plan may take; 0: whatever the device has
  /// Whether f32 convolutions and matrix products may round operands to tf32, on a GPU that has it. Empty: they may.
  std::optional<bool> tf32 = {};
  /// Algorithms of convolutions: auto, or direct for none that transforms images (Winograd's, Fourier's). These spread
  /// a NaN or an infinity over neighbouring pixels, and round relative to the largest of them.
  std::string convolution = "auto";
  /// On CUDA, choose only deterministic algorithms and, without a memory limit, the same ones for any number of
  /// streams; the CPU always does.
  bool deterministic = true;
  std::string profile = {};  ///< file of measured durations to plan with (scheduler/costs/profile.h)
  ParallelOptions parallel = {};
};

/// Whether f32 convolutions and matrix products do round operands to tf32 on a device with these options.
inline bool rounds_to_tf32(const SessionOptions& options, const DeviceInfo& device) {
  return device.has_tf32() && options.tf32.value_or(true);
}

/// What a session has done so far.
struct SessionStats {
  std::int64_t steps = 0;
  std::int64_t plans = 0;  ///< plans made: steps whose structure was new
  std::int64_t cache_hits = 0;
  std::size_t arena_bytes = 0;          ///< the arena all plans share
  std::size_t persistent_bytes = 0;     ///< parameters and state
  std::int64_t captures = 0;            ///< CUDA graphs made, of plans or of plans whose arena had moved
  double capture_seconds = 0;           ///< spent on that
  scheduler::ProfileUse measured = {};  ///< measured nodes of the newest plan, if SessionOptions::profile is given
};

class Session;

/// One step: records from its creation to run(), and can be read until the session's next step. A session records one
/// at a time. A step that is destroyed before it ran is discarded, with a warning if it was to update parameters.
class [[nodiscard]] Step final : public ValueReader {
 public:
  ~Step() override;
  Step(Step&& other) noexcept;
  Step& operator=(Step&& other) noexcept;

  /// Plans (or finds the plan), starts the execution and returns; on CPU, a step that is predicted to take at most 50
  /// µs on one stream runs in this thread. Waits for the previous step first (on CUDA for the one before it); throws
  /// what went wrong in it. Throws Error if the step has run already, or is not the session's newest; so do all that
  /// follow.
  void run();
  /// Makes the plan and room in memory for it, so that a later step like this finds both; the step does not run. Throws
  /// OutOfMemory as run() would.
  void plan_ahead();
  /// Gives up a step that is not to run, such as one recorded for its graph alone. Nothing more can be recorded.
  void discard();
  /// Like run(), but waits for the step, and tells when each launch ran on its device, by the nodes of graph(). Throws
  /// what went wrong in it.
  RunTimes measure();
  /// The plan in use; valid until the session's next step. Throws Error before run().
  const scheduler::Plan& plan() const;
  /// The graph that it is a plan of: the recorded one, but for chains of elementwise functions, each of which is one
  /// node, and recomputed nodes, in checkpointed blocks or under a memory limit. Throws Error before run().
  const StepGraph& graph() const;
  /// The implementation of a node of that graph in the plan in use. Throws Error before run().
  const scheduler::Cost& chosen(NodeId node) const;
  /// The work of a node of that graph, with the arithmetic of the algorithm in use. Throws Error before run().
  Work work(NodeId node) const;
  /// The recorded node that a node of that graph is, or recomputes. Throws Error before run().
  NodeId recorded_node(NodeId node) const;
  Array read_value(ValueId value) override;
  std::shared_ptr<Delivery> fetch_value(ValueId value) override;

 private:
  friend class Session;
  explicit Step(Session& session);
  /// Throws Error if the session has been destroyed or has begun another step.
  Session& session() const;
  /// Ends the step: what was fetched will never arrive, and nothing can be read any more.
  void end();
  void take(Step& other) noexcept;
  void warn_if_not_run() const;
  /// Finds or makes the plan and sends the inputs: all that comes before the launch.
  Executable& prepare();
  /// Launches, waits and sends what was fetched. Returns when each node ran.
  RunTimes run_measured(Executable& executable);
  const Executable& executable() const;
  /// Sends what was fetched to the host, after the launch.
  void send_fetched();
  /// Waits for the step. Throws its fault, at every call.
  void finish();

  Session* session_;  // null once the session is destroyed or has begun another step
  std::optional<Tape::Guard> guard_;
  int exceptions_;  // in flight when it was made
  bool discarded_ = false;
  Executable* executable_ = nullptr;
  std::exception_ptr fault_;  // this step's fault; every read throws it
  std::vector<std::pair<ValueId, std::shared_ptr<Delivery>>> fetched_;
};

/// Use it from one thread at a time.
class Session : public Context {
 public:
  /// Throws DeviceError if the device is not usable, fails its check or is not that of the costs, DataError if these
  /// cannot be read, Error on an unknown policy or options out of range.
  explicit Session(const SessionOptions& options = {});
  ~Session() override;

  /// Starts a step; earlier tensors become stale. Throws Error if another step is being recorded, which has neither run
  /// nor been destroyed.
  [[nodiscard]] Step step();
  /// Waits for the running step. Throws what went wrong in it.
  void synchronize() override;

  /// Begins to copy arrays that the next step will take as inputs to the device, while this one is still running. They
  /// must stay unchanged until then. Optional; useful on CUDA only.
  void prefetch(std::span<const Array> arrays);

  Tape& tape() { return tape_; }
  const SessionOptions& options() const { return options_; }
  SessionStats stats() const;
  /// Why the plan in use was kept, and what it does without; empty if there was nothing to choose.
  std::string choice_report() const;
  /// The same in brief, for users.
  std::string choice_summary() const;

  /// What the plan in use gave up to fit into memory; empty if nothing.
  std::string memory_report() const;

  /// Why a plan runs without the CUDA graph that it should have become: the first such failure, with the op that caused
  /// it; empty if there was none.
  const std::string& capture_report() const { return capture_report_; }

  /// The clock by which implementations of nodes were timed, as "graph replay"; empty unless SessionOptions::autotune.
  std::string autotune_clock() const;

  /// How many steps the training will take. Comparing plans then loses at most about 2 % of a short one.
  void expect_steps(std::int64_t steps);

  /// Whether the plan of the last step is still being compared with others.
  bool choosing() const;

  /// See StreamGroup::set_observer.
  void set_observer(LaunchObserver* observer);

  /// The clock by which plans are compared, in place of the steady one. For tests.
  void set_clock(std::function<std::chrono::steady_clock::time_point()> now) { now_ = std::move(now); }

 private:
  friend class Step;
  class Use;
  /// Finds or makes the plan of the recorded step.
  Executable& find_plan();
  /// A failure is no error: the plan then runs launch by launch.
  void capture(Executable& executable);
  /// Waits as StreamGroup::admit does.
  void admit();
  void note_launch();
  /// Called when all but the last few steps have ended: what was fetched from them has arrived.
  void settle(std::int64_t running);
  /// Called when a step has failed: hands its fault to what was fetched, and undoes what recording it and later steps
  /// has changed.
  void fail(const std::exception_ptr& fault);
  /// Does so with the exception that is being handled, and tells the other ranks, which would wait for this one.
  void fail_on_all_ranks();

  /// Values in flight from a step that was launched.
  struct Underway {
    std::int64_t step;
    std::shared_ptr<Delivery> delivery;
  };

  SessionOptions options_;
  std::unique_ptr<StreamGroup> streams_;
  struct Planning;
  std::unique_ptr<Planning> planning_;
  std::function<std::chrono::steady_clock::time_point()> now_ = std::chrono::steady_clock::now;
  std::chrono::steady_clock::time_point started_;  // the last step whose plan was not compared
  std::atomic<std::thread::id> user_;              // the thread that is in a call
  Tape tape_;
  Step* step_ = nullptr;           // the newest, while it lives
  std::vector<Array> prefetched_;  // kept until the next step has taken them
  std::vector<Underway> underway_;
  std::vector<std::pair<std::int64_t, Tape::Undo>> launched_;  // steps that may still fail
  std::int64_t steps_ = 0;
  std::int64_t captures_ = 0;
  double capture_seconds_ = 0;
  std::string capture_report_;
};

}  // namespace braid
