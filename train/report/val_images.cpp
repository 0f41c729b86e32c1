#include "train/report/val_images.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

#include "data/formats/image_file.h"
#include "models/inference.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/training_images.h"
#include "train/run/factories.h"

namespace braid {

namespace {

std::string png_of(std::span<const float> pixels, const Shape& shape, const DataConfig& data) {
  const auto at = [](const std::vector<double>& values, std::int64_t channel, double missing) {
    return values.empty() ? missing : values[static_cast<std::size_t>(channel)];
  };
  const std::int64_t channels = shape[2] < 3 ? 1 : 3;  // of a PNG: grey or RGB
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double value =
          pixels[static_cast<std::size_t>(i * shape[2] + c)] * at(data.std, c, 1) + at(data.mean, c, 0);
      bytes.push_back(static_cast<std::uint8_t>(std::lround(255 * std::clamp(value, 0.0, 1.0))));
    }
  }
  return encode_png({.shape = {shape[0], shape[1], channels}, .pixels = bytes});
}

/// Adds an image if it is among the worst.
void add_mistake(std::vector<Mistake>& worst, std::size_t most, Mistake mistake, const auto& draw) {
  const auto place = std::ranges::upper_bound(worst, mistake.loss, std::greater<>(), &Mistake::loss);
  if (place == worst.end() && worst.size() == most) return;
  mistake.png = draw();
  worst.insert(place, std::move(mistake));
  if (worst.size() > most) worst.pop_back();
}

/// `files`: of the images of the batch.
void add_batch(ValImages& result, const Batch& batch, const std::vector<std::string>& files, const Array& logits,
               const DataConfig& data, std::size_t most) {
  const std::span<const float> all = logits.as<float>(), pixels = batch.images.as<float>();
  const std::span<const std::int32_t> labels = batch.labels.as<std::int32_t>();
  const std::size_t classes = all.size() / labels.size();
  const Shape& shape = batch.images.shape();
  const std::size_t image_size = pixels.size() / static_cast<std::size_t>(batch.size());
  const bool has_masks = batch.labels.shape().rank() > 1;
  result.images += batch.size();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span<const float> row = all.subspan(i * classes, classes);
    const int label = labels[i];
    const auto highest = std::ranges::max_element(row);
    const auto predicted = static_cast<int>(highest - row.begin());
    const double top = *highest;
    const double sum = std::accumulate(row.begin(), row.end(), 0.0,
                                       [&](double total, float logit) { return total + std::exp(logit - top); });
    const double loss = std::log(sum) + top - row[static_cast<std::size_t>(label)];
    result.loss += loss;
    result.confusion[{label, predicted}] += 1;
    result.accuracy += predicted == label ? 1 : 0;
    if (predicted == label || has_masks) continue;
    add_mistake(result.mistakes, most, {label, predicted, 1 / sum, loss, files[i], {}}, [&] {
      return png_of(pixels.subspan(i * image_size, image_size), {shape[1], shape[2], shape[3]}, data);
    });
  }
}

}  // namespace

ValImages look_at_val_images(TrainConfig config, const std::filesystem::path& model_file, std::size_t most_mistakes) {
  DatasetPool datasets;
  compute_normalization(config, datasets);
  const auto dataset = datasets.get(config, Split::val);
  Session session(config.session);
  const auto model = make_model(config.model, session, *dataset);
  const SafeTensors file(model_file);
  check_classes(file, *dataset);
  load_trained(file, session, model->tensors());
  Inference inference(*model);
  Loader loader(dataset, loader_options(config, Split::val));
  ValImages result;
  result.warning = held_out_otherwise(file, config.data, *dataset);
  std::int64_t labels = 0, sample = 0;
  result.classes = dataset->class_names();
  for (const Batch& batch : loader) {
    Step step = session.step();
    const NoGrad no_grad;
    const Fetched logits = cast(inference(batch.images, config.dtype), DType::f32).fetch();
    step.run();
    std::vector<std::string> files;
    while (std::ssize(files) < batch.size()) {
      if (!loader.bad().contains(sample)) files.push_back(dataset->file_of(sample));
      ++sample;
    }
    add_batch(result, batch, files, logits.array(), config.data, most_mistakes);
    labels += batch.labels.size();
  }
  result.loss /= static_cast<double>(std::max<std::int64_t>(labels, 1));
  result.accuracy /= static_cast<double>(std::max<std::int64_t>(labels, 1));
  return result;
}

}  // namespace braid
