#pragma once
// Turns the log of the recording runtime into the scheduler's terms: streams, nodes, events.

#include <optional>

#include "runtime/session.h"
#include "tests/cuda/recording/recording.h"

namespace braid::testing {

using recording::Call;

/// Marks in the log where each node's launch begins and ends.
class NodeMarks final : public LaunchObserver {
 public:
  void before_launch(int stream, std::int32_t node) override { recording::mark("begin", stream, node); }
  void after_launch(int stream, std::int32_t node) override { recording::mark("end", stream, node); }
};

/// A device call that belongs to a node: between the node's marks.
struct NodeLaunch {
  NodeId node;
  int stream;  ///< stream of the plan
  Call call;
};

/// A program as it was issued. Every record of an event in the log is a separate event here, because events are reused.
/// What the executor adds to a program (fork and join) is part of it.
struct Trace {
  std::vector<std::vector<Command>> streams;  ///< per stream of the plan
  std::int32_t events = 0;
  std::vector<NodeLaunch> launches;
  std::vector<std::string> faults;  ///< work outside of nodes, or of a node in another stream than its own
};

/// Ids of the streams that sessions made for their programs, in the order of their making.
std::vector<int> program_streams(const std::vector<Call>& calls);

/// The program in a stretch of the log, which must hold marks. `streams` are the ids of the plan's streams.
Trace trace_of(const std::vector<Call>& calls, std::span<const int> streams);

/// How a trace differs from its plan, as sentences. Every stream must hold the plan's commands in a row, with no launch
/// before or after them, and use events as the plan does.
std::vector<std::string> differences(const Trace& trace, const scheduler::Plan& plan);

/// A step that has run, and all that a check of it needs. The step must still be alive.
struct Ran {
  Session& session;
  const StepGraph& graph;
  const scheduler::Plan& plan;
  scheduler::Costs costs;
  std::byte* arena;
};
Ran inspect(Session& session, const Step& step);

/// Every address that a launch was given must belong to a value of its node or to the workspace slice of its stream.
std::vector<std::string> stray_pointers(const Trace& trace, const Ran& ran);
/// Every stream must use its own cuDNN and cuBLASLt handles.
std::vector<std::string> shared_handles(const Trace& trace);

}  // namespace braid::testing
