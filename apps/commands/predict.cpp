#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/config_or_model.h"
#include "apps/messages.h"
#include "core/base/read_file.h"
#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "data/formats/image_file.h"
#include "train/run/log/run_folder.h"
#include "train/run/predictor.h"

namespace braid::apps {

namespace fs = std::filesystem;

namespace {

struct PredictArguments {
  std::string run, checkpoint;
  std::vector<std::string> images, overrides;
  std::size_t top = 5;
  bool json = false;
};

/// An image file, or why it could not be read; and the most probable classes.
struct Prediction {
  std::string file, error;
  std::vector<std::pair<std::string, double>> classes;
};

/// The most probable classes, with their probabilities.
std::vector<std::pair<std::string, double>> best_of(const std::vector<double>& probabilities,
                                                    const std::vector<std::string>& names, std::size_t count) {
  std::vector<std::pair<std::string, double>> best;
  for (std::size_t c = 0; c < probabilities.size(); ++c) best.emplace_back(names[c], probabilities[c]);
  std::ranges::stable_sort(best, [](const auto& a, const auto& b) { return a.second > b.second; });
  best.resize(std::min(best.size(), count));
  return best;
}

/// Calls give(prediction) for every image, in their order. Of decoded photos, which are large, it keeps few at a time.
template <class F>
void predict(const PredictArguments& arguments, const F& give) {
  constexpr std::size_t kMostPixels = std::size_t{1} << 27;  // bytes
  const fs::path folder = RunFolder::of_model(arguments.run);
  const TrainConfig config =
      single_job(read_run_config(folder / RunFolder::kConfig, arguments.overrides), arguments.run);
  Predictor predictor(config, RunFolder::checkpoint(folder, arguments.checkpoint));
  std::vector<Prediction> predictions;
  std::vector<Image> images;
  std::size_t pixels = 0;
  const auto give_all = [&] {
    const std::vector<std::vector<double>> all = predictor(images);
    auto next = all.begin();
    for (Prediction& prediction : predictions) {
      if (prediction.error.empty()) prediction.classes = best_of(*next++, predictor.classes(), arguments.top);
      give(prediction);
    }
    predictions.clear();
    images.clear();
    pixels = 0;
  };
  for (const std::string& file : arguments.images) {
    Prediction& prediction = predictions.emplace_back(Prediction{file, {}, {}});
    try {
      const std::string content = read_file(file, "the image", kMaxImageBytes);
      images.push_back(
          decode_image(content, file, static_cast<int>(predictor.image_shape()[2]), config.data.background));
      pixels += images.back().pixels.size();
    } catch (const DataError& error) {
      prediction.error = error.what();
    }
    if (std::ssize(images) == config.eval_batch_size || pixels > kMostPixels) give_all();
  }
  give_all();
}

/// "cat.jpg: tabby 92.31 %, tiger 4.20 %"
void print(const Prediction& prediction) {
  if (!prediction.error.empty()) return;
  const auto text = [](const auto& best) { return message(best.first, ' ', fixed(100 * best.second, 2), " %"); };
  const std::string line = message(prediction.file, ": ", comma_list(prediction.classes, ", ", text));
  std::cout << line << std::endl;  // before the next ones are decoded
}

Json json_of(const Prediction& prediction) {
  Json entry{{"image", prediction.file}};
  if (!prediction.error.empty()) entry["error"] = prediction.error;
  for (const auto& [name, probability] : prediction.classes) {
    entry["classes"].push_back({{"class", name}, {"probability", probability}});
  }
  return entry;
}

}  // namespace

void add_predict(Command& app) {
  const auto arguments = std::make_shared<PredictArguments>();
  Command& command = app.add_command("predict", "Name the classes of images by a trained model");
  command.add_option("run", "RUN", &arguments->run, "Folder of a run", {.required = true});
  command.add_option("images", "IMAGE...", &arguments->images, "PNG or JPEG files", {.required = true});
  command.add_option("--top", "K", &arguments->top, "Number of classes to name",
                     {.check = in_range(1, 1 << 24), .shown_default = std::to_string(arguments->top)});
  command.add_option("--checkpoint", "FILE", &arguments->checkpoint,
                     "Which model of the run: best, last (the default), or a checkpoint file");
  command.add_flag("--json", &arguments->json, "Print one line of JSON");
  command.add_option("--set", "KEY=VALUE", &arguments->overrides,
                     "Override a key of the run's config, for example device=cpu");
  command.footer = "Example:\n  braid predict runs/flowers-1 rose.jpg tulip.jpg";
  command.run = [arguments, &app] {
    Json list = Json::array();
    predict(*arguments, [&](const Prediction& prediction) {
      if (arguments->json) {
        list.push_back(json_of(prediction));
      } else {
        print(prediction);
      }
      if (prediction.error.empty()) return;
      print_error(prediction.error);
      app.exit_code = kFailed;
    });
    if (arguments->json) std::cout << list.dump() << '\n';
  };
}

}  // namespace braid::apps
