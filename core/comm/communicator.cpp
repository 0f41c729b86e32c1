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

Communicator& Communicator::among(const RankGroup& group) {
  const auto [ranks, stride] = group;
  if (ranks == size()) return *this;
  BRAID_CHECK(ranks > 0 && stride > 0 && size() % (ranks * stride) == 0, Error, "[communicator] ", size(),
              " ranks cannot be divided into groups of ", ranks, " with a stride of ", stride);
  std::unique_ptr<Communicator>& made = groups_[{ranks, stride}];
  if (made == nullptr && ranks == 1) made = std::make_unique<LoneRank>();
  if (made == nullptr) {
    const std::int64_t block = ranks * stride, color = rank() / block * stride + rank() % stride;
    made = make_group(group, static_cast<int>(color), static_cast<int>(rank() % block / stride));
  }
  return *made;
}

void Communicator::exchange(const Message& message, void*, const LaunchContext&) {
  throw Error(braid::message("[communicator] '", name(), "' has no ", message.text()));
}

std::unique_ptr<Communicator> Communicator::make_group(const RankGroup&, int, int) {
  throw Error(message("[communicator] '", name(), "' has no groups of ranks"));
}

std::unique_ptr<Communicator> make_communicator(const Launch& launch, std::chrono::nanoseconds timeout) {
  if (launch.size == 1) return std::make_unique<LoneRank>();
  return mpi::make_communicator(launch, timeout);
}

}  // namespace braid
