#include "data/loader/loader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>

#include "data/synthetic.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

static_assert(std::input_iterator<Loader::Iterator>);
static_assert(std::sentinel_for<std::default_sentinel_t, Loader::Iterator>);

namespace {

/// Sample i is one pixel of value i. Counts what is loaded; may fail, lie or dawdle.
class Probe : public ImageDataset {
 public:
  explicit Probe(std::int64_t samples) : samples_(samples) {}
  std::int64_t size() const override { return samples_; }
  Shape image_shape() const override { return {1, 1, 1}; }
  int classes() const override { return 256; }
  std::string name() const override { return "probe"; }
  Image image(std::int64_t index) const override {
    ++loads;
    if (bad.contains(index)) throw DataError("sample " + std::to_string(index) + " cannot be read");
    if (index == fails_at) throw std::runtime_error("sample " + std::to_string(index) + " is bad");
    if (index % 7 == 3) std::this_thread::sleep_for(delay);  // batches become ready out of order
    return {{1, 1, 1}, std::span(pixels_).subspan(static_cast<std::size_t>(index), index == short_at ? 0 : 1)};
  }
  int label(std::int64_t index) const override { return index == mislabelled_at ? 256 : static_cast<int>(index); }

  std::int64_t fails_at = -1, short_at = -1, mislabelled_at = -1;
  std::set<std::int64_t> bad;
  std::chrono::microseconds delay{0};
  mutable std::atomic<int> loads = 0;

