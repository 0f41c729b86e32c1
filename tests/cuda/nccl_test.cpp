// Ranks on GPUs. Here they are threads, each with a recorded device.

#include <doctest/doctest.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/comm/local/local_ranks.h"
#include "core/comm/nccl/nccl_communicator.h"
#include "core/comm/rank_device.h"
#include "core/device/cuda/handle.h"
#include "core/device/cuda/wait.h"
#include "models/zoo/chains/mlp.h"
#include "tests/core/collectives.h"
#include "tests/core/on_all.h"
#include "tests/cuda/fresh_device.h"
#include "tests/cuda/networks.h"
#include "tests/cuda/sequence/trace.h"
#include "tests/error_of.h"
#include "train/optimizer.h"

namespace braid::testing {
namespace {

using namespace std::chrono_literals;
using CallKind = Call::Kind;

/// Ranks that find each other, as over MPI.
class Host final : public Communicator {
 public:
  explicit Host(Communicator& ranks) : ranks_(ranks) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  std::string_view name() const override { return "host"; }
  Link link() const override { return {}; }
  void run(const CollectiveCall& call, const void* source, void* target, const LaunchContext& where) override {
    if (call.kind != Kind::all_gather && call.kind != Kind::broadcast) FAIL("not called");
    ranks_.run(call, source, target, where);
  }
  void begin_call(const std::string& call) override { called_ = call; }
  std::string other_states() override { return message(". Other ranks: none knows of ", called_); }
  void abort(const std::string& reason) override {
    recording::mark(reason, rank(), 0);
    ranks_.abort(reason);
  }

 private:
  std::unique_ptr<Communicator> make_group(const RankGroup& group, int, int) override {
    return std::make_unique<Host>(ranks_.among(group));
  }

