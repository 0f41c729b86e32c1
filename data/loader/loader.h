#pragma once
// Batches of a dataset, epoch after epoch, loaded ahead by worker threads.
// Order and augmentation of a sample depend on (seed, epoch, sample) only, never on threads or batches: any number of
// workers gives the same batches, bit by bit.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "data/dataset.h"
#include "data/loader/collate.h"
#include "data/loader/sampler.h"
#include "data/transforms/mixing.h"
#include "data/transforms/transform.h"

namespace braid {

struct LoaderOptions {
  std::int64_t batch_size = 64;
  bool shuffle = false;
  std::shared_ptr<const Sampler> sampler = nullptr;  ///< the order of the samples, in place of shuffle
  bool drop_last = false;  ///< leave out the last batch of an epoch if it is smaller than the others
  /// Several ranks share a batch: this one loads the samples of its place. A last batch that cannot be divided evenly
  /// into shards is loaded whole by all ranks.
  int rank = 0, ranks = 1;
  int shards = 0;  ///< a multiple of ranks; 0: one for each
  std::uint64_t seed = 0;
  int workers = 1;   ///< threads that load ahead; 0 loads in the calling thread
  int prefetch = 4;  ///< how many batches the workers may be ahead of the caller
  /// Makes the tensors of a batch; null: stack(). With one, labelled images are read as they are
  /// (ImageDataset::sample).
  Collate collate = nullptr;
  // Only for image datasets without a collate function:
  TransformOptions transform = {};
  MixingOptions mixing = {};
  // For all datasets:
  /// The most unreadable samples that are skipped. The next readable sample in the order of the epoch takes the place
  /// of one, so that batches keep their size; without `replace_bad` batches become smaller, and no sample counts twice.
  int max_bad = 0;
  bool replace_bad = true;
};

/// "[data] 2 images of photos cannot be read, more than data.max_bad = 1: …", with the first ten reasons.
std::string too_many_bad(std::string_view samples, const std::string& dataset, int max_bad,
                         const std::vector<std::string>& reasons);

/// Use it from one thread at a time.
///
///     Loader loader(dataset, {.batch_size = 32, .shuffle = true});
///     for (const Batch& batch : loader) …       // each such loop is the next epoch
class Loader {
 public:
  class Iterator;

  /// Throws Error if there is no dataset, ConfigError if an option is out of range or does not fit the dataset.
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Batches per epoch.
  std::int64_t batches() const { return batches_; }
  /// Leaves the current epoch, wherever it is, and begins this one at a batch: a resumed run gets the same batches as
  /// an uninterrupted one. Epochs and batches count from 0; first_batch = batches() is the end of the epoch. Throws
  /// Error if the sampler's order is not of samples of the dataset, or not of its size; the current epoch then
  /// continues.
  void start_epoch(std::int64_t epoch, std::int64_t first_batch = 0);
  /// Waits for the next batch, at first that of epoch 0; false at the end of the epoch. The arrays belong to the
  /// caller: the loader keeps no reference to them. If loading this batch failed, throws Error that names the sample
  /// and holds what the dataset threw (std::rethrow_if_nested); the next call then continues with the batch after it.
  /// Throws DataError that names the files once more than max_bad samples are unreadable: those for which the dataset
  /// throws DataError.
  bool next(Batch& batch);
  /// Seconds that next() has waited for batches in this epoch; without workers, the time of loading them.
  double waited() const { return waited_; }
  /// The unreadable samples found so far, and why.
  const std::map<std::int64_t, std::string>& bad() const { return bad_; }

  /// Starts the next epoch (the first time: epoch 0).
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Loaded {
    Batch batch;
    std::exception_ptr error;
    std::map<std::int64_t, std::string> bad = {};
  };

  /// Shows labels of pixels as the transform shows the image.
  void load_mask(const Image& mask, std::int64_t sample, std::span<std::int32_t> labels) const;
  void load_images(std::int64_t first, std::int64_t count, Loaded& loaded) const;
  void load_tensors(std::int64_t first, std::int64_t count, Loaded& loaded) const;
  int shards() const { return options_.shards > 0 ? options_.shards : options_.ranks; }
  Loaded load(std::int64_t number) const;
  /// Calls read(sample) for the sample at a place of the order, or the next readable one; adds the others to `bad`.
  /// False if there are too many, or the place stays empty. Throws DataError if there is no readable sample.
  template <class Read>
  bool read_sample(std::int64_t place, std::map<std::int64_t, std::string>& bad, const Read& read) const;
  Loaded take();
  void note_bad(std::map<std::int64_t, std::string> bad);
  bool too_many(const std::map<std::int64_t, std::string>& bad) const { return std::ssize(bad) > options_.max_bad; }
  void work();
  void stop();

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  const ImageDataset* const images_;  ///< the dataset, if it is read as labelled images
  const std::optional<Transform> transform_;
  const std::shared_ptr<const Sampler> sampler_;
  const std::int64_t samples_;  ///< samples of an epoch
  const std::int64_t batches_;
  std::int64_t epoch_ = -1;
  double waited_ = 0;
  std::map<std::int64_t, std::string> bad_;
  std::vector<std::int64_t> order_;  ///< order of the samples in this epoch; constant while workers run

  std::mutex mutex_;                       ///< guards what follows, workers_ excepted
  std::condition_variable arrived_;        ///< a batch is in loaded_
  std::condition_variable room_;           ///< a batch was taken, or the workers must stop
  std::map<std::int64_t, Loaded> loaded_;  ///< by number
  std::int64_t claimed_ = 0;               ///< batches that workers have begun
  std::int64_t taken_ = 0;                 ///< batches that the caller has got
  bool stopping_ = false;
  std::vector<std::jthread> workers_;
};

/// An input iterator that holds the current batch.
class Loader::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  explicit Iterator(Loader& loader) : loader_(&loader) { ++*this; }
  const Batch& operator*() const { return batch_; }
  const Batch* operator->() const { return &batch_; }
  Iterator& operator++() {
    done_ = !loader_->next(batch_);
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& iterator, std::default_sentinel_t) { return iterator.done_; }

 private:
  Loader* loader_;
  Batch batch_;
  bool done_ = false;
};

}  // namespace braid
