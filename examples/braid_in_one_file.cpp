// Braid in one file: all that trains a network on several streams, at its smallest. A tape records a step, autograd
// adds the gradients, a list scheduler orders the nodes by critical path, a memory planner gives every value an
// address, a verifier proves the plan free of races, and a worker thread per stream runs it. The program trains a
// network with two branches to tell two spirals apart, on one stream and on two, and checks that both runs have the
// same bits.
//
//   g++ -std=c++20 -O3 -pthread examples/braid_in_one_file.cpp -o braid_in_one_file && ./braid_in_one_file [steps]
//
// Names are the same as in the library. Every part names the files of the library that do its job.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using NodeId = std::size_t;
using ValueId = std::size_t;
constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// ---- The graph of a step: core/graph/step_graph.h -------------------------------------------------------------------

struct Shape {
  std::size_t rows = 1, columns = 1;
  std::size_t elements() const { return rows * columns; }
};

/// A matrix of floats. Sizes and addresses count floats here, bytes in Braid.
struct Value {
  Shape shape;
  NodeId producer = kNone;      ///< kNone: it is there before the step
  std::size_t address = kNone;  ///< of a persistent value: a parameter or an input
  bool requires_gradient = false;
  std::vector<NodeId> readers = {};
};

/// One op applied to values.
struct Node {
  const struct Op* op;
  std::vector<ValueId> inputs;
  ValueId output;
  std::string layer;
  double cost;                            ///< microseconds, when it runs alone
  std::vector<NodeId> predecessors = {};  ///< those that must finish before it starts
};

/// Nodes are in the order of recording, which is a topological order.
struct StepGraph {
  std::vector<Node> nodes;
  std::vector<Value> values;
};

// ---- The tape and the backward pass: core/graph/op.h, autograd/tape.h, autograd/backward.cpp ------------------------

/// A matrix as a kernel sees it.
struct View {
  float* data;
  Shape shape;
};
using Views = std::span<const View>;
struct Tape;

/// The rules of one operation, each stated once.
struct Op {
  std::string_view name;
  Shape (*infer)(const Shape& first, const Shape& last);    ///< shape of the output
  double (*cost)(const Shape& first, const Shape& output);  ///< microseconds
  void (*kernel)(Views in, Views out);
  void (*gradient)(Tape& tape, const Node& node, ValueId dy) = nullptr;  ///< records nodes
  bool overwrites = false;  ///< the output is the next version of the first input, at the same address
};

struct Tape {
  StepGraph graph;
  std::map<ValueId, ValueId> gradients = {};  ///< by the value that they are of
  std::string layer = {};                     ///< of later nodes

  /// A parameter or an input, at an address that no plan changes.
  ValueId persistent(Shape shape, std::size_t address, bool requires_gradient) {
    graph.values.push_back({shape, kNone, address, requires_gradient});
    return graph.values.size() - 1;
  }

  /// Appends a node and returns its output. Nothing runs yet. A node follows the producers of its inputs; one that
  /// overwrites a parameter also follows all readers of the old version.
  ValueId record(const Op& op, const std::vector<ValueId>& inputs) {
    const NodeId id = graph.nodes.size();
    const Value first = graph.values[inputs[0]];
    Value output{op.infer(first.shape, graph.values[inputs.back()].shape), id};
    if (op.overwrites) output.address = first.address;
    Node node{&op, inputs, graph.values.size(), layer, op.cost(first.shape, output.shape)};
    if (op.overwrites) node.predecessors = first.readers;
    for (const ValueId input : inputs) {
      Value& value = graph.values[input];
      if (value.producer != kNone) node.predecessors.push_back(value.producer);
      output.requires_gradient |= value.requires_gradient;
      value.readers.push_back(id);
    }
    graph.nodes.push_back(node);
    graph.values.push_back(output);
    return node.output;
  }

