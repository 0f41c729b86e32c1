#include "tests/scheduler/step_protocols.h"

#include <algorithm>

#include "core/base/align.h"

namespace braid::scheduler::testing {
namespace {

/// Operations in the order of issue, with the plan's commands as both protocols have them. The persistent tensors lie
/// behind the arena.
class Maker {
 public:
  Maker(const StepGraph& graph, const Costs& costs, const Plan& plan)
      : plan_(plan), end_(plan.arena_bytes), memory_(graph, costs, plan, 0, slots(graph, end_)) {
    inputs_ = memory_.inputs();
    add({.name = "the host, before the first step,", .accesses = memory_.initial()});
  }

 protected:
  int stream_count() const { return static_cast<int>(plan_.commands.streams.size()); }
  static int queue(int stream) { return 1 + stream; }

  void add(Operation operation) { operations_.push_back(std::move(operation)); }
  void record(int step, int queue, std::int32_t event, const char* what) {
    add({.kind = Operation::Kind::record, .queue = queue, .name = message("step ", step, ": ", what), .event = event});
  }
  /// `occurrence` as in Operation.
  void wait(int step, int queue, std::int32_t event, std::int32_t occurrence, const char* what) {
    const std::string who = queue == kHost ? "the host" : message("stream ", queue - 1);
    const std::string name = message("step ", step, ": ", who, "'s wait for ", what);
    add({.kind = Operation::Kind::wait, .queue = queue, .name = name, .event = event, .occurrence = occurrence});
  }

  /// The streams issue one launch each in rotation; one that waits for an unrecorded event is skipped.
  void run_plan(int step) {
    std::vector<std::size_t> next(plan_.commands.streams.size());
    std::vector<bool> recorded(static_cast<std::size_t>(plan_.commands.events));
    for (bool progress = true; progress;) {
      progress = false;
      for (int s = 0; s < stream_count(); ++s) {
        const auto& commands = plan_.commands.streams[static_cast<std::size_t>(s)];
        for (auto& i = next[static_cast<std::size_t>(s)]; i < commands.size();) {
          const auto [kind, index] = commands[i];
          if (kind == Command::Kind::wait && !recorded[static_cast<std::size_t>(index)]) break;
          if (kind == Command::Kind::wait) wait(step, queue(s), index, step + 1, "an event of the plan");
          if (kind == Command::Kind::record) {
            record(step, queue(s), index, "record of an event of the plan");
            recorded[static_cast<std::size_t>(index)] = true;
          }
          ++i;
          progress = true;
          if (kind != Command::Kind::launch) continue;
          add({.queue = queue(s),
               .name = message("step ", step, ": node ", index, " on stream ", s),
               .accesses = memory_.node(index, step)});
          break;
        }
      }
    }
  }

  const Plan& plan_;
  std::int64_t end_;  // end of the memory in use
  StepMemory memory_;
  std::vector<ValueId> inputs_;
  std::vector<Operation> operations_;

 private:
  static std::vector<std::int64_t> slots(const StepGraph& graph, std::int64_t& end) {
    std::vector<std::int64_t> slots;
    for (const Value& value : graph.values()) {
      if (value.slot < 0 || static_cast<std::size_t>(value.slot) < slots.size()) continue;
      slots.resize(static_cast<std::size_t>(value.slot) + 1);
    }
    for (const Value& value : graph.values()) {
      if (value.slot < 0) continue;
      std::int64_t& address = slots[static_cast<std::size_t>(value.slot)];
      if (address > 0) continue;
      address = end = align_up(end, kArenaAlignment) + kArenaAlignment;
      end += static_cast<std::int64_t>(value.bytes());
    }
    return slots;
  }
};

class CudaMaker : Maker {
 public:
  using Maker::Maker;
  std::vector<Operation> run(int steps, bool prefetch) {
    for (int step = 0; step < steps; ++step) {
      wait(step, kHost, finished(step), 0, "the step before the last");
      if (!inputs_.empty()) {
        if (!prefetch || step == 0) fill_slot(step);
        deliver(step);
      }
      if (stream_count() > 1) record(step, queue(0), forked(), "record of the fork");
      for (int s = 1; s < stream_count(); ++s) wait(step, queue(s), forked(), step + 1, "the fork");
      run_plan(step);
      for (int s = 1; s < stream_count(); ++s) {
        record(step, queue(s), joined(s), "record of the join");
        wait(step, queue(0), joined(s), step + 1, "the join");
      }
      record(step, queue(0), finished(step), "record of the end");
      if (!inputs_.empty() && prefetch && step + 1 < steps) fill_slot(step + 1);
    }
    wait(steps, kHost, finished(steps - 1), 0, "the last step");
    add({.name = "the host, after the last step,", .accesses = memory_.final(steps - 1)});
    return std::move(operations_);
  }

