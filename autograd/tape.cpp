#include "autograd/tape.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "ops/elementwise/elementwise.h"

namespace braid {

namespace {

/// A step that is recorded in this thread, until it is stale.
struct Guarded {
  TapeHandle* handle;
  std::uint32_t step;
  friend bool operator==(const Guarded&, const Guarded&) = default;
};
/// The last one that is not stale is current. Guards may be destroyed in any order, and in another thread.
struct GuardedList {
  std::vector<Guarded> list;
  ~GuardedList();
};
thread_local bool guards_are_gone = false;  // at the end of the thread; static variables may still hold guards
GuardedList::~GuardedList() { guards_are_gone = true; }
thread_local GuardedList guarded_list;

/// Handles are never freed, because tensors may still point to them; later tapes reuse them.
class Handles {
 public:
  static Handles& all() {
    static auto* handles = new Handles;  // for tapes destroyed when the program ends
    return *handles;
  }
  TapeHandle* take(Tape& tape) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) free_.push_back(&handles_.emplace_back());
    TapeHandle* handle = free_.back();
    free_.pop_back();
    handle->tape = &tape;
    return handle;
  }
  void give_back(TapeHandle* handle) {
    const std::lock_guard lock(mutex_);
    handle->tape = nullptr;
    ++handle->step;
    free_.push_back(handle);
  }

 private:
  std::mutex mutex_;
  std::deque<TapeHandle> handles_;
  std::vector<TapeHandle*> free_;
};

bool is_trainable(const Parameter& parameter) {
  return parameter.original() != nullptr ? parameter.original()->trainable : parameter.trainable;
}

}  // namespace

Tape::Tape(Context& context) : context_(context), handle_(Handles::all().take(*this)) {}
Tape::~Tape() { Handles::all().give_back(handle_); }

Tape& Tape::current() {
  std::vector<Guarded>& guarded = guarded_list.list;
  while (!guarded.empty() && guarded.back().handle->step != guarded.back().step) guarded.pop_back();
  BRAID_CHECK(!guarded.empty(), Error,
              "[tape] no step is being recorded in this thread: call session.step() first and keep the step alive");
  return *guarded.back().handle->tape;
}

Tape::Guard::Guard(Tape& tape) : handle_(tape.handle_), step_(tape.handle_->step) {
  guarded_list.list.push_back({handle_, step_});
}
Tape::Guard::Guard(Guard&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), step_(other.step_) {}
Tape::Guard::~Guard() {
  if (guards_are_gone) return;
  std::vector<Guarded>& guarded = guarded_list.list;
  const auto found = std::ranges::find(guarded.rbegin(), guarded.rend(), Guarded{handle_, step_});
  if (found != guarded.rend()) guarded.erase(found.base() - 1);
}

void Tape::start_step(ValueReader* reader) {
  graph_.clear();
  reader_ = reader;
  ++handle_->step;
  step_numbers_.clear();
  closed_ = false;
  grad_enabled_ = true;
  layer_ = nullptr;
  stage_ = Parameter::kNoStage;
  last_stage_ = 0;
  layers_.clear();
  differentiation_.clear();
  casts_.clear();
  newest_.assign(context_.parameters().size(), kNotYet);
  gradient_.assign(context_.parameters().size(), {});
  value_gradients_.clear();
  differentiated_ = false;
  inputs_.clear();
}

void Tape::Undo::operator()() {
  while (!calls_.empty()) {
    calls_.back()();
    calls_.pop_back();
  }
}

std::size_t Tape::slot_of(const Parameter& parameter) const {
  BRAID_CHECK(context_.owns(parameter), Error, "[tape] the parameter '", parameter.name(),
              "' belongs to another session");
  BRAID_CHECK(!parameter.released(), Error, "[tape] the parameter '", parameter.name(),
              "' has been released: its model is gone");
  return static_cast<std::size_t>(parameter.slot());
}

void Tape::check_open() const {
  BRAID_CHECK(
      !closed_, Error,
      "[tape] this step has run already: record everything before step.run() and before the first value is read");
}