  Communicator& ranks_;
  std::string called_;
};

using Made = std::shared_ptr<Communicator>;

/// Runs a function on a thread for each rank, with a communicator of the rank on GPU `rank`, or on GPU 0 for all.
/// Returns what each threw, or "".
template <class Body>
std::vector<std::string> on_ranks(int size, const Body& body, std::chrono::nanoseconds timeout = kCommunicationTimeout,
                                  bool one_gpu = false) {
  recording::reset();
  recording::set_devices(size);
  LocalRanks local(size);
  return on_all<CommunicationError>(local, [&](Communicator& own) {
    const int rank = own.rank();
    const Launch launch{.rank = rank, .size = size, .local_rank = rank, .local_size = size};
    body(Made(nccl::make_communicator(launch, one_gpu ? 0 : rank, timeout, std::make_unique<Host>(own))));
  });
}

std::vector<std::string> none(int size) { return std::vector<std::string>(static_cast<std::size_t>(size)); }

LaunchContext in_stream(cudaStream_t stream) {
  LaunchContext where;
  where.cuda_stream = stream;
  return where;
}

std::vector<Call> of_this_thread() {
  std::vector<Call> calls = recording::calls();
  std::erase_if(calls, [](const Call& call) { return call.thread != std::this_thread::get_id(); });
  return calls;
}

bool is_collective(const Call& call) { return call.kind == CallKind::launch && call.function.starts_with("nccl"); }

std::int64_t count(const std::vector<Call>& calls, std::string_view function) {
  return std::ranges::count(calls, function, &Call::function);
}

/// Example: "ncclAllReduce nccl 12 float32".
std::vector<std::string> collectives(const std::vector<Call>& calls) {
  std::vector<std::string> list;
  for (const Call& call : calls) {
    if (is_collective(call)) list.push_back(call.function + ' ' + call.kernel);
  }
  return list;
}

TEST_CASE("all ranks and groups of them, each with its communicator of NCCL, move and add host data as they should") {
  const auto errors = on_ranks(4, [](const Made& ranks) {
    CHECK(ranks->name() == "nccl");
    for (const std::int64_t count : {1, 1000, 50'000}) {  // more than there is room for at first
      CHECK(wrong_collectives<float, double, std::int32_t>(*ranks, count, 1, true) == "");
    }
    for (const RankGroup& group : std::vector<RankGroup>{{2, 1}, {2, 2}}) {
      Communicator& some = ranks->among(group);
      CHECK(some.rank() == ranks->rank() / group.stride % 2);
      std::int32_t sum = ranks->rank();
      some.all_reduce(&sum, 1, DType::i32, {});
      CHECK(sum == 2 * (ranks->rank() - some.rank() * group.stride) + group.stride);
      CHECK(wrong_collectives<float, double, std::int32_t>(some, 1000, 1, true) == "");
    }
  });
  CHECK(errors == none(4));
  check_tidy();
  const auto aborted = on_ranks(4, [](const Made& ranks) {
    Communicator& some = ranks->among({2, 1});
    if (ranks->rank() == 0) some.abort("[test] rank 0 stops");
    some.barrier();
  });
  CHECK(aborted[0] == "[test] rank 0 stops");
  check_tidy();
}

TEST_CASE("collectives are calls of NCCL in the stream of the step, with its counts and types") {
  const auto errors = on_ranks(2, [](const Made& ranks) {
    const cuda::StreamHandle stream = cuda::make_stream();
    const LaunchContext where = in_stream(stream);
    const auto backend = make_backend({DeviceType::cuda, ranks->rank()});
    const Buffer data = backend->allocate(256), more = backend->allocate(256);
    const std::size_t before = of_this_thread().size();
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32}) {
      ranks->all_reduce(data.data(), 12, dtype, where);
      ranks->reduce_scatter(data.data(), more.data(), 6, dtype, where);
    }
    ranks->all_gather(data.data(), more.data(), 40, where);
    ranks->all_to_all(data.data(), more.data(), 24, where);
    ranks->broadcast(data.data(), 56, 1, where);
    ranks->shift(data.data(), more.data(), 32, 1, where);
    for (const std::int64_t none : {0, 0}) {
      ranks->all_reduce(data.data(), none, DType::f32, where);
      ranks->all_to_all(data.data(), more.data(), none, where);
    }
    CHECK_THROWS_AS(ranks->all_reduce(data.data(), 4, DType::u8, where), Error);
    CHECK_THROWS_AS(ranks->all_gather(data.data(), more.data(), -1, where), Error);
    CHECK_THROWS_AS(ranks->broadcast(data.data(), 8, 2, where), Error);
    std::vector<Call> calls = of_this_thread();
    calls.erase(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(before));
    CHECK(collectives(calls) ==
          std::vector<std::string>{
              "ncclAllReduce nccl 12 float32", "ncclReduceScatter nccl 6 float32", "ncclAllReduce nccl 12 float64",
              "ncclReduceScatter nccl 6 float64", "ncclAllReduce nccl 12 float16", "ncclReduceScatter nccl 6 float16",
              "ncclAllReduce nccl 12 bfloat16", "ncclReduceScatter nccl 6 bfloat16", "ncclAllReduce nccl 12 int32",
              "ncclReduceScatter nccl 6 int32", "ncclAllGather nccl 40 uint8", "ncclGroupEnd nccl 24 uint8",
              "ncclBroadcast nccl 56 uint8", "ncclGroupEnd nccl 32 uint8"});
    std::set<int> streams;
    for (const Call& call : calls) {
      if (is_collective(call)) streams.insert(call.stream);
      CHECK(call.kind != CallKind::copy);
      CHECK(call.kind != CallKind::synchronize);
    }
    CHECK(streams.size() == 1);
    cuda::wait(ranks->rank(), stream);
  });
  CHECK(errors == none(2));
  check_tidy();
}

/// A perceptron in training, with a call for every gradient.
class Trainee {
 public:
  explicit Trainee(const Made& ranks, int shards = 0, bool graphs = true)
      : session_({.device = message("cuda:", ranks->rank()),
                  .streams = 2,
                  .cuda_graphs = graphs,
                  .parallel = {.communicator = ranks, .virtual_ranks = shards, .bucket_bytes = 1}}),
        network_(session_, {.classes = 4, .inputs = 16, .hidden = {8}}),
        sgd_(network_.parameters(), {.lr = 0.1}) {
    session_.set_observer(&marks_);
  }

