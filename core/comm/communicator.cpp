#include "core/comm/communicator.h"

#include <cstring>

#include "core/base/failure_reason.h"
#include "core/comm/mpi/mpi_communicator.h"

namespace braid {

namespace {

/// One rank, whose collectives are copies.
class LoneRank final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view name() const override { return "one"; }
  Link link() const override { return {}; }

  void run(const CollectiveCall& call, const void* source, void* target, const LaunchContext&) override {
    call.validate(1);
    failure_.check();
    if (call.count > 0 && target != source && call.receives(0, 1))
      std::memcpy(target, source, static_cast<std::size_t>(call.bytes()));
  }
  void abort(const std::string& reason) override { failure_.set(reason); }

 private:
  FailureReason failure_;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(const Launch& launch, std::chrono::nanoseconds timeout) {
  if (launch.size == 1) return std::make_unique<LoneRank>();
  return mpi::make_communicator(launch, timeout);
}

}  // namespace braid
