#include "data/loader/loader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/exception_text.h"
#include "core/base/start_thread.h"
#include "core/text/text.h"

namespace braid {
namespace {

/// Added to the epoch for the random stream of a batch.
constexpr std::int64_t kMixing = std::int64_t{1} << 31;

/// Throws Error that holds the exception that is being handled. Catches exceptions of the user's code.
template <class Thrown>
[[noreturn]] void rethrow(const std::string& where) {
  std::throw_with_nested(Thrown(message("[loader] ", where, ": ", exception_text(std::current_exception()))));
}

Array first_samples(const Array& array, std::int64_t count) {
  Array first(array.dtype(), array.shape().with(0, count));
  std::copy_n(array.data(), first.bytes(), first.data());
  return first;
}

const Dataset& checked(const std::shared_ptr<const Dataset>& dataset) {
  BRAID_CHECK(dataset != nullptr, Error, "[loader] expected a dataset, got null");
  return *dataset;
}

const LoaderOptions& checked(const LoaderOptions& options, const Dataset& dataset) {
  BRAID_CHECK(options.batch_size >= 1, ConfigError, "[loader] expected batch_size >= 1, got ", options.batch_size);
  BRAID_CHECK(options.workers >= 0, ConfigError, "[loader] expected workers >= 0, got ", options.workers);
  BRAID_CHECK(options.prefetch >= 1, ConfigError, "[loader] expected prefetch >= 1, got ", options.prefetch);
  BRAID_CHECK(options.max_bad >= 0, ConfigError, "[loader] expected max_bad >= 0, got ", options.max_bad);
  BRAID_CHECK(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks, ConfigError,
              "[loader] expected a rank of 0 to ranks - 1, got rank ", options.rank, " of ", options.ranks);
  BRAID_CHECK(options.shards >= 0 && options.shards % options.ranks == 0, ConfigError,
              "[loader] expected shards to be a multiple of ", plural(options.ranks, "rank"), ", got ", options.shards);
  const int shards = options.shards > 0 ? options.shards : options.ranks;
  BRAID_CHECK(options.batch_size % shards == 0, ConfigError, "[loader] expected a batch_size that is a multiple of ",
              plural(shards, "shard"), ", got ", options.batch_size);
  BRAID_CHECK(options.ranks == 1 || !options.mixing.any(), ConfigError,
              "[loader] mixing needs all images of a batch, and with several ranks, each has a part of them");
  const MixingOptions& mixing = options.mixing;
  BRAID_CHECK(mixing.mixup_alpha >= 0 && mixing.cutmix_alpha >= 0, ConfigError,
              "[loader] expected mixup_alpha and cutmix_alpha >= 0, got ", mixing.mixup_alpha, " and ",
              mixing.cutmix_alpha);
  BRAID_CHECK(mixing.probability >= 0 && mixing.probability <= 1, ConfigError,
              "[loader] expected a probability of mixing in [0, 1], got ", mixing.probability);
  BRAID_CHECK(dataset.size() < kNoSample, ConfigError, "[loader] expected less than ", kNoSample, " samples, ",
              dataset.name(), " has ", dataset.size());
  BRAID_CHECK(options.sampler == nullptr || !options.shuffle, ConfigError,
              "[loader] expected shuffle or a sampler, got both");
  return options;
}

/// The dataset, if it is read as labelled images.
const ImageDataset* images_of(const Dataset& dataset, const LoaderOptions& options) {
  const auto* images = options.collate == nullptr ? dynamic_cast<const ImageDataset*>(&dataset) : nullptr;
  BRAID_CHECK(images != nullptr || (options.transform == TransformOptions{} && !options.mixing.any()), ConfigError,
              "[loader] transform and mixing are for image datasets without a collate function; ", dataset.name(),
              options.collate == nullptr ? " is no image dataset" : " has one");
  const TransformOptions& changes = options.transform;
  const bool keep_places = !changes.random_resized_crop && !changes.color_jitter.any() && changes.crop_pct == 1;
  BRAID_CHECK(images == nullptr || !images->has_masks() || (keep_places && !options.mixing.any()), ConfigError,
              "[loader] ", dataset.name(),
              " has a label for each pixel: its images cannot be resized, mixed, or changed in colour");
  return images;
}

std::shared_ptr<const Sampler> sampler_of(const Dataset& dataset, const LoaderOptions& options) {
  if (options.sampler != nullptr) return options.sampler;
  if (options.shuffle) return std::make_shared<RandomSampler>(dataset.size());
  return std::make_shared<SequentialSampler>(dataset.size());
}

std::int64_t count_batches(std::int64_t samples, const LoaderOptions& options) {
  const bool partial = samples % options.batch_size != 0 && !options.drop_last;
  return samples / options.batch_size + (partial ? 1 : 0);
}

void check_order(std::span<const std::int64_t> order, std::int64_t samples, const Dataset& dataset) {
  BRAID_CHECK(std::ssize(order) == samples, Error, "[loader] expected the sampler's order to have its size, ", samples,
              ", got ", order.size());
  for (const std::int64_t sample : order) {
    BRAID_CHECK(sample >= 0 && sample < dataset.size(), Error, "[loader] the sampler asks for sample ", sample, ", ",
                dataset.name(), " has 0 to ", dataset.size() - 1);
  }
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      options_(checked(options, checked(dataset_))),
      images_(images_of(*dataset_, options)),
      transform_(images_ == nullptr ? std::nullopt
                                    : std::optional(Transform(options.transform, images_->image_shape()))),
      sampler_(sampler_of(*dataset_, options)),
      samples_(sampler_->size()),
      batches_(count_batches(samples_, options)) {}

Loader::~Loader() { stop(); }

void Loader::start_epoch(std::int64_t epoch, std::int64_t first_batch) {
  BRAID_CHECK(epoch >= 0, ConfigError, "[loader] expected epoch >= 0, got ", epoch);
  BRAID_CHECK(first_batch >= 0 && first_batch <= batches_, ConfigError, "[loader] expected a first batch of 0 to ",
              batches_, ", got ", first_batch);
  std::vector<std::int64_t> order = sampler_->order(epoch, options_.seed);
  check_order(order, samples_, *dataset_);
  stop();
  epoch_ = epoch;
  order_ = std::move(order);
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
  if (epoch_ < 0) start_epoch(0);
  if (taken_ == batches_) return false;  // no lock: only this thread writes it
  const auto start = std::chrono::steady_clock::now();
  Loaded loaded = options_.workers == 0 ? load(taken_++) : take();
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (loaded.error) std::rethrow_exception(loaded.error);
  const bool is_empty = !loaded.bad.empty() && loaded.batch.size() == 0;
  note_bad(std::move(loaded.bad));
  if (is_empty) return next(batch);
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
  if (!too_many(bad_)) return;
  std::vector<std::string> reasons;
  for (const auto& [sample, why] : bad_) reasons.push_back(why);
  throw DataError(too_many_bad(images_ != nullptr ? "image" : "sample", dataset_->name(), options_.max_bad, reasons));
}

std::string too_many_bad(std::string_view samples, const std::string& dataset, int max_bad,
                         const std::vector<std::string>& reasons) {
  constexpr std::size_t kShown = 10;
  std::string list;
  for (std::size_t i = 0; i < std::min(kShown, reasons.size()); ++i) list += (i == 0 ? "" : "; ") + reasons[i];
  if (reasons.size() > kShown) list += message("; and ", reasons.size() - kShown, " more");
  return message("[data] ", plural(reasons.size(), samples), " of ", dataset,
                 " cannot be read, more than data.max_bad = ", max_bad, ": ", list);
}

Loader::Iterator Loader::begin() {
  start_epoch(epoch_ + 1);
  return Iterator(*this);
}

template <class Read>
bool Loader::read_sample(std::int64_t place, std::map<std::int64_t, std::string>& bad, const Read& read) const {
  for (std::int64_t tried = 0; tried < samples_; ++tried) {
    const std::int64_t sample = order_[static_cast<std::size_t>((place + tried) % samples_)];
    try {
      read(sample);
      return true;
    } catch (const DataError& error) {
      bad.emplace(sample, images_ != nullptr ? error.what() : message("sample ", sample, ": ", error.what()));
      if (too_many(bad) || !options_.replace_bad) return false;
    } catch (const std::exception&) {
      rethrow<Error>(message(dataset_->name(), ": sample ", sample));
    }
  }
  throw DataError(message("[data] no ", images_ != nullptr ? "image" : "sample", " of ", dataset_->name(),
                          " can be read: ", bad.begin()->second));
}

void Loader::load_mask(const Image& mask, std::int64_t sample, std::span<std::int32_t> labels) const {
  Generator random = epoch_generator(options_.seed, epoch_, sample);
  const CropFlip crop = transform_->draw(random);  // what the transform has drawn for the image
  const std::int64_t height = mask.shape[0], width = mask.shape[1];
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t from_y = y + crop.dy, from_x = (crop.flip ? width - 1 - x : x) + crop.dx;
      const bool outside = from_y < 0 || from_y >= height || from_x < 0 || from_x >= width;
      labels[static_cast<std::size_t>(y * width + x)] =
          outside ? 0 : mask.pixels[static_cast<std::size_t>(from_y * width + from_x)];
    }
  }
}

void Loader::load_images(std::int64_t first, std::int64_t count, Loaded& loaded) const {
  const Shape shape = images_->image_shape();
  const auto image_size = static_cast<std::size_t>(shape.size());
  const bool has_masks = images_->has_masks();
  loaded.batch = blank_batch(*images_, count);
  const std::span<float> images = loaded.batch.images.as<float>();
  const std::span<std::int32_t> all_labels = loaded.batch.labels.as<std::int32_t>();
  const std::size_t labels_of_one = all_labels.size() / static_cast<std::size_t>(count);
  std::size_t i = 0;  // images read so far
  for (std::int64_t place = first; place < first + count; ++place) {
    std::int64_t sample = 0;
    Image image, mask;
    const auto read = [&](std::int64_t index) {
      sample = index;
      image = images_->image(index);
      if (has_masks) mask = images_->mask(index);
    };
    const bool is_read = read_sample(place, loaded.bad, read);
    if (too_many(loaded.bad)) return;
    if (!is_read) continue;
    BRAID_CHECK(image.shape.rank() == 3 && image.shape[2] == shape[2] && image.shape.size() > 0, DataError, "[loader] ",
                images_->name(), ": image ", sample, " has shape ", image.shape, ", expected ",
                plural(shape[2], "channel"));
    BRAID_CHECK(std::ssize(image.pixels) == image.shape.size(), DataError, "[loader] ", images_->name(), ": image ",
                sample, " has ", plural(image.pixels.size(), "byte"), ", expected ", image.shape.size(), " for shape ",
                image.shape);
    Generator random = epoch_generator(options_.seed, epoch_, sample);
    (*transform_)(image, random, images.subspan(i * image_size, image_size));
    const std::span<std::int32_t> labels = all_labels.subspan(i * labels_of_one, labels_of_one);
    if (has_masks) {
      BRAID_CHECK(image.shape == shape && mask.shape == Shape({shape[0], shape[1], 1}), DataError, "[loader] ",
                  images_->name(), ": image ", sample, " has shape ", image.shape, " and its mask ", mask.shape,
                  ", expected ", shape, " and [", shape[0], ',', shape[1], ",1]");
      load_mask(mask, sample, labels);
    } else {
      labels[0] = images_->label(sample);
    }
    for (const std::int32_t label : labels) {
      BRAID_CHECK(label >= 0 && label < images_->classes(), DataError, "[loader] ", images_->name(),
                  ": label of sample ", sample, " is ", label, ", expected 0 to ", images_->classes() - 1);
    }
    ++i;
  }
  if (const auto read = static_cast<std::int64_t>(i); read < count) {
    loaded.batch = {.images = first_samples(loaded.batch.images, read),
                    .labels = first_samples(loaded.batch.labels, read)};
  }
  if (options_.mixing.any()) {
    Generator random = epoch_generator(options_.seed, epoch_ | kMixing, first / options_.batch_size);
    mix(options_.mixing, random, images_->classes(), loaded.batch);
  }
}

void Loader::load_tensors(std::int64_t first, std::int64_t count, Loaded& loaded) const {
  std::vector<Sample> samples(static_cast<std::size_t>(count));
  std::vector<std::int64_t> indices(samples.size());
  std::size_t read = 0;
  for (std::int64_t place = first; place < first + count; ++place) {
    const auto read_into = [&](std::int64_t index) {
      Generator random = epoch_generator(options_.seed, epoch_, index);
      samples[read] = dataset_->sample(index, random);
      indices[read] = index;
    };
    if (read_sample(place, loaded.bad, read_into)) ++read;
    if (too_many(loaded.bad)) return;
  }
  samples.resize(read);
  indices.resize(read);
  if (samples.empty()) return;
  std::vector<Array>& tensors = loaded.batch.tensors;
  try {
    tensors = options_.collate != nullptr ? options_.collate(samples) : stack(samples, indices);
    BRAID_CHECK(!tensors.empty(), DataError, "the collate function returned no tensors");
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      BRAID_CHECK(tensors[i].data() != nullptr, DataError, "tensor ", i, " of the collate function is empty");
    }
  } catch (const std::exception&) {
    rethrow<DataError>(message(dataset_->name(), ": batch ", first / options_.batch_size));
  }
}

Loader::Loaded Loader::load(std::int64_t number) const {
  const std::int64_t in_batch = std::min(options_.batch_size, samples_ - number * options_.batch_size);
  const bool split = shards() > 1 && in_batch % shards() == 0;
  const std::int64_t count = split ? in_batch / options_.ranks : in_batch;
  const std::int64_t first = number * options_.batch_size + (split ? options_.rank * count : 0);
  try {
    Loaded loaded;
    if (images_ != nullptr) {
      load_images(first, count, loaded);
    } else {
      load_tensors(first, count, loaded);
    }
    loaded.batch.split = split;
    return loaded;
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
    Loaded loaded = load(number);
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