 private:
  std::int64_t samples_;
  Bytes pixels_ = Bytes(256);
};

/// The samples of one epoch in the order of delivery.
std::vector<int> epoch_order(Loader& loader) {
  std::vector<int> order;
  for (const Batch& batch : loader) {
    const auto labels = batch.labels.as<std::int32_t>();
    order.insert(order.end(), labels.begin(), labels.end());
  }
  return order;
}

std::vector<int> counting(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

struct Epoch {
  std::vector<float> images;
  std::vector<int> labels;
  std::vector<float> targets;
  friend bool operator==(const Epoch&, const Epoch&) = default;
};

Epoch collect(Loader& loader) {
  Epoch epoch;
  Batch batch;
  while (loader.next(batch)) {
    const auto images = batch.images.as<float>();
    const auto labels = batch.labels.as<std::int32_t>();
    epoch.images.insert(epoch.images.end(), images.begin(), images.end());
    epoch.labels.insert(epoch.labels.end(), labels.begin(), labels.end());
    if (batch.targets.size() == 0) continue;
    const auto targets = batch.targets.as<float>();
    epoch.targets.insert(epoch.targets.end(), targets.begin(), targets.end());
  }
  return epoch;
}

}  // namespace

TEST_CASE("drop_last leaves out an incomplete batch and only that") {
  const auto batches = [](std::int64_t samples, std::int64_t batch_size, bool drop_last) {
    Loader loader(std::make_shared<Probe>(samples), {.batch_size = batch_size, .drop_last = drop_last});
    std::int64_t count = 0;
    for (const Batch& batch : loader) {
      CHECK((batch.size() == batch_size || !drop_last));
      ++count;
    }
    CHECK(count == loader.batches());
    return count;
  };
  CHECK(batches(10, 4, false) == 3);
  CHECK(batches(10, 4, true) == 2);
  CHECK(batches(8, 4, true) == 2);
  CHECK(batches(3, 4, false) == 1);
  CHECK(batches(3, 4, true) == 0);
  CHECK(batches(0, 4, false) == 0);
}

TEST_CASE("each range-for is the next epoch, which a random sampler of the loader's seed shuffles") {
  const RandomSampler sampler(100);
  for (const std::int64_t batch_size : {7, 20}) {
    Loader loader(std::make_shared<Probe>(100), {.batch_size = batch_size, .shuffle = true, .seed = 1});
    for (const std::int64_t epoch : {0, 1, 2}) CHECK(std::ranges::equal(epoch_order(loader), sampler.order(epoch, 1)));
    loader.start_epoch(5);
    CHECK(std::ranges::equal(collect(loader).labels, sampler.order(5, 1)));
  }
}

TEST_CASE("the number of workers changes no bit of an epoch, with every kind of augmentation, from any batch on") {
  const auto dataset = synthetic({.size = 45, .shape = {16, 12, 3}});
  LoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 7, .workers = 0, .prefetch = 3};
  options.transform = {.crop_padding = 2, .flip = true, .salt_and_pepper = 0.1};
  options.transform.random_resized_crop = true;
  options.transform.color_jitter = {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
  options.transform.random_erasing = 0.5;
  options.mixing = {.mixup_alpha = 0.8, .cutmix_alpha = 1};
  options.transform.mean = {0.5f, 0.4f, 0.3f};
  options.transform.std = {0.2f, 0.3f, 0.4f};
  Loader serial(dataset, options);
  Epoch first;
  for (const int workers : {1, 4}) {
    options.workers = workers;
    Loader parallel(dataset, options);
    for (const std::int64_t epoch : {0, 1}) {
      for (const std::int64_t batch : {0, 3}) {
        serial.start_epoch(epoch, batch);
        parallel.start_epoch(epoch, batch);
        const Epoch expected = collect(serial);
        CHECK(collect(parallel) == expected);
        CHECK(expected.targets.size() == expected.labels.size() * 10);
        CHECK((epoch == 0 || expected != first));
        if (epoch == 0) first = expected;
      }
    }
  }
}

TEST_CASE("the next readable sample of the order takes the place of an unreadable one, for any number of workers") {
  const auto dataset = std::make_shared<Probe>(20);
  dataset->bad = {3, 4, 19};
  std::vector<int> expected = counting(20);
  expected[3] = expected[4] = 5;
  expected[19] = 0;
  LoaderOptions options{.batch_size = 4, .max_bad = 3};
  for (const int workers : {0, 1, 4}) {
    options.workers = workers;
    Loader loader(dataset, options);
    CHECK(epoch_order(loader) == expected);
    CHECK(epoch_order(loader) == expected);  // the same images count once
    CHECK(loader.bad().size() == 3);
    CHECK(loader.bad().at(19) == "sample 19 cannot be read");
    options.shuffle = true;
    Loader serial(dataset, {.batch_size = 4, .shuffle = true, .workers = 0, .max_bad = 3});
    Loader shuffled(dataset, options);
    CHECK(epoch_order(shuffled) == epoch_order(serial));
    options.shuffle = false;
  }
}

TEST_CASE("where unreadable samples are not replaced, batches are smaller, and none is empty") {
  const auto dataset = std::make_shared<Probe>(12);
  dataset->bad = {1, 4, 5, 6, 7};
  for (const int workers : {0, 3}) {
    Loader loader(dataset, {.batch_size = 4, .workers = workers, .max_bad = 5, .replace_bad = false});
    std::vector<std::int64_t> sizes;
    for (const Batch& batch : loader) {
      sizes.push_back(batch.size());
      CHECK(batch.images.shape()[0] == batch.size());
    }
    CHECK(sizes == std::vector<std::int64_t>{3, 4});
    CHECK(epoch_order(loader) == std::vector<int>{0, 2, 3, 8, 9, 10, 11});
    CHECK(loader.bad().size() == 5);
  }
}

TEST_CASE("one unreadable image more than allowed is an error at its batch that names them all") {
  const auto dataset = std::make_shared<Probe>(20);
  dataset->bad = {2, 9};
  for (const int workers : {0, 1, 4}) {
    Loader loader(dataset, {.batch_size = 4, .workers = workers, .max_bad = 1});
    Batch batch;
    CHECK(loader.next(batch));
    CHECK(loader.next(batch));
    CHECK_THROWS_WITH_AS(loader.next(batch),
                         "[data] 2 images of probe cannot be read, more than data.max_bad = 1: "
                         "sample 2 cannot be read; sample 9 cannot be read",
                         DataError);
  }
  dataset->bad = {0, 1, 2, 3};
  Loader some(dataset, {.batch_size = 4});
  Batch batch;
  CHECK_THROWS_WITH_AS(some.next(batch), doctest::Contains("1 image of probe cannot be read"), DataError);
  const auto few = std::make_shared<Probe>(3);
  few->bad = {0, 1, 2};
  Loader none(few, {.max_bad = 100});
  CHECK_THROWS_WITH_AS(none.next(batch), "[data] no image of probe can be read: sample 0 cannot be read", DataError);
}

TEST_CASE("the loader measures how long the caller waits in an epoch") {
  const auto dataset = std::make_shared<Probe>(50);
  dataset->delay = std::chrono::milliseconds(2);  // for seven samples
  for (const int workers : {0, 1}) {
    Loader loader(dataset, {.batch_size = 10, .workers = workers});
    // On a busy machine the worker may be done with much of an epoch before the caller asks for its first batch. In one
    // of 20 epochs the caller waits nearly from the start, unless the loader measures too little, which it would in
    // all.
    bool waits = false;
    for (std::int64_t epoch = 0; epoch < 20 && !waits; ++epoch) {
      loader.start_epoch(epoch);
      CHECK(loader.waited() == 0);
      const auto start = std::chrono::steady_clock::now();
      collect(loader);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      CHECK(loader.waited() <= taken.count());
      waits = loader.waited() >= 0.012;
      CHECK((waits || workers > 0));
    }
    CHECK(waits);
  }
}

TEST_CASE("the augmentation of a sample depends on neither batch size nor order but changes with the epoch") {
  const auto dataset = synthetic({.size = 12, .shape = {8, 8, 1}, .classes = 12});  // the label names the sample
  const auto image_of = [&](std::int64_t batch_size, bool shuffle, std::int64_t epoch, int sample) {
    LoaderOptions options{.batch_size = batch_size, .shuffle = shuffle, .seed = 3};
    options.transform = {.crop_padding = 4, .salt_and_pepper = 0.5};
    Loader loader(dataset, options);
    loader.start_epoch(epoch);
    const Epoch all = collect(loader);
    const auto at = std::find(all.labels.begin(), all.labels.end(), sample) - all.labels.begin();
    return std::vector<float>(all.images.begin() + at * 64, all.images.begin() + (at + 1) * 64);
  };
  int changed = 0;
  for (int sample = 0; sample < 12; ++sample) {
    CHECK(image_of(4, false, 0, sample) == image_of(5, true, 0, sample));
    changed += image_of(4, false, 0, sample) != image_of(4, false, 1, sample) ? 1 : 0;
  }
  CHECK(changed == 12);
}

TEST_CASE("the parts of the ranks are the batch, with the same augmentation") {
  const auto dataset = synthetic({.size = 50, .shape = {6, 6, 3}});
  LoaderOptions options{.batch_size = 12, .shuffle = true, .seed = 3};
  options.transform = {.crop_padding = 1, .flip = true};
  Loader whole(dataset, options);
  for (const int ranks : {2, 3, 4}) {
    options.ranks = ranks;
    std::vector<std::unique_ptr<Loader>> parts;
    for (options.rank = 0; options.rank < ranks; ++options.rank) {
      parts.push_back(std::make_unique<Loader>(dataset, options));
      CHECK(parts.back()->batches() == 5);
      parts.back()->start_epoch(2);
    }
    whole.start_epoch(2);
    for (Batch all; whole.next(all);) {
      std::vector<float> pixels;
      std::vector<std::int32_t> labels;
      for (const auto& part : parts) {
        Batch own;
        REQUIRE(part->next(own));
        const bool split = all.size() % ranks == 0;  // the last batch has 2 samples
        REQUIRE(own.split == split);
        REQUIRE(own.size() == (split ? all.size() / ranks : all.size()));
        if (!split) pixels.clear(), labels.clear();
        pixels.insert(pixels.end(), own.images.as<float>().begin(), own.images.as<float>().end());
        labels.insert(labels.end(), own.labels.as<std::int32_t>().begin(), own.labels.as<std::int32_t>().end());
      }
      CHECK(std::ranges::equal(pixels, all.images.as<float>()));
      CHECK(std::ranges::equal(labels, all.labels.as<std::int32_t>()));
    }
  }
}

TEST_CASE("an epoch can restart at any point and repeats itself") {
  const auto dataset = std::make_shared<Probe>(60);
  for (const int workers : {0, 1, 3}) {
    Loader loader(dataset, {.batch_size = 4, .shuffle = true, .workers = workers});
    loader.start_epoch(2);
    const Epoch whole = collect(loader);
    for (int taken = 0; taken < 5; ++taken) {
      loader.start_epoch(9);
      Batch batch;
      for (int i = 0; i < taken; ++i) CHECK(loader.next(batch));
      loader.start_epoch(2);
      CHECK(collect(loader) == whole);
    }
  }
}

TEST_CASE("an epoch that begins at a batch continues as if the batches before had been taken") {
  const auto dataset = synthetic({.size = 50, .shape = {4, 4, 1}});
  for (const int workers : {0, 1, 3}) {
    LoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 5, .workers = workers};
    options.transform = {.crop_padding = 2, .flip = true};
    Loader whole(dataset, options), resumed(dataset, options);
    for (std::int64_t first = 0; first <= whole.batches(); ++first) {
      whole.start_epoch(3);
      Batch batch;
      for (std::int64_t i = 0; i < first; ++i) CHECK(whole.next(batch));
      resumed.start_epoch(3, first);
      CHECK(collect(whole) == collect(resumed));
    }
    CHECK_THROWS_AS(resumed.start_epoch(3, -1), ConfigError);
    CHECK_THROWS_WITH_AS(resumed.start_epoch(3, 8), "[loader] expected a first batch of 0 to 7, got 8", ConfigError);
  }
}

