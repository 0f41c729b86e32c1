// Custom datasets, and the batches that the loader makes of them.

#include "data/dataset.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "data/loader/loader.h"
#include "data/synthetic.h"
#include "data/tensor_dataset.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// Sample i is {noise f32 [2,3], a mask u8 [4] of i, the target f64 i / 2, the words i32 i, i - 1, …, 1}, the words
/// only if told. May be different from what it says.
class Mixture : public Dataset {
 public:
  std::int64_t size() const override { return 23; }
  std::string name() const override { return "mixture"; }
  Sample sample(std::int64_t index, Generator& random) const override {
    if (index % 5 == 2) std::this_thread::sleep_for(std::chrono::microseconds(200));  // batches come out of order
    if (index == throws_at) throw std::out_of_range("no such thing");
    if (std::ranges::count(bad, index) > 0) throw DataError("torn");
    Array noise(DType::f32, {2, 3}), mask(DType::u8, {index == long_at ? 5 : 4});
    for (float& element : noise.as<float>()) element = random.uniform();
    std::ranges::fill(mask.as<std::uint8_t>(), static_cast<std::uint8_t>(index));
    Sample sample{noise, mask, Array::scalar(0.5 * static_cast<double>(index))};
    if (index == f32_at) sample[2] = Array::scalar(1.0f);
    if (index == short_at) sample.pop_back();
    if (index == empty_at) sample[0] = Array();
    if (has_words) {
      std::vector<std::int32_t> words;
      for (auto word = static_cast<std::int32_t>(index); word > 0; --word) words.push_back(word);
      sample.push_back(Array::from(words, {index}));
    }
    return sample;
  }

  std::int64_t throws_at = -1, long_at = -1, f32_at = -1, short_at = -1, empty_at = -1;
  std::vector<std::int64_t> bad;
  bool has_words = false;
};

/// Words as one array, filled up with zeros.
std::vector<Array> pad_words(std::span<const Sample> samples) {
  std::int64_t longest = 0;
  for (const Sample& sample : samples) longest = std::max(longest, sample[3].size());
  Array words(DType::i32, {std::ssize(samples), longest});
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto from = samples[i][3].as<std::int32_t>();
    std::ranges::copy(from, words.as<std::int32_t>().begin() + static_cast<std::ptrdiff_t>(i) * longest);
  }
  return {words};
}

/// What the first batch of an epoch throws, with and without workers.
std::string error_of_first_batch(std::shared_ptr<const Dataset> dataset, LoaderOptions options = {}) {
  std::string errors[2];
  for (const int workers : {0, 2}) {
    options.workers = workers;
    Loader loader(dataset, options);
    Batch batch;
    errors[workers / 2] = error_of<Error>([&] { loader.next(batch); });
  }
  CHECK(errors[0] == errors[1]);
  return errors[0];
}

}  // namespace

TEST_CASE("samples of several tensors of any type are stacked into batches") {
  Loader loader(std::make_shared<Mixture>(), {.batch_size = 10});
  std::vector<std::int64_t> sizes;
  std::int64_t sample = 0;
  for (const auto& batch : loader) {
    CHECK(batch.tensors.size() == 3);
    CHECK(batch[0].dtype() == DType::f32);
    CHECK(batch[0].shape() == Shape{batch.size(), 2, 3});
    CHECK(batch[1].shape() == Shape{batch.size(), 4});
    CHECK(batch[2].shape() == Shape{batch.size()});
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch.size()); ++i, ++sample) {
      CHECK(batch[1].as<std::uint8_t>()[4 * i + 3] == sample);
      CHECK(batch[2].as<double>()[i] == 0.5 * static_cast<double>(sample));
    }
    sizes.push_back(batch.size());
    CHECK_THROWS_WITH_AS(batch[3], "[batch] there is no tensor 3, this batch has 3", Error);
  }
  CHECK(sizes == std::vector<std::int64_t>{10, 10, 3});
}

TEST_CASE("the random numbers of a sample depend on seed, epoch and index only") {
  const auto noise_of = [](const LoaderOptions& options, std::int64_t epoch, std::uint8_t index) {
    Loader loader(std::make_shared<Mixture>(), options);
    loader.start_epoch(epoch);
    for (Batch batch; loader.next(batch);) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(batch.size()); ++i) {
        const auto noise = batch[0].as<float>().subspan(6 * i, 6);
        if (batch[1].as<std::uint8_t>()[4 * i] == index) return std::vector<float>(noise.begin(), noise.end());
      }
    }
    return std::vector<float>();
  };
  const auto noise = noise_of({.batch_size = 4}, 1, 17);
  CHECK(noise.size() == 6);
  CHECK(noise == noise_of({.batch_size = 7, .shuffle = true}, 1, 17));
  CHECK(noise != noise_of({.batch_size = 4}, 2, 17));
  CHECK(noise != noise_of({.batch_size = 4}, 1, 16));
  CHECK(noise != noise_of({.batch_size = 4, .seed = 1}, 1, 17));
}