  /// Records the gradients of a loss. They are ordinary nodes: no later stage treats them differently.
  void backward(ValueId loss) {
    gradients[loss] = kNone;  // it is 1, as the op of the loss knows
    for (NodeId id = graph.values[loss].producer + 1; id-- > 0;) {
      const Node node = graph.nodes[id];  // a copy: recording moves the nodes
      if (!gradients.contains(node.output)) continue;
      layer = node.layer;
      node.op->gradient(*this, node, gradients[node.output]);
    }
  }

  /// Gradients from several readers of a value add up in the order of recording, on any number of streams.
  void add_gradient(ValueId of, ValueId gradient);
};

// ---- Ops, each with its kernel and its gradient: one folder per family in ops/ --------------------------------------

// Costs: a launch, and arithmetic on one core (scheduler/costs/costs.h).
double elementwise_cost(const Shape&, const Shape& y) { return 1 + static_cast<double>(y.elements()) / 4000; }
double tanh_cost(const Shape&, const Shape& y) { return 1 + static_cast<double>(y.elements()) / 200; }
double product_cost(const Shape& a, const Shape& y) { return 1 + static_cast<double>(a.elements() * y.columns) / 4000; }
Shape as_first(const Shape& first, const Shape&) { return first; }

template <bool transposes_a, bool transposes_b>
Shape product_shape(const Shape& a, const Shape& b) {
  return {transposes_a ? a.columns : a.rows, transposes_b ? b.rows : b.columns};
}

/// out [r,c] = the sum of a [r,k] · b [k,c] over all k. A matrix is transposed by exchanging its strides.
template <bool transposes_a, bool transposes_b>
void product(Views in, Views out) {
  const auto [rows, columns] = out[0].shape;
  const std::size_t inner = transposes_a ? in[0].shape.rows : in[0].shape.columns;
  const std::size_t a_row = transposes_a ? 1 : inner, a_column = transposes_a ? rows : 1;
  const std::size_t b_row = transposes_b ? 1 : columns, b_column = transposes_b ? inner : 1;
  std::fill_n(out[0].data, rows * columns, 0.0F);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < inner; ++k) {
      const float factor = in[0].data[r * a_row + k * a_column];
      const float* b = in[1].data + k * b_row;
      for (std::size_t c = 0; c < columns; ++c) out[0].data[r * columns + c] += factor * b[c * b_column];
    }
  }
}

const Op kLinearBackwardData{"linear_backward_data", product_shape<false, true>, product_cost, product<false, true>};
const Op kLinearBackwardFilter{"linear_backward_filter", product_shape<true, false>, product_cost,
                               product<true, false>};
/// x [n,i] · w [i,o] → y [n,o]. Its two gradients do not depend on each other, so they may run at the same time.
const Op kLinear{"linear", product_shape<false, false>, product_cost, product<false, false>,
                 [](Tape& tape, const Node& node, ValueId dy) {
                   const ValueId x = node.inputs[0], w = node.inputs[1];
                   if (tape.graph.values[x].requires_gradient)
                     tape.add_gradient(x, tape.record(kLinearBackwardData, {dy, w}));
                   tape.add_gradient(w, tape.record(kLinearBackwardFilter, {x, dy}));
                 }};

/// A kernel that computes every element by itself.
template <auto element>
void elementwise(Views in, Views out) {
  for (std::size_t i = 0; i < out[0].shape.elements(); ++i) out[0].data[i] = element(in, i);
}

float add(Views in, std::size_t i) { return in[0].data[i] + in[1].data[i]; }
const Op kAdd{"add", as_first, elementwise_cost, elementwise<add>, [](Tape& tape, const Node& node, ValueId dy) {
                for (const ValueId input : node.inputs) tape.add_gradient(input, dy);
              }};

float tanh_backward(Views in, std::size_t i) { return in[1].data[i] * (1 - in[0].data[i] * in[0].data[i]); }  // y, dy
const Op kTanhBackward{"tanh_backward", as_first, elementwise_cost, elementwise<tanh_backward>};
float tanh(Views in, std::size_t i) { return std::tanh(in[0].data[i]); }
const Op kTanh{"tanh", as_first, tanh_cost, elementwise<tanh>, [](Tape& tape, const Node& node, ValueId dy) {
                 tape.add_gradient(node.inputs[0], tape.record(kTanhBackward, {node.output, dy}));
               }};

