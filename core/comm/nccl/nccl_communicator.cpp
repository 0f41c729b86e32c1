#include "core/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/align.h"
#include "core/base/failure_reason.h"
#include "core/base/start_thread.h"
#include "core/comm/nccl/library.h"
#include "core/device/cuda/handle.h"
#include "core/device/cuda/wait.h"

namespace braid::nccl {

namespace {

using Clock = std::chrono::steady_clock;

ncclDataType_t type_of(DType dtype) {
  constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat64, ncclFloat16, ncclBfloat16, ncclInt32, ncclUint8};
  return kTypes[static_cast<std::size_t>(dtype)];
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const Launch& launch, int device, std::chrono::nanoseconds timeout,
                   std::unique_ptr<Communicator> host)
      : launch_(launch),
        rank_(launch.rank),
        size_(launch.size),
        device_(device),
        timeout_(timeout),
        own_host_(std::move(host)),
        host_(own_host_.get()) {}
  /// A group of the ranks of another one.
  NcclCommunicator(NcclCommunicator& all, const RankGroup& group, int place)
      : launch_(all.launch_),
        rank_(place),
        size_(static_cast<int>(group.ranks)),
        device_(all.device_),
        timeout_(all.timeout_),
        host_(&all.host_->among(group)),
        all_(&all) {
    const std::lock_guard lock(all_->groups_mutex_);
    all_->groups_made_.push_back(this);
  }

  /// Not in the constructor, so that the destructor runs if this throws.
  void start() {
    use_device();
    check_own_device();
    ncclUniqueId id{};
    if (rank() == 0 || host_ == nullptr) check(ncclGetUniqueId(&id));
    if (host_ != nullptr) host_->broadcast(&id, sizeof id, 0, {});
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that every wait ends
    call([&] { return ncclCommInitRankConfig(&communicator_, size(), id, rank(), &config); });
    stream_ = cuda::make_stream();
    wait_check_.emplace(device_, [this](std::chrono::nanoseconds waited) { check_progress(waited); });
  }

