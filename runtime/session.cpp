#include "runtime/session.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <utility>

#include "core/base/exception_text.h"
#include "runtime/agreement.h"
#include "runtime/compile/plan_cache.h"
#include "runtime/device_check.h"

namespace braid {

namespace {

/// Streams to create: the wanted number, or as many as candidates of the automatic choice use, and those of links. More
/// than four gain nothing on a CPU, whose nodes are wide.
int stream_count(const SessionOptions& options, const DeviceInfo& device) {
  BRAID_CHECK(options.streams >= 0, Error, "[session] expected streams of at least 0 (0: automatic), got ",
              options.streams);
  BRAID_CHECK(options.intra_op_threads >= 0, Error,
              "[session] expected intra_op_threads of at least 0 (0: automatic), got ", options.intra_op_threads);
  BRAID_CHECK(options.memory_limit >= 0, Error, "[session] expected a memory limit of at least 0 bytes (0: none), got ",
              options.memory_limit);
  BRAID_CHECK(options.convolution == "auto" || options.convolution == "direct", Error,
              "[session] expected convolution auto or direct, got ", options.convolution);
  scheduler::find_policy(options.policy);
  const int most = std::min(device.oversubscribes ? 8 : 4, std::max(1, device.capacity));
  return (options.streams > 0 ? options.streams : most) + links(options.parallel);
}

/// A partition says how many streams there are.
SessionOptions with_partition(SessionOptions options) {
  if (!options.partition.empty()) options.streams = static_cast<int>(options.partition.size());
  return options;
}

}  // namespace

/// Guards one call by one thread. Two at a time would corrupt the step and its plan.
class Session::Use {
 public:
  explicit Use(Session& session) : session_(session) {
    std::thread::id user;
    const bool first = session.user_.compare_exchange_strong(user, std::this_thread::get_id());
    BRAID_CHECK(first || user == std::this_thread::get_id(), Error,
                "[session] two threads use this session at the same time: give each thread a session");
    outermost_ = first;
  }
  ~Use() {
    if (outermost_) session_.user_ = std::thread::id();
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  Session& session_;
  bool outermost_ = false;
};

/// The plans of the steps seen, and what makes and holds them.
struct Session::Planning {
  explicit Planning(Session& session)
      : planner(session, *session.streams_, session.options_),
        arena(session.backend(), *session.streams_),
        cache(planner) {}
  /// What the plans that were found last report; empty if there are none.
  std::string report(std::string (StepPlans::*text)() const) const {
    return cache.last() == nullptr ? "" : (cache.last()->*text)();
  }

