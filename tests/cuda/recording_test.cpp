// The recording runtime itself: what the tests of the CUDA backend rely on.

#include "tests/cuda/recording/recording.h"

#include <cublasLt.h>
#include <cudnn.h>
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <thread>

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

TEST_CASE("the recording runtime has one H200 with the properties of a real one") {
  reset();
  int devices = 0, sms = 0;
  CHECK(cudaGetDeviceCount(&devices) == cudaSuccess);
  CHECK(devices == 1);
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess);
  CHECK(sms == 132);
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  CHECK(properties.totalGlobalMem == 150754820096);
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

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

TEST_CASE_FIXTURE(Fixture, "a host that polls an event sees it happen") {
  upload(a);
  cudaEventRecord(event, a);
  int polls = 0;
  while (cudaEventQuery(event) == cudaErrorNotReady) ++polls;
  CHECK(polls > 0);
  CHECK(device[0] == 1);
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

TEST_CASE_FIXTURE(Fixture, "other threads may allocate while one captures") {
  cudaGraph_t captured = nullptr;
  CHECK(capture(a, &captured, [&] {
          std::thread([] {
            void* data = nullptr;
            CHECK(cudaMalloc(&data, 1) == cudaSuccess);
            CHECK(cudaFree(data) == cudaSuccess);
          }).join();
          upload(a);
        }) == cudaSuccess);
  CHECK(cudaGraphDestroy(captured) == cudaSuccess);
}

TEST_CASE_FIXTURE(Fixture, "no thread may synchronise the device while a stream of it captures") {
  cudaGraph_t captured = nullptr;
  const auto synchronise = [](int of) {
    return [of] {
      std::thread([of] {
        cudaSetDevice(of);
        CHECK((cudaDeviceSynchronize() == cudaSuccess) == (of == 1));
      }).join();
    };
  };
  set_devices(2);
  CHECK(capture(a, &captured, synchronise(0)) == cudaErrorStreamCaptureInvalidated);
  CHECK(capture(a, &captured, synchronise(1)) == cudaSuccess);
  CHECK(cudaGraphDestroy(captured) == cudaSuccess);
}

TEST_CASE_FIXTURE(Fixture, "a fault happens when it was asked for, once") {
  fail_next("cudaMemsetAsync", cudaErrorInvalidValue, 1);
  CHECK(cudaMemsetAsync(device, 0, 4, a) == cudaSuccess);
  CHECK(faults_pending() == 1);
  CHECK(cudaMemsetAsync(device, 0, 4, a) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(device, 0, 4, a) == cudaSuccess);
  CHECK(faults_pending() == 0);
  cudaGetLastError();
}

TEST_CASE("a sticky error stays") {
  reset();
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  fail_next("cudaStreamSynchronize", cudaErrorIllegalAddress);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  void* data = nullptr;
  CHECK(cudaMalloc(&data, 1) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaSuccess);  // no call since then
  CHECK(cudaStreamDestroy(stream) == cudaErrorIllegalAddress);
  CHECK(cudaSetDevice(0) == cudaErrorIllegalAddress);
  CHECK(mistakes().empty());
  reset();
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE_FIXTURE(Fixture, "events with timing tell how long the device worked, others do not") {
  const EventHandle start = cuda::make_event(cudaEventDefault), finish = cuda::make_event(cudaEventDefault);
  cudaEventRecord(start, a);
  upload(a);
  cudaMemsetAsync(device, 0, 4, a);
  cudaEventRecord(finish, a);
  float milliseconds = 0;
  CHECK(cudaEventElapsedTime(&milliseconds, start, finish) == cudaErrorNotReady);
  cudaStreamSynchronize(a);
  CHECK(cudaEventElapsedTime(&milliseconds, start, finish) == cudaSuccess);
  CHECK(milliseconds == doctest::Approx(2e-3));
  CHECK(cudaEventElapsedTime(&milliseconds, event, finish) == cudaErrorInvalidResourceHandle);
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

TEST_CASE_FIXTURE(Fixture, "a matrix product tells its operands, its workspace and its stream") {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtCreate(&handle);
  cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 2, 2, 2);
  cublasLtMatmulPreferenceCreate(&preference);
  const std::size_t most = 1 << 20;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  CHECK(cublasLtMatmulAlgoGetHeuristic(handle, operation, layout, layout, layout, layout, preference, 1, &result,
                                       &found) == CUBLAS_STATUS_SUCCESS);
  CHECK(found == 1);
  CHECK(result.workspaceSize > 0);
  const float one = 1;
  CHECK(cublasLtMatmul(handle, operation, &one, device, layout, device, layout, &one, device, layout, device, layout,
                       &result.algo, host, result.workspaceSize, a) == CUBLAS_STATUS_SUCCESS);
  const Call call = calls().back();
  CHECK(call.kernel == "cublasLt");
  CHECK(call.stream == 1);
  CHECK(call.pointers.size() == 4);
  CHECK(call.pointers[0].data == device);
  CHECK(call.pointers[0].bytes == 16);
  CHECK(call.workspace.data == host);
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(operation);
  cublasLtDestroy(handle);
  CHECK(alive().descriptors == 0);
}

TEST_CASE("cuDNN sees an H200") {
  reset();
  cudnnBackendDescriptor_t properties = nullptr;
  REQUIRE(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &properties) == CUDNN_STATUS_SUCCESS);
  const std::int32_t device = 0;
  CHECK(cudnnBackendSetAttribute(properties, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &device) ==
        CUDNN_STATUS_SUCCESS);
  CHECK(cudnnBackendFinalize(properties) == CUDNN_STATUS_SUCCESS);
  std::int64_t size = 0;
  CHECK(cudnnBackendGetAttribute(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &size,
                                 nullptr) == CUDNN_STATUS_SUCCESS);
  std::string text(static_cast<std::size_t>(size), '\0');
  CHECK(cudnnBackendGetAttribute(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size, &size,
                                 text.data()) == CUDNN_STATUS_SUCCESS);
  CHECK(text.find("NVIDIA H200") != std::string::npos);
  cudnnBackendDestroyDescriptor(properties);
}

}  // namespace
}  // namespace braid::recording