/// The sum of e²/2. Its gradient is e, so the backward pass starts with a value that is there already.
void half_squares(Views in, Views out) {
  *out[0].data = 0;
  for (std::size_t i = 0; i < in[0].shape.elements(); ++i) *out[0].data += in[0].data[i] * in[0].data[i] / 2;
}
const Op kHalfSquares{"half_squares", [](const Shape&, const Shape&) { return Shape{}; }, product_cost, half_squares,
                      [](Tape& tape, const Node& node, ValueId) { tape.add_gradient(node.inputs[0], node.inputs[0]); }};

/// The next version of a parameter, at the address of the last one: ops/optimizer/optimizer.h
float sgd(Views in, std::size_t i) { return in[0].data[i] - 3e-4F * in[1].data[i]; }
const Op kSgd{"sgd", as_first, elementwise_cost, elementwise<sgd>, nullptr, true};

void Tape::add_gradient(ValueId of, ValueId gradient) {
  const auto [sum, is_first] = gradients.try_emplace(of, gradient);
  if (!is_first) sum->second = record(kAdd, {sum->second, gradient});
}

// ---- The policy: scheduler/policies/list_scheduler.h, scheduler/policies/critical_path.cpp --------------------------

struct Placement {
  std::size_t stream = 0;
  double start = 0, finish = 0;  ///< predicted, microseconds
};

struct Schedule {
  std::vector<Placement> placements;  ///< per node
  std::vector<NodeId> order;          ///< by start
  double makespan = 0;
};

/// The longest path of each node, from its start to the end of the step. The largest is D, the critical path.
std::vector<double> bottom_levels(const StepGraph& graph) {
  std::vector<double> levels(graph.nodes.size());
  for (NodeId id = graph.nodes.size(); id-- > 0;) {  // followers have added theirs already
    levels[id] += graph.nodes[id].cost;
    for (const NodeId before : graph.nodes[id].predecessors) levels[before] = std::max(levels[before], levels[id]);
  }
  return levels;
}

/// List scheduling: whenever a stream is free, the ready node with the longest path ahead starts.
Schedule critical_path(const StepGraph& graph, std::size_t streams) {
  const std::vector<double> levels = bottom_levels(graph);
  Schedule schedule{.placements = std::vector<Placement>(graph.nodes.size(), {0, 0, HUGE_VAL}), .order = {}};
  std::vector<double> free_at(streams);
  std::vector<NodeId> last(streams, kNone);
  for (double now = 0; schedule.order.size() < graph.nodes.size();) {
    const auto has_finished = [&](NodeId node) { return schedule.placements[node].finish <= now; };
    NodeId best = kNone;
    for (NodeId node = 0; node < graph.nodes.size(); ++node) {
      if (schedule.placements[node].finish < HUGE_VAL ||
          !std::ranges::all_of(graph.nodes[node].predecessors, has_finished))
        continue;
      if (best == kNone || levels[node] > levels[best]) best = node;
    }
    std::size_t stream = kNone;  // preferably the stream of a node whose result this one reads, where no wait is needed
    for (std::size_t s = 0; s < streams; ++s) {
      if (best == kNone || free_at[s] > now) continue;
      if (stream == kNone || std::ranges::count(graph.nodes[best].predecessors, last[s]) > 0) stream = s;
    }
    if (stream == kNone) {  // until the next node finishes
      double next = HUGE_VAL;
      for (const double time : free_at) next = time > now ? std::min(next, time) : next;
      now = next;
      continue;
    }
    free_at[stream] = now + graph.nodes[best].cost;
    last[stream] = best;
    schedule.placements[best] = {stream, now, free_at[stream]};
    schedule.order.push_back(best);
    schedule.makespan = std::max(schedule.makespan, free_at[stream]);
  }
  return schedule;
}

// ---- The plan: scheduler/plan.h, core/device/program.h --------------------------------------------------------------

/// Launch a node, record an event after it, or wait in another stream for that event.
struct Command {
  enum class Kind { launch, record, wait } kind;
  NodeId node;
};