TEST_CASE("a collate function may pad samples of different shapes") {
  const auto dataset = std::make_shared<Mixture>();
  dataset->has_words = true;
  for (const int workers : {0, 2}) {
    Loader loader(dataset, {.batch_size = 3, .workers = workers, .collate = pad_words});
    loader.start_epoch(0, 1);
    Batch batch;
    CHECK(loader.next(batch));
    CHECK(batch[0].shape() == Shape{3, 5});
    const auto words = batch[0].as<std::int32_t>();
    CHECK(std::vector<int>(words.begin(), words.end()) == std::vector{3, 2, 1, 0, 0, 4, 3, 2, 1, 0, 5, 4, 3, 2, 1});
  }
}

TEST_CASE("samples that do not stack are named, with what to do") {
  const auto error = [](auto member) {
    const auto dataset = std::make_shared<Mixture>();
    dataset.get()->*member = 2;
    return error_of_first_batch(dataset, {.batch_size = 4});
  };
  CHECK(
      error(&Mixture::long_at) ==
      "[loader] mixture: batch 0: tensor 1 of sample 2 is u8 [5], that of sample 0 is u8 [4]: make them equal, or give "
      "the loader a collate function that pads");
  CHECK(contains(error(&Mixture::f32_at), "tensor 2 of sample 2 is f32 [], that of sample 0 is f64 []"));
  CHECK(contains(error(&Mixture::short_at), "sample 2 has 2 tensors, sample 0 has 3"));
  CHECK(contains(error(&Mixture::empty_at), "tensor 0 of sample 2 is empty"));
  CHECK(contains(error_of<DataError>([] { stack(std::vector<Sample>{{}}); }), "sample 0 has no tensors"));
  const Array deep(DType::f32, {1, 1, 1, 1, 1, 1});
  CHECK(contains(error_of<DataError>([&] { stack(std::vector<Sample>{{deep}}); }), "more than 6 dimensions"));
}

TEST_CASE("what a dataset throws reaches the caller with the sample, and what it was") {
  const auto dataset = std::make_shared<Mixture>();
  dataset->throws_at = 6;
  for (const int workers : {0, 3}) {
    Loader loader(dataset, {.batch_size = 4, .workers = workers});
    Batch batch;
    CHECK(loader.next(batch));
    bool nested = false;
    try {
      loader.next(batch);
    } catch (const Error& error) {
      CHECK(error.what() == std::string("[loader] mixture: sample 6: no such thing"));
      try {
        std::rethrow_if_nested(error);
      } catch (const std::out_of_range&) {
        nested = true;
      }
    }
    CHECK(nested);
    CHECK(loader.next(batch));
    CHECK(batch[2].as<double>()[0] == 4);
  }
}

TEST_CASE("unreadable samples are named") {
  const auto dataset = std::make_shared<Mixture>();
  dataset->bad = {1, 2};
  CHECK(error_of_first_batch(dataset, {.batch_size = 23, .max_bad = 1}) ==
        "[data] 2 samples of mixture cannot be read, more than data.max_bad = 1: sample 1: torn; sample 2: torn");
}

TEST_CASE("a collate function that fails or returns nothing is an error of its batch") {
  const auto error = [](const Collate& collate) {
    return error_of_first_batch(std::make_shared<Mixture>(), {.collate = collate});
  };
  CHECK(
      contains(error([](auto) { return std::vector<Array>(); }), "batch 0: the collate function returned no tensors"));
  CHECK(contains(error([](auto) { return std::vector<Array>(2); }),
                 "batch 0: tensor 0 of the collate function is empty"));
  CHECK(contains(error([](auto samples) { return std::vector<Array>{samples[0].at(9)}; }), "mixture: batch 0: "));
}

TEST_CASE("a sampler decides what an epoch has, also of images") {
  const std::vector<int> labels(23, 0);
  Loader loader(std::make_shared<Mixture>(),
                {.batch_size = 5, .sampler = std::make_shared<BalancedSampler>(labels, 12)});
  CHECK(loader.batches() == 3);
  const auto images = synthetic({.size = 40, .shape = {4, 4, 1}, .classes = 4});
  std::vector<double> weights;
  for (const int label : images->labels()) weights.push_back(label == 3 ? 1 : 0);
  Loader threes(images, {.batch_size = 8, .sampler = std::make_shared<WeightedRandomSampler>(weights, 100)});
  std::int64_t seen = 0;
  for (const Batch& batch : threes) {
    for (const std::int32_t label : batch.labels.as<std::int32_t>()) CHECK(label == 3);
    seen += batch.size();
  }
  CHECK(seen == 100);
}

