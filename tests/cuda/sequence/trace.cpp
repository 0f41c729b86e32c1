#include "tests/cuda/sequence/trace.h"

#include <algorithm>
#include <map>

#include "core/device/cuda/stream_handles.h"
#include "runtime/compile/node_kernels.h"
#include "runtime/compile/planner.h"

namespace braid::testing {

namespace {

using CallKind = Call::Kind;

bool within(const recording::Bytes& inner, const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data), at = reinterpret_cast<std::uintptr_t>(inner.data);
  return at >= begin && at + inner.bytes <= begin + bytes && at < begin + std::max<std::size_t>(bytes, 1);
}

/// Whether this is the first of a stream's counters.
bool is_arrival_counter(const void* pointer) {
  return std::ranges::any_of(recording::device_blocks(), [&](const recording::Bytes& block) {
    return block.data == pointer && block.bytes == sizeof(unsigned) * cuda::kArrivalCounters;
  });
}

/// Where the plan's commands begin within the traced ones: so that their first launches meet.
std::optional<std::size_t> offset_of(const std::vector<Command>& traced, const std::vector<Command>& planned) {
  const auto is_launch = [](const Command& command) { return command.kind == Command::Kind::launch; };
  const auto first_traced = std::ranges::find_if(traced, is_launch) - traced.begin();
  const auto first_planned = std::ranges::find_if(planned, is_launch) - planned.begin();
  if (first_traced < first_planned) return std::nullopt;
  return static_cast<std::size_t>(first_traced - first_planned);
}

}  // namespace

std::vector<int> program_streams(const std::vector<Call>& calls) {
  std::vector<int> streams;
  for (const Call& call : calls) {
    if (call.function == "cudaStreamCreateWithPriority" && call.status == 0) streams.push_back(call.stream);
  }
  return streams;
}

Trace trace_of(const std::vector<Call>& calls, std::span<const int> streams) {
  Trace trace;
  trace.streams.resize(streams.size());
  std::map<int, std::int32_t> newest;  // event → its last record
  const Call* node = nullptr;          // the mark at which the node began whose launches follow
  for (const Call& call : calls) {
    if (call.kind == CallKind::mark) {
      node = call.function == "begin" ? &call : nullptr;
      if (node != nullptr) {
        trace.streams[static_cast<std::size_t>(call.stream)].push_back({Command::Kind::launch, call.index});
      }
      continue;
    }
    if (call.kind == CallKind::launch ||
        (node != nullptr && (call.kind == CallKind::copy || call.kind == CallKind::fill))) {
      if (node == nullptr) {
        trace.faults.push_back(message(call.kernel, " is launched outside of any node"));
      } else if (call.stream != streams[static_cast<std::size_t>(node->stream)]) {
        trace.faults.push_back(message("node ", node->index, " launches ", call.kernel, " in stream ", call.stream));
      } else {
        trace.launches.push_back({node->index, node->stream, call});
      }
    }
    const auto stream = std::ranges::find(streams, call.stream);
    if (stream == streams.end()) {
      if (call.kind == CallKind::record) newest.erase(call.event);  // the copy stream's
      continue;
    }
    auto& commands = trace.streams[static_cast<std::size_t>(stream - streams.begin())];
    if (call.kind == CallKind::record) {
      newest[call.event] = trace.events;
      commands.push_back({Command::Kind::record, trace.events++});
    } else if (call.kind == CallKind::wait && newest.contains(call.event)) {
      commands.push_back({Command::Kind::wait, newest[call.event]});
    }
  }
  return trace;
}

std::vector<std::string> differences(const Trace& trace, const scheduler::Plan& plan) {
  std::vector<std::string> found = trace.faults;
  std::map<std::int32_t, std::int32_t> events;  // the plan's → the trace's
  std::map<std::int32_t, int> waits;
  const auto complain = [&](const auto&... parts) { found.push_back(message(parts...)); };
  // Records first: they tell which event is which.
  for (const auto kind : {Command::Kind::record, Command::Kind::wait}) {
    for (std::size_t s = 0; s < plan.commands.streams.size(); ++s) {
      const auto& planned = plan.commands.streams[s];
      const auto& traced = trace.streams[s];
      const auto offset = offset_of(traced, planned);
      if (!offset || *offset + planned.size() > traced.size()) {
        complain("stream ", s, " has ", traced.size(), " commands, which are not the plan's ", planned.size());
        return found;
      }
      for (std::size_t i = 0; i < planned.size(); ++i) {
        const Command &expected = planned[i], &actual = traced[*offset + i];
        if (actual.kind != expected.kind) {
          complain("command ", i, " of stream ", s, " is of kind ", static_cast<int>(actual.kind), ", not ",
                   static_cast<int>(expected.kind));
        } else if (expected.kind == Command::Kind::launch && actual.index != expected.index) {
          complain("command ", i, " of stream ", s, " launches node ", actual.index, ", not ", expected.index);
        } else if (expected.kind == kind && kind == Command::Kind::record) {
          events[expected.index] = actual.index;
        } else if (expected.kind == kind && events[expected.index] != actual.index) {
          complain("command ", i, " of stream ", s, " waits for another event than ", expected.index);
        }
      }
      for (std::size_t i = 0; i < traced.size(); ++i) {
        const bool outside = i < *offset || i >= *offset + planned.size();
        if (outside && traced[i].kind == Command::Kind::launch) complain("stream ", s, " launches more than the plan");
      }
    }
  }
  return found;
}