  Session& session() { return session_; }
  /// Its batch has eight samples, four of this rank.
  Step step() {
    recording::mark("step", 0, steps_++);
    Step step = session_.step();
    backward(sum(network_(place(noise({4, 16}, 1), Layout::split))));
    sgd_.step();
    step.run();
    return step;
  }

 private:
  NodeMarks marks_;
  Session session_;
  models::Mlp network_;
  SGD sgd_;
  int steps_ = 0;
};

/// This thread's calls, by step.
std::vector<std::vector<Call>> calls_by_step() {
  std::vector<std::vector<Call>> steps;
  for (const Call& call : of_this_thread()) {
    if (call.kind == CallKind::mark && call.function == "step") {
      steps.emplace_back();
    } else if (!steps.empty()) {
      steps.back().push_back(call);
    }
  }
  return steps;
}

TEST_CASE("ranks call NCCL in the order of their plan, in one stream, and capture it in the same step") {
  for (const int shards : {0, 4}) {
    CAPTURE(shards);
    constexpr int kSteps = 6;
    std::vector<std::vector<std::string>> of_rank[2];
    const auto errors = on_ranks(2, [&](const Made& ranks) {
      Trainee trainee(ranks, shards);
      const std::vector<int> streams = program_streams(of_this_thread());
      REQUIRE(streams.size() == 3);  // one for the link
      std::set<int> used;
      for (int i = 0; i < kSteps; ++i) {
        const Step step = trainee.step();
        trainee.session().synchronize();
        const std::vector<Call> calls = calls_by_step().back();
        of_rank[ranks->rank()].push_back(collectives(calls));
        const bool captured = i == 2, replayed = i >= 2;
        CHECK(count(calls, "cudaStreamBeginCapture") == (captured ? 1 : 0));
        CHECK(count(calls, "cudaGraphLaunch") == (replayed ? 1 : 0));
        if (i != 1) continue;  // plans are made before the first launch, and later ones are replayed
        std::int64_t sums = 0;
        for (NodeId id = 0; id < step.graph().node_count(); ++id)
          sums += step.graph().node(id).op->name() == "all_reduce";
        CHECK(sums == 4);
        CHECK(std::ssize(collectives(calls)) == (shards > 0 ? 2 * sums : sums));
        CHECK(differences(trace_of(calls, streams), step.plan()) == std::vector<std::string>{});
        for (const Call& call : calls) {
          if (!is_collective(call)) continue;
          used.insert(call.stream);
          CHECK(call.handle >= 0);
        }
      }
      CHECK(used.size() == 1);
      CHECK(trainee.session().capture_report().empty());
    });
    CHECK(errors == none(2));
    REQUIRE(of_rank[0].size() == kSteps);
    CHECK(of_rank[0] == of_rank[1]);
    CHECK(of_rank[0][2] == of_rank[0][1]);  // captured as launched
    CHECK(of_rank[0][3].empty());
    check_tidy();
  }
}

TEST_CASE("where one rank lacks memory, all of them continue with a plan that needs less") {
  const auto errors = on_ranks(2, [&](const Made& ranks) {
    Trainee trainee(ranks);
    ranks->barrier();
    if (ranks->rank() == 0) recording::fail_next("cudaMalloc", cudaErrorMemoryAllocation);
    ranks->barrier();
    for (int i = 0; i < 4; ++i) {
      const Step step = trainee.step();
      CHECK(step.plan().policy == "serial");
    }
    trainee.session().synchronize();
    CHECK(trainee.session().choice_report().starts_with("plans that need "));
    CHECK(trainee.session().stats().captures == 1);
  });
  CHECK(errors == none(2));
  CHECK(recording::faults_pending() == 0);
  check_tidy();
}

TEST_CASE("a communicator ends after the last graph with its calls, in order and once") {
  const auto errors = on_ranks(2, [](Made ranks) {
    {
      Trainee trainee(ranks);
      ranks.reset();  // the session has it too
      for (int i = 0; i < 4; ++i) static_cast<void>(trainee.step());
      CHECK(trainee.session().stats().captures == 1);
    }
    std::vector<std::string> ends;
    for (const Call& call : of_this_thread()) {
      if (call.function == "cudaGraphExecDestroy" || call.function.starts_with("ncclComm"))
        ends.push_back(call.function);
    }
    CHECK(ends == std::vector<std::string>{"ncclCommInitRankConfig", "cudaGraphExecDestroy", "ncclCommFinalize",
                                           "ncclCommDestroy"});
  });
  CHECK(errors == none(2));
  CHECK(count(recording::calls(), "ncclCommAbort") == 0);
  check_tidy();
}

TEST_CASE("an error of the communicator reaches the rank that waits, whose calls all fail with it from then on") {
  for (const bool graphs : {true, false}) {
    CAPTURE(graphs);
    std::atomic<bool> has_failed = false;
    const auto errors = on_ranks(2, [&](const Made& ranks) {
      Trainee trainee(ranks, 0, graphs);
      for (int i = 0; i < 4; ++i) static_cast<void>(trainee.step());
      trainee.session().synchronize();
      if (ranks->rank() == 0) {  // does not come to the next step
        std::this_thread::sleep_for(20ms);
        recording::fail_communicator(1, ncclRemoteError);
        has_failed.wait(false);
        throw CommunicationError("rank 0 ends");
      }
      const auto fails = [&](const auto& call) {
        const std::string error = error_of<CommunicationError>(call);
        if (error.empty()) return false;
        CHECK(error.starts_with("[nccl] rank 1, "));
        CHECK(contains(error, ": remote process exited or there was a network error: the recorder says so"));
        return true;
      };
      CHECK(fails([&] {
        static_cast<void>(trainee.step());  // on a busy machine, the error may be here first
        trainee.session().synchronize();
      }));
      has_failed = true;
      has_failed.notify_one();
      CHECK(fails([&] { ranks->barrier(); }));
      std::int32_t number = 0;
      CHECK(fails([&] { ranks->broadcast(&number, 4, 0, {}); }));
      CHECK(fails([&] { ranks->all_reduce(&number, 1, DType::i32, {}); }));
    });
    CHECK(errors[0] == "rank 0 ends");
    CHECK(errors[1].empty());
    const std::vector<Call> calls = recording::calls();
    CHECK(count(calls, "ncclCommAbort") == 2);  // each rank once
    CHECK(count(calls, "ncclCommFinalize") == 0);
    CHECK(count(calls, "ncclCommDestroy") == 0);
    check_tidy();
  }
}

/// What rank 1 of two throws by `call` while rank 0 does nothing, once both have done `begin`. On a busy machine the
/// timeout may end that already: one of ten attempts must get beyond it.
template <class Begin, class Call>
std::string given_up(std::chrono::nanoseconds timeout, const Begin& begin, const Call& call) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::string reason;
    bool has_begun = false;
    std::atomic<bool> over = false;
    const auto errors = on_ranks(
        2,
        [&](const Made& ranks) {
          struct End {
            std::atomic<bool>* over;
            ~End() {
              if (over != nullptr) *over = true;
            }
          } const end{ranks->rank() == 1 ? &over : nullptr};
          const auto begun = begin(ranks);
          if (ranks->rank() == 0) {  // for a minute, in case that rank 1 has not come here
            for (int wait = 0; wait < 60'000 && !over; ++wait) std::this_thread::sleep_for(1ms);
            return;
          }
          has_begun = true;
          reason = error_of<CommunicationError>([&] { call(*begun); });
        },
        timeout);
    if (!has_begun || errors != none(2)) continue;
    check_tidy();
    return reason;
  }
  return "not begun";
}

