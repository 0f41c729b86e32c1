#include "data/loader.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/start_thread.h"
#include "core/text.h"

namespace braid {
namespace {

/// The number of no sample: the random stream of an epoch's order.
constexpr std::int64_t kOrder = std::numeric_limits<std::uint32_t>::max();

Generator generator(std::uint64_t seed, std::int64_t epoch, std::int64_t sample) {
  return Generator(seed, static_cast<std::uint64_t>(epoch) << 32 | static_cast<std::uint64_t>(sample));
}

/// Fisher–Yates.
void shuffle(std::vector<std::int64_t>& order, Generator random) {
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
  }
}

const LoaderOptions& checked(const LoaderOptions& options, const Dataset& dataset) {
  BRAID_CHECK(options.batch_size >= 1, ConfigError, "[loader] expected batch_size >= 1, got ", options.batch_size);
  BRAID_CHECK(options.workers >= 0, ConfigError, "[loader] expected workers >= 0, got ", options.workers);
  BRAID_CHECK(options.prefetch >= 1, ConfigError, "[loader] expected prefetch >= 1, got ", options.prefetch);
  BRAID_CHECK(dataset.size() < kOrder, ConfigError, "[loader] expected less than ", kOrder, " samples, ",
              dataset.name(), " has ", dataset.size());
  return options;
}

std::int64_t count_batches(std::int64_t samples, const LoaderOptions& options) {
  const bool partial = samples % options.batch_size != 0 && !options.drop_last;
  return samples / options.batch_size + (partial ? 1 : 0);
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      options_(checked(options, *dataset_)),
      transform_(options.transform, dataset_->image_shape()),
      samples_(dataset_->size()),
      batches_(count_batches(samples_, options)) {}

Loader::~Loader() { stop(); }

void Loader::start_epoch(std::int64_t epoch, std::int64_t first_batch) {
  BRAID_CHECK(epoch >= 0, ConfigError, "[loader] expected epoch >= 0, got ", epoch);
  BRAID_CHECK(first_batch >= 0 && first_batch <= batches_, ConfigError, "[loader] expected a first batch of 0 to ",
              batches_, ", got ", first_batch);
  stop();
  epoch_ = epoch;
  order_.resize(static_cast<std::size_t>(samples_));
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  if (options_.shuffle) shuffle(order_, generator(options_.seed, epoch, kOrder));
  loaded_.clear();
  claimed_ = taken_ = first_batch;
  stopping_ = false;
  const std::int64_t workers = std::min<std::int64_t>(options_.workers, batches_ - first_batch);
  try {
    for (std::int64_t i = 0; i < workers; ++i)
      workers_.push_back(start_thread<std::jthread>("loading data", [this] { work(); }));
  } catch (...) {
    stop();
    epoch_ = -1;
    throw;
  }
}

bool Loader::next(Batch& batch) {
  BRAID_CHECK(epoch_ >= 0, Error, "[loader] start_epoch must be called before next");
  if (taken_ == batches_) return false;  // no lock: only this thread writes it
  if (options_.workers == 0) {
    batch = load(taken_++);
    return true;
  }
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return loaded_.contains(taken_); });
  const Loaded loaded = std::move(loaded_.extract(taken_++).mapped());
  lock.unlock();
  room_.notify_one();
  if (loaded.error) std::rethrow_exception(loaded.error);
  batch = loaded.batch;
  return true;
}

Loader::Iterator Loader::begin() {
  start_epoch(epoch_ + 1);
  return Iterator(*this);
}

Batch Loader::load(std::int64_t number) const {
  const std::int64_t first = number * options_.batch_size;
  const std::int64_t count = std::min(options_.batch_size, samples_ - first);
  const Shape shape = dataset_->image_shape();
  const auto image_size = static_cast<std::size_t>(shape.size());
  Batch batch{Array(DType::f32, {count, shape[0], shape[1], shape[2]}), Array(DType::i32, {count})};
  const std::span<float> images = batch.images.as<float>();
  const std::span<std::int32_t> labels = batch.labels.as<std::int32_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::int64_t sample = order_[static_cast<std::size_t>(first) + i];
    const std::span<const std::uint8_t> pixels = dataset_->image(sample);
    BRAID_CHECK(pixels.size() == image_size, DataError, "[loader] ", dataset_->name(), ": image ", sample, " has ",
                plural(pixels.size(), "byte"), ", expected ", image_size, " for shape ", shape);
    Generator random = generator(options_.seed, epoch_, sample);
    const std::span<float> image = images.subspan(i * image_size, image_size);
    transform_.apply(pixels, transform_.draw(random), image);
    transform_.add_noise(random, image);
    labels[i] = dataset_->label(sample);
    BRAID_CHECK(labels[i] >= 0 && labels[i] < dataset_->classes(), DataError, "[loader] ", dataset_->name(),
                ": label of sample ", sample, " is ", labels[i], ", expected 0 to ", dataset_->classes() - 1);
  }
  return batch;
}

Loader::Loaded Loader::try_load(std::int64_t number) const {
  try {
    return {load(number), nullptr};
  } catch (...) {
    return {{}, std::current_exception()};
  }
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    room_.wait(lock, [this] { return stopping_ || claimed_ == batches_ || claimed_ - taken_ < options_.prefetch; });
    if (stopping_ || claimed_ == batches_) return;
    const std::int64_t number = claimed_++;
    lock.unlock();
    Loaded loaded = try_load(number);
    lock.lock();
    loaded_.emplace(number, std::move(loaded));
    arrived_.notify_one();
  }
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  workers_.clear();  // joins
}

}  // namespace braid
