#pragma once
// PNG and JPEG files as images of 8 bits per channel.

#include <span>
#include <string>
#include <string_view>

#include "data/dataset.h"

namespace braid {

/// Limit of an image file, in bytes.
inline constexpr std::size_t kMaxImageBytes = std::size_t{256} << 20;
/// Limit of an image's height and width, in pixels.
inline constexpr int kMaxImageSide = 16384;

/// The header of a PNG or JPEG.
struct ImageHeader {
  std::int64_t height, width;  ///< as displayed
  int channels;                ///< 1 grey, 2 grey with alpha, 3 RGB, 4 RGBA; a palette counts as RGB
  int bits;                    ///< per channel: 8 or 16
  int orientation;             ///< EXIF's, 1 to 8
};

/// Throws DataError that begins with `name` unless the content begins as a PNG or JPEG file of plausible size: no more
/// pixels than the file can hold.
ImageHeader read_image_header(std::string_view content, const std::string& name);

/// The image with `channels` channels, 1 (grey) or 3 (RGB), oriented as EXIF says. `background`, a number on the scale
/// 0 to 1 for each channel, shows through transparent pixels; without it, alpha is dropped, as by Pillow's
/// convert("RGB"). Of 16 bits per channel, the upper 8 are kept.
/// Throws DataError that begins with `name` if the content is not exactly an intact image.
Image decode_image(std::string_view content, const std::string& name, int channels,
                   std::span<const double> background = {});

/// The labels [H,W,1] of a mask, the levels of a grey PNG of 8 bits. Throws DataError likewise, and if it is another
/// kind of image, whose levels would become others.
Image decode_mask(std::string_view content, const std::string& name);

/// The image as a PNG file, of 1 or 3 channels.
std::string encode_png(const Image& image);

}  // namespace braid