Ran inspect(Session& session, const Step& step) {
  const StepGraph& graph = session.tape().graph();
  const DeviceInfo& device = session.backend().info();
  scheduler::Costs costs = scheduler::analytic_costs(graph, device, std::vector<int>{device.max_width});
  make_kernels(graph, kernel_target(session, session.options()), costs);
  std::byte* arena = nullptr;
  for (const recording::Bytes& block : recording::device_blocks()) {
    if (block.bytes == session.stats().arena_bytes) arena = static_cast<std::byte*>(const_cast<void*>(block.data));
  }
  return {session, graph, step.plan(), std::move(costs), arena};
}

std::vector<std::string> stray_pointers(const Trace& trace, const Ran& ran) {
  std::vector<std::string> strays;
  const auto holds = [&](ValueId id, const recording::Bytes& bytes) {
    const Value& value = ran.graph.value(id);
    const void* data = value.slot >= 0 ? ran.session.parameter(value.slot).data()
                                       : ran.arena + ran.plan.offsets[static_cast<std::size_t>(value.root)];
    return within(bytes, data, value.bytes());
  };
  const auto describe = [&](const NodeLaunch& launch) {
    return message("node ", launch.node, " '", ran.graph.node(launch.node).op->name(), "' (", launch.call.function, ' ',
                   launch.call.kernel, ") ");
  };
  for (const NodeLaunch& launch : trace.launches) {
    const Node& node = ran.graph.node(launch.node);
    const scheduler::ArenaSlice& slice = ran.plan.workspaces[static_cast<std::size_t>(launch.stream)];
    const auto in_workspace = [&](const recording::Bytes& bytes) {
      return within(bytes, ran.arena + slice.offset, static_cast<std::size_t>(slice.bytes));
    };
    for (const recording::Bytes& pointer : launch.call.pointers) {
      if (is_arrival_counter(pointer.data)) continue;  // shared_handles
      bool known = pointer.data == nullptr || in_workspace(pointer);
      for (const ValueId input : ran.graph.inputs(node)) known = known || holds(input, pointer);
      for (int i = 0; i < node.output_count; ++i) known = known || holds(ran.graph.output(launch.node, i), pointer);
      if (!known && !recording::pinned_block(pointer.data)) {  // pinned: where kernels report bad data
        strays.push_back(describe(launch) + "is given an address that is none of its values");
      }
    }
    if (launch.call.workspace.bytes > 0 && !in_workspace(launch.call.workspace)) {
      strays.push_back(describe(launch) + "has a workspace outside of its stream's slice");
    }
  }
  return strays;
}

std::vector<std::string> shared_handles(const Trace& trace) {
  std::vector<std::string> shared;
  std::map<int, int> stream_of;
  std::map<const void*, int> counters_of;
  for (const NodeLaunch& launch : trace.launches) {
    for (const recording::Bytes& pointer : launch.call.pointers) {
      if (!is_arrival_counter(pointer.data)) continue;
      const auto [owner, fresh] = counters_of.try_emplace(pointer.data, launch.stream);
      if (owner->second != launch.stream) {
        shared.push_back(message("streams ", owner->second, " and ", launch.stream, " count blocks in one place"));
      }
    }
    if (launch.call.handle < 0) continue;
    const auto [owner, fresh] = stream_of.try_emplace(launch.call.handle, launch.stream);
    if (owner->second == launch.stream) continue;
    shared.push_back(message("streams ", owner->second, " and ", launch.stream, " use handle ", launch.call.handle));
  }
  return shared;
}

}  // namespace braid::testing
