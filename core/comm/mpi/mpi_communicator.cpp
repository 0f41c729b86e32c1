#include "core/comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <vector>

#include "core/base/failure_reason.h"
#include "core/comm/heartbeat.h"
#include "core/comm/mpi/process.h"

namespace braid::mpi {

namespace {

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const Launch& launch, std::chrono::nanoseconds timeout, std::int64_t most_per_call)
      : launch_(launch), rank_(launch.rank), size_(launch.size), timeout_(timeout + kGrace), most_(most_per_call) {
    process_.start(launch, timeout);
    // A separate communicator keeps its messages apart from others.
    begin("starting");
    post(mpi_.comm_idup, mpi_.world, &communicator_);
    finish();
    process_.call(mpi_.comm_set_errhandler, communicator_, mpi_.errors_return);
    heartbeat_.emplace(*this, is_one_host(), timeout, [this](const std::string& reason) {
      failure_.set("[mpi] " + reason);
      process_.fail("[mpi] " + reason);
    });
  }

  /// A group of the ranks of another one.
  MpiCommunicator(MpiCommunicator& all, const RankGroup& group, int color, int place)
      : launch_(all.launch_),
        rank_(place),
        size_(static_cast<int>(group.ranks)),
        timeout_(all.timeout_),
        most_(all.most_),
        all_(&all),
        failure_(all.failure_) {
    begin("making a group");
    post(mpi_.ibarrier, all.communicator_);  // MPI_Comm_split would wait for a late rank without a deadline
    finish();
    check(process_.call(mpi_.comm_split, all.communicator_, color, place, &communicator_));
    process_.call(mpi_.comm_set_errhandler, communicator_, mpi_.errors_return);
  }

