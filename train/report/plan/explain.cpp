#include "train/report/plan/explain.h"

#include <algorithm>
#include <set>

#include "core/base/text_stream.h"
#include "core/text/suggestion.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "scheduler/block.h"
#include "scheduler/policies/list_scheduler.h"
#include "train/report/plan/reasons.h"

namespace braid::scheduler {
namespace {

using Cells = std::vector<std::vector<std::string>>;

// ---- finding the block

bool is_within(std::string_view layer, std::string_view block) {
  return layer.starts_with(block) && (layer.size() == block.size() || layer[block.size()] == '.');
}

/// All layers and the blocks that contain them, such as "layer1", "layer1.0", "layer1.0.conv1".
std::set<std::string> block_names(const PlanView& step) {
  std::set<std::string> names;
  for (const std::string& layer : step.layers) {
    for (std::size_t end = layer.find('.'); end != std::string::npos; end = layer.find('.', end + 1)) {
      names.insert(layer.substr(0, end));
    }
    if (!layer.empty()) names.insert(layer);
  }
  return names;
}

/// Names one level below a block, or of all blocks if it has no name.
std::string names_within(const PlanView& step, std::string_view block) {
  constexpr std::size_t kShown = 30;
  std::vector<std::string> names;
  for (const std::string& name : block_names(step)) {
    const std::size_t begin = block.empty() ? 0 : block.size() + 1;
    if (name.size() <= begin || (!block.empty() && !is_within(name, block))) continue;
    if (name.find('.', begin) == std::string::npos) names.push_back(name);
  }
  if (names.size() <= kShown) return comma_list(names);
  names.resize(kShown);
  return comma_list(names) + ", …";
}

std::vector<NodeId> nodes_within(const PlanView& step, std::string_view block) {
  std::vector<NodeId> nodes;
  for (NodeId node = 0; node < step.problem.graph.node_count() && !block.empty(); ++node) {
    if (is_within(step.layer(node), block)) nodes.push_back(node);
  }
  return nodes;
}

/// Throws Error if there are none.
std::vector<NodeId> nodes_of(const PlanView& step, const std::string& block) {
  std::vector<NodeId> nodes = nodes_within(step, block);
  if (!nodes.empty()) return nodes;
  const std::set<std::string> names = block_names(step);
  const std::vector<std::string> candidates(names.begin(), names.end());
  throw Error(message("[explain] no layer is '", block, "' or within it", suggestion(block, candidates), "; there are ",
                      names_within(step, "")));
}

// ---- the text

std::string number(double value) { return fixed(value, 1); }
std::string kibibytes(std::int64_t bytes) { return number(static_cast<double>(bytes) / 1024) + " KiB"; }

class ExplanationText : Reasons {
 public:
  using Reasons::Reasons;

  std::string write() {
    out_ << view_.title << "\non " << view_.device << ", " << units(view_.problem.capacity) << ", "
         << plural(view_.problem.streams, "stream")
         << (view_.problem.links == 0 ? "" : message(" and ", plural(view_.problem.links, "link"))) << '\n';
    write_tape();
    write_graph();
    write_costs();
    write_picks();
    write_streams();
    write_waits();
    write_memory();
    write_result();
    return out_.str();
  }

 private:
  void heading(int step, std::string_view title, std::string_view idea) {
    out_ << '\n' << step << ". " << title << "\n   " << idea << "\n\n";
  }

  void write_tape() {
    heading(1, "The tape",
            "Nodes in the order in which they were recorded, and what they read: a node's result is "
            "named after the node.");
    Cells cells{{"node", "op", "layer", "pass", "reads", "result"}};
    for (NodeId node = 0; node < graph_.node_count(); ++node) {
      const std::string reads = comma_list(graph_.inputs(node), " ", [this](ValueId value) { return source(value); });
      const auto outputs = graph_.output_descs(node);
      cells.push_back({std::to_string(node), op(node), std::string(view_.layer(node)),
                       std::string(name_of(phase_of(graph_, node))), reads,
                       outputs.empty() ? "" : message(outputs[0].shape)});
    }
    out_ << text_table(cells, "rlllll", "   ");
  }

  std::string source(ValueId value) const {
    const Value& v = graph_.value(value);
    return v.producer != kNoNode ? std::to_string(v.producer) : v.slot < 0 ? "input" : std::string(name_of(v.kind));
  }

  void write_graph() {
    heading(2, "The graph", "What a node must wait for, and what waits for it. Nothing else is ordered.");
    Cells cells{{"node", "after", "before"}};
    for (const NodeId node : graph_.launched_nodes()) {
      cells.push_back({std::to_string(node), list(edges_.predecessors(node)), list(edges_.successors(node))});
    }
    out_ << text_table(cells, "rll", "   ");
  }