struct Plan {
  Schedule schedule;
  std::vector<std::vector<Command>> streams;
  std::vector<std::size_t> addresses;  ///< per value
  std::size_t begin = 0, end = 0;      ///< of the arena, which lies behind all persistent values
  std::size_t naive = 0;               ///< size of the arena if no values shared memory
};

/// Per stream: how many of its nodes have finished.
using Clock = std::vector<std::size_t>;
void merge(Clock& clock, const Clock& other) {
  for (std::size_t s = 0; s < clock.size(); ++s) clock[s] = std::max(clock[s], other[s]);
}

/// The commands of a schedule, without the waits that are redundant by the clock of their stream:
/// scheduler/lowering/waits.cpp. Returns the clock after each node. Braid also drops events that no stream waits for.
std::vector<Clock> add_commands(const StepGraph& graph, std::size_t streams, Plan& plan) {
  const std::vector<Placement>& placements = plan.schedule.placements;
  std::vector<Clock> clocks(streams, Clock(streams)), after(graph.nodes.size());
  plan.streams.resize(streams);
  for (const NodeId node : plan.schedule.order) {
    const std::size_t stream = placements[node].stream;
    std::vector<NodeId> before = graph.nodes[node].predecessors;  // the latest first: it makes others redundant
    std::ranges::sort(before, std::greater(), [&](NodeId id) { return placements[id].start; });
    for (const NodeId id : before) {
      const std::size_t other = placements[id].stream;
      if (clocks[stream][other] >= after[id][other]) continue;
      merge(clocks[stream], after[id]);
      plan.streams[stream].push_back({Command::Kind::wait, id});
    }
    ++clocks[stream][stream];
    after[node] = clocks[stream];
    plan.streams[stream].push_back({Command::Kind::launch, node});
    plan.streams[stream].push_back({Command::Kind::record, node});
  }
  return after;
}

/// Gives every value an address: scheduler/memory/arena.cpp. Two values share memory only if all uses of one happen
/// before the other is written, by the order of the commands: predicted times are no reason.
void plan_memory(const StepGraph& graph, std::span<const Clock> after, Plan& plan) {
  const auto size = [&](ValueId id) { return graph.values[id].shape.elements(); };
  const auto is_over_before = [&](ValueId one, ValueId other) {  // a value without readers is a result, and stays
    const NodeId writer = graph.values[other].producer;
    return !graph.values[one].readers.empty() && std::ranges::all_of(graph.values[one].readers, [&](NodeId reader) {
      const std::size_t stream = plan.schedule.placements[reader].stream;
      return reader != writer && after[writer][stream] >= after[reader][stream];
    });
  };
  std::vector<ValueId> by_size, placed;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const std::size_t address = graph.values[id].address;
    plan.addresses.push_back(address);
    if (address != kNone) plan.begin = plan.end = std::max(plan.begin, address + size(id));
    by_size.push_back(id);
  }
  std::ranges::stable_sort(by_size, std::greater(), size);
  for (const ValueId id : by_size) {
    if (graph.values[id].address != kNone) continue;
    std::size_t address = plan.begin;  // the lowest that no value in use at the same time occupies
    for (const ValueId other : placed) {
      if (is_over_before(id, other) || is_over_before(other, id)) continue;
      if (address + size(id) <= plan.addresses[other]) break;
      address = std::max(address, plan.addresses[other] + size(other));
    }
    plan.addresses[id] = address;
    plan.end = std::max(plan.end, address + size(id));
    plan.naive += size(id);
    placed.insert(std::ranges::upper_bound(placed, address, {}, [&](ValueId v) { return plan.addresses[v]; }), id);
  }
}

// ---- The verifier: scheduler/check/verifier.cpp ---------------------------------------------------------------------

