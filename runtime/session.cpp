#include "runtime/session.h"

#include <utility>

#include "runtime/device_check.h"

namespace braid {

namespace {

/// Streams to create: the wanted number, or as many as candidates of the automatic choice use. More than four have
/// nothing to win on a CPU, whose nodes are wide.
int stream_count(const SessionOptions& options, const DeviceInfo& device) {
  BRAID_CHECK(options.streams >= 0, Error, "[session] expected streams of at least 0 (0: automatic), got ",
              options.streams);
  BRAID_CHECK(options.width >= 0, Error, "[session] expected a width of at least 0 (0: automatic), got ",
              options.width);
  BRAID_CHECK(options.memory_limit >= 0, Error, "[session] expected a memory limit of at least 0 bytes (0: none), got ",
              options.memory_limit);
  scheduler::find_policy(options.policy);
  return options.streams > 0 ? options.streams : std::min(device.oversubscribes ? 8 : 4, std::max(1, device.capacity));
}

/// A partition says how many streams there are.
SessionOptions with_partition(SessionOptions options) {
  if (!options.partition.empty()) options.streams = static_cast<int>(options.partition.size());
  return options;
}

}  // namespace

Session::Session(const SessionOptions& options)
    : Context(make_backend(find_device(options.device).device, options.threads), options.seed),
      options_(with_partition(options)),
      streams_(
          backend().make_streams({.count = stream_count(options_, backend().info()), .partition = options_.partition})),
      planner_(*this, *streams_, options_),
      arena_(backend(), *streams_),
      cache_(*streams_, planner_),
      tape_(*this) {}

Session::~Session() {
  // The streams finish before what they run goes away. A fault that nobody asked for has nowhere to go.
  try {
    synchronize();
  } catch (...) {
  }
}

Step Session::step() {
  BRAID_CHECK(!recording_, Error, "[session] a step is being recorded already: let it end before the next begins");
  free_released();
  return Step(*this);
}

void Session::synchronize() {
  try {
    streams_->synchronize();
  } catch (...) {
    settle(0, std::current_exception());
    throw;
  }
  settle(0);
}

void Session::admit() {
  int running = 0;
  try {
    running = streams_->admit();
  } catch (...) {
    settle(0, std::current_exception());
    throw;
  }
  settle(running);
}

void Session::settle(std::int64_t running, const std::exception_ptr& fault) {
  if (fault != nullptr) {  // copies to the arrays may still be running
    for (const Underway& item : underway_) item.delivery->fault = fault;
    return;
  }
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

void Session::set_observer(LaunchObserver* observer) {
  synchronize();
  streams_->set_observer(observer);
}

Executable& Session::find_plan() {
  plans_ = &cache_.find(tape_.graph());
  return plans_->ready(arena_, *this);
}

void Session::capture(Executable& executable) {
  const auto start = std::chrono::steady_clock::now();
  try {
    if (!executable.capture(*streams_)) return;
  } catch (const DeviceError& error) {
    if (capture_report_.empty()) capture_report_ = message("steps run without a CUDA graph: ", error.what());
    return;
  }
  capture_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ++captures_;
}

SessionStats Session::stats() const {
  SessionStats stats{.steps = steps_,
                     .plans = cache_.plans(),
                     .cache_hits = cache_.hits(),
                     .arena_bytes = arena_.bytes(),
                     .captures = captures_,
                     .capture_seconds = capture_seconds_};
  stats.measured = planner_.measured();
  for (const Parameter* parameter : parameters()) stats.persistent_bytes += parameter->bytes();
  return stats;
}

Step::Step(Session& session) : session_(session), guard_(session.tape_) {
  session.recording_ = true;
  session.own_random().step = static_cast<std::int32_t>(session.steps_);
  session.tape_.start_step(this);
}

Step::~Step() {
  for (auto& [value, delivery] : fetched_) {
    delivery->fault = std::make_exception_ptr(Error("[tensor] the step that was to bring these elements never ran"));
  }
  session_.tape_.end_step();
  session_.recording_ = false;
}

Executable& Step::prepare() {
  BRAID_CHECK(executable_ == nullptr, Error, "[session] this step has run already: start the next with session.step()");
  Session& s = session_;
  s.tape_.close();
  s.admit();
  Executable& executable = s.find_plan();
  executable.upload_inputs(s.tape_.inputs(), *s.streams_);
  s.prefetched_.clear();
  for (const std::int32_t slot : executable.changed()) s.note_change(slot);
  return executable;
}

void Step::plan_ahead() {
  session_.tape_.close();
  session_.find_plan();
}

void Step::run() {
  Executable& executable = prepare();
  Session& s = session_;
  const bool comparing = s.choosing();
  if (comparing) s.synchronize();  // the time of a plan is that of the plan alone
  const auto start = std::chrono::steady_clock::now();
  const auto since = [](auto begin, auto end) { return std::chrono::duration<double>(end - begin).count(); };
  if (s.options_.cuda_graphs && executable.wants_capture()) s.capture(executable);
  executable.launch(*s.streams_);
  executable_ = &executable;
  ++s.steps_;
  send_fetched();
  if (comparing) {
    finish();
    s.plans_->choice().add_run(since(start, std::chrono::steady_clock::now()));
  } else if (s.device().type == DeviceType::cpu) {  // elsewhere, another plan may compute other bits
    s.plans_->choice().add_interval(since(std::exchange(s.started_, start), start));
  }
}

RunTimes Step::measure() {
  Executable& executable = prepare();
  executable_ = &executable;
  ++session_.steps_;
  try {
    RunTimes times = executable.measure(*session_.streams_);
    send_fetched();
    return times;
  } catch (...) {
    fault_ = std::current_exception();
    throw;
  }
}

void Step::send_fetched() {
  std::vector<Download> downloads;
  for (auto& [value, delivery] : fetched_) {
    const ValueDesc& desc = session_.tape_.graph().value(value).desc;
    const void* source = executable_->source(value, session_);
    delivery->array = Array(desc.dtype, desc.shape);
    downloads.push_back({delivery->array.data(), source, delivery->array.bytes()});
  }
  if (downloads.empty()) return;
  session_.streams_->download(downloads);
  for (auto& [value, delivery] : fetched_) {
    delivery->wait = [&s = session_, step = session_.steps_] { step == s.steps_ ? s.synchronize() : s.admit(); };
    session_.underway_.push_back({session_.steps_, std::move(delivery)});
  }
  fetched_.clear();
}

const Executable& Step::executable() const {
  BRAID_CHECK(executable_ != nullptr, Error, "[session] the step has no plan before it has run");
  return *executable_;
}

const scheduler::Plan& Step::plan() const { return executable().plan(); }
const StepGraph& Step::graph() const { return executable().graph(); }
const scheduler::Cost& Step::chosen(NodeId node) const { return executable().chosen(node); }
NodeId Step::recorded_node(NodeId node) const { return executable().recorded_node(node); }

Array Step::read_value(ValueId value) {
  if (executable_ == nullptr) run();
  finish();
  return executable_->read(value, session_);
}

std::shared_ptr<Delivery> Step::fetch_value(ValueId value) {
  auto delivery = std::make_shared<Delivery>();
  if (executable_ != nullptr) {
    delivery->array = read_value(value);
    delivery->arrived = true;
    return delivery;
  }
  if (session_.tape_.graph().value(value).desc.shape.size() != 1) session_.tape_.keep(value);
  delivery->wait = [this] { run(); };
  return fetched_.emplace_back(value, std::move(delivery)).second;
}

void Step::finish() {
  if (fault_ == nullptr) {
    try {
      session_.synchronize();
    } catch (...) {
      fault_ = std::current_exception();
    }
  }
  if (fault_ != nullptr) std::rethrow_exception(fault_);
}

}  // namespace braid