void Tape::keep(ValueId value) {
  check_open();
  graph_.keep(value);
}

void Tape::recompute_since(ValueId first, ValueId result) {
  check_open();
  for (ValueId id = first; id < graph_.value_count(); ++id) {
    const Value& value = graph_.value(id);
    const bool own = value.kind == ValueKind::activation && value.root == id && value.slot < 0;
    if (own && id != graph_.value(result).root) graph_.recompute(id);
  }
}

ValueId Tape::record_input(const Array& array, Layout layout) {
  check_open();
  BRAID_CHECK(array.data() != nullptr, ShapeError, "[tape] expected an array with elements, got an empty Array()");
  if (!context_.parallel().divides()) layout = Layout::replicated;
  const ValueId id =
      graph_.add_input({array.dtype(), layout == Layout::split ? of_all_ranks(array.shape()) : array.shape()}, layout);
  differentiation_.push_back(Differentiation::none);
  inputs_.emplace_back(id, array);
  return id;
}

/// The shape of an array with the rows of all ranks.
Shape Tape::of_all_ranks(const Shape& own) const {
  const ParallelOptions& parallel = context_.parallel();
  const int ranks = parallel.data_ranks(), shards = parallel.shard_count() / ranks;
  BRAID_CHECK(own.rank() > 0 && own[0] % shards == 0, ShapeError, "[place] expected rows for ", shards,
              " equal shards on each of ", ranks, " ranks, got an array of shape ", own);
  return own.with(0, own[0] * ranks);
}

ValueId Tape::record_parameter(Parameter& parameter) {
  const std::size_t slot = slot_of(parameter);
  if (slot >= newest_.size()) newest_.resize(slot + 1, kNotYet);
  if (newest_[slot] == kNotYet) {
    check_open();
    newest_[slot] = graph_.add_persistent(parameter.desc(), parameter.kind(), parameter.slot(), parameter.layouts());
    differentiation_.push_back(is_trainable(parameter) ? Differentiation::leaf : Differentiation::none);
  }
  return newest_[slot];
}

ValueId Tape::record(OpPtr op, std::span<const ValueId> inputs, ValueKind kind) {
  check_open();
  const ValueId first = graph_.add_node(std::move(op), inputs, kind);
  layers_.push_back(layer_);
  if (const std::string_view dimensions = layer_ == nullptr ? "" : context_.parallel().dimensions(*layer_);
      !dimensions.empty()) {
    const NodeId node = graph_.node_count() - 1;
    const auto input_descs = graph_.input_descs(node), output_descs = graph_.output_descs(node);
    graph_.divide_along(node, axes_of(dimensions, *graph_.node(node).op, {input_descs, output_descs}));
  }
  if (context_.parallel().stages() > 1) assign_stage(graph_.node_count() - 1);
  const bool differentiable =
      grad_enabled_ && std::ranges::any_of(inputs, [this](ValueId input) { return requires_gradient(input); });
  for (ValueId id = first; id < graph_.value_count(); ++id) {
    const Value& output = graph_.value(id);
    if (output.previous == kNoValue) {
      const bool inner = differentiable && is_floating(output.desc.dtype);
      differentiation_.push_back(inner ? Differentiation::inner : Differentiation::none);
    } else {
      // A new version of a parameter is a leaf again: gradients do not flow through an update.
      newest_[output.slot] = id;
      const bool leaf = is_trainable(context_.parameter(output.slot));
      differentiation_.push_back(leaf ? Differentiation::leaf : Differentiation::none);
    }
  }
  for (ValueId id = first; id < graph_.value_count(); ++id) {
    if (graph_.value(id).previous == kNoValue) continue;
    Parameter& parameter = context_.parameter(graph_.value(id).slot);
    if (parameter.rounded() == nullptr) continue;
    const auto copy = static_cast<std::size_t>(parameter.rounded()->slot());
    const bool updated = copy < newest_.size() && newest_[copy] != kNotYet && newest_[copy] >= first;
    if (!updated) context_.drop_rounded(parameter);
  }
  return first;
}

