#include "core/graph/context.h"

#include <algorithm>
#include <atomic>

#include "core/graph/layout.h"

namespace braid {

Context& TensorStore::living_context() const {
  BRAID_CHECK(context != nullptr, Error,
              "[session] the session of this model or optimizer is gone: keep it as long as what was made in it");
  return *context;
}

std::uint64_t Parameter::next_version() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

Context& Parameter::context() const { return store_->living_context(); }

std::shared_ptr<const TensorStore> Parameter::store() const { return store_->shared_from_this(); }

Context::Context(std::unique_ptr<Backend> backend, std::uint64_t seed, ParallelOptions parallel, bool draws_weights)
    : backend_(std::move(backend)),
      parallel_(std::move(parallel)),
      draws_weights_(draws_weights),
      own_random_{seed},
      store_(std::make_shared<TensorStore>()) {
  check_parallel(parallel_);
  // All ranks make their groups together, here.
  for (std::size_t axis = 0; axis < kMeshAxes && parallel_.data_ranks() > 1; ++axis) {
    parallel_.communicator->among(parallel_.shard_mesh().ranks_along(axis));
  }
  store_->context = this;
}

Context::~Context() {
  models_.clear();
  store_->context = nullptr;
  for (Parameter* parameter : parameters_) {
    parameter->released_ = true;
    parameter->buffer_ = {};
  }
}

Parameter& Context::add(std::string_view name, const ValueDesc& desc, ValueKind kind, const Layouts& layouts) {
  return make_tensor(prefix_ + std::string(name), desc, kind, random_,
                     kind == ValueKind::parameter ? layouts_of(name, desc) : layouts);
}

/// The layouts of a parameter in the current scopes.
Layouts Context::layouts_of(std::string_view name, const ValueDesc& desc) const {
  const std::string_view layer = std::string_view(prefix_).substr(0, prefix_.empty() ? 0 : prefix_.size() - 1);
  const std::string_view dimensions = parallel_.dimensions(layer);
  Layouts layouts = parameter_layouts(dimensions);
  std::int64_t shards = 1;
  for (std::size_t i = 0; i < kMeshAxes; ++i) {
    if (layouts[i].is_split()) shards *= parallel_.shard_mesh().shards_along(i);
  }
  BRAID_CHECK(shards == 1 || (desc.shape.rank() > 0 && desc.shape[0] % shards == 0), ShapeError, "[strategy] ", layer,
              ".", name, ": expected a first axis that is a multiple of ", shards, " shards, got ", desc.shape);
  const bool in_pieces = parallel_.ranks() > 1 && parallel_.zero != Sharded::nothing;
  if (in_pieces && is_replicated(layouts)) layouts.front() = Layout::pieces;
  return layouts;
}

RankGroup Context::holders(const Layouts& layouts) const {
  RankGroup group = parallel_.shard_mesh().ranks_along(layouts[0] == Layout::replicated ? 1 : 0);
  if (layouts[1] != Layout::replicated && layouts[0] != Layout::replicated) {
    group = {.ranks = parallel_.ranks(), .stride = 1};
  } else if (is_replicated(layouts)) {
    group.ranks = 1;
  }
  return group;
}

Parameter& Context::make_tensor(std::string name, const ValueDesc& desc, ValueKind kind, RandomState* random,
                                const Layouts& layouts) {
  // Everything that may throw comes before the first change.
  const std::int64_t elements = piece_of(desc.shape.size(), holders(layouts).ranks);
  Buffer buffer = backend_->allocate(size_of(desc.dtype) * static_cast<std::size_t>(elements));
  const bool is_new = names_.emplace(random, name).second;
  BRAID_CHECK(is_new, Error, "[session] there is a tensor named '", name,
              "' already: give each model of a session a name, as in session.add<Model>(\"student\", ...), and each "
              "tensor of a module another one");
  Parameter& parameter = store_->tensors.emplace_back();
  parameter.name_ = std::move(name);
  parameter.desc_ = desc;
  parameter.kind_ = kind;
  parameter.trainable = kind == ValueKind::parameter;
  parameter.slot_ = static_cast<std::int32_t>(parameters_.size());
  parameter.store_ = store_.get();
  parameter.random_ = random;
  parameter.layouts_ = layouts;
  parameter.buffer_ = std::move(buffer);
  parameters_.push_back(&parameter);
  return parameter;
}

void check_not_null(std::string_view function, std::span<Parameter* const> parameters) {
  const auto null = std::ranges::find(parameters, nullptr);
  BRAID_CHECK(null == parameters.end(), Error, "[", function, "] expected parameters, got a null pointer at place ",
              null - parameters.begin() + 1);
}

void Context::release(std::span<Parameter* const> parameters) {
  for (Parameter* parameter : parameters) {
    if (std::exchange(parameter->released_, true)) continue;
    names_.erase({parameter->random_, parameter->name_});
    released_.push_back(parameter);
    if (Parameter* copy = std::exchange(parameter->rounded_, nullptr)) release({&copy, 1});
  }
}

bool Context::free_released() {
  if (released_.empty()) return false;
  synchronize();
  for (Parameter* parameter : released_) parameter->buffer_ = {};
  released_.clear();
  return true;
}

void Context::check_usable(const Parameter& parameter) const {
  BRAID_CHECK(owns(parameter), Error, "[session] the parameter '", parameter.name(), "' belongs to another session");
  BRAID_CHECK(!parameter.released(), Error, "[session] the parameter '", parameter.name(),
              "' has been released: its model is gone");
}

Array Context::read(const Parameter& parameter) {
  check_usable(parameter);
  synchronize();
  Array array(parameter.desc().dtype, parameter.shape());
  const RankGroup group = holders(parameter.layouts());
  if (group.ranks == 1) {
    backend_->copy_to_host(array.data(), parameter.data(), array.bytes());
    if (parallel_.ranks() > 1 && parallel_.stages() > 1 && parameter.stage() != Parameter::kNoStage) {
      parallel_.communicator->broadcast(array.data(), static_cast<std::int64_t>(array.bytes()), parameter.stage(), {});
    }
    return array;
  }
  const std::size_t piece = parameter.bytes();
  std::vector<std::byte> own(piece), all(piece * static_cast<std::size_t>(group.ranks));
  backend_->copy_to_host(own.data(), parameter.data(), piece);
  parallel_.communicator->among(group).all_gather(own.data(), all.data(), static_cast<std::int64_t>(piece), {});
  std::copy_n(all.begin(), array.bytes(), array.data());
  return array;
}

void Context::write(Parameter& parameter, const Array& value) {
  check_usable(parameter);
  BRAID_CHECK(value.dtype() == parameter.desc().dtype && value.shape() == parameter.shape(), ShapeError, "[",
              parameter.name(), "] expected ", parameter.desc().dtype, ' ', parameter.shape(), ", got ", value.dtype(),
              ' ', value.shape());
  synchronize();
  if (const RankGroup group = holders(parameter.layouts()); group.ranks > 1) {
    std::vector<std::byte> piece(parameter.bytes());
    const auto place = static_cast<std::size_t>(parallel_.communicator->among(group).rank());
    const std::size_t begin = std::min(piece.size() * place, value.bytes());
    std::copy_n(value.data() + begin, std::min(piece.size(), value.bytes() - begin), piece.begin());
    backend_->copy_to_device(parameter.data(), piece.data(), piece.size());
  } else {
    backend_->copy_to_device(parameter.data(), value.data(), value.bytes());
  }
  note_change(parameter.slot());
  if (parameter.rounded() != nullptr) write_rounded(parameter, value);
}

Parameter* Context::rounded(Parameter& parameter, DType dtype) {
  if (parameter.rounded() == nullptr) {
    if (!parameter.may_be_rounded_ || !is_replicated(parameter.layouts())) return nullptr;
    if (parameter.desc().dtype != DType::f32) return nullptr;
    const Array value = read(parameter);  // may throw the fault of a step
    Parameter& copy = make_tensor(message(parameter.name(), '.', dtype), {dtype, parameter.shape()}, ValueKind::state,
                                  parameter.random_, {});
    copy.original_ = &parameter;
    copy.stage_ = parameter.stage_;
    parameter.rounded_ = &copy;
    write_rounded(parameter, value);
  }
  return parameter.rounded()->desc().dtype == dtype ? parameter.rounded() : nullptr;
}

void Context::drop_rounded(Parameter& parameter) {
  parameter.may_be_rounded_ = false;
  if (Parameter* copy = std::exchange(parameter.rounded_, nullptr)) release({&copy, 1});
}

void Context::write_rounded(const Parameter& parameter, const Array& value) {
  Parameter& copy = *parameter.rounded();
  Array array(copy.desc().dtype, copy.shape());
  const auto round = [&]<class T>(std::span<T> to) {
    std::ranges::transform(value.as<float>(), to.begin(), [](float element) { return T(element); });
  };
  if (copy.desc().dtype == DType::f16) {
    round(array.as<Half>());
  } else {
    round(array.as<BFloat16>());
  }
  backend_->copy_to_device(copy.data(), array.data(), array.bytes());
  note_change(copy.slot());
}

Generator Context::generator(std::string_view name) const { return Generator(random().seed, Hash{}.add(name).low); }

Context::Scope::Scope(Context& context, std::string_view name) : context_(context), length_(context.prefix_.size()) {
  context.prefix_.append(name).append(1, '.');
}

OwnedTensors::OwnedTensors(Context& context) : store_(context.store()) {}

OwnedTensors::OwnedTensors(const Parameter& parameter) : store_(parameter.store()), random_(parameter.random()) {}

OwnedTensors::~OwnedTensors() {
  if (store_ != nullptr && store_->context != nullptr) store_->context->release(tensors_);
}

Context& OwnedTensors::context() const { return store_->living_context(); }

Parameter& OwnedTensors::add_another(const std::string& name, const ValueDesc& desc, ValueKind kind,
                                     const Layouts& layouts) {
  Context& owner = context();
  const Context::RandomScope scope(owner, random_ != nullptr ? *random_ : owner.random());
  std::string free = name;
  for (int number = 2; owner.has(free); ++number) free = message(name, '.', number);
  return *tensors_.emplace_back(&owner.add(free, desc, kind, layouts));
}

Parameter& OwnedTensors::add(std::string_view name, const ValueDesc& desc, ValueKind kind) {
  Context& owner = context();
  const Context::RandomScope scope(owner, random_ != nullptr ? *random_ : owner.random());
  return *tensors_.emplace_back(&owner.add(name, desc, kind));
}

}  // namespace braid