/// Every fault of a plan as a sentence; empty if it is safe. It uses nothing but commands and addresses: the order of
/// nodes follows from the former, conflicts from the latter. It does not know how the plan was made.
std::vector<std::string> verify_plan(const StepGraph& graph, const Plan& plan) {
  std::vector<std::string> faults;
  std::vector<Clock> clocks(plan.streams.size(), Clock(plan.streams.size())), after(graph.nodes.size());
  std::vector<std::size_t> stream_of(graph.nodes.size(), kNone), next(plan.streams.size());
  std::vector<bool> recorded(graph.nodes.size());
  for (bool progresses = true; progresses;) {
    progresses = false;
    for (std::size_t s = 0; s < plan.streams.size(); ++s) {
      for (; next[s] < plan.streams[s].size(); ++next[s], progresses = true) {
        const auto& [kind, node] = plan.streams[s][next[s]];
        if (kind == Command::Kind::wait && !recorded[node]) break;
        if (kind == Command::Kind::wait) merge(clocks[s], after[node]);
        if (kind == Command::Kind::record) recorded[node] = stream_of[node] == s;
        if (kind != Command::Kind::launch) continue;
        if (stream_of[node] != kNone) faults.push_back("node " + std::to_string(node) + " is launched twice");
        ++clocks[s][s];
        stream_of[node] = s;
        after[node] = clocks[s];
      }
    }
  }
  for (std::size_t s = 0; s < plan.streams.size(); ++s) {
    if (next[s] < plan.streams[s].size()) faults.push_back("stream " + std::to_string(s) + " waits forever");
  }
  if (std::ranges::count(stream_of, kNone) > 0) faults.emplace_back("a node is never launched");
  if (!faults.empty()) return faults;

  const auto happens_before = [&](NodeId one, NodeId other) {  // kNone: the host, before the step
    return one == kNone || (one != other && after[other][stream_of[one]] >= after[one][stream_of[one]]);
  };
  const auto overlap = [&](ValueId one, ValueId other) {
    return plan.addresses[one] < plan.addresses[other] + graph.values[other].shape.elements() &&
           plan.addresses[other] < plan.addresses[one] + graph.values[one].shape.elements();
  };
  // A value is written before it is read, and whoever else writes to its bytes is before or after both.
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (!std::ranges::all_of(value.readers, [&](NodeId reader) { return happens_before(value.producer, reader); })) {
      faults.push_back("value " + std::to_string(id) + " may be read before it is written");
    }
    for (ValueId other = 0; other < graph.values.size(); ++other) {
      const NodeId writer = graph.values[other].producer;
      if (other == id || writer == kNone || !overlap(id, other)) continue;
      if (value.producer != kNone && happens_before(writer, value.producer)) continue;
      const bool is_version = value.address != kNone && value.address == graph.values[other].address;
      const bool is_read_before = std::ranges::all_of(value.readers, [&](NodeId reader) {
        return happens_before(reader, writer) || (reader == writer && is_version);
      });
      const bool stays = value.address == kNone ? value.readers.empty() : !is_version;
      if (is_read_before && !stays && happens_before(value.producer, writer)) continue;
      faults.push_back("value " + std::to_string(id) + " may be overwritten while it is needed");
    }
  }
  return faults;
}

Plan make_plan(const StepGraph& graph, std::size_t streams) {
  Plan plan{.schedule = critical_path(graph, streams), .streams = {}, .addresses = {}};
  plan_memory(graph, add_commands(graph, streams, plan), plan);
  const std::vector<std::string> faults = verify_plan(graph, plan);
  if (!faults.empty()) throw std::logic_error("the plan is not safe: " + faults[0]);
  return plan;
}

// ---- Running: core/device/cpu/event.h, core/device/cpu/stream_group.cpp, runtime/compile/executable.h ---------------

/// A point in a stream. It holds the number of the last run that has recorded it, so it is never reset.
struct Event {
  std::atomic<std::size_t> last_run{0};

  void record(std::size_t run) {
    last_run.store(run);
    last_run.notify_all();
  }
  void wait(std::size_t run) const {
    for (std::size_t seen = last_run; seen < run; seen = last_run) last_run.wait(seen);
  }
};

