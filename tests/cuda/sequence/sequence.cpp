#include "tests/cuda/sequence/sequence.h"

#include <algorithm>
#include <map>

namespace braid::testing {
namespace {

using Kind = Operation::Kind;

std::int64_t address(const void* data) { return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data)); }
int queue(int stream) { return 1 + stream; }

class Reader {
 public:
  Reader(const std::vector<Call>& calls, const StepMemory& memory, std::span<const int> streams)
      : calls_(calls), memory_(memory), streams_(streams) {
    for (const Call& call : calls) {
      last_event_ = std::max(last_event_, call.event);
      last_queue_ = std::max(last_queue_, queue(call.stream));
    }
  }

  TracedSteps run() {
    add({.name = "the host, before the first step,", .accesses = memory_.initial()});
    for (const Call& call : calls_) {
      if (call.status == 0) read(call);
    }
    return std::move(steps_);
  }

 private:
  /// A command of a captured program. Every record has its own event.
  struct Captured {
    Kind kind;
    int queue;
    std::int32_t index;  // node or event
  };
  struct Graph {
    std::vector<Captured> commands;
    std::map<int, int> queues;           // stream → queue
    std::map<int, std::int32_t> newest;  // event → the one of its last record
    std::int32_t begin = -1;             // event
    std::map<int, std::int32_t> ends;    // queue → event
    std::int32_t launches = 0;
  };
  /// An upload into a slot of staging memory.
  struct Fill {
    std::size_t host_write;  // the operation
    std::int64_t pinned, device, bytes;
    std::vector<std::int64_t> taken;  // addresses of what was copied out of it
  };

  template <class... Parts>
  std::string named(const Parts&... parts) const {
    return message("step ", step_, ": ", parts...);
  }
  void add(Operation operation) { steps_.operations.push_back(std::move(operation)); }
  void add_record(int on, std::int32_t event) {
    add({.kind = Kind::record,
         .queue = on,
         .name = named("record of event ", event, " on queue ", on),
         .event = event});
    ++records_[event];
  }
  void add_wait(int on, std::int32_t event, std::int32_t occurrence = 0) {
    add({.kind = Kind::wait,
         .queue = on,
         .name = named("wait for event ", event, " on queue ", on),
         .event = event,
         .occurrence = occurrence});
  }
  void add_node(int on, NodeId node) {
    add({.queue = on, .name = named("node ", node, " on queue ", on), .accesses = memory_.node(node, step_)});
  }
  int id_of(int stream) const { return streams_[static_cast<std::size_t>(stream)]; }

  void read(const Call& call) {
    switch (call.kind) {
      case Call::Kind::mark: return read_mark(call);
      case Call::Kind::capture:
        capturing_ = call.function == "cudaStreamBeginCapture" ? &graphs_[call.graph] : nullptr;
        return;
      case Call::Kind::record: return read_record(call);
      case Call::Kind::wait: return read_wait(call);
      case Call::Kind::synchronize: return read_synchronize(call);
      case Call::Kind::allocate:
        if (call.function == "cudaHostAlloc") pinned_.push_back(call.pointers[0]);
        return;
      case Call::Kind::release:  // waits for all that runs
        for (int on = kHost + 1; on <= last_queue_; ++on) wait_for_all(on);
        return;
      case Call::Kind::copy:
        if (!in_node_) read_copy(call);
        return;
      case Call::Kind::fill:
        if (!in_node_) {
          const std::int64_t begin = address(call.pointers[0].data);
          const auto bytes = static_cast<std::int64_t>(call.pointers[0].bytes);
          add({.queue = queue(call.stream), .name = named("a fill"), .accesses = {{begin, begin + bytes, true, -1}}});
        }
        return;
      case Call::Kind::graph_launch: return launch(graphs_.at(call.graph), queue(call.stream));
      case Call::Kind::launch:
        if (!in_node_) steps_.faults.push_back(named(call.kernel, " is launched outside of any node"));
        return;
      default: return;
    }
  }

  void read_mark(const Call& call) {
    in_node_ = call.function == "begin";
    if (call.function == "step") {
      step_ = call.index;
      records_before_step_ = records_;
    } else if (in_node_ && capturing_ != nullptr) {
      capturing_->commands.push_back({Kind::work, captured_queue(id_of(call.stream)), call.index});
    } else if (in_node_) {
      add_node(queue(id_of(call.stream)), call.index);
    }
  }

  int captured_queue(int stream) {
    const auto [place, fresh] = capturing_->queues.try_emplace(stream, last_queue_ + 1);
    if (fresh) ++last_queue_;
    return place->second;
  }

  void read_record(const Call& call) {
    if (call.graph >= 0) {
      capturing_->newest[call.event] = ++last_event_;
      capturing_->commands.push_back({Kind::record, captured_queue(call.stream), last_event_});
      return;
    }
    recorder_[call.event] = call.stream;
    add_record(queue(call.stream), call.event);
  }