TEST_CASE("a finished epoch stays finished") {
  for (const int workers : {0, 2}) {
    Loader loader(std::make_shared<Probe>(4), {.batch_size = 2, .workers = workers});
    collect(loader);
    Batch batch;
    CHECK_FALSE(loader.next(batch));
    CHECK_FALSE(loader.next(batch));
  }
}

TEST_CASE("a batch keeps its values while later ones are loaded") {
  Loader loader(std::make_shared<Probe>(40), {.batch_size = 4, .workers = 2});
  std::vector<Batch> held;
  for (const Batch& batch : loader) held.push_back(batch);
  std::vector<int> order;
  for (const Batch& batch : held) {
    const auto labels = batch.labels.as<std::int32_t>();
    order.insert(order.end(), labels.begin(), labels.end());
  }
  CHECK(order == counting(40));
}

TEST_CASE("workers are never further ahead than prefetch allows") {
  const auto dataset = std::make_shared<Probe>(100);
  Loader loader(dataset, {.batch_size = 1, .workers = 3, .prefetch = 2});
  Batch batch;
  for (int taken = 1; taken <= 20; ++taken) {
    CHECK(loader.next(batch));
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    CHECK(dataset->loads <= taken + 2);
  }
}

TEST_CASE("a loader can be destroyed at any time") {
  const auto dataset = std::make_shared<Probe>(50);
  dataset->delay = std::chrono::microseconds(100);
  for (const int workers : {0, 1, 3}) {
    for (int taken = -1; taken <= 5; ++taken) {
      Loader loader(dataset, {.batch_size = 4, .workers = workers, .prefetch = 2});
      if (taken >= 0) loader.start_epoch(0);
      Batch batch;
      for (int i = 0; i < taken; ++i) CHECK(loader.next(batch));
    }
  }
  CHECK(dataset.use_count() == 1);
}