  void write_costs() {
    heading(
        3, "Costs and bottom levels",
        "How long a node takes alone, for each implementation; and its bottom level: the longest path from its start "
        "to\n   the end. The larger it is, the more urgent the node.");
    Cells cells{{"node", "op", "implementations", "bottom level"}};
    for (const NodeId node : graph_.launched_nodes()) {
      cells.push_back({std::to_string(node), op(node), implementations(node), microseconds(levels_[node])});
    }
    const LowerBound& bound = view_.plan.bound;
    out_ << text_table(cells, "rllr", "   ") << "\n   The critical path, D = " << microseconds(bound.depth) << ": "
         << list(longest_path(graph_, edges_, levels_)) << "\n   Work W = " << microseconds(bound.work)
         << " of one unit, on " << units(view_.problem.capacity) << " "
         << microseconds(bound.work / view_.problem.capacity)
         << ". With what can run at once in every part of the graph, no plan is faster than "
         << microseconds(bound.bound) << ".\n";
  }

  void write_picks() {
    heading(4, "List scheduling",
            message("Whenever capacity is free, the most urgent ready node starts. ",
                    log_.attempts.size() == 1 ? "One sharing rule:" : "Several sharing rules compete:"));
    for (std::size_t i = 0; i < log_.attempts.size(); ++i) {
      out_ << "   " << log_.attempts[i].rule << ": " << microseconds(log_.attempts[i].makespan)
           << (i == log_.kept ? ", kept\n" : "\n");
    }
    if (shown() == nullptr) return;
    // Else, show how the best of the others would have gone.
    out_ << (shows_the_kept() ? "   Its picks:\n"
                              : "   No rule gains anything over one stream. The picks of the best:\n");
    const std::vector<ScheduleLog::Pick>& picks = shown()->picks;
    for (std::size_t i = 0; i < picks.size(); ++i) {
      const ScheduleLog::Pick& pick = picks[i];
      const bool first = i == 0 || pick.time != picks[i - 1].time;
      if (first) write_ready(pick);
      if (pick.started) {
        out_ << "     " << label(pick.node) << " starts, until " << microseconds(pick.finish) << "\n       "
             << node(pick, first) << "; " << width(pick) << '\n';
      } else if (pick.implementation >= 0) {
        out_ << "     " << label(pick.node) << ' ' << node(pick, first) << '\n';
      } else {
        // One line for this and those after it.
        std::vector<NodeId> passed_over{pick.node};
        for (; i + 1 < picks.size(); ++i) {
          const ScheduleLog::Pick& next = picks[i + 1];
          if (next.time != pick.time || next.started || next.implementation >= 0) break;
          passed_over.push_back(next.node);
        }
        out_ << "     not now: " << list(passed_over) << ", which " << node(picks[i], first) << '\n';
      }
    }
  }

  void write_ready(const ScheduleLog::Pick& pick) {
    out_ << "\n   " << microseconds(pick.time) << ": " << units(pick.free_units) << " and "
         << plural(pick.free_streams, "stream") << " free; ready:";
    for (const NodeId node : pick.ready) out_ << ' ' << node << " (" << number(shown()->priorities[node]) << ')';
    out_ << '\n';
  }

  /// The streams of the kept schedule, in the order in which they were chosen.
  void write_streams() {
    std::vector<NodeId> nodes = view_.problem.graph.launched_nodes();
    if (log_.stream_picks.empty()) return;
    std::ranges::stable_sort(nodes, {}, [&](NodeId node) { return view_.plan.placements[node].start; });
    out_ << "\n   Then every node gets a stream that is free as it starts, where it needs the fewest waits:\n";
    for (const NodeId node : nodes) {
      out_ << "     " << label(node) << ": " << stream_of(node) << ", " << stream(node) << '\n';
    }
  }

  void write_waits() {
    heading(5, "Waits",
            "An order between streams is kept by an event that one records and the other waits for, "
            "unless another order implies it.");
    TextStream lines;
    for (const ScheduleLog::Dependence& dependence : log_.dependences) {
      if (dependence.order != ScheduleLog::Order::stream) lines << "   " << wait(dependence) << '\n';
    }
    const auto count = [&](ScheduleLog::Order order) {
      return std::ranges::count(log_.dependences, order, &ScheduleLog::Dependence::order);
    };
    out_ << "   Of " << plural(log_.dependences.size(), "order") << " to keep, " << count(ScheduleLog::Order::stream)
         << " are within a stream, which costs nothing, "
         << count(ScheduleLog::Order::known) + count(ScheduleLog::Order::later) + count(ScheduleLog::Order::implied)
         << " follow from others, and " << count(ScheduleLog::Order::wait) << " need a wait.\n\n"
         << lines.str();
  }