bool Tape::divides_images(ValueId read) const {
  const ParallelOptions& parallel = context_.parallel();
  if (!parallel.divides() || parallel.layers.empty()) return false;
  const std::string_view dimensions = layer_ == nullptr ? "" : parallel.dimensions(*layer_);
  for (std::size_t k = 0; k < parallel.shard_mesh().axes(); ++k) {
    char axis = dimensions.empty() ? '\0' : dimensions[k];
    // A node that no strategy names is divided as its inputs are; this follows the first.
    for (NodeId node = graph_.value(read).producer; axis == '\0' && node != kNoNode;) {
      axis = graph_.node(node).axes[k];
      const auto inputs = graph_.inputs(node);
      node = inputs.empty() ? kNoNode : graph_.value(inputs.front()).producer;
    }
    if (axis == 'h' || axis == 'w') return true;
  }
  return false;
}

/// Returns the stage of a layer, which it keeps from its first call: the stage of the layers before it, or the one that
/// it begins.
std::int16_t Tape::stage_of_layer(const std::string& layer) {
  const auto [known, is_new] = stages_of_layers_.try_emplace(layer, last_stage_);
  const std::vector<std::string>& begins = context_.parallel().layers.stages;
  if (const auto begun = std::ranges::find(begins, layer); is_new && begun != begins.end()) {
    known->second = std::max(last_stage_, static_cast<std::int16_t>(begun - begins.begin() + 1));
  }
  last_stage_ = std::max(last_stage_, known->second);
  return known->second;
}

/// Updates run where their tensors are, and gradients where the differentiated node runs. A forward node runs on the
/// stage of its layer, or on a later one if an input is made there. A tensor takes the stage of the first node that
/// reads it.
void Tape::assign_stage(NodeId id) {
  const Node node = graph_.node(id);
  const auto stage_of = [&](ValueId value) {
    const std::int32_t slot = graph_.value(value).slot;
    const NodeId producer = graph_.value(value).producer;
    if (slot >= 0) return context_.parameter(slot).stage();
    return producer == kNoNode ? Parameter::kNoStage : graph_.node(producer).stage;
  };
  std::int16_t stage = Parameter::kNoStage;
  for (int i = 0; i < node.output_count && stage == Parameter::kNoStage; ++i) {
    if (graph_.value(node.first_output + i).previous != kNoValue) stage = stage_of(node.first_output + i);
  }
  if (stage == Parameter::kNoStage) stage = stage_;
  if (stage == Parameter::kNoStage) {
    const bool is_gradient = graph_.value(node.first_output).kind == ValueKind::gradient;
    for (const ValueId input : graph_.inputs(id)) {  // gradients flow to earlier stages, other values to later ones
      const std::int16_t its = stage_of(input);
      const bool is_farther = is_gradient ? its < stage : its > stage;
      if (its != Parameter::kNoStage && (stage == Parameter::kNoStage || is_farther)) stage = its;
    }
    if (layer_ != nullptr && !is_gradient) stage = std::max(stage, stage_of_layer(*layer_));
    stage = std::max<std::int16_t>(stage, 0);
  }
  graph_.assign(id, stage, Node::kNoShard);
  for (const ValueId input : graph_.inputs(id)) {
    if (const std::int32_t slot = graph_.value(input).slot; slot >= 0) context_.assign(slot, stage);
  }
}

ValueId Tape::rounded_parameter(ValueId value, DType dtype) {
  const Value& v = graph_.value(value);
  if (v.slot < 0 || computed_in(dtype) == dtype) return kNoValue;
  if (v.kind != ValueKind::parameter || newest_[v.slot] != value) return kNoValue;
  Parameter& parameter = context_.parameter(v.slot);
  if (parameter.rounded() == nullptr && v.previous != kNoValue) return kNoValue;  // it has changed in this step
  Parameter* copy = context_.rounded(parameter, dtype);
  return copy == nullptr ? kNoValue : record_parameter(*copy);
}