TEST_CASE("an unread exception does no harm") {
  const auto dataset = std::make_shared<Probe>(40);
  dataset->fails_at = 5;
  for (int i = 0; i < 20; ++i) {
    Loader loader(dataset, {.batch_size = 4, .workers = 2});
    Batch batch;
    CHECK(loader.next(batch));
  }
}

TEST_CASE("a dataset that breaks its promises is a DataError") {
  Batch batch;
  for (const int workers : {0, 2}) {
    const auto short_image = std::make_shared<Probe>(4);
    short_image->short_at = 1;
    Loader first(short_image, {.workers = workers});
    CHECK_THROWS_WITH_AS(first.next(batch), "[loader] probe: image 1 has 0 bytes, expected 1 for shape [1,1,1]",
                         DataError);
    const auto bad_label = std::make_shared<Probe>(4);
    bad_label->mislabelled_at = 2;
    Loader second(bad_label, {.workers = workers});
    CHECK_THROWS_WITH_AS(second.next(batch), "[loader] probe: label of sample 2 is 256, expected 0 to 255", DataError);
  }
}

TEST_CASE("loader options out of range are config errors") {
  const auto error = [](const LoaderOptions& options) {
    return error_of<ConfigError>([&] { Loader(std::make_shared<Probe>(4), options); });
  };
  CHECK(error({}).empty());
  CHECK(contains(error({.batch_size = 0}), "expected batch_size >= 1, got 0"));
  CHECK(contains(error({.workers = -1}), "expected workers >= 0, got -1"));
  CHECK(contains(error({.prefetch = 0}), "expected prefetch >= 1, got 0"));
  CHECK(contains(error({.max_bad = -1}), "expected max_bad >= 0, got -1"));
  CHECK(contains(error({.mixing = {.cutmix_alpha = -1}}), "expected mixup_alpha and cutmix_alpha >= 0, got 0 and -1"));
  CHECK(contains(error({.mixing = {.probability = 2}}), "expected a probability of mixing in [0, 1], got 2"));
  CHECK(contains(error({.rank = 2, .ranks = 2}), "expected a rank of 0 to ranks - 1, got rank 2 of 2"));
  CHECK(contains(error({.batch_size = 3, .ranks = 2}), "expected a batch_size that is a multiple of 2 shards, got 3"));
  CHECK(contains(error({.ranks = 2, .shards = 3}), "expected shards to be a multiple of 2 ranks, got 3"));
  CHECK(contains(error({.ranks = 2, .mixing = {.mixup_alpha = 1}}), "mixing needs all images"));
  CHECK(contains(error({.transform = {.crop_padding = -1}}), "expected crop_padding >= 0"));
}

TEST_CASE("a loader that has not been started begins with epoch 0; there is no epoch -1") {
  Loader loader(std::make_shared<Probe>(4), {.shuffle = true}), started(std::make_shared<Probe>(4), {.shuffle = true});
  started.start_epoch(0);
  Batch batch, expected;
  CHECK((loader.next(batch) && started.next(expected)));
  CHECK(std::ranges::equal(batch.labels.as<std::int32_t>(), expected.labels.as<std::int32_t>()));
  CHECK_THROWS_AS(loader.start_epoch(-1), ConfigError);
}
