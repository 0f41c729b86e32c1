#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <numeric>

#include "apps/commands.h"
#include "apps/print_error.h"
#include "core/json.h"
#include "core/read_file.h"
#include "core/text_table.h"
#include "data/image_file.h"
#include "train/run/predictor.h"
#include "train/run/run_folder.h"

namespace braid::apps {

namespace fs = std::filesystem;

namespace {

struct PredictArguments {
  std::string run;
  std::vector<std::string> images, overrides;
  std::size_t top = 5;
  bool json = false;
};

/// An image file, or why it could not be read; and the most probable classes.
struct Prediction {
  std::string file, error;
  std::vector<std::pair<std::string, double>> classes;
};

std::vector<Prediction> predict(const PredictArguments& arguments) {
  const fs::path folder = arguments.run;
  const RunConfig run = read_run_config(folder / RunFolder::kConfig, arguments.overrides);
  BRAID_CHECK(!run.together, ConfigError, arguments.run,
              ": expected the run of a single job: give the folder of one job instead of that of the run");
  Predictor predictor(run.jobs.front().training, folder / RunFolder::kModel);
  std::vector<Prediction> predictions;
  std::vector<Image> images;
  for (const std::string& file : arguments.images) {
    Prediction& prediction = predictions.emplace_back(Prediction{file, {}, {}});
    try {
      const std::string content = read_file(file, "the image", kMaxImageBytes);
      images.push_back(decode_image(content, file, static_cast<int>(predictor.image_shape()[2])));
    } catch (const DataError& error) {
      prediction.error = error.what();
    }
  }
  const std::vector<std::vector<double>> all = predictor(images);
  auto next = all.begin();
  for (Prediction& prediction : predictions) {
    if (!prediction.error.empty()) continue;
    const std::vector<double>& probabilities = *next++;
    std::vector<std::size_t> order(probabilities.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return probabilities[a] > probabilities[b]; });
    order.resize(std::min(order.size(), arguments.top));
    for (const std::size_t c : order) prediction.classes.emplace_back(predictor.classes()[c], probabilities[c]);
  }
  return predictions;
}

/// "cat.jpg: tabby 92.31 %, tiger 4.20 %"
void print(const std::vector<Prediction>& predictions) {
  for (const auto& [file, error, classes] : predictions) {
    if (!error.empty()) continue;
    std::string line = file + ':';
    for (const auto& [name, probability] : classes) {
      line += message(line.back() == ':' ? " " : ", ", name, ' ', fixed(100 * probability, 2), " %");
    }
    std::cout << line << '\n';
  }
}

void print_json(const std::vector<Prediction>& predictions) {
  Json list = Json::array();
  for (const auto& [file, error, classes] : predictions) {
    Json& entry = list.push_back({{"image", file}});
    if (!error.empty()) entry["error"] = error;
    for (const auto& [name, probability] : classes)
      entry["classes"].push_back({{"class", name}, {"probability", probability}});
  }
  std::cout << list.dump() << '\n';
}

}  // namespace

void add_predict(Command& app, int& exit_code) {
  const auto arguments = std::make_shared<PredictArguments>();
  Command& command = app.add_command("predict", "Name the classes of images by a trained model");
  command.add_option("run", "RUN", &arguments->run, "Folder of a run", {.required = true});
  command.add_option("images", "IMAGE...", &arguments->images, "PNG or JPEG files", {.required = true});
  command.add_option("--top", "K", &arguments->top, "Number of classes to name",
                     {.check = in_range(1, 1 << 24), .shown_default = std::to_string(arguments->top)});
  command.add_flag("--json", &arguments->json, "Print one line of JSON");
  command.add_option("--set", "KEY=VALUE", &arguments->overrides,
                     "Override a key of the run's config, for example device=cpu");
  command.footer = "Example:\n  braid predict runs/flowers-1 rose.jpg tulip.jpg";
  command.run = [arguments, &exit_code] {
    const std::vector<Prediction> predictions = predict(*arguments);
    arguments->json ? print_json(predictions) : print(predictions);
    for (const Prediction& prediction : predictions) {
      if (prediction.error.empty()) continue;
      print_error(prediction.error);
      exit_code = kFailed;
    }
  };
}

}  // namespace braid::apps