ValueId Tape::record_cast(ValueId value, DType dtype) {
  if (const ValueId copy = rounded_parameter(value, dtype); copy != kNoValue) return copy;
  const auto i = static_cast<std::size_t>(value);
  if (i >= casts_.size()) casts_.resize(i + 1, kNotYet);
  const ValueId known = casts_[i];
  // One that was recorded under no_grad does not lead gradients back to the value.
  const bool differentiable = grad_enabled_ && requires_gradient(value);
  if (known != kNotYet && graph_.value(known).desc.dtype == dtype && requires_gradient(known) == differentiable) {
    return known;
  }
  return casts_[i] = record(std::make_shared<ops::Cast>(dtype), std::span(&value, 1));
}

const std::string& Tape::layer(NodeId node) const {
  static const std::string none;
  const std::string* name = layers_[node];
  return name != nullptr ? *name : none;
}

ValueId Tape::step_number() {
  const RandomState& state = context_.random();
  for (const StepNumber& known : step_numbers_) {
    if (known.state == &state && known.step == state.step) return known.value;
  }
  const ValueId value = record_input(Array::scalar(state.step));
  step_numbers_.push_back({&state, state.step, value});
  return value;
}

ValueId Tape::gradient(const Parameter& parameter) const {
  const std::size_t slot = slot_of(parameter);
  if (slot >= gradient_.size() || gradient_[slot].of != newest_[slot]) return kNoValue;
  return gradient_[slot].value;
}

std::string Tape::why_no_gradient(const Parameter& parameter) const {
  const std::size_t slot = slot_of(parameter);
  if (!differentiated_) return "no backward() was called in this step: call backward(loss) first";
  if (!parameter.trainable) return "it is frozen: its `trainable` is false";
  if (slot < gradient_.size() && gradient_[slot].value != kNoValue) {
    return "it has been updated since: read the gradient before optimizer.step()";
  }
  if (slot < gradient_.size() && gradient_[slot].of != kNoValue) {
    return "optimizer.accumulate() has added it to a sum: read the gradient before";
  }
  return "no loss that backward() was called for depends on it";
}

void Tape::set_gradient(const Parameter& parameter, ValueId gradient, ValueId of) {
  const std::size_t slot = slot_of(parameter);
  if (slot >= gradient_.size()) gradient_.resize(slot + 1);
  gradient_[slot] = {gradient, of};
}

ValueId Tape::gradient(ValueId value) {
  std::vector<ValueId> terms;
  for (const auto& [differentiated, gradient] : value_gradients_) {
    if (differentiated == value) terms.push_back(gradient);
  }
  if (terms.size() <= 1) return terms.empty() ? kNoValue : terms[0];
  BRAID_CHECK(!closed_, Error,
              "[gradient] this step has run: the gradients of several losses are added when gradient() "
              "is called, so call it before step.run()");
  return record(std::make_shared<ops::Sum>(), terms, ValueKind::gradient);
}

void Tape::require_gradient(ValueId value) {
  check_open();
  const Value& v = graph_.value(value);
  BRAID_CHECK(is_floating(v.desc.dtype), Error, "[require_gradient] expected a floating tensor, got ", v.desc.dtype,
              ' ', v.desc.shape);
  BRAID_CHECK(v.slot < 0 || v.root != value, Error,
              "[require_gradient] this is a parameter or state: set its `trainable`");
  BRAID_CHECK(differentiation_[value] != Differentiation::inner, Error,
              "[require_gradient] this activation has a gradient already, which gradient(tensor) returns");
  for (const Node& node : graph_.nodes()) {
    BRAID_CHECK(std::ranges::count(graph_.inputs(node), value) == 0, Error, "[require_gradient] [", node.op->name(),
                "] has used this tensor already: call it before the first use");
  }
  differentiation_[value] = Differentiation::leaf;
}

