#include "train/inspect/data_report.h"

#include <algorithm>
#include <limits>

#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "data/formats/image_file.h"
#include "data/formats/image_files.h"
#include "data/transforms/contact_sheet.h"
#include "train/inspect/bench/bench.h"

namespace braid {

namespace {

std::string size_text(const std::pair<std::int64_t, std::int64_t>& size) {
  return message(size.first, 'x', size.second);
}

std::string numbers(const std::vector<double>& values) {
  return comma_list(values, "  ", [](double value) { return fixed(value, 4); });
}

/// The commonest sizes, and how many others there are.
std::string sizes_text(const DatasetScan& scan) {
  constexpr std::size_t kShown = 5;
  std::vector<std::pair<std::int64_t, std::string>> sizes;
  for (const auto& [size, count] : scan.sizes) sizes.emplace_back(-count, size_text(size));
  std::ranges::sort(sizes);
  const auto counted_size = [](const auto& size) { return message(size.second, " (", -size.first, ')'); };
  const auto shown = std::span(sizes).first(std::min(kShown, sizes.size()));
  const std::string text = comma_list(shown, ", ", counted_size);
  return sizes.size() > kShown ? message(text, " and ", plural(sizes.size() - kShown, "other size")) : text;
}

std::string part_text(const DataReport::Part& part, bool paints) {
  const DatasetScan& scan = part.scan;
  std::string text = message('\n', part.name, " images\n  sizes  ", sizes_text(scan), "\n  mean   ",
                             numbers(scan.mean()), "\n  std    ", numbers(scan.deviation()), '\n');
  if (scan.deep > 0) {
    text += message("  ", plural(scan.deep, "image"), " of 16 bits per channel: the upper 8 are used\n");
  }
  if (scan.with_alpha > 0) {
    text += message("  ", plural(scan.with_alpha, "image"), " with alpha: ",
                    paints ? "painted over data.background\n" : "it is dropped, unless data.background is set\n");
  }
  if (!scan.bad.empty()) text += message("  ", plural(scan.bad.size(), "image"), " cannot be read:\n");
  for (const auto& [sample, why] : scan.bad) text += message("    ", why, '\n');
  return text;
}

bool has_test_images(const DataConfig& data) {
  if (data.test_share > 0 || !data.test_file.empty()) return true;
  return (data.name == "image_folder" || data.name == "image_masks") && has_test_folder(data.root);
}

}  // namespace

DataReport inspect_data(const TrainConfig& config, int threads) {
  DatasetPool datasets;
  DataReport report;
  report.name = config.name;
  report.paints = !config.data.background.empty();
  const auto add = [&](Split split) {
    const auto dataset = datasets.get(config, split);
    report.dataset = dataset->name();
    report.image_shape = dataset->image_shape();
    report.classes = dataset->class_names();
    report.parts.push_back({std::string(to_string(split)), dataset->size(),
                            scan_dataset(*dataset, loader_options(config, Split::val).transform, threads,
                                         std::numeric_limits<std::int64_t>::max())});
  };
  add(Split::train);
  add(Split::val);
  if (has_test_images(config.data)) add(Split::test);
  return report;
}

std::string to_text(const DataReport& report) {
  std::vector<std::vector<std::string>> cells{{"class"}};
  for (const auto& part : report.parts) cells[0].push_back(part.name);
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    auto& row = cells.emplace_back(std::vector{report.classes[c]});
    for (const auto& part : report.parts) row.push_back(std::to_string(part.scan.per_class[c]));
  }
  auto& total = cells.emplace_back(std::vector<std::string>{"all"});
  for (const auto& part : report.parts) total.push_back(std::to_string(part.images));
  std::string text =
      message(report.dataset, ", ", plural(report.classes.size(), "class", "es"), ", batches of images ",
              report.image_shape, "\n\n", text_table(cells, "l" + std::string(report.parts.size(), 'r')));
  for (const auto& part : report.parts) text += part_text(part, report.paints);
  return text;
}

std::string to_json(const DataReport& report) {
  Json json{{"name", report.name},
            {"dataset", report.dataset},
            {"image_shape", report.image_shape.extents()},
            {"classes", report.classes}};
  for (const auto& part : report.parts) {
    Json sizes = Json::object(), unreadable = Json::array();
    for (const auto& [size, count] : part.scan.sizes) sizes[size_text(size)] = count;
    for (const auto& [sample, why] : part.scan.bad) unreadable.push_back(why);
    json[part.name] = {{"images", part.images},
                       {"per_class", part.scan.per_class},
                       {"sizes", sizes},
                       {"mean", part.scan.mean()},
                       {"std", part.scan.deviation()},
                       {"sixteen_bits", part.scan.deep},
                       {"with_alpha", part.scan.with_alpha},
                       {"unreadable", unreadable}};
  }
  return json.dump() + '\n';
}

std::string data_sheet(TrainConfig config) {
  constexpr std::int64_t kMostImages = 48;
  DatasetPool datasets;
  compute_normalization(config, datasets);
  const auto dataset = datasets.get(config, Split::train);
  config.batch_size = std::min(kMostImages, dataset->size());
  const Batch batch = first_batch(dataset, config);
  return encode_png(contact_sheet(batch, loader_options(config, Split::train).transform, dataset->class_names()));
}

}  // namespace braid
