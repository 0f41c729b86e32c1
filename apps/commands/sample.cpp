#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/config_or_model.h"
#include "core/text/text.h"
#include "data/formats/image_file.h"
#include "data/transforms/contact_sheet.h"
#include "models/zoo/tasks/dcgan.h"
#include "train/checkpoint/files.h"
#include "train/run/factories.h"
#include "train/run/log/run_folder.h"
#include "train/run/predictor.h"

namespace braid::apps {

namespace fs = std::filesystem;

namespace {

struct SampleArguments {
  std::string run, output = "samples.png";
  std::int64_t count = 48;
  std::uint64_t seed = 0;
};

void sample(const SampleArguments& arguments) {
  const fs::path folder = arguments.run;
  TrainConfig config = single_job(read_run_config(folder / RunFolder::kConfig), arguments.run);
  config.session.profile.clear();
  config.session.seed = arguments.seed;
  Predictor trained(config, folder / RunFolder::kModel);
  auto* const gan = dynamic_cast<models::Dcgan*>(&trained.model());
  BRAID_CHECK(gan != nullptr, ConfigError, arguments.run, ": the network '", config.model.title(),
              "' makes no images: expected a run of 'dcgan'");
  gan->eval();
  Step step = trained.session().step();
  const NoGrad no_grad;
  const Tensor images = cast(gan->generate(arguments.count, config.dtype), DType::f32);
  step.run();
  const TransformOptions transform = loader_options(config, Split::val).transform;
  write_file(arguments.output, encode_png(contact_sheet({.images = images.array(), .labels = {}}, transform, {})));
  std::cout << "wrote " << arguments.output << ": " << plural(arguments.count, "image") << " by "
            << config.model.title() << std::endl;
}

}  // namespace

void add_sample(Command& app) {
  const auto arguments = std::make_shared<SampleArguments>();
  Command& command = app.add_command("sample", "Draw images that a generative network has learned to make");
  command.add_option("run", "FOLDER", &arguments->run, "Folder of a run of 'dcgan'", {.required = true});
  command.add_option("-o,--output", "FILE", &arguments->output, "PNG file of the images (default: samples.png)");
  command.add_option("--count", "N", &arguments->count, "How many images (default: 48)", {.check = in_range(1, 48)});
  command.add_option("--seed", "N", &arguments->seed, "Another number gives other images");
  command.footer = "Example:\n  braid sample runs/dcgan_fashion_mnist-1 -o samples.png";
  command.run = [arguments] { sample(*arguments); };
}

}  // namespace braid::apps