Tape::Transaction::Transaction(Tape& tape) : tape_(&tape), before_(std::make_unique<Mark>(tape.mark())) {}
Tape::Transaction::~Transaction() {
  if (tape_ != nullptr) tape_->return_to(std::move(*before_));
}

Tape::Mark Tape::mark() const {
  return {graph_.mark(), inputs_.size(), step_numbers_.size(), value_gradients_.size(), newest_, gradient_, casts_};
}

void Tape::return_to(Mark mark) {
  graph_.return_to(mark.graph);
  layers_.resize(mark.graph.nodes);
  differentiation_.resize(mark.graph.values);
  inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(mark.inputs), inputs_.end());
  step_numbers_.erase(step_numbers_.begin() + static_cast<std::ptrdiff_t>(mark.step_numbers), step_numbers_.end());
  value_gradients_.resize(mark.value_gradients);
  newest_ = std::move(mark.newest);
  gradient_ = std::move(mark.gradient);
  casts_ = std::move(mark.casts);
}

Tensor Tape::tensor(ValueId value) const {
  BRAID_CHECK(value >= 0 && value < graph_.value_count(), Error, "[tape] there is no value ", value,
              " in this step: it has ", graph_.value_count());
  return {*handle_, value};
}

Tensor::Tensor(const Array& array) : Tensor(Tape::current().tensor(Tape::current().record_input(array))) {}

Tensor place(const Array& array, Layout layout) {
  BRAID_CHECK(layout == Layout::replicated || layout == Layout::split, Error,
              "[place] expected an array that is replicated or split, got ", name_of(layout),
              layout.is_split() ? message(" along axis ", static_cast<int>(layout.axis)) : "");
  return Tape::current().tensor(Tape::current().record_input(array, layout));
}

Tensor::Tensor(Parameter& parameter) : Tensor(Tape::current().tensor(Tape::current().record_parameter(parameter))) {}

Tape& Tensor::tape() const {
  BRAID_CHECK(handle_ != nullptr, Error, "[tensor] this tensor is undefined: it refers to no value");
  BRAID_CHECK(handle_->step == step_, Error,
              "[tensor] this tensor belongs to an earlier step, or its session is gone: read what you need before the "
              "next session.step()");
  return *handle_->tape;
}

ValueId Tensor::id() const { return tape(), id_; }
Shape Tensor::shape() const { return tape().graph().value(id_).desc.shape; }
DType Tensor::dtype() const { return tape().graph().value(id_).desc.dtype; }

const Tensor& Tensor::keep() const {
  tape().keep(id_);
  return *this;
}

const Tensor& Tensor::require_gradient() const {
  tape().require_gradient(id_);
  return *this;
}

Array Tensor::array() const {
  ValueReader* reader = tape().reader();
  BRAID_CHECK(reader != nullptr, Error, "[tensor] the step of this tensor has ended");
  return reader->read_value(id_);
}

namespace {

double only_element(const Array& value) {
  BRAID_CHECK(value.size() == 1, ShapeError, "[tensor] item() expects a single element, got shape ", value.shape());
  return value.number(0);
}

}  // namespace

double Tensor::item() const {
  BRAID_CHECK(shape().size() == 1, ShapeError, "[tensor] item() expects a single element, got shape ", shape());
  return only_element(array());
}

Fetched Tensor::fetch() const {
  ValueReader* reader = tape().reader();
  BRAID_CHECK(reader != nullptr, Error, "[tensor] the step of this tensor has ended");
  return Fetched(reader->fetch_value(id_));
}

Array Fetched::array() const {
  BRAID_CHECK(delivery_ != nullptr, Error, "[tensor] nothing was fetched: call fetch() on a tensor");
  while (!delivery_->arrived && delivery_->fault == nullptr) {
    const std::function<void()> wait = delivery_->wait;  // running the step replaces it
    wait();
  }
  if (delivery_->fault != nullptr) std::rethrow_exception(delivery_->fault);
  return delivery_->array;
}

double Fetched::item() const { return only_element(array()); }

}  // namespace braid
