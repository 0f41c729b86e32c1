#include "core/comm/communicator.h"

#include <cstring>

#include "core/base/failure_reason.h"
#include "core/comm/collective_call.h"
#include "core/comm/mpi/mpi_communicator.h"

namespace braid {

namespace {

using Kind = CollectiveCall::Kind;

/// One rank, whose collectives are copies.
class LoneRank final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view name() const override { return "one"; }
  Link link() const override { return {}; }

  void all_reduce(void*, std::int64_t count, DType dtype, const LaunchContext&) override {
    check({Kind::all_reduce, count, dtype});
  }
  void reduce_scatter(const void* whole, void* part, std::int64_t count, DType dtype, const LaunchContext&) override {
    check({Kind::reduce_scatter, count, dtype});
    copy(part, whole, count * static_cast<std::int64_t>(size_of(dtype)));
  }
  void all_gather(const void* part, void* whole, std::int64_t bytes, const LaunchContext&) override {
    check({Kind::all_gather, bytes});
    copy(whole, part, bytes);
  }
  void all_to_all(const void* source, void* target, std::int64_t bytes, const LaunchContext&) override {
    check({Kind::all_to_all, bytes});
    copy(target, source, bytes);
  }
  void broadcast(void*, std::int64_t bytes, int root, const LaunchContext&) override {
    check({.kind = Kind::broadcast, .count = bytes, .root = root});
  }
  void barrier() override { check({Kind::barrier}); }
  void abort(const std::string& reason) override { failure_.set(reason); }

 private:
  void check(const CollectiveCall& call) const {
    call.validate(1);
    failure_.check();
  }
  static void copy(void* target, const void* source, std::int64_t bytes) {
    if (bytes > 0 && target != source) std::memcpy(target, source, static_cast<std::size_t>(bytes));
  }

  FailureReason failure_;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(const Launch& launch, std::chrono::nanoseconds timeout) {
  if (launch.size == 1) return std::make_unique<LoneRank>();
  return mpi::make_communicator(launch, timeout);
}

}  // namespace braid
