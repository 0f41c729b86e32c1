// The recording runtime itself: what the tests of the CUDA backend rely on.

#include "tests/cuda/recording/recording.h"

#include <cudnn.h>
#include <doctest/doctest.h>

#include <numeric>

#include "core/device/cuda/green_contexts.h"
#include "core/device/cuda/handle.h"

namespace braid::recording {
namespace {

using cuda::EventHandle;
using cuda::StreamHandle;

StreamHandle make_stream() {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  return StreamHandle(stream);
}

/// Pinned and device memory of 4 ints each, and two streams.
struct Fixture {
  Fixture() {
    REQUIRE(cudaHostAlloc(reinterpret_cast<void**>(&host), 16, cudaHostAllocDefault) == cudaSuccess);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&device), 16) == cudaSuccess);
    std::iota(host, host + 4, 1);
  }
  ~Fixture() {
    CHECK(cudaFree(device) == cudaSuccess);
    CHECK(cudaFreeHost(host) == cudaSuccess);
  }
  cudaError_t upload(cudaStream_t stream) { return cudaMemcpyAsync(device, host, 16, cudaMemcpyHostToDevice, stream); }
  cudaError_t download(cudaStream_t stream) {
    return cudaMemcpyAsync(host, device, 16, cudaMemcpyDeviceToHost, stream);
  }

  const bool world_is_fresh = (reset(), true);
  int* host = nullptr;
  int* device = nullptr;
  StreamHandle a = make_stream(), b = make_stream();
  EventHandle event = cuda::make_event();
};

TEST_CASE("memory starts as garbage, is limited, and is counted") {
  reset();
  set_memory(1000);
  unsigned char* data = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&data), 600) == cudaSuccess);
  CHECK(data[0] == 0xFF);
  void* more = nullptr;
  CHECK(cudaMalloc(&more, 600) == cudaErrorMemoryAllocation);
  std::size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(free == 400);
  CHECK(total == 1000);
  CHECK(device_block(data + 599)->data == data);
  CHECK_FALSE(device_block(data + 600).has_value());
  CHECK(alive().device_blocks == 1);
  CHECK(cudaFree(data) == cudaSuccess);
  CHECK(cudaFree(data) == cudaErrorInvalidValue);
  CHECK(alive() == Alive{});
  CHECK(mistakes().size() == 1);
  cudaGetLastError();
}

TEST_CASE_FIXTURE(Fixture, "work is done when it is waited for, and not before") {
  upload(a);
  CHECK(device[0] == -1);
  host[0] = 7;  // too early: the copy has not happened
  CHECK(cudaStreamSynchronize(a) == cudaSuccess);
  CHECK(device[0] == 7);
  CHECK(device[1] == 2);
}

TEST_CASE_FIXTURE(Fixture, "a wait brings in what the event stands for, a missing one does not") {
  upload(a);
  CHECK(cudaEventRecord(event, a) == cudaSuccess);
  cudaMemsetAsync(device, 0, 4, a);  // after the event
  CHECK(cudaStreamSynchronize(b) == cudaSuccess);
  CHECK(device[0] == -1);
  CHECK(cudaStreamWaitEvent(b, event, 0) == cudaSuccess);
  CHECK(cudaStreamSynchronize(b) == cudaSuccess);
  CHECK(device[0] == 1);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(device[0] == 0);
  CHECK(mistakes().empty());
}

TEST_CASE_FIXTURE(Fixture, "pageable memory is copied at once and recorded") {
  int plain[4] = {5, 6, 7, 8};
  CHECK(cudaMemcpyAsync(device, plain, 16, cudaMemcpyHostToDevice, a) == cudaSuccess);
  plain[0] = 0;
  int back[4] = {};
  CHECK(cudaMemcpyAsync(back, device, 16, cudaMemcpyDeviceToHost, a) == cudaSuccess);
  CHECK(back[0] == 5);
  CHECK(calls().back().pageable);
  CHECK(cudaMemcpyAsync(device + 1, plain, 16, cudaMemcpyHostToDevice, a) == cudaErrorInvalidValue);  // past the end
  CHECK(cudaMemcpyAsync(plain, device, 16, cudaMemcpyHostToDevice, a) == cudaErrorInvalidValue);      // wrong direction
  cudaGetLastError();
}

TEST_CASE_FIXTURE(Fixture, "errors that CUDA does not report are recorded") {
  CHECK(cudaStreamWaitEvent(a, event, 0) == cudaSuccess);
  CHECK(cudaMemsetAsync(device, 0, 4, nullptr) == cudaSuccess);
  const cudaStream_t stale = a;
  a = {};
  CHECK(cudaStreamSynchronize(stale) == cudaErrorInvalidResourceHandle);
  CHECK(mistakes() == std::vector<std::string>{"stream 1 waits for event 1, which was never recorded",
                                               "cudaMemsetAsync uses the default stream",
                                               "cudaStreamSynchronize uses stream 1 after its end"});
  cudaGetLastError();
}

/// Captures what `issue` does in stream a; returns what EndCapture did.
template <class Issue>
cudaError_t capture(cudaStream_t stream, cudaGraph_t* graph, Issue issue) {
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  issue();
  const cudaError_t status = cudaStreamEndCapture(stream, graph);
  cudaGetLastError();
  return status;
}

