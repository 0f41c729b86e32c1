// The order of operations by vector clocks, and a shadow memory that records for every byte what it holds, who
// wrote it and who has read it since (as Flanagan and Freund's "FastTrack", 2009, does for threads). Bytes with the
// same history are one cell, so the work is in the number of accesses and not of bytes.

#include "tests/cuda/sequence/operations.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/text/text.h"

namespace braid::scheduler::testing {

OperationOrder::OperationOrder(std::span<const Operation> operations) {
  std::int32_t events = 0;
  for (const Operation& operation : operations) {
    const bool on_event = operation.kind == Operation::Kind::record || operation.kind == Operation::Kind::wait;
    BRAID_CHECK(operation.queue >= 0 && (!on_event || operation.event >= 0), Error, "[steps] '", operation.name,
                "' has queue ", operation.queue, " and event ", operation.event);
    queues_ = std::max(queues_, static_cast<std::size_t>(operation.queue) + 1);
    events = std::max(events, operation.event + 1);
  }

  using Clock = std::vector<std::int32_t>;  // per queue: how many of its operations are over
  const auto merge = [](Clock& into, const Clock& other) {
    std::ranges::transform(into, other, into.begin(), [](auto a, auto b) { return std::max(a, b); });
  };
  struct Event {
    Clock clock;
    std::int32_t records = 0;
    std::vector<std::size_t> waits;  // for the last record, by streams
  };
  std::vector<Clock> now(queues_, Clock(queues_));
  std::vector<Event> event_states(static_cast<std::size_t>(events));

  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    const auto queue = static_cast<std::size_t>(operation.queue);
    Clock& clock = now[queue];
    merge(clock, now[kHost]);  // it is issued when the host gets there
    queue_.push_back(operation.queue);
    position_.push_back(clock[queue]);
    over_.insert(over_.end(), clock.begin(), clock.end());

    if (operation.kind == Operation::Kind::wait) {
      Event& event = event_states[static_cast<std::size_t>(operation.event)];
      if (event.records == 0 && operation.queue != kHost) {
        faults_.push_back(
            message(operation.name, " is issued before the event was ever recorded: it waits for nothing."));
      } else if (operation.occurrence > 0 && event.records != operation.occurrence) {
        faults_.push_back(message(operation.name, " is bound to record ", event.records,
                                  " of its event, but means record ", operation.occurrence, "."));
      }
      if (event.records > 0) merge(clock, event.clock);
      if (operation.queue != kHost) event.waits.push_back(i);
    }
    ++clock[queue];
    if (operation.kind == Operation::Kind::record) {
      Event& event = event_states[static_cast<std::size_t>(operation.event)];
      for (const std::size_t wait : event.waits) {
        if (before(wait, i)) continue;
        faults_.push_back(message(operation.name,
                                  " records the event again while this may not be over: ", operations[wait].name, "."));
      }
      event.waits.clear();
      event.clock = clock;
      ++event.records;
    }
  }
}

namespace {

constexpr std::size_t kMaxSequenceFaults = 20;
constexpr std::int64_t kNothing = -1;  // content of bytes that were never written
constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

class SequenceVerifier {
 public:
  explicit SequenceVerifier(std::span<const Operation> operations) : operations_(operations), order_(operations) {
    cells_[std::numeric_limits<std::int64_t>::min()] = {};
  }

  std::vector<std::string> run() {
    for (const std::string& text : order_.faults()) fault(text);
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      const Operation& operation = operations_[i];
      if (operation.kind == Operation::Kind::copy) {
        copy(i, operation.accesses.at(0), operation.accesses.at(1));
      } else {
        for (const Access& access : operation.accesses) {
          if (!access.writes) read(i, access, true);
        }
        for (const Access& access : operation.accesses) {
          if (access.writes) write(i, access.begin, access.end, access.content);
        }
      }
    }
    return std::move(faults_);
  }

 private:
  /// Bytes up to the next cell's.
  struct Cell {
    std::int64_t content = kNothing;
    std::size_t writer = kNobody;
    std::vector<std::size_t> readers;  // since it was written
  };
  using Cells = std::map<std::int64_t, Cell>;

  template <class... Parts>
  void fault(const Parts&... parts) {
    std::string text = message(parts...);
    if (faults_.size() < kMaxSequenceFaults && std::ranges::find(faults_, text) == faults_.end())
      faults_.push_back(text);
  }
  const std::string& name(std::size_t operation) const { return operations_[operation].name; }

  /// The cell that begins at this address, from now on.
  Cells::iterator cut(std::int64_t address) {
    const auto next = cells_.upper_bound(address);
    const auto cell = std::prev(next);
    if (cell->first == address) return cell;
    return cells_.insert(next, {address, cell->second});
  }

  void read(std::size_t reader, const Access& access, bool expects) {
    if (access.begin >= access.end) return;
    const auto last = cut(access.end);
    for (auto cell = cut(access.begin); cell != last; ++cell) {
      Cell& bytes = cell->second;
      if (expects && bytes.content != access.content) {
        fault(name(reader), " finds at ", cell->first, " what it does not expect, ",
              bytes.writer == kNobody ? "which nobody wrote." : message("written by ", name(bytes.writer), "."));
      }
      if (bytes.writer != kNobody && bytes.writer != reader && !order_.before(bytes.writer, reader)) {
        fault(name(reader), " reads at ", cell->first, " but is not ordered after the write by ", name(bytes.writer),
              ".");
      }
      const auto covered = [&](std::size_t earlier) { return order_.before(earlier, reader); };
      std::erase_if(bytes.readers, covered);  // who comes after the reader comes after them
      bytes.readers.push_back(reader);
    }
  }