/// A plan with its kernels bound to addresses, and a worker thread per stream, which executes its command list. Workers
/// meet only at events.
class Executable {
 public:
  Executable(const StepGraph& graph, const Plan& plan, std::span<float> memory)
      : plan_(plan), done_(plan.streams.size()), events_(graph.nodes.size()) {
    const auto bind = [&](const std::vector<ValueId>& ids) {
      std::vector<View> views;
      for (const ValueId id : ids) views.push_back({&memory[plan.addresses[id]], graph.values[id].shape});
      return views;
    };
    for (const Node& node : graph.nodes) {
      kernels_.emplace_back(
          [kernel = node.op->kernel, in = bind(node.inputs), out = bind({node.output})] { kernel(in, out); });
    }
    for (std::size_t s = 0; s < plan.streams.size(); ++s) workers_.emplace_back([this, s] { work(s); });
  }
  ~Executable() {
    ended_ = true;
    start_.record(++run_);
  }

  void run() {
    start_.record(++run_);
    for (const Event& done : done_) done.wait(run_);
  }

 private:
  void work(std::size_t stream) {
    for (std::size_t run = 1;; ++run) {
      start_.wait(run);
      if (ended_) return;
      for (const auto& [kind, node] : plan_.streams[stream]) {
        if (kind == Command::Kind::launch) kernels_[node]();
        if (kind == Command::Kind::record) events_[node].record(run);
        if (kind == Command::Kind::wait) events_[node].wait(run);
      }
      done_[stream].record(run);
    }
  }

  const Plan& plan_;
  std::vector<std::function<void()>> kernels_;  // per node
  bool ended_ = false;
  std::size_t run_ = 0;
  Event start_;
  std::deque<Event> done_, events_;    // per stream; per node
  std::vector<std::jthread> workers_;  // joined before the rest is destroyed
};

// ---- A network with two branches, trained: examples/concurrent_training.cpp -----------------------------------------

struct Training {
  StepGraph graph;
  Plan plan;
  std::vector<float> memory, losses;
  double milliseconds = 0;  ///< per step
};

/// Records the step once, plans it, and runs it many times. Braid records every step anew, which costs little, and
/// finds its plan by a hash of the structure: runtime/compile/plan_cache.h.
Training train(std::size_t streams, std::size_t steps) {
  constexpr std::size_t kPoints = 128, kWidth = 48;
  Training training;
  Tape tape;
  std::mt19937 random(1);  // standard distributions differ between libraries
  const auto uniform = [&] { return static_cast<float>(random()) / 2147483648.0F - 1; };
  const auto persistent = [&](Shape shape, bool trainable, auto element) {
    const std::size_t address = training.memory.size();
    for (std::size_t i = 0; i < shape.elements(); ++i) training.memory.push_back(element(i));
    return tape.persistent(shape, address, trainable);
  };
  std::vector<std::pair<const char*, ValueId>> weights;  // with the names of their layers
  const auto linear = [&](const char* layer, ValueId x, std::size_t inputs, std::size_t outputs, float scale) {
    tape.layer = layer;
    scale *= std::sqrt(3 / static_cast<float>(inputs));
    weights.emplace_back(layer, persistent({inputs, outputs}, true, [&](std::size_t) { return scale * uniform(); }));
    return tape.record(kLinear, {x, weights.back().second});
  };
  const auto tanh = [&](ValueId x) { return tape.record(kTanh, {x}); };
  // A point of one spiral, then its mirror image, which is a point of the other.
  const ValueId points = persistent({kPoints, 2}, false, [&](std::size_t i) {
    const float along = static_cast<float>(i / 4) / (kPoints / 2.0F), angle = 6 * along;
    return (i / 2 % 2 == 0 ? 1.0F : -1.0F) * (0.1F + along) * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
  });
  const ValueId minus_classes =
      persistent({kPoints, 1}, false, [](std::size_t i) { return i % 2 == 0 ? -1.0F : 1.0F; });
  const ValueId stem = tanh(linear("stem", points, 2, kWidth, 4));
  const ValueId left = tanh(linear("left.1", tanh(linear("left.0", stem, kWidth, kWidth, 1)), kWidth, kWidth, 1));
  const ValueId right = tanh(linear("right", stem, kWidth, kWidth, 1));
  const ValueId y = linear("head", tape.record(kAdd, {left, right}), kWidth, 1, 1);
  tape.layer = "loss";
  const ValueId loss = tape.record(kHalfSquares, {tape.record(kAdd, {y, minus_classes})});
  tape.backward(loss);
  for (const auto& [layer, weight] : weights) {
    tape.layer = layer;
    tape.record(kSgd, {weight, tape.gradients[weight]});
  }
  training.graph = tape.graph;
  training.plan = make_plan(training.graph, streams);
  training.memory.resize(training.plan.end);
  Executable executable(training.graph, training.plan, training.memory);
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t step = 0; step < steps; ++step) {
    executable.run();
    training.losses.push_back(training.memory[training.plan.addresses[loss]]);
  }
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  training.milliseconds = time.count() / static_cast<double>(steps);
  training.memory.resize(training.plan.begin);  // what outlives a step
  return training;
}

