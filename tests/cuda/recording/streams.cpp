// Streams, events, captures and graphs.

#include <algorithm>

#include "core/base/error.h"
#include "tests/cuda/recording/world.h"

namespace {

using namespace braid::recording;
using Kind = Call::Kind;

void merge(Clock& into, const Clock& other) {
  for (const auto& [stream, nodes] : other) into[stream] = std::max(into[stream], nodes);
}

cudaError_t create_stream(cudaStream_t* handle, unsigned flags, int priority, std::string_view function) {
  return cuda_call(Kind::create, function, Needs::device, [&](World& world, Call& call) {
    CUstream_st& stream = world.streams.emplace_back();
    stream.id = static_cast<int>(world.streams.size());
    stream.flags = flags;
    stream.priority = priority;
    stream.context = world.current();
    ++world.alive.streams;
    call.stream = stream.id;
    call.flags = flags;
    *handle = &stream;
    return cudaSuccess;
  });
}

/// Also of an executable one.
template <class Graph>
cudaError_t destroy_graph(Graph* graph, std::string_view function) {
  return cuda_call(Kind::destroy, function, Needs::device, [&](World& world, Call& call) {
    if (graph == nullptr || !graph->alive) return cudaErrorInvalidValue;
    call.graph = graph->id;
    graph->alive = false;
    graph->work.clear();
    --world.alive.graphs;
    return cudaSuccess;
  });
}

/// Why an event cannot be asked about, or waited for by the host.
cudaError_t refuse_host_use(World& world, const CUevent_st& event) {
  if (event.capture == nullptr) return cudaSuccess;
  world.breaks_capture();
  return cudaErrorCapturedEvent;
}

/// Every query lets the device do one more piece of work, so that a polling host makes progress. Where it has to wait
/// for other devices, these also make progress.
cudaError_t query(World& world, Point point) {
  if (point.stream->done >= point.position) return cudaSuccess;
  if (!world.advance({point.stream, point.stream->done + 1})) world.advance_all();
  return cudaErrorNotReady;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create_stream(stream, flags, priority, __func__);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create_stream(stream, flags, 0, __func__);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return cuda_call(Kind::destroy, __func__, Needs::device, [&](World& world, Call& call) {
    CUstream_st* stream = world.stream(handle, call);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr)
      world.mistake(braid::message("stream ", stream->id, " is destroyed while capturing"));
    world.finish({stream, stream->done + stream->work.size()}, call.function);  // it would finish by itself
    stream->alive = false;
    --world.alive.streams;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return cuda_call(Kind::synchronize, __func__, Needs::device, [&](World& world, Call& call) {
    CUstream_st* stream = world.stream(handle, call);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (world.breaks_capture()) return cudaErrorStreamCaptureUnsupported;
    world.finish({stream, stream->done + stream->work.size()}, call.function);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return cuda_call(Kind::other, __func__, Needs::device, [&](World& world, Call& call) {
    CUstream_st* stream = world.stream(handle, call);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (world.breaks_capture()) return cudaErrorStreamCaptureUnsupported;
    return query(world, {stream, stream->done + stream->work.size()});
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  return cuda_call(Kind::create, __func__, Needs::device, [&](World& world, Call& call) {
    CUevent_st& event = world.events.emplace_back();
    event.id = static_cast<int>(world.events.size());
    event.flags = flags;
    event.context = world.current();
    ++world.alive.events;
    call.event = event.id;
    call.flags = flags;
    *handle = &event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return cuda_call(Kind::destroy, __func__, Needs::device, [&](World& world, Call& call) {
    CUevent_st* event = world.event(handle, call);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    event->alive = false;
    --world.alive.events;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event_handle, cudaStream_t stream_handle, unsigned flags) {
  return cuda_call(Kind::record, "cudaEventRecord", Needs::device, [&](World& world, Call& call) {
    CUstream_st* stream = world.stream(stream_handle, call);
    CUevent_st* event = world.event(event_handle, call);
    if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
    if (!world.same_context(call.function, event->context, stream->context)) return cudaErrorInvalidResourceHandle;
    const bool external = flags == cudaEventRecordExternal;
    if (external && stream->capture == nullptr) return cudaErrorIllegalState;
    event->recorded = true;
    event->capture = external ? nullptr : stream->capture;
    if (stream->capture != nullptr) {
      call.graph = stream->capture->id;
      if (stream->capture->invalidated != cudaSuccess) return cudaErrorStreamCaptureInvalidated;
      if (!external) event->clock = stream->clock;
    }
    event->time = std::make_shared<double>(-1);
    const auto record = [stream, time = event->time] { return *time = stream->time, true; };
    if (event->capture != nullptr) {  // an edge of the graph, not a node
      event->capture->work.push_back(record);
      return cudaSuccess;
    }
    const cudaError_t status = world.enqueue(*stream, call, record);
    event->point = {stream, stream->done + stream->work.size()};
    return status;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t event_handle, unsigned) {
  return cuda_call(Kind::wait, __func__, Needs::device, [&](World& world, Call& call) {
    CUstream_st* stream = world.stream(stream_handle, call);
    CUevent_st* event = world.event(event_handle, call);
    if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
    if (!event->recorded) {
      world.mistake(
          braid::message("stream ", stream->id, " waits for event ", event->id, ", which was never recorded"));
      return cudaSuccess;
    }
    if (event->capture == nullptr && stream->capture == nullptr) {
      return world.enqueue(*stream, call, [&world, stream, point = event->point, time = event->time] {
        if (!world.advance(point)) return false;
        stream->time = std::max(stream->time, *time);
        return true;
      });
    }
    if (event->capture == nullptr) {
      stream->capture->invalidated = cudaErrorStreamCaptureIsolation;
      return cudaErrorStreamCaptureIsolation;
    }
    // An event of a capture that has ended is not recorded.
    if (event->capture->origin->capture != event->capture) return cudaErrorCapturedEvent;
    if (stream->capture != nullptr && stream->capture != event->capture) {
      stream->capture->invalidated = cudaErrorStreamCaptureMerge;
      return cudaErrorStreamCaptureMerge;
    }
    stream->capture = event->capture;
    call.graph = event->capture->id;
    if (event->capture->invalidated != cudaSuccess) return cudaErrorStreamCaptureInvalidated;
    event->capture->nodes.try_emplace(stream, 0);
    event->capture->work.push_back(
        [stream, time = event->time] { return stream->time = std::max(stream->time, *time), true; });
    merge(stream->clock, event->clock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return cuda_call(Kind::synchronize, __func__, Needs::device, [&](World& world, Call& call) {
    CUevent_st* event = world.event(handle, call);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t status = refuse_host_use(world, *event); status != cudaSuccess) return status;
    if (event->recorded) world.finish(event->point, call.function);
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return cuda_call(Kind::other, __func__, Needs::device, [&](World& world, Call& call) {
    CUevent_st* event = world.event(handle, call);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t status = refuse_host_use(world, *event); status != cudaSuccess) return status;
    return event->recorded ? query(world, event->point) : cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t finish) {
  return cuda_call(Kind::other, __func__, Needs::device, [&](World& world, Call& call) {
    for (const cudaEvent_t handle : {start, finish}) {
      const CUevent_st* event = world.event(handle, call);
      if (event == nullptr || !event->recorded || (event->flags & cudaEventDisableTiming) != 0) {
        return cudaErrorInvalidResourceHandle;
      }
      if (*event->time < 0) return cudaErrorNotReady;
    }
    *milliseconds = static_cast<float>((*finish->time - *start->time) * 1e-3);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return cuda_call(Kind::capture, __func__, Needs::device, [&](World& world, Call& call) {
    CUstream_st* stream = world.stream(handle, call);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    call.flags = mode;
    if (stream == &world.legacy) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture != nullptr) return cudaErrorIllegalState;
    Capture& capture = world.captures.emplace_back();
    capture.id = static_cast<int>(world.captures.size());
    capture.origin = stream;
    capture.mode = mode;
    capture.thread = std::this_thread::get_id();
    capture.nodes[stream] = 0;
    stream->capture = &capture;
    stream->clock.clear();
    call.graph = capture.id;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return cuda_call(Kind::other, __func__, Needs::device, [&](World& world, Call& call) {
    // This query is harmless for the default stream.
    CUstream_st* stream = handle == nullptr ? &world.legacy : world.stream(handle, call);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    call.stream = stream->id;
    if (stream->capture != nullptr) call.graph = stream->capture->id;
    *status = stream->capture == nullptr                    ? cudaStreamCaptureStatusNone
              : stream->capture->invalidated == cudaSuccess ? cudaStreamCaptureStatusActive
                                                            : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  return cuda_call(Kind::capture, __func__, Needs::device, [&](World& world, Call& call) {
    CUstream_st* stream = world.stream(handle, call);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    Capture* capture = stream->capture;
    if (capture == nullptr) return cudaErrorIllegalState;
    call.graph = capture->id;
    if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
    if (capture->mode == cudaStreamCaptureModeThreadLocal && capture->thread != std::this_thread::get_id()) {
      return cudaErrorStreamCaptureWrongThread;
    }
    bool joined = true;
    for (const auto& [other, nodes] : capture->nodes) joined = joined && stream->clock[other] >= nodes;
    for (const auto& [other, nodes] : capture->nodes) other->capture = nullptr, other->clock.clear();
    const std::vector<Work> work = std::move(capture->work);
    if (capture->invalidated != cudaSuccess) return cudaErrorStreamCaptureInvalidated;
    if (!joined) return cudaErrorStreamCaptureUnjoined;
    CUgraph_st& made = world.graphs.emplace_back();
    made.id = capture->id;
    made.work = work;
    for (const auto& [other, nodes] : capture->nodes) {
      made.has_priorities = made.has_priorities || other->priority != stream->priority;
    }
    ++world.alive.graphs;
    *graph = &made;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return cuda_call(Kind::create, __func__, Needs::device, [&](World& world, Call& call) {
    if (world.breaks_capture()) return cudaErrorStreamCaptureUnsupported;
    if (graph == nullptr || !graph->alive) return cudaErrorInvalidValue;
    call.flags = static_cast<unsigned>(flags);
    if (graph->has_priorities && (flags & cudaGraphInstantiateFlagUseNodePriority) == 0) {
      world.mistake(braid::message("graph ", graph->id, " is instantiated without the priorities of its streams"));
    }
    CUgraphExec_st& made = world.executables.emplace_back();
    call.graph = made.id = graph->id;
    made.work = graph->work;
    ++world.alive.graphs;
    *executable = &made;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t handle) {
  return cuda_call(Kind::other, __func__, Needs::device, [&](World& world, Call& call) {
    CUstream_st* stream = world.stream(handle, call);
    if (stream == nullptr || executable == nullptr || !executable->alive) return cudaErrorInvalidValue;
    call.graph = executable->id;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return cuda_call(Kind::graph_launch, __func__, Needs::device, [&](World& world, Call& call) {
    CUstream_st* stream = world.stream(handle, call);
    if (stream == nullptr || executable == nullptr || !executable->alive) return cudaErrorInvalidValue;
    constexpr double kSubmission = 10;  // microseconds of the host, which an idle stream waits for
    const double gap = stream->done < stream->busy_until ? 0 : kSubmission;
    const auto at = std::make_shared<std::size_t>(0);
    const cudaError_t status = world.enqueue(*stream, call, [&world, stream, gap, at, work = executable->work] {
      if (*at == 0) stream->time += gap;
      for (; *at < work.size(); ++*at) {
        if (world.lost == cudaSuccess && !work[*at]()) return false;
      }
      stream->time += 1;
      return true;
    });
    call.graph = executable->id;
    return status;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy_graph(graph, __func__); }

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return destroy_graph(executable, __func__); }

}  // extern "C"