  /// MPI_Finalize frees MPI's communicator. Freeing it here would be a collective call, which every rank must make.
  ~MpiCommunicator() override {
    end_groups();
    if (std::uncaught_exceptions() > 0) process_.fail();  // other ranks may be waiting for this one
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view name() const override { return "mpi"; }
  /// Assumed: memory that the ranks share, copied by their cores, or 10 Gbit/s Ethernet.
  Link link() const override {
    if (is_one_host()) return {.latency_seconds = 20e-6, .bytes_per_second = 1e9, .units = 1};
    return {.latency_seconds = 50e-6, .bytes_per_second = 1.25e9};
  }

  void run(const CollectiveCall& call, const void* source, void* target, const LaunchContext&) override {
    begin(call);
    if (call.count == 0 && call.kind != Kind::barrier) return;
    switch (call.kind) {
      case Kind::all_reduce: post_all_reduce(target, call.count, call.dtype); break;
      case Kind::reduce_scatter: return add_parts(source, target, call);
      case Kind::all_gather: post_all_gather(source, target, call.count); break;
      case Kind::all_to_all: post_all_to_all(source, target, call.count); break;
      case Kind::broadcast: post_broadcast(target, call.count, call.root); break;
      case Kind::shift: post_shift(source, target, call); break;
      case Kind::barrier: post(mpi_.ibarrier, communicator_); break;
    }
    finish();
  }

  void exchange(const Message& message, void* data, const LaunchContext&) override {
    begin(message.text());
    for (std::int64_t at = 0; at < message.bytes; at += most_) {
      void* const part = address(data, at);
      const int count = piece(message.bytes, at);
      if (message.direction == Message::Direction::send) {
        post(mpi_.isend, part, count, mpi_.byte, message.peer, message.tag, communicator_);
      } else {
        post(mpi_.irecv, part, count, mpi_.byte, message.peer, message.tag, communicator_);
      }
    }
    finish();
  }

  void abort(const std::string& reason) override {
    if (all_ != nullptr) return all_->abort(reason);
    failure_.set(reason);
    process_.fail(reason);
    if (heartbeat_.has_value()) heartbeat_->end();  // this rank reports the reason itself
  }

  void begin_call(const std::string& call) override {
    if (std::optional<Heartbeat>& heartbeat = all().heartbeat_) heartbeat->begin_call(call);
  }

  std::string other_states() override {
    std::optional<Heartbeat>& heartbeat = all().heartbeat_;
    const std::string states = heartbeat.has_value() ? heartbeat->other_states() : "";
    return states.empty() ? "" : ". Other ranks: " + states;
  }

 private:
  /// Collectives wait a little longer than the heartbeat, which can name the lost rank.
  static constexpr std::chrono::seconds kGrace{1};

  std::unique_ptr<Communicator> make_group(const RankGroup& group, int color, int place) override {
    return std::make_unique<MpiCommunicator>(*this, group, color, place);
  }

  MpiCommunicator& all() { return all_ != nullptr ? *all_ : *this; }

  bool is_one_host() const { return launch_.local_size == launch_.size; }

  void begin(const CollectiveCall& call) {
    call.validate(size());
    begin(call.text());
    BRAID_CHECK(!call.adds() || call.dtype == DType::f32 || call.dtype == DType::f64 || call.dtype == DType::i32, Error,
                "[mpi] ", what_, ": MPI adds f32, f64 and i32");
  }
  void begin(std::string what) {
    failure_.check();
    what_ = std::move(what);
    deadline_ = deadline_after(timeout_);
    begin_call(what_);
  }

  /// Starts a nonblocking call of MPI, whose last argument is its request.
  template <class Function, class... Arguments>
  void post(Function function, Arguments... arguments) {
    MPI_Request request{};
    check(process_.call(function, arguments..., &request));
    requests_.push_back(request);
  }

  void post_all_reduce(void* data, std::int64_t count, DType dtype) {
    for (std::int64_t at = 0; at < count; at += most_) {
      post(mpi_.iallreduce, MPI_IN_PLACE, address(data, at, dtype), piece(count, at), type_of(dtype), mpi_.sum,
           communicator_);
    }
  }

  /// Open MPI's own adds everything on rank 0 and then scatters, which moves half as much again and more. Every rank
  /// gets its part of all others and adds these in the order of the ranks.
  void add_parts(const void* whole, void* part, const CollectiveCall& call) {
    const std::int64_t bytes = call.bytes();
    scratch_.resize(static_cast<std::size_t>(bytes * size()));
    post_all_to_all(whole, scratch_.data(), bytes);
    finish();
    copy(part, scratch_.data(), bytes);
    for (int other = 1; other < size(); ++other) {
      const void* const its = address(scratch_.data(), bytes * other);
      if (call.dtype == DType::f32) add<float>(part, its, call.count);
      if (call.dtype == DType::f64) add<double>(part, its, call.count);
      if (call.dtype == DType::i32) add<std::int32_t>(part, its, call.count);
    }
  }

  void post_all_gather(const void* part, void* whole, std::int64_t bytes) {
    copy(address(whole, bytes * rank()), part, bytes);
    if (fits(bytes)) {
      post(mpi_.iallgather, MPI_IN_PLACE, 0, mpi_.byte, whole, piece(bytes, 0), mpi_.byte, communicator_);
    } else {
      for (int root = 0; root < size(); ++root) post_broadcast(address(whole, bytes * root), bytes, root);
    }
  }

  void post_all_to_all(const void* source, void* target, std::int64_t bytes) {
    if (fits(bytes)) {
      const int count = piece(bytes, 0);
      post(mpi_.ialltoall, source, count, mpi_.byte, target, count, mpi_.byte, communicator_);
    } else {
      copy(address(target, bytes * rank()), address(source, bytes * rank()), bytes);
      for (int other = 0; other < size(); ++other) {
        for (std::int64_t at = 0; other != rank() && at < bytes; at += most_) {
          const int count = piece(bytes, at);
          post(mpi_.irecv, address(target, bytes * other + at), count, mpi_.byte, other, 0, communicator_);
          post(mpi_.isend, address(source, bytes * other + at), count, mpi_.byte, other, 0, communicator_);
        }
      }
    }
  }

  void post_shift(const void* source, void* target, const CollectiveCall& call) {
    for (std::int64_t at = 0; at < call.count; at += most_) {
      const int count = piece(call.count, at), from = rank() + call.root, to = rank() - call.root;
      if (call.receives(rank(), size())) {
        post(mpi_.irecv, address(target, at), count, mpi_.byte, from, 0, communicator_);
      }
      if (call.sends(rank(), size())) post(mpi_.isend, address(source, at), count, mpi_.byte, to, 0, communicator_);
    }
  }

  void post_broadcast(void* data, std::int64_t bytes, int root) {
    for (std::int64_t at = 0; at < bytes; at += most_) {
      post(mpi_.ibcast, address(data, at), piece(bytes, at), mpi_.byte, root, communicator_);
    }
  }

  /// Returns when everything that was posted is done.
  void finish() {
    pauses_.restart();
    for (MPI_Request& request : requests_) {
      const bool in_time = pauses_.wait(deadline_, [&] {
        int is_done = 0;
        check(process_.call(mpi_.test, &request, &is_done, MPI_STATUS_IGNORE));
        if (is_done == 0) failure_.check();
        return is_done != 0;
      });
      if (in_time) continue;
      fail(message("[mpi] rank ", launch_.rank, " has waited ", in_seconds(timeout_), " in ", what_,
                   ": another rank is gone, late, or does something else", other_states()));
    }
    requests_.clear();
  }

  void check(int error) {
    if (error == MPI_SUCCESS) return;
    fail(message("[mpi] rank ", launch_.rank, ", ", what_, ": ", error_text(error), other_states()));
  }
  [[noreturn]] void fail(const std::string& reason) {
    abort(reason);
    throw CommunicationError(reason);
  }

  MPI_Datatype type_of(DType dtype) const {
    return dtype == DType::f32 ? mpi_.f32 : dtype == DType::f64 ? mpi_.f64 : mpi_.i32;
  }
  /// Whether a collective with parts of this size fits into one call of MPI.
  bool fits(std::int64_t part) const { return part <= most_ / size(); }
  /// The size of the piece that begins here.
  int piece(std::int64_t count, std::int64_t at) const { return static_cast<int>(std::min(count - at, most_)); }

  template <class Data>
  static Data* address(Data* data, std::int64_t place, DType dtype = DType::u8) {
    using Byte = std::conditional_t<std::is_const_v<Data>, const std::byte, std::byte>;
    return static_cast<Byte*>(data) + place * static_cast<std::int64_t>(size_of(dtype));
  }
  template <class T>
  static void add(void* to, const void* what, std::int64_t count) {
    auto* const sum = static_cast<T*>(to);
    const auto* const values = static_cast<const T*>(what);
    for (std::int64_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  static void copy(void* target, const void* source, std::int64_t bytes) {
    if (target != source) std::memcpy(target, source, static_cast<std::size_t>(bytes));
  }

  const Library& mpi_ = library();
  Process& process_ = Process::instance();
  const Launch launch_;
  const int rank_, size_;
  const std::chrono::nanoseconds timeout_;
  const std::int64_t most_;
  MPI_Comm communicator_ = nullptr;
  MpiCommunicator* const all_ = nullptr;  // the communicator of all ranks, if this is one of a group
  FailureReason own_failure_;
  FailureReason& failure_ = own_failure_;  // shared by all groups
  Pauses pauses_;
  // The call in progress. After a failure its requests stay open: MPI may use its buffers until the process ends.
  std::string what_;
  std::chrono::steady_clock::time_point deadline_;
  std::vector<MPI_Request> requests_;
  std::vector<std::byte> scratch_;
  std::optional<Heartbeat> heartbeat_;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(const Launch& launch, std::chrono::nanoseconds timeout,
                                                std::int64_t most_per_call) {
  return std::make_unique<MpiCommunicator>(launch, timeout, most_per_call);
}

}  // namespace braid::mpi