TEST_CASE_FIXTURE(Fixture, "a graph holds the work of all streams that joined, and is done when it is launched") {
  cudaGraph_t captured = nullptr;
  const EventHandle back = cuda::make_event();
  CHECK(capture(a, &captured, [&] {
          cudaEventRecord(event, a);
          cudaStreamWaitEvent(b, event, 0);
          upload(b);
          cudaEventRecord(back, b);
          cudaStreamWaitEvent(a, back, 0);
        }) == cudaSuccess);
  cudaDeviceSynchronize();
  CHECK(device[0] == -1);
  const cuda::GraphHandle graph(captured);
  cudaGraphExec_t instance = nullptr;
  CHECK(cudaGraphInstantiate(&instance, graph, 0) == cudaSuccess);
  const cuda::GraphExecHandle executable(instance);
  CHECK(cudaGraphLaunch(executable, b) == cudaSuccess);
  CHECK(device[0] == -1);
  CHECK(cudaStreamSynchronize(b) == cudaSuccess);
  CHECK(device[0] == 1);
  CHECK(mistakes().empty());
}

TEST_CASE_FIXTURE(Fixture, "a graph that forgets the priorities of its streams is a mistake") {
  cudaStream_t made = nullptr;
  REQUIRE(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, -5) == cudaSuccess);
  const StreamHandle urgent(made);
  const EventHandle back = cuda::make_event();
  cudaGraph_t captured = nullptr;
  REQUIRE(capture(a, &captured, [&] {
            cudaEventRecord(event, a);
            cudaStreamWaitEvent(urgent, event, 0);
            upload(urgent);
            cudaEventRecord(back, urgent);
            cudaStreamWaitEvent(a, back, 0);
          }) == cudaSuccess);
  const cuda::GraphHandle graph(captured);
  cudaGraphExec_t instance = nullptr;
  CHECK(cudaGraphInstantiate(&instance, graph, cudaGraphInstantiateFlagUseNodePriority) == cudaSuccess);
  const cuda::GraphExecHandle kept(instance);
  CHECK(mistakes().empty());
  CHECK(cudaGraphInstantiate(&instance, graph, 0) == cudaSuccess);
  const cuda::GraphExecHandle forgotten(instance);
  CHECK(mistakes() == std::vector<std::string>{"graph 1 is instantiated without the priorities of its streams"});
}

TEST_CASE_FIXTURE(Fixture, "a stream that does not join its capture invalidates it") {
  cudaGraph_t graph = nullptr;
  CHECK(capture(a, &graph, [&] {
          cudaEventRecord(event, a);
          cudaStreamWaitEvent(b, event, 0);
          upload(b);
        }) == cudaErrorStreamCaptureUnjoined);
  CHECK(graph == nullptr);
  CHECK(upload(b) == cudaSuccess);  // no longer part of it
}

TEST_CASE_FIXTURE(Fixture, "a call that is illegal within a capture invalidates it") {
  cudaGraph_t graph = nullptr;
  void* data = nullptr;
  const auto spoils = [&](auto issue) { return capture(a, &graph, issue) == cudaErrorStreamCaptureInvalidated; };
  CHECK(spoils([&] { CHECK(cudaMalloc(&data, 1) == cudaErrorStreamCaptureUnsupported); }));
  CHECK(spoils([&] { CHECK(cudaFree(device) == cudaErrorStreamCaptureUnsupported); }));
  CHECK(spoils([&] { CHECK(cudaStreamSynchronize(a) == cudaErrorStreamCaptureUnsupported); }));
  CHECK(spoils([&] { CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported); }));
  cudaEventRecord(event, b);
  CHECK(spoils([&] { CHECK(cudaStreamWaitEvent(a, event, 0) == cudaErrorStreamCaptureIsolation); }));
  CHECK(spoils([&] {
    cudaEventRecord(event, a);
    CHECK(cudaEventSynchronize(event) == cudaErrorCapturedEvent);
  }));
  CHECK(cudaStreamWaitEvent(b, event, 0) == cudaErrorCapturedEvent);  // its capture has ended
  cudaGetLastError();
}

TEST_CASE_FIXTURE(Fixture, "what belongs to different devices or contexts cannot be used together") {
  set_devices(2);
  CHECK(cudaSetDevice(1) == cudaSuccess);
  const EventHandle other = cuda::make_event();
  CHECK(cudaEventRecord(other, a) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamWaitEvent(a, event, 0) == cudaSuccess);  // waits may cross
  CHECK(cudaSetDevice(0) == cudaSuccess);

  const cuda::GreenContexts contexts(0, {64, 64});
  const StreamHandle stream(contexts.make_stream(1, 0));
  CHECK(cudaEventRecord(event, stream) == cudaErrorInvalidResourceHandle);
  cudnnHandle_t handle = nullptr;
  {
    const cuda::GreenContexts::Scope scope(contexts, 0);
    cudnnCreate(&handle);
  }
  const cuda::CudnnHandle cudnn(handle);
  CHECK(cudnnSetStream(handle, stream) == CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
  CHECK(cudnnSetStream(handle, a) == CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
  const std::vector<std::string> all = mistakes();
  REQUIRE(all.size() == 5);
  CHECK(all[0] == "cudaEventRecord mixes the primary context of device 1 with the primary context of device 0");
  CHECK(all[2] == "cudaEventRecord mixes the primary context of device 0 with green context 2 of device 0");
  CHECK(all[3] == "cudnnSetStream mixes green context 1 of device 0 with green context 2 of device 0");
  cudaGetLastError();
}

}  // namespace
}  // namespace braid::recording