  Planner planner;
  Arena arena;
  PlanCache cache;
};

Session::Session(const SessionOptions& options)
    : Context(make_backend(find_device(options.device).device, options.threads), options.seed, options.parallel,
              options.draw_weights),
      options_(with_partition(options)),
      streams_(
          backend().make_streams({.count = stream_count(options_, backend().info()), .partition = options_.partition})),
      planning_(std::make_unique<Planning>(*this)),
      tape_(*this) {
  if (options_.parallel.ranks() == 1) return;
  const std::string_view engine = options_.parallel.communicator->name();
  BRAID_CHECK((device().type == DeviceType::cuda) == (engine == "nccl"), DeviceError,
              "[parallel] expected the communicator that make_communicator() makes for ", device(), ", got '", engine,
              "'");
  BRAID_CHECK(options_.partition.empty(), Error,
              "[parallel] expected no partition of the SMs with several ranks: communication has its own stream");
}

Session::~Session() {
  if (step_ != nullptr) step_->end();
  // The streams finish before what they run is destroyed. A fault that no call asked for is dropped.
  try {
    synchronize();
  } catch (...) {
  }
}

Step Session::step() {
  const Use use(*this);
  BRAID_CHECK(step_ == nullptr || tape_.closed(), Error,
              "[session] a step is being recorded already: run it, or let it end, before the next begins");
  if (free_released()) planning_->cache.forget_released(*this);
  return Step(*this);
}

void Session::synchronize() {
  const Use use(*this);
  try {
    streams_->synchronize();
  } catch (...) {
    fail_on_all_ranks();
    if (step_ != nullptr && step_->executable_ != nullptr) step_->fault_ = std::current_exception();
    throw;
  }
  settle(0);
}

void Session::admit() {
  try {
    settle(streams_->admit());
  } catch (...) {
    fail_on_all_ranks();
    throw;
  }
}

void Session::fail_on_all_ranks() {
  abandon_ranks(parallel(), "failed: " + exception_text(std::current_exception()));
  fail(std::current_exception());
}

void Session::note_launch() {
  ++steps_;
  Tape::Undo undo = std::exchange(tape_.undo(), {});
  if (!undo.empty()) launched_.emplace_back(steps_, std::move(undo));
}

void Session::fail(const std::exception_ptr& fault) {
  for (const Underway& item : underway_) item.delivery->fault = fault;  // copies to the arrays may still be running
  if (step_ != nullptr && !tape_.undo().empty()) step_->discard();      // it depends on the update that failed
  for (auto step = launched_.rbegin(); step != launched_.rend(); ++step) step->second();
  launched_.clear();
}

void Session::settle(std::int64_t running) {
  std::erase_if(launched_, [&](const auto& step) { return step.first <= steps_ - running; });
  std::erase_if(underway_, [&](const Underway& item) {
    if (item.step > steps_ - running) return false;
    item.delivery->arrived = true;
    return true;
  });
}

void Session::prefetch(std::span<const Array> arrays) {
  std::vector<Upload> uploads;
  for (const Array& array : arrays) uploads.push_back({nullptr, array.data(), array.bytes()});
  prefetched_.assign(arrays.begin(), arrays.end());
  streams_->prefetch(uploads);
}

std::string Session::choice_report() const { return planning_->report(&StepPlans::choice_report); }
std::string Session::choice_summary() const { return planning_->report(&StepPlans::choice_summary); }
std::string Session::memory_report() const { return planning_->report(&StepPlans::memory_report); }

std::string Session::autotune_clock() const { return planning_->planner.autotune_clock(); }

void Session::expect_steps(std::int64_t steps) { planning_->planner.expected_steps = steps; }

bool Session::choosing() const {
  return planning_->cache.last() != nullptr && planning_->cache.last()->choice().comparing();
}

void Session::set_observer(LaunchObserver* observer) {
  synchronize();
  streams_->set_observer(observer);
}

Executable& Session::find_plan() {
  backend().make_current();
  return planning_->cache.find(tape_.graph()).ready(planning_->arena, *this);
}

void Session::capture(Executable& executable) {
  const auto start = std::chrono::steady_clock::now();
  try {
    if (!executable.capture(*streams_)) return;
  } catch (const DeviceError& error) {
    if (executable.is_last_capture() && capture_report_.empty())
      capture_report_ = message("steps run without a CUDA graph: ", error.what());
    return;
  }
  capture_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ++captures_;
}

SessionStats Session::stats() const {
  SessionStats stats{.steps = steps_,
                     .plans = planning_->cache.plans(),
                     .cache_hits = planning_->cache.hits(),
                     .arena_bytes = planning_->arena.bytes(),
                     .captures = captures_,
                     .capture_seconds = capture_seconds_};
  stats.measured = planning_->planner.measured();
  for (const Parameter* parameter : parameters()) stats.persistent_bytes += parameter->bytes();
  return stats;
}

Step::Step(Session& session) : session_(&session), exceptions_(std::uncaught_exceptions()) {
  if (session.step_ != nullptr) session.step_->end();
  session.step_ = this;
  session.own_random().step = static_cast<std::int32_t>(session.steps_);
  session.tape_.start_step(this);
  guard_.emplace(session.tape_);
}

Step::~Step() {
  warn_if_not_run();
  end();
}

Step::Step(Step&& other) noexcept { take(other); }

Step& Step::operator=(Step&& other) noexcept {
  if (this == &other) return *this;
  warn_if_not_run();
  end();
  take(other);
  return *this;
}

void Step::take(Step& other) noexcept {
  session_ = std::exchange(other.session_, nullptr);
  guard_.reset();
  if (other.guard_.has_value()) guard_.emplace(std::move(*other.guard_));
  other.guard_.reset();
  exceptions_ = other.exceptions_;
  discarded_ = other.discarded_;
  executable_ = other.executable_;
  fault_ = std::move(other.fault_);
  fetched_ = std::move(other.fetched_);
  other.fetched_.clear();
  for (auto& [value, delivery] : fetched_) delivery->wait = [this] { run(); };
  if (session_ == nullptr) return;
  session_->step_ = this;
  session_->tape_.set_reader(this);
}

void Step::end() {
  for (auto& [value, delivery] : fetched_) {
    delivery->fault = std::make_exception_ptr(Error("[tensor] the step that was to bring these elements never ran"));
  }
  fetched_.clear();
  if (session_ == nullptr) return;
  session_->tape_.set_reader(nullptr);
  session_->tape_.close();
  session_->tape_.undo()();
  std::exchange(session_, nullptr)->step_ = nullptr;
  guard_.reset();
}

void Step::warn_if_not_run() const {
  if (session_ == nullptr || session_->tape_.closed() || std::uncaught_exceptions() > exceptions_) return;
  const StepGraph& graph = session_->tape_.graph();
  const auto update = std::ranges::find_if(graph.values(), [](const Value& value) {
    return value.previous != kNoValue && value.kind == ValueKind::parameter;
  });
  if (update == graph.values().end()) return;
  std::cerr << "braid: warning: a step that updates '" << session_->parameter(update->slot).name()
            << "' was recorded but never run: call step.run(), or step.discard() if that is meant" << std::endl;
}

Session& Step::session() const {
  BRAID_CHECK(session_ != nullptr, Error,
              "[session] this step has ended: its session has begun another step, or is gone");
  return *session_;
}

Executable& Step::prepare() {
  Session& s = session();
  BRAID_CHECK(executable_ == nullptr, Error, "[session] this step has run already: start the next with session.step()");
  BRAID_CHECK(!discarded_, Error, "[session] this step was discarded: nothing of it runs");
  s.tape_.close();
  s.admit();
  // On CUDA that would wait for the device.
  if (s.parallel().ranks() > 1 && s.device().type == DeviceType::cpu) {
    require_same_call(s.parallel(), s.tape_.graph().hash());
  }
  Executable& executable = s.find_plan();
  executable.upload_inputs(s.tape_.inputs(), *s.streams_);
  s.prefetched_.clear();
  for (const std::int32_t slot : executable.changed()) s.note_change(slot);
  return executable;
}

void Step::plan_ahead() {
  Session& s = session();
  const Session::Use use(s);
  BRAID_CHECK(executable_ == nullptr, Error, "[session] this step has run already: plan ahead before it runs");
  s.tape_.close();
  s.find_plan();
}

void Step::discard() {
  session().tape_.close();
  session_->tape_.undo()();
  discarded_ = true;
}

void Step::run() {
  Session& s = session();
  const Session::Use use(s);
  Executable& executable = prepare();
  const bool comparing = s.choosing();
  // On CUDA, plans are compared by their replays: single launches, and the capture itself, take longer.
  const bool counts = s.device().type != DeviceType::cuda || !s.options_.cuda_graphs || !executable.may_be_captured();
  if (comparing) s.synchronize();  // the time of a plan is that of the plan alone
  const auto start = s.now_();
  const auto since = [](auto begin, auto end) { return std::chrono::duration<double>(end - begin).count(); };
  if (s.options_.cuda_graphs && executable.wants_capture()) s.capture(executable);
  if (comparing && s.planning_->cache.last()->wants_times()) {
    s.planning_->cache.last()->add_times(run_measured(executable));
  } else {
    executable.launch(*s.streams_);
    executable_ = &executable;
    s.note_launch();
    send_fetched();
  }
  if (comparing) {
    finish();
    const double seconds = since(start, s.now_());
    const double slowest = largest(s.parallel(), counts ? seconds : std::numeric_limits<double>::infinity());
    if (std::isfinite(slowest)) s.planning_->cache.last()->choice().add_run(slowest);
  } else if (s.device().type == DeviceType::cpu && s.parallel().ranks() == 1) {
    // Otherwise another plan may compute other bits, or other ranks may measure other times.
    s.planning_->cache.last()->choice().add_interval(since(std::exchange(s.started_, start), start));
  }
}

RunTimes Step::measure() {
  const Session::Use use(session());
  return run_measured(prepare());
}

RunTimes Step::run_measured(Executable& executable) {
  executable_ = &executable;
  session_->note_launch();
  try {
    RunTimes times = executable.measure(*session_->streams_);
    send_fetched();
    return times;
  } catch (...) {
    fault_ = std::current_exception();
    session_->fail_on_all_ranks();
    throw;
  }
}

void Step::send_fetched() {
  std::vector<Download> downloads;
  for (auto& [value, delivery] : fetched_) {
    const ValueDesc& desc = session_->tape_.graph().value(value).desc;
    const void* source = executable_->source(value, *session_);
    delivery->array = Array(desc.dtype, desc.shape);
    downloads.push_back({delivery->array.data(), source, delivery->array.bytes()});
  }
  if (downloads.empty()) return;
  session_->streams_->download(downloads);
  for (auto& [value, delivery] : fetched_) {
    delivery->wait = [&s = *session_, step = session_->steps_] { step == s.steps_ ? s.synchronize() : s.admit(); };
    session_->underway_.push_back({session_->steps_, std::move(delivery)});
  }
  fetched_.clear();
}

const Executable& Step::executable() const {
  session();
  BRAID_CHECK(executable_ != nullptr, Error, "[session] the step has no plan before it has run");
  return *executable_;
}

const scheduler::Plan& Step::plan() const { return executable().plan(); }
const StepGraph& Step::graph() const { return executable().graph(); }
const scheduler::Cost& Step::chosen(NodeId node) const { return executable().chosen(node); }
Work Step::work(NodeId node) const { return executable().work(node); }
NodeId Step::recorded_node(NodeId node) const { return executable().recorded_node(node); }

Array Step::read_value(ValueId value) {
  const Session::Use use(session());
  if (executable_ == nullptr) run();
  finish();
  return executable_->read(value, session());
}

std::shared_ptr<Delivery> Step::fetch_value(ValueId value) {
  auto delivery = std::make_shared<Delivery>();
  if (executable_ != nullptr) {
    delivery->array = read_value(value);
    delivery->arrived = true;
    return delivery;
  }
  if (session_->tape_.graph().value(value).desc.shape.size() != 1) session_->tape_.keep(value);
  delivery->wait = [this] { run(); };
  return fetched_.emplace_back(value, std::move(delivery)).second;
}

void Step::finish() {
  if (fault_ == nullptr) {
    try {
      session_->synchronize();
    } catch (...) {
      fault_ = std::current_exception();
    }
  }
  if (fault_ != nullptr) std::rethrow_exception(fault_);
}

}  // namespace braid