TEST_CASE("a sampler that breaks its promises is an error before an epoch begins") {
  struct Fixed : Sampler {
    std::int64_t size() const override { return 2; }
    std::vector<std::int64_t> order(std::int64_t, std::uint64_t) const override { return numbers; }
    std::vector<std::int64_t> numbers;
  };
  const auto sampler = std::make_shared<Fixed>();
  Loader loader(std::make_shared<Mixture>(), {.sampler = sampler});
  sampler->numbers = {1};
  CHECK_THROWS_WITH_AS(loader.start_epoch(0), "[loader] expected the sampler's order to have its size, 2, got 1",
                       Error);
  for (const std::int64_t wrong : {-1, 23}) {
    sampler->numbers = {1, wrong};
    CHECK_THROWS_WITH_AS(loader.start_epoch(0),
                         message("[loader] the sampler asks for sample ", wrong, ", mixture has 0 to 22").c_str(),
                         Error);
  }
  sampler->numbers = {22, 1};
  loader.start_epoch(0);
  sampler->numbers = {};
  CHECK_THROWS_AS(loader.start_epoch(1), Error);
  Batch batch;
  CHECK(loader.next(batch));  // continues the epoch in progress
  CHECK(batch[2].as<double>()[0] == 11);
}

TEST_CASE("rows of tensors are a dataset") {
  const Array x = Array::from<float>({1, 2, 3, 4, 5, 6}, {3, 2}), y = Array::from<std::int32_t>({7, 8, 9}, {3});
  const auto dataset = std::make_shared<TensorDataset>(std::vector{x, y});
  CHECK(dataset->size() == 3);
  Loader loader(dataset, {.batch_size = 2});
  loader.start_epoch(0, 1);
  Batch batch;
  CHECK(loader.next(batch));
  CHECK(batch[0].shape() == Shape{1, 2});
  CHECK(batch[0].as<float>()[1] == 6);
  CHECK(batch[1].as<std::int32_t>()[0] == 9);
  Generator random(0);
  CHECK_THROWS_AS(dataset->sample(3, random), DataError);
  const auto error = [](std::vector<Array> tensors) {
    return error_of<ShapeError>([&] { TensorDataset made(std::move(tensors)); });
  };
  CHECK(contains(error({}), "expected at least one tensor"));
  CHECK(contains(error({x, Array::scalar(1.0f)}), "expected rows, tensor 1 has shape []"));
  CHECK(contains(error({Array()}), "expected rows, tensor 0"));
  CHECK(contains(error({x, Array(DType::u8, {4})}), "tensor 1 has 4 rows, tensor 0 has 3"));
}

TEST_CASE("with a collate function labelled images come as they are") {
  const auto images = synthetic({.size = 6, .shape = {4, 5, 3}, .classes = 3});
  const auto collate = [](std::span<const Sample> samples) { return stack(samples); };
  Loader loader(images, {.batch_size = 6, .collate = collate});
  const Batch batch = *loader.begin();
  CHECK(batch[0].dtype() == DType::u8);
  CHECK(batch[0].shape() == Shape{6, 4, 5, 3});
  CHECK(std::ranges::equal(batch[0].as<std::uint8_t>().last(60), images->image(5).pixels));
  CHECK(batch[1].as<std::int32_t>()[4] == 1);

  Loader floats(images, {.batch_size = 6});
  const Batch transformed = *floats.begin();
  CHECK(transformed[0].shape() == Shape{6, 4, 5, 3});
  CHECK(transformed[0].dtype() == DType::f32);
  CHECK(transformed[1].data() == transformed.labels.data());
  CHECK_THROWS_WITH_AS(transformed[2], "[batch] there is no tensor 2, this batch has 2", Error);
}

TEST_CASE("options that do not fit the dataset are errors") {
  CHECK(contains(error_of<Error>([] { Loader(nullptr, {}); }), "[loader] expected a dataset, got null"));
  const auto error = [](const LoaderOptions& options) {
    return error_of<ConfigError>([&] { Loader(std::make_shared<Mixture>(), options); });
  };
  CHECK(contains(error({.transform = {.flip = true}}),
                 "for image datasets without a collate function; mixture is no image dataset"));
  CHECK(contains(error({.mixing = {.mixup_alpha = 1}}), "mixture is no image dataset"));
  CHECK(contains(error({.shuffle = true, .sampler = std::make_shared<SequentialSampler>(23)}), "got both"));
  const LoaderOptions both{.collate = pad_words, .transform = {.flip = true}};
  CHECK(contains(error_of<ConfigError>([&] { Loader(synthetic({.size = 4}), both); }), "synthetic has one"));
}