  void write(std::size_t writer, std::int64_t begin, std::int64_t end, std::int64_t content) {
    if (begin >= end) return;
    const auto last = cut(end);
    const auto first = cut(begin);
    for (auto cell = first; cell != last; ++cell) {
      const Cell& bytes = cell->second;
      if (bytes.writer != kNobody && bytes.writer != writer && !order_.before(bytes.writer, writer)) {
        fault(name(writer), " writes at ", cell->first, " but is not ordered after the write by ", name(bytes.writer),
              ".");
      }
      for (const std::size_t reader : bytes.readers) {
        if (reader == writer || order_.before(reader, writer)) continue;
        fault(name(writer), " writes at ", cell->first, " but is not ordered after the read by ", name(reader), ".");
      }
    }
    first->second = {content, writer, {}};
    cells_.erase(std::next(first), last);
  }

  void copy(std::size_t copier, const Access& source, const Access& target) {
    read(copier, source, false);
    std::vector<std::pair<std::int64_t, std::int64_t>> pieces;  // (end, content)
    const auto last = cells_.find(source.end);
    for (auto cell = cells_.find(source.begin); cell != last; ++cell) {
      pieces.emplace_back(std::next(cell)->first - source.begin, cell->second.content);
    }
    std::int64_t begin = 0;
    for (const auto& [end, content] : pieces) {
      write(copier, target.begin + begin, target.begin + end, content);
      begin = end;
    }
  }

  std::span<const Operation> operations_;
  const OperationOrder order_;
  Cells cells_;  // by first address; the last one has no end
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> verify_operations(std::span<const Operation> operations) {
  return SequenceVerifier(operations).run();
}

StepMemory::StepMemory(const StepGraph& graph, const Costs& costs, const Plan& plan, std::int64_t arena,
                       std::vector<std::int64_t> slots)
    : graph_(graph), costs_(costs), plan_(plan), arena_(arena), slots_(std::move(slots)) {
  first_version_.assign(slots_.size(), kNoValue);
  last_version_.assign(slots_.size(), kNoValue);
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.slot < 0 || value.root != id) continue;
    const auto slot = static_cast<std::size_t>(value.slot);
    BRAID_CHECK(slot < slots_.size(), Error, "[steps] expected an address for slot ", slot, ", got ",
                plural(slots_.size(), "address", "es"));
    if (first_version_[slot] == kNoValue) first_version_[slot] = id;
    last_version_[slot] = id;  // recording order is the order of versions
  }
}

std::int64_t StepMemory::content(ValueId root, int step) const {
  const std::int32_t slot = graph_.value(root).slot;
  if (slot >= 0 && root == first_version_[static_cast<std::size_t>(slot)] && step > 0) {
    return content(last_version_[static_cast<std::size_t>(slot)], step - 1);
  }
  return std::int64_t{step} * (graph_.value_count() + graph_.node_count()) + root;
}

Access StepMemory::access(ValueId id, int step, bool writes) const {
  const ValueId root = graph_.value(id).root;
  const Value& value = graph_.value(root);
  const std::int64_t begin = value.slot >= 0 ? slots_[static_cast<std::size_t>(value.slot)]
                                             : arena_ + plan_.offsets[static_cast<std::size_t>(root)];
  return {begin, begin + static_cast<std::int64_t>(value.bytes()), writes, content(root, step)};
}

std::vector<Access> StepMemory::node(NodeId id, int step) const {
  std::vector<Access> accesses;
  for (const ValueId input : graph_.inputs(id)) accesses.push_back(read(input, step));
  for (int i = 0; i < graph_.node(id).output_count; ++i) accesses.push_back(write(graph_.output(id, i), step));
  const Placement& placement = plan_.placements[static_cast<std::size_t>(id)];
  const std::size_t scratch = costs_.of(id, placement.implementation).workspace_bytes;
  if (scratch > 0) {
    const std::int64_t begin = arena_ + plan_.workspaces[static_cast<std::size_t>(placement.stream)].offset;
    accesses.push_back(
        {begin, begin + static_cast<std::int64_t>(scratch), true, content(0, step) + graph_.value_count() + id});
  }
  return accesses;
}

std::vector<Access> StepMemory::initial() const {
  std::vector<Access> accesses;
  for (const ValueId id : first_version_) {
    if (id != kNoValue) accesses.push_back(write(id, 0));
  }
  return accesses;
}

std::vector<Access> StepMemory::final(int step) const {
  std::vector<Access> accesses;
  for (const ValueId id : last_version_) {
    if (id != kNoValue) accesses.push_back(read(id, step));
  }
  for (ValueId id = 0; id < graph_.value_count(); ++id) {
    const Value& value = graph_.value(id);
    if (value.kept && value.root == id && value.slot < 0) accesses.push_back(read(id, step));
  }
  return accesses;
}

std::vector<ValueId> StepMemory::inputs() const {
  std::vector<ValueId> inputs;
  for (ValueId id = 0; id < graph_.value_count(); ++id) {
    const Value& value = graph_.value(id);
    if (value.producer == kNoNode && value.slot < 0 && value.root == id && value.bytes() > 0) inputs.push_back(id);
  }
  return inputs;
}

}  // namespace braid::scheduler::testing