/// When each node runs, as predicted: a row per stream, a letter per node.
void draw(const StepGraph& graph, const Plan& plan) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  const auto column = [&](double time) { return static_cast<std::size_t>(time / plan.schedule.makespan * 100); };
  std::vector<std::string> rows(plan.streams.size());
  for (const NodeId node : plan.schedule.order) {
    const auto& [stream, start, finish] = plan.schedule.placements[node];
    rows[stream].resize(column(start), ' ');  // over the end of a longer node
    rows[stream].append(1 + column(finish) - column(start), kLetters.at(node));
  }
  for (std::size_t s = 0; s < rows.size(); ++s) std::cout << "stream " << s << "  " << rows[s] << '\n';
  for (NodeId node = 0; node < graph.nodes.size(); ++node) {
    const std::string name = graph.nodes[node].layer + ' ' + std::string(graph.nodes[node].op->name);
    std::cout << (node % 3 == 0 ? "\n" : "") << kLetters[node] << ' ' << std::left << std::setw(34) << name;
  }
  std::cout << "\n\n";
}

/// Deletes every wait, one at a time; finally gives all values the first address of the arena. Returns the number of
/// these plans in which the verifier finds no fault.
std::size_t missed_faults(const StepGraph& graph, const Plan& plan) {
  std::size_t missed = 0;
  for (std::size_t s = 0; s < plan.streams.size(); ++s) {
    for (std::size_t i = 0; i < plan.streams[s].size(); ++i) {
      if (plan.streams[s][i].kind != Command::Kind::wait) continue;
      Plan mutant = plan;
      mutant.streams[s].erase(mutant.streams[s].begin() + static_cast<std::ptrdiff_t>(i));
      missed += verify_plan(graph, mutant).empty();
    }
  }
  Plan crowded = plan;
  for (std::size_t& address : crowded.addresses) address = std::min(address, plan.begin);
  return missed + verify_plan(graph, crowded).empty();
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t steps = std::max(2UL, argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000);
  const Training serial = train(1, steps), concurrent = train(2, steps);
  draw(concurrent.graph, concurrent.plan);
  for (std::size_t i = 0; i <= 8; ++i) {
    const std::size_t step = i * (steps - 1) / 8;
    std::cout << "step " << std::setw(6) << step << "loss " << concurrent.losses[step] << '\n';
  }
  for (const auto& [graph, plan, memory, losses, milliseconds] : {serial, concurrent}) {
    std::cout << plan.streams.size() << " stream(s): " << milliseconds << " ms per step, predicted "
              << plan.schedule.makespan / 1000 << "; arena " << (plan.end - plan.begin) / 256 << " KiB, without reuse "
              << plan.naive / 256 << '\n';
  }
  const bool is_same = serial.memory == concurrent.memory && serial.losses == concurrent.losses;
  const std::size_t missed = missed_faults(concurrent.graph, concurrent.plan);
  std::cout << (is_same ? "Both have the same bits.\n" : "FAILED: the bits differ.\n")
            << (missed == 0 ? "The verifier finds every deleted wait.\n"
                            : "FAILED: the verifier does not find a fault.\n");
  return is_same && missed == 0 && concurrent.losses.back() < concurrent.losses.front() ? 0 : 1;
}
