#include <algorithm>

#include "core/base/text_stream.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "train/report/plan/reasons.h"

namespace braid::scheduler {
namespace {

class NodeText : Reasons {
 public:
  NodeText(const Explanation& explanation, NodeId node) : Reasons(explanation), node_(node) {
    BRAID_CHECK(node >= 0 && node < graph_.node_count() && !graph_.node(node).is_view, Error,
                "[explain] expected a node of ", view_.title, ", which has ", graph_.node_count(), ", got ", node,
                node >= 0 && node < graph_.node_count() ? ": a view, which nothing runs" : "");
  }

  std::string write() {
    out_ << wrapped(message(label(node_), " of ", view_.title)) << "\n\n";
    write_ready();
    write_decisions();
    add("stream", message(view_.plan.placements[node_].stream, comma(stream(node_))));
    for (const ScheduleLog::Dependence& dependence : log_.dependences) {
      if (dependence.after == node_) add("orders", wait(dependence));
    }
    add("needed by", list(edges_.successors(node_)));
    write_memory();
    const Run& run = view_.simulation.runs[node_];
    add("simulated", message("from ", microseconds(run.start), " to ", microseconds(run.finish)));
    return out_.str();
  }

 private:
  static std::string comma(const std::string& text) { return text.empty() ? "" : ", " + text; }

  /// A line that repeats the name of the one before leaves it out.
  void add(const std::string& name, const std::string& text) {
    constexpr std::size_t kIndent = 12;
    std::string line = name == last_ ? "" : name;
    line.resize(kIndent, ' ');
    out_ << wrapped(line + text, kIndent) << '\n';
    last_ = name;
  }

  void write_ready() {
    const auto before = edges_.predecessors(node_);
    const auto finish = [&](NodeId node) { return view_.plan.placements[node].finish; };
    if (before.empty()) {
      add("ready", "from the start");
    } else {
      const NodeId last = *std::ranges::max_element(before, {}, finish);
      add("ready", message("at ", microseconds(finish(last)), ", when ", label(last), " finishes",
                           before.size() == 1 ? "" : message(", the last of ", list(before))));
    }
    add("level", message(microseconds(levels_[node_]), " from its start to the end of the longest path"));
    const ScheduleLog::Attempt* attempt = shown();
    if (attempt == nullptr) return;
    for (const auto& [first, second] : attempt->start_orders) {
      if (second == node_) add("ready", message("only once ", label(first), " has started, as chosen by local search"));
    }
    const double priority = attempt->priorities[node_];
    if (priority != levels_[node_]) add("urgency", message(microseconds(priority), ", which search has changed"));
  }

  /// The times at which the node was ready: what started before it, and why it started at last.
  void write_decisions() {
    constexpr std::size_t kMostTimes = 3;
    const ScheduleLog::Attempt* attempt = shown();
    if (attempt == nullptr) return;
    if (!shows_the_kept()) {
      add("kept is", message("the schedule '", log_.attempts[log_.kept].rule, "'; below are the decisions of '",
                             attempt->rule, '\''));
    }
    std::vector<std::string> earlier;
    const std::vector<ScheduleLog::Pick>& picks = attempt->picks;
    for (std::size_t begin = 0, end = 0; begin < picks.size(); begin = end) {
      while (end < picks.size() && picks[end].time == picks[begin].time) ++end;
      const auto now = std::span(picks).subspan(begin, end - begin);
      const auto mine = std::ranges::find(now, node_, &ScheduleLog::Pick::node);
      if (mine != now.end() && mine->started) {
        for (std::size_t i = earlier.size() > kMostTimes ? earlier.size() - kMostTimes : 0; i < earlier.size(); ++i) {
          add("not before", earlier[i]);
        }
        if (earlier.size() > kMostTimes) {
          add("not before", message("and ", plural(earlier.size() - kMostTimes, "time"), " before"));
        }
        write_start(now, *mine);
        return;
      }
      const bool was_ready = std::ranges::any_of(
          now, [&](const auto& pick) { return std::ranges::find(pick.ready, node_) != pick.ready.end(); });
      if (was_ready) earlier.push_back(why_not(now, mine == now.end() ? nullptr : &*mine));
    }
  }

  std::string why_not(std::span<const ScheduleLog::Pick> now, const ScheduleLog::Pick* mine) const {
    std::string text = message("at ", microseconds(now.front().time), ": ");
    if (mine != nullptr) return text + node(*mine, false);
    std::vector<NodeId> started;
    for (const ScheduleLog::Pick& pick : now) {
      if (pick.started) started.push_back(pick.node);
    }
    return message(text, list(started), started.size() == 1 ? " starts" : " start", ", and leaves no ",
                   view_.problem.oversubscribes ? "SM" : "core", " or stream");
  }

  void write_start(std::span<const ScheduleLog::Pick> now, const ScheduleLog::Pick& pick) {
    const std::vector<NodeId>& ready = now.front().ready;
    const std::vector<NodeId> ahead(ready.begin(), std::ranges::find(ready, node_));
    add("start", message("at ", microseconds(pick.time), ", until ", microseconds(pick.finish), ": ",
                         node(pick, &pick == &now.front()),
                         ahead.empty() ? "" : message("; more urgent and ready: ", list(ahead))));
    add("width", message(width(pick), "; it can have ", implementations(node_)));
  }

  void write_memory() {
    constexpr std::int64_t kShownBytes = 4096;  // of results but the first
    const ValueId first = graph_.node(node_).first_output;
    const std::vector<ArenaUse> uses = arena_uses(view_, view_.simulation.runs);
    for (const ArenaUse& use : uses) {
      if (use.node != node_ || (use.bytes < kShownBytes && use.value != first)) continue;
      const bool is_result = use.value != kNoValue;
      add(is_result ? "result" : "workspace",
          message(is_result ? message(graph_.value(use.value).desc.shape, ", ") : "", use.bytes, " bytes at ",
                  use.offset, ", from ", microseconds(use.begin), " to ", microseconds(use.end)));
      const auto overlaps = [&](const ArenaUse& other) {
        return &other != &use && other.end <= use.begin && other.offset < use.offset + use.bytes &&
               use.offset < other.offset + other.bytes;
      };
      const ArenaUse* last = nullptr;
      for (const ArenaUse& other : uses) {
        if (overlaps(other) && (last == nullptr || other.end > last->end)) last = &other;
      }
      add("bytes", last == nullptr ? "used by nothing before"
                                   : message("last used until ", microseconds(last->end), " by ",
                                             last->value == kNoValue ? "the workspace of "
                                             : last->node == kNoNode ? "an input"
                                                                     : "the result of ",
                                             last->node == kNoNode ? "" : label(last->node)));
    }
  }

  const NodeId node_;
  std::string last_;
  TextStream out_;
};

}  // namespace

std::string explain_node(const Explanation& explanation, NodeId node) { return NodeText(explanation, node).write(); }

}  // namespace braid::scheduler
