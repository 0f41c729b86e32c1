#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include "core/start_thread.h"
#include "core/text.h"

namespace braid {
namespace {

/// The number of no sample: the random stream of an epoch's order.
constexpr std::int64_t kOrder = std::numeric_limits<std::uint32_t>::max();

/// Of the random stream of a batch, added to its epoch.
constexpr std::int64_t kMixing = std::int64_t{1} << 31;

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
  BRAID_CHECK(options.max_bad >= 0, ConfigError, "[loader] expected max_bad >= 0, got ", options.max_bad);
  const MixingOptions& mixing = options.mixing;
  BRAID_CHECK(mixing.mixup_alpha >= 0 && mixing.cutmix_alpha >= 0, ConfigError,
              "[loader] expected mixup_alpha and cutmix_alpha >= 0, got ", mixing.mixup_alpha, " and ",
              mixing.cutmix_alpha);
  BRAID_CHECK(mixing.probability >= 0 && mixing.probability <= 1, ConfigError,
              "[loader] expected a probability of mixing in [0, 1], got ", mixing.probability);
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
  waited_ = 0;
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
  const auto start = std::chrono::steady_clock::now();
  Loaded loaded = options_.workers == 0 ? try_load(taken_++) : take();
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (loaded.error) std::rethrow_exception(loaded.error);
  note_bad(std::move(loaded.bad));
  batch = loaded.batch;
  return true;
}

Loader::Loaded Loader::take() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return loaded_.contains(taken_); });
  Loaded loaded = std::move(loaded_.extract(taken_++).mapped());
  lock.unlock();
  room_.notify_one();
  return loaded;
}

void Loader::note_bad(std::map<std::int64_t, std::string> bad) {
  if (bad.empty()) return;
  bad_.merge(bad);
  if (std::ssize(bad_) <= options_.max_bad) return;
  constexpr int kShown = 10;
  std::string list;
  int shown = 0;
  for (const auto& [sample, why] : bad_) {
    if (shown++ < kShown) list += (list.empty() ? "" : "; ") + why;
  }
  if (shown > kShown) list += message("; and ", shown - kShown, " more");
  throw DataError(message("[data] ", plural(bad_.size(), "image"), " of ", dataset_->name(),
                          " cannot be read, more than data.max_bad = ", options_.max_bad, ": ", list));
}

Loader::Iterator Loader::begin() {
  start_epoch(epoch_ + 1);
  return Iterator(*this);
}

bool Loader::find_readable(std::int64_t place, std::map<std::int64_t, std::string>& bad, std::int64_t& sample,
                           Image& image) const {
  for (std::int64_t tried = 0; tried < samples_; ++tried) {
    sample = order_[static_cast<std::size_t>((place + tried) % samples_)];
    try {
      image = dataset_->image(sample);
      return true;
    } catch (const DataError& error) {
      bad.emplace(sample, error.what());
      if (std::ssize(bad) > options_.max_bad) return false;
    }
  }
  return false;
}

Loader::Loaded Loader::load(std::int64_t number) const {
  const std::int64_t first = number * options_.batch_size;
  const std::int64_t count = std::min(options_.batch_size, samples_ - first);
  const Shape shape = dataset_->image_shape();
  const auto image_size = static_cast<std::size_t>(shape.size());
  Loaded loaded{{Array(DType::f32, {count, shape[0], shape[1], shape[2]}), Array(DType::i32, {count})}, nullptr};
  const std::span<float> images = loaded.batch.images.as<float>();
  const std::span<std::int32_t> labels = loaded.batch.labels.as<std::int32_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::int64_t sample = 0;
    Image image;
    if (!find_readable(first + static_cast<std::int64_t>(i), loaded.bad, sample, image)) {
      BRAID_CHECK(std::ssize(loaded.bad) > options_.max_bad, DataError, "[data] no image of ", dataset_->name(),
                  " can be read: ", loaded.bad.begin()->second);
      return loaded;
    }
    BRAID_CHECK(image.shape.rank() == 3 && image.shape[2] == shape[2] && image.shape.size() > 0, DataError, "[loader] ",
                dataset_->name(), ": image ", sample, " has shape ", image.shape, ", expected ",
                plural(shape[2], "channel"));
    BRAID_CHECK(std::ssize(image.pixels) == image.shape.size(), DataError, "[loader] ", dataset_->name(), ": image ",
                sample, " has ", plural(image.pixels.size(), "byte"), ", expected ", image.shape.size(), " for shape ",
                image.shape);
    Generator random = generator(options_.seed, epoch_, sample);
    transform_(image, random, images.subspan(i * image_size, image_size));
    labels[i] = dataset_->label(sample);
    BRAID_CHECK(labels[i] >= 0 && labels[i] < dataset_->classes(), DataError, "[loader] ", dataset_->name(),
                ": label of sample ", sample, " is ", labels[i], ", expected 0 to ", dataset_->classes() - 1);
  }
  if (options_.mixing.any()) {
    Generator random = generator(options_.seed, epoch_ | kMixing, number);
    mix(options_.mixing, random, dataset_->classes(), loaded.batch);
  }
  return loaded;
}

Loader::Loaded Loader::try_load(std::int64_t number) const {
  try {
    return load(number);
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