TEST_CASE("a rank that nobody joins gives up after the timeout, in a step, on the host and when it starts") {
  std::string reason = given_up(
      400ms,
      [](const Made& ranks) {
        auto trainee = std::make_unique<Trainee>(ranks);
        static_cast<void>(trainee->step());
        trainee->session().synchronize();
        return trainee;
      },
      [](Trainee& trainee) {
        static_cast<void>(trainee.step());
        trainee.session().synchronize();
      });
  CHECK_MESSAGE(contains(reason, "[nccl] rank 1 has waited 0.4"), reason);

  reason = given_up(
      100ms, [](const Made& ranks) { return ranks; }, [](Communicator& ranks) { ranks.barrier(); });
  CHECK_MESSAGE(contains(reason, "last call all_reduce of 1 i32: another rank is"), reason);
  CHECK_MESSAGE(reason.ends_with(". Other ranks: none knows of all_reduce of 1 i32"), reason);

  recording::reset();
  LocalRanks alone(1);
  CHECK_THROWS_WITH_AS(nccl::make_communicator({.rank = 0, .size = 2}, 0, 50ms, std::make_unique<Host>(alone.of(0))),
                       doctest::Contains("[nccl] rank 0 has waited 0.05 s, last call starting: another rank is gone"),
                       CommunicationError);
  CHECK(count(recording::calls(), "ncclCommAbort") == 1);
  check_tidy();
}