  void write_memory() {
    constexpr std::int64_t kShownBytes = 4096;
    heading(6, "Memory",
            "Every result has an address before anything runs. Bytes are reused once the last reader "
            "has finished, in every order\n   that the waits allow.");
    Cells cells{{"address", "bytes", "from", "to", "what"}};
    const std::vector<ArenaUse> uses = arena_uses(view_, view_.simulation.runs);
    std::size_t small = 0;
    for (const ArenaUse& use : uses) {
      if (use.bytes < kShownBytes) {
        ++small;
        continue;
      }
      cells.push_back({std::to_string(use.offset), std::to_string(use.bytes), microseconds(use.begin),
                       microseconds(use.end), what(use)});
    }
    out_ << text_table(cells, "rrrrl", "   ");
    if (small > 0) out_ << "   and " << small << " of less than " << kibibytes(kShownBytes) << '\n';
    out_ << "\n   Arena " << kibibytes(view_.plan.arena_bytes) << "; in use at most "
         << kibibytes(peak_bytes(bytes_in_use(uses))) << "; without reuse " << kibibytes(view_.plan.naive_bytes)
         << ".\n";
  }

  std::string what(const ArenaUse& use) const {
    if (use.value == kNoValue) return "workspace of " + label(use.node);
    if (use.node == kNoNode) return message("input ", graph_.value(use.value).desc.shape);
    const Value& value = graph_.value(use.value);
    const ValueId old = value.reuses;
    const bool in_place = old != kNoValue && view_.plan.offsets[old] == use.offset;
    return message("result of ", label(use.node), in_place ? ", written over what it read" : "",
                   value.kept ? ", kept" : "");
  }

  void write_result() {
    const Simulation& simulation = view_.simulation;
    const std::vector<std::string> faults = verify_plan(graph_, view_.problem.costs, view_.plan);
    heading(
        7, "Verification and simulation",
        "A verifier that knows nothing of the above looks for races and deadlocks; then the plan is simulated, event "
        "by event.");
    out_ << "   " << (faults.empty() ? "no fault found" : faults.front()) << "\n   "
         << microseconds(simulation.makespan) << ", " << fixed(simulation.makespan / view_.plan.bound.bound, 2)
         << " times the lower bound\n";
    for (std::size_t s = 0; s < simulation.busy.size(); ++s) {
      if (simulation.busy[s] == 0) continue;
      out_ << "   stream " << s << " is busy for " << microseconds(simulation.busy[s]) << ", "
           << fixed(100 * simulation.busy[s] / simulation.makespan, 0) << " %:";
      for (const auto& [kind, index] : view_.plan.commands.streams[s]) {
        if (kind == Command::Kind::launch) out_ << ' ' << index;
      }
      out_ << '\n';
    }
    out_ << "   what determines the time: " << list(simulation.critical_path) << '\n';
  }

  TextStream out_;
};

}  // namespace

Explanation explain(const PlanView& step, const std::string& block, std::string_view policy) {
  Block part;
  if (block.empty()) {
    part.problem = step.problem;
    for (NodeId node = 0; node < part.problem.graph.node_count(); ++node) part.origin.push_back(node);
  } else {
    part = extract_block(step.problem, nodes_of(step, block));
  }
  Explanation result;
  const bool is_plain = policy == kPlainList;
  if (is_plain || policy == kLoggedPolicy) part.problem.log = &result.log;
  Plan plan = make_plan(part.problem, is_plain ? plain_list : find_policy(policy), policy);
  part.problem.log = nullptr;
  result.view = view_of(std::move(part.problem), std::move(plan));
  result.view.title = block.empty() ? step.title : message(block, " of ", step.title);
  result.view.device = step.device;
  const std::size_t prefix = block.empty() ? 0 : block.size() + 1;
  for (const NodeId node : part.origin) {
    // Within the block, names begin where those of the block end.
    const std::string_view layer = node == kNoNode ? "" : step.layer(node);
    result.view.layers.emplace_back(layer.substr(std::min(layer.size(), prefix)));
  }
  return result;
}

void check_readable(const PlanView& step, const std::string& block) {
  const std::size_t nodes = block.empty() ? step.layers.size() : nodes_of(step, block).size();
  BRAID_CHECK(nodes <= kMostExplained, Error, "[explain] ", block.empty() ? "the step" : message('\'', block, '\''),
              " has ", nodes, " nodes: too many to explain one by one, at most ", kMostExplained,
              ". Within it there are ", names_within(step, block));
}

std::vector<std::string> readable_blocks(const PlanView& step) {
  std::vector<std::string> listed;  // the parts of the last one come right after it
  for (const std::string& name : block_names(step)) {
    if (!listed.empty() && is_within(name, listed.back())) continue;
    if (nodes_within(step, name).size() <= kMostExplained) listed.push_back(name);
  }
  return listed;
}

std::string list_blocks(const PlanView& step) {
  Cells cells{{"block", "nodes"}};
  for (const std::string& name : readable_blocks(step)) {
    cells.push_back({name, std::to_string(nodes_within(step, name).size())});
  }
  return text_table(cells, "lr");
}

std::string to_text(const Explanation& explanation) { return ExplanationText(explanation).write(); }

}  // namespace braid::scheduler