  /// The events of programs are recorded once per step, and waits refer to this step's record.
  void read_wait(const Call& call) {
    if (call.graph >= 0) {
      capturing_->commands.push_back({Kind::wait, captured_queue(call.stream), capturing_->newest.at(call.event)});
      return;
    }
    const auto recorder = recorder_.find(call.event);
    const bool of_program =
        recorder != recorder_.end() && std::ranges::find(streams_, recorder->second) != streams_.end();
    add_wait(queue(call.stream), call.event, of_program ? records_before_step_[call.event] + 1 : 0);
  }

  void read_synchronize(const Call& call) {
    if (call.event >= 0) return add_wait(kHost, call.event);
    wait_for_all(queue(call.stream));
  }
  void wait_for_all(int on) {
    const std::int32_t event = ++last_event_;
    add_record(on, event);
    add_wait(kHost, event);
  }

  /// Whether this was pinned memory, if it no longer is.
  bool is_pinned(const void* data) const {
    const auto holds = [&](const recording::Bytes& block) {
      return address(block.data) <= address(data) &&
             address(data) < address(block.data) + static_cast<std::int64_t>(block.bytes);
    };
    return recording::pinned_block(data).has_value() || std::ranges::any_of(pinned_, holds);
  }

  void read_copy(const Call& call) {
    const auto bytes = static_cast<std::int64_t>(call.pointers[0].bytes);
    const std::int64_t to = address(call.pointers[0].data), from = address(call.pointers[1].data);
    const Access source{from, from + bytes}, target{to, to + bytes, true};
    if (is_pinned(call.pointers[1].data)) {
      fills_.push_back({steps_.operations.size(), from, to, bytes, {}});
      add({.name = named("the host's write of inputs")});
      add({.kind = Kind::copy, .queue = queue(call.stream), .name = named("upload"), .accesses = {source, target}});
      return;
    }
    for (const ValueId input : memory_.inputs()) {
      const Access value = memory_.write(input, step_);
      if (value.begin != to || value.bytes() != bytes) continue;
      take(from, value);
      const std::string name = named("copy of input ", input);
      return add({.kind = Kind::copy, .queue = queue(call.stream), .name = name, .accesses = {source, target}});
    }
    for (const Access& value : memory_.final(step_)) {
      if (value.begin != from || value.bytes() != bytes) continue;
      return add({.queue = queue(call.stream), .name = named("a copy to the host"), .accesses = {value}});
    }
    steps_.faults.push_back(named("a copy of ", bytes, " bytes that moves neither inputs nor results"));
  }

  /// Notes what the newest upload to this address must have brought.
  void take(std::int64_t from, const Access& value) {
    const auto holds = [&](const Fill& fill) {
      return fill.device <= from && from + value.bytes() <= fill.device + fill.bytes;
    };
    const auto fill = std::find_if(fills_.rbegin(), fills_.rend(), holds);
    if (fill == fills_.rend()) {
      steps_.faults.push_back(named("an input comes from where nothing was uploaded"));
      return;
    }
    if (std::ranges::find(fill->taken, from) != fill->taken.end()) {
      steps_.faults.push_back(named("an input comes from a slot out of which it was taken before"));
    }
    fill->taken.push_back(from);
    const std::int64_t begin = fill->pinned + from - fill->device;
    steps_.operations[fill->host_write].accesses.push_back({begin, begin + value.bytes(), true, value.content});
  }

  void launch(Graph& graph, int on) {
    ++graph.launches;
    if (graph.begin < 0) graph.begin = ++last_event_;
    add_record(on, graph.begin);
    for (const auto& [stream, own] : graph.queues) add_wait(own, graph.begin, graph.launches);
    for (const auto& [kind, own, index] : graph.commands) {
      if (kind == Kind::work) add_node(own, index);
      if (kind == Kind::record) add_record(own, index);
      if (kind == Kind::wait) add_wait(own, index, graph.launches);
    }
    for (const auto& [stream, own] : graph.queues) {
      const auto [end, fresh] = graph.ends.try_emplace(own, last_event_ + 1);
      if (fresh) ++last_event_;
      add_record(own, end->second);
      add_wait(on, end->second, graph.launches);
    }
  }

  const std::vector<Call>& calls_;
  const StepMemory& memory_;
  std::span<const int> streams_;
  TracedSteps steps_;
  int step_ = 0;
  bool in_node_ = false;
  std::int32_t last_event_ = 0;
  int last_queue_ = 0;
  std::map<int, std::int32_t> records_, records_before_step_;  // per event
  std::map<int, int> recorder_;                                // event → stream
  Graph* capturing_ = nullptr;
  std::map<int, Graph> graphs_;
  std::vector<Fill> fills_;
  std::vector<recording::Bytes> pinned_;  // blocks made meanwhile
};

}  // namespace

TracedSteps steps_of(const std::vector<Call>& calls, const StepMemory& memory, std::span<const int> streams) {
  return Reader(calls, memory, streams).run();
}

}  // namespace braid::testing