TEST_CASE("abort ends the wait of another thread with the reason, and tells those who found each other") {
  Made of_rank[2];
  std::atomic<int> ready = 0, over = 0;
  const auto errors = on_ranks(2, [&](const Made& ranks) {
    of_rank[ranks->rank()] = ranks;
    ++ready;
    while (ready < 2) std::this_thread::sleep_for(1ms);
    if (ranks->rank() == 1) {
      CHECK_THROWS_WITH_AS(ranks->barrier(), "enough", CommunicationError);
      ++over;
    } else {
      std::this_thread::sleep_for(20ms);
      of_rank[1]->abort("enough");
      of_rank[1]->abort("and again");
      while (over == 0 || count(recording::calls(), "ncclCommAbort") == 0) std::this_thread::sleep_for(1ms);
      CHECK_THROWS_WITH_AS(ranks->barrier(), doctest::Contains("remote process exited"), CommunicationError);
    }
    ++ready;
    while (ready < 4) std::this_thread::sleep_for(1ms);
    of_rank[ranks->rank()].reset();
  });
  CHECK(errors == none(2));
  CHECK(count(recording::calls(), "ncclCommAbort") == 2);
  CHECK(count(recording::calls(), "enough") == 1);  // the host is told
  CHECK(count(recording::calls(), "ncclCommFinalize") == 0);
  check_tidy();
}

TEST_CASE("two ranks on one GPU are refused before any step, by name if ranks can ask each other") {
  const auto errors = on_ranks(
      2, [](const Made&) { FAIL("made"); }, kCommunicationTimeout, /*one_gpu=*/true);
  for (const std::string& error : errors) {
    CHECK(contains(error, "[nccl] expected a GPU for each rank, but ranks 0 and 1 have the same (rank "));
    CHECK(contains(error, "NVIDIA H200): start at most as many ranks on a host as it has GPUs"));
  }
  CHECK(count(recording::calls(), "ncclCommInitRankConfig") == 0);
  check_tidy();
}

/// Variables of the environment, as long as it lives.
class Environment {
 public:
  explicit Environment(std::vector<std::pair<const char*, const char*>> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name, value, 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) unsetenv(name);
    unsetenv("NCCL_COMM_ID");
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<const char*, const char*>> variables_;
};