 private:
  // Events after the plan's.
  std::int32_t forked() const { return plan_.commands.events; }
  std::int32_t finished(int step) const { return plan_.commands.events + 1 + step % 2; }
  std::int32_t uploaded(int step) const { return plan_.commands.events + 3 + step % 2; }
  std::int32_t consumed(int step) const { return plan_.commands.events + 5 + step % 2; }
  std::int32_t joined(int stream) const { return plan_.commands.events + 6 + stream; }

  std::int64_t bytes(ValueId input) const {
    return align_up(static_cast<std::int64_t>(memory_.read(input, 0).bytes()), kArenaAlignment);
  }
  /// A slot's pinned memory, or its device memory. Slots alternate.
  Access slot(int step, bool device) const {
    std::int64_t size = 0;
    for (const ValueId input : inputs_) size += bytes(input);
    const std::int64_t begin = align_up(end_, kArenaAlignment) + (2 * (device ? 1 : 0) + step % 2) * size;
    return {.begin = begin, .end = begin + size, .writes = device};
  }

  /// Host → pinned memory → device memory, on the copy stream.
  void fill_slot(int step) {
    wait(step, kHost, uploaded(step), 0, "the upload out of the slot");
    wait(step, kHost, consumed(step), 0, "the copies out of the slot");
    Operation host{.name = message("step ", step, ": the host's write of the inputs")};
    std::int64_t begin = slot(step, false).begin;
    for (const ValueId input : inputs_) {
      const Access value = memory_.write(input, step);
      host.accesses.push_back({begin, begin + value.bytes(), true, value.content});
      begin += bytes(input);
    }
    add(std::move(host));
    const int copies = queue(stream_count());
    add({.kind = Operation::Kind::copy,
         .queue = copies,
         .name = message("step ", step, ": the upload"),
         .accesses = {slot(step, false), slot(step, true)}});
    record(step, copies, uploaded(step), "record of the upload");
  }

  /// From there into the arena, on stream 0.
  void deliver(int step) {
    wait(step, queue(0), uploaded(step), step / 2 + 1, "the upload");
    std::int64_t begin = slot(step, true).begin;
    for (const ValueId input : inputs_) {
      const Access target = memory_.write(input, step);
      add({.kind = Operation::Kind::copy,
           .queue = queue(0),
           .name = message("step ", step, ": the copy of input ", input),
           .accesses = {{begin, begin + target.bytes()}, target}});
      begin += bytes(input);
    }
    record(step, queue(0), consumed(step), "record of the copies out of the slot");
  }
};

class CpuMaker : Maker {
 public:
  using Maker::Maker;
  std::vector<Operation> run(int steps) {
    for (int step = 0; step < steps; ++step) {
      if (!inputs_.empty()) {
        synchronize(step);
        Operation host{.name = message("step ", step, ": the host's write of the inputs")};
        for (const ValueId input : inputs_) host.accesses.push_back(memory_.write(input, step));
        add(std::move(host));
      }
      for (int s = 0; s < stream_count() && step > 0; ++s) {
        for (int t = 0; t < stream_count(); ++t) {
          if (t != s) wait(step, queue(s), finished(step - 1, t), (step - 1) / 2 + 1, "the end of the step before");
        }
      }
      run_plan(step);
      for (int s = 0; s < stream_count(); ++s) record(step, queue(s), finished(step, s), "record of the end");
    }
    synchronize(steps);
    add({.name = "the host, after the last step,", .accesses = memory_.final(steps - 1)});
    return std::move(operations_);
  }

 private:
  /// In the executor, a count of finished steps; here two alternating events stand for it.
  std::int32_t finished(int step, int stream) const {
    return plan_.commands.events + step % 2 * stream_count() + stream;
  }
  void synchronize(int step) {
    if (step == 0) return;
    for (int s = 0; s < stream_count(); ++s) wait(step, kHost, finished(step - 1, s), 0, "the end of the step before");
  }
};

}  // namespace

std::vector<Operation> cuda_steps(const StepGraph& graph, const Costs& costs, const Plan& plan, int steps,
                                  bool prefetch) {
  return CudaMaker(graph, costs, plan).run(steps, prefetch);
}

std::vector<Operation> cpu_steps(const StepGraph& graph, const Costs& costs, const Plan& plan, int steps) {
  return CpuMaker(graph, costs, plan).run(steps);
}

std::vector<std::string> verify_steps(const StepGraph& graph, const Costs& costs, const Plan& plan) {
  constexpr int kSteps = 3;  // both slots of everything that alternates, and the first again
  for (const bool prefetch : {false, true}) {
    std::vector<std::string> faults = verify_operations(cuda_steps(graph, costs, plan, kSteps, prefetch));
    if (!faults.empty()) return faults;
  }
  return verify_operations(cpu_steps(graph, costs, plan, kSteps));
}

}  // namespace braid::scheduler::testing