  ~NcclCommunicator() override {
    end_groups();
    try {
      end();
    } catch (const std::exception&) {
      // There is no caller to report this to.
    }
    if (all_ != nullptr) {
      const std::lock_guard lock(all_->groups_mutex_);
      std::erase(all_->groups_made_, this);
    }
    wait_check_.reset();
    if (aborter_.joinable()) aborter_.join();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view name() const override { return "nccl"; }
  /// Assumed: NVLink of Hopper within a host, 200 Gbit/s InfiniBand between hosts, and a few channels of NCCL, which
  /// occupy an SM each.
  Link link() const override {
    if (launch_.local_size == launch_.size) return {.latency_seconds = 5e-6, .bytes_per_second = 200e9, .units = 8};
    return {.latency_seconds = 10e-6, .bytes_per_second = 25e9, .units = 4};
  }

  /// Enqueues a call in the stream of a step. For host data, copies it to the device and runs the call there, in a
  /// separate stream.
  void run(const CollectiveCall& collective, const void* source, void* target, const LaunchContext& where) override {
    if (collective.kind == Kind::barrier) {
      std::int32_t arrived = 1;
      return all_reduce(&arrived, 1, DType::i32, {});
    }
    collective.validate(size());
    failure_.check();
    if (collective.count == 0) return;
    begin(collective.text());
    if (where.cuda_stream != nullptr) {
      call([&] { return post(collective, source, target, static_cast<cudaStream_t>(where.cuda_stream)); });
      return;
    }
    use_device();
    const auto part = static_cast<std::size_t>(collective.bytes());
    const std::size_t in_bytes = part * static_cast<std::size_t>(collective.parts_read(size())),
                      out_bytes = part * static_cast<std::size_t>(collective.parts_written(size()));
    const std::size_t behind = align_up(in_bytes, kAlignment);
    reserve(behind + out_bytes);
    auto* const copy = static_cast<std::byte*>(staging_.get());
    BRAID_CUDA(cudaMemcpyAsync(copy, source, in_bytes, cudaMemcpyHostToDevice, stream_));
    call([&] { return post(collective, copy, copy + behind, stream_); });
    cuda::wait(device_, stream_);  // the copy to the host would wait without asking wait_check_
    if (!collective.receives(rank(), size())) return;
    BRAID_CUDA(cudaMemcpyAsync(target, copy + behind, out_bytes, cudaMemcpyDeviceToHost, stream_));
    BRAID_CUDA(cudaStreamSynchronize(stream_));
  }

  /// Device memory only. All ranks exchange messages in one common order, so no two wait for each other's receive.
  void exchange(const Message& message, void* data, const LaunchContext& where) override {
    begin(message.text());
    const auto bytes = static_cast<std::size_t>(message.bytes);
    auto* const stream = static_cast<cudaStream_t>(where.cuda_stream);
    call([&] {
      return message.direction == Message::Direction::send
                 ? ncclSend(data, bytes, ncclUint8, message.peer, communicator_, stream)
                 : ncclRecv(data, bytes, ncclUint8, message.peer, communicator_, stream);
    });
  }

  /// NCCL's abort stops what runs on the device at once, and then waits until the last graph with its calls is
  /// destroyed, so it runs in a thread.
  void abort(const std::string& reason) override {
    if (all_ != nullptr) return all_->abort(reason);
    abort_own(reason);
    const std::lock_guard lock(groups_mutex_);
    for (NcclCommunicator* group : groups_made_) group->abort_own(reason);
  }

 private:
  std::unique_ptr<Communicator> make_group(const RankGroup& group, int, int place) override {
    auto made = std::make_unique<NcclCommunicator>(*this, group, place);
    made->start();
    return made;
  }

  void abort_own(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    failure_.set(reason);
    if (host_ != nullptr) host_->abort(reason);
    if (communicator_ == nullptr) return;
    const ncclComm_t aborted = std::exchange(communicator_, nullptr);
    aborter_ = start_thread("the end of NCCL", [aborted] { static_cast<void>(ncclCommAbort(aborted)); });
  }

  void use_device() const { BRAID_CUDA(cudaSetDevice(device_)); }

  /// NCCL would also refuse a GPU that two ranks share, with a less helpful message.
  void check_own_device() {
    cudaDeviceProp properties{};
    BRAID_CUDA(cudaGetDeviceProperties(&properties, device_));
    if (host_ == nullptr) return;
    using Name = decltype(properties.uuid.bytes);
    std::vector<std::byte> names(sizeof(Name) * static_cast<std::size_t>(size()));
    host_->all_gather(&properties.uuid.bytes, names.data(), sizeof(Name), {});
    const auto name = [&](int r) { return names.data() + sizeof(Name) * static_cast<std::size_t>(r); };
    for (int second = 1; second < size(); ++second) {
      for (int first = 0; first < second; ++first) {
        if (std::memcmp(name(first), name(second), sizeof(Name)) != 0) continue;
        throw CommunicationError(message("[nccl] expected a GPU for each rank, but ranks ", first, " and ", second,
                                         " have the same (rank ", rank(), " has cuda:", device_, ", ", properties.name,
                                         "): start at most as many ranks on a host as it has GPUs"));
      }
    }
  }

  ncclResult_t post(const CollectiveCall& collective, const void* in, void* out, cudaStream_t stream) {
    const auto count = static_cast<std::size_t>(collective.count);
    const ncclDataType_t type = type_of(collective.dtype);
    switch (collective.kind) {
      case Kind::all_reduce: return ncclAllReduce(in, out, count, type, ncclSum, communicator_, stream);
      case Kind::reduce_scatter: return ncclReduceScatter(in, out, count, type, ncclSum, communicator_, stream);
      case Kind::all_gather: return ncclAllGather(in, out, count, type, communicator_, stream);
      case Kind::all_to_all: return post_all_to_all(in, out, count, stream);
      case Kind::broadcast: return ncclBroadcast(in, out, count, type, collective.root, communicator_, stream);
      case Kind::shift: return post_shift(collective, in, out, stream);
      case Kind::barrier: break;  // an all_reduce
    }
    return ncclInvalidArgument;
  }

  /// Calls post(keep), which tells keep the results of all calls of a group.
  template <class Post>
  static ncclResult_t grouped(const Post& post) {
    ncclResult_t first = ncclGroupStart();
    const auto keep = [&](ncclResult_t result) {
      if (first == ncclSuccess || first == ncclInProgress) first = result;
    };
    post(keep);
    keep(ncclGroupEnd());
    return first;
  }

  ncclResult_t post_all_to_all(const void* in, void* out, std::size_t bytes, cudaStream_t stream) {
    return grouped([&](const auto& keep) {
      for (int other = 0; other < size(); ++other) {
        const std::size_t place = static_cast<std::size_t>(other) * bytes;
        keep(ncclSend(static_cast<const std::byte*>(in) + place, bytes, ncclUint8, other, communicator_, stream));
        keep(ncclRecv(static_cast<std::byte*>(out) + place, bytes, ncclUint8, other, communicator_, stream));
      }
    });
  }

  ncclResult_t post_shift(const CollectiveCall& shift, const void* in, void* out, cudaStream_t stream) {
    const auto bytes = static_cast<std::size_t>(shift.count);
    const int from = rank() + shift.root, to = rank() - shift.root;
    return grouped([&](const auto& keep) {
      if (shift.sends(rank(), size())) keep(ncclSend(in, bytes, ncclUint8, to, communicator_, stream));
      if (shift.receives(rank(), size())) keep(ncclRecv(out, bytes, ncclUint8, from, communicator_, stream));
    });
  }

  void reserve(std::size_t bytes) {
    if (bytes <= staging_bytes_) return;
    staging_ = {};
    staging_bytes_ = std::max(bytes, kLeastStaging);
    void* data = nullptr;
    BRAID_CUDA(cudaMalloc(&data, staging_bytes_));
    staging_ = cuda::Handle<void*, cudaFree>(data);
  }

  void begin(std::string what) {
    what_ = std::move(what);
    if (host_ != nullptr) host_->begin_call(what_);
  }

  /// Makes a call of NCCL, and returns once NCCL has taken it: to connect to other ranks it may have to wait for them.
  template <class Function>
  void call(const Function& function) {
    const auto deadline = deadline_after(timeout_);
    ncclResult_t result = locked(function);
    while (result == ncclInProgress) {
      if (Clock::now() > deadline) fail_late(timeout_);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      result = locked([&] { return async_error(); });
    }
    check(result);
  }

  /// Makes a call with the mutex held. Throws after a failure.
  template <class Function>
  ncclResult_t locked(const Function& function) {
    const std::lock_guard lock(mutex_);
    failure_.check();
    return function();
  }

  ncclResult_t async_error() const {
    ncclResult_t error = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(communicator_, &error);
    return result == ncclSuccess ? error : result;
  }

  void check_progress(std::chrono::nanoseconds waited) {
    const ncclResult_t error = locked([&] { return async_error(); });
    if (error != ncclInProgress) check(error);
    if (waited > timeout_) fail_late(waited);
  }

  void check(ncclResult_t result) {
    if (result == ncclSuccess) return;
    const std::string_view advice = result == ncclInvalidUsage ? ". Each rank needs its own GPU" : "";
    fail(message("[nccl] rank ", launch_.rank, ", ", what_, ": ", ncclGetErrorString(result), ": ",
                 ncclGetLastError(nullptr), advice));
  }
  [[noreturn]] void fail_late(std::chrono::nanoseconds waited) {
    fail(message("[nccl] rank ", launch_.rank, " has waited ", in_seconds(waited), ", last call ", what_,
                 ": another rank is gone, late, or does something else",
                 host_ == nullptr ? "" : host_->other_states()));
  }
  [[noreturn]] void fail(const std::string& reason) {
    abort(reason);
    failure_.check();
    throw CommunicationError(reason);
  }

  /// Ends together with the other ranks, unless something has failed.
  void end() {
    if (communicator_ == nullptr) return;
    if (std::uncaught_exceptions() > 0) return abort(message("rank ", launch_.rank, " has failed"));
    begin("ending");
    use_device();
    call([&] { return ncclCommFinalize(communicator_); });
    const std::lock_guard lock(mutex_);
    if (communicator_ != nullptr) static_cast<void>(ncclCommDestroy(std::exchange(communicator_, nullptr)));
  }

  static constexpr std::size_t kAlignment = 256, kLeastStaging = 1 << 16;

  const Launch launch_;
  const int rank_, size_;
  const int device_;
  const std::chrono::nanoseconds timeout_;
  const std::unique_ptr<Communicator> own_host_;
  Communicator* const host_;               // to start with
  NcclCommunicator* const all_ = nullptr;  // the communicator of all ranks, if this is one of a group
  std::mutex groups_mutex_;
  std::vector<NcclCommunicator*> groups_made_;
  FailureReason failure_;
  std::mutex mutex_;                   // guards NCCL's communicator
  ncclComm_t communicator_ = nullptr;  // null once it has ended
  std::thread aborter_;
  std::string what_ = "starting";  // the last call
  // Used for host data.
  cuda::StreamHandle stream_;
  cuda::Handle<void*, cudaFree> staging_;
  std::size_t staging_bytes_ = 0;
  std::optional<cuda::WaitCheck> wait_check_;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(const Launch& launch, int device, std::chrono::nanoseconds timeout,
                                                std::unique_ptr<Communicator> host) {
  auto made = std::make_unique<NcclCommunicator>(launch, device, timeout, std::move(host));
  made->start();
  return made;
}

}  // namespace braid::nccl
