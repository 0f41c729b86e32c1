#include "data/transforms/contact_sheet.h"

#include <stb/stb_easy_font.h>

#include <algorithm>
#include <cmath>

#include "core/text/text.h"

namespace braid {
namespace {

constexpr std::int64_t kColumns = 8, kMostImages = 48, kLeastSide = 112, kGap = 8, kTextHeight = 14, kTextTop = 3;
constexpr std::uint8_t kPaper = 255, kInk = 32;

/// An RGB picture that is being drawn.
struct Canvas {
  std::int64_t height, width;
  std::uint8_t* pixels;

  void set(std::int64_t y, std::int64_t x, const std::uint8_t (&color)[3]) const {
    if (y >= 0 && y < height && x >= 0 && x < width) std::copy_n(color, 3, pixels + (y * width + x) * 3);
  }
};

/// Only ASCII is in the font: other characters become '?'.
void draw_text(const Canvas& canvas, std::int64_t top, std::int64_t left, std::int64_t width, std::string_view text) {
  std::string ascii;
  for (const char c : text) {
    if (begins_character(c)) ascii += c >= ' ' && c <= '~' ? c : '?';
  }
  while (!ascii.empty() && stb_easy_font_width(ascii.data()) > width) ascii.pop_back();
  struct Corner {
    float x, y, z;
    std::uint8_t color[4];
  };
  std::vector<Corner> corners(4 * 64 * (ascii.size() + 1));
  const int quads = stb_easy_font_print(0, 0, ascii.data(), nullptr, corners.data(),
                                        static_cast<int>(corners.size() * sizeof(Corner)));
  for (std::size_t i = 0; i < static_cast<std::size_t>(quads); ++i) {
    const Corner &first = corners[4 * i], &last = corners[4 * i + 2];
    for (auto y = static_cast<std::int64_t>(first.y); y < static_cast<std::int64_t>(last.y); ++y) {
      for (auto x = static_cast<std::int64_t>(first.x); x < static_cast<std::int64_t>(last.x); ++x) {
        canvas.set(top + y, left + x, {kInk, kInk, kInk});
      }
    }
  }
}

/// The label of an image; nothing if there are no classes, or pixels have labels.
std::string caption(const Batch& batch, std::int64_t index, const std::vector<std::string>& names) {
  if (names.empty() || batch.labels.shape().rank() > 1) return "";
  const auto label = static_cast<std::size_t>(batch.labels.as<std::int32_t>()[static_cast<std::size_t>(index)]);
  if (batch.targets.size() == 0) return names[label];
  const auto row = batch.targets.as<float>().subspan(static_cast<std::size_t>(index) * names.size(), names.size());
  const auto percent = [&](std::size_t k) { return message(names[k], ' ', std::lround(100 * row[k]), '%'); };
  std::string text = percent(label);
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (k != label && row[k] > 0) text += ' ' + percent(k);
  }
  return text;
}

}  // namespace

Image contact_sheet(const Batch& batch, const TransformOptions& options, const std::vector<std::string>& class_names) {
  const Shape& shape = batch.images.shape();
  const std::int64_t height = shape[1], width = shape[2], channels = shape[3], count = std::min(shape[0], kMostImages);
  const std::int64_t zoom = std::max<std::int64_t>(1, (kLeastSide + width - 1) / width);
  const std::int64_t cell_height = height * zoom + kTextHeight + kGap, cell_width = width * zoom + kGap;
  const Shape sheet{kGap + (count + kColumns - 1) / kColumns * cell_height, kGap + kColumns * cell_width, 3};
  const auto bytes = static_cast<std::size_t>(sheet.size());
  const std::shared_ptr<std::uint8_t> pixels(new std::uint8_t[bytes], std::default_delete<std::uint8_t[]>());
  std::fill_n(pixels.get(), bytes, kPaper);
  const Canvas canvas{sheet[0], sheet[1], pixels.get()};
  const std::span<const float> values = batch.images.as<float>();
  const auto byte = [&](std::int64_t at, std::int64_t channel) {
    const auto c = static_cast<std::size_t>(channels >= 3 ? channel : 0);
    const float mean = options.mean.empty() ? 0 : options.mean[c], deviation = options.std.empty() ? 1 : options.std[c];
    const float level = values[static_cast<std::size_t>(at) + c] * deviation + mean;
    return static_cast<std::uint8_t>(std::clamp(level, 0.0f, 1.0f) * 255 + 0.5f);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t top = kGap + i / kColumns * cell_height, left = kGap + i % kColumns * cell_width;
    for (std::int64_t y = 0; y < height * zoom; ++y) {
      for (std::int64_t x = 0; x < width * zoom; ++x) {
        const std::int64_t at = ((i * height + y / zoom) * width + x / zoom) * channels;
        canvas.set(top + y, left + x, {byte(at, 0), byte(at, 1), byte(at, 2)});
      }
    }
    draw_text(canvas, top + height * zoom + kTextTop, left, width * zoom, caption(batch, i, class_names));
  }
  return {sheet, {pixels.get(), bytes}, pixels};
}

}  // namespace braid