TEST_CASE("torchrun's ranks find each other by the port after its own, and NCCL finds GPUs that are not theirs alone") {
  const Environment environment({{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}});
  const auto launch = [](int rank) {
    return Launch{.rank = rank, .size = 2, .local_rank = rank, .local_size = 2, .launcher = "torchrun"};
  };
  for (const int gpus : {2, 1}) {
    CAPTURE(gpus);
    recording::reset();
    recording::set_devices(gpus);
    unsetenv("NCCL_COMM_ID");
    std::string errors[2];
    const auto join = [&](int rank) {
      errors[rank] = error_of<CommunicationError>([&] {
        const Made ranks = make_communicator(launch(rank), rank_device("auto", launch(rank)));
        std::int32_t number = rank;
        ranks->broadcast(&number, sizeof number, 1, {});
        CHECK(number == 1);
      });
    };
    std::thread first(join, 0);
    while (count(recording::calls(), "ncclCommInitRankConfig") == 0) std::this_thread::sleep_for(1ms);
    CHECK(std::string(getenv("NCCL_COMM_ID")) == "node7:29501");
    join(1);
    first.join();
    for (const std::string& error : errors) {
      CHECK(contains(error,
                     gpus == 2 ? "" : "starting: invalid usage: the recorder says so. Each rank needs its own GPU"));
      CHECK(error.empty() == (gpus == 2));
    }
    check_tidy();
  }
  setenv("MASTER_PORT", "65535", 1);
  unsetenv("NCCL_COMM_ID");
  CHECK_THROWS_WITH_AS(
      make_communicator(launch(0), Device{DeviceType::cuda, 0}),
      "[launch] torchrun's MASTER_ADDR is node7 and MASTER_PORT 65535: expected the address of rank 0, "
      "and a port below 65535",
      Error);
}

TEST_CASE("a rank's GPU is that of its place on the host, unless the config names one or it sees one only") {
  recording::reset();
  recording::set_devices(4);
  const Launch launch{.rank = 7, .size = 8, .local_rank = 2, .local_size = 3};  // five are on another host
  CHECK(rank_device("auto", launch) == Device{DeviceType::cuda, 2});
  CHECK(rank_device("cuda", launch) == Device{DeviceType::cuda, 2});
  CHECK(rank_device("cuda:1", launch) == Device{DeviceType::cuda, 1});
  CHECK(rank_device("cpu", launch) == Device{});
  recording::set_devices(1);
  CHECK(rank_device("cuda", launch) == Device{DeviceType::cuda, 0});
  recording::set_devices(0);
  CHECK(rank_device("auto", launch) == Device{});
  CHECK(rank_device("cuda", launch) == Device{DeviceType::cuda, 0});
}

TEST_CASE("a session takes several ranks on a GPU only over NCCL, and without a partition of the SMs") {
  recording::reset();
  const auto local = std::make_shared<LocalRanks>(2);
  const Made threads(local, &local->of(0));
  CHECK_THROWS_WITH_AS(Session({.device = "cuda", .parallel = {.communicator = threads}}),
                       "[parallel] expected the communicator that make_communicator() makes for cuda:0, got 'local'",
                       DeviceError);
  const auto errors = on_ranks(2, [](const Made& ranks) {
    CHECK_THROWS_WITH_AS(Session({.device = "cpu", .parallel = {.communicator = ranks}}),
                         doctest::Contains("makes for cpu, got 'nccl'"), DeviceError);
    CHECK_THROWS_WITH_AS(
        Session(
            {.device = message("cuda:", ranks->rank()), .partition = {64, 64}, .parallel = {.communicator = ranks}}),
        doctest::Contains("expected no partition of the SMs with several ranks"), Error);
  });
  CHECK(errors == none(2));
}

}  // namespace
}  // namespace braid::testing
