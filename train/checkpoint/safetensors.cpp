#include "train/checkpoint/safetensors.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "core/base/read_file.h"
#include "core/text/json.h"
#include "core/text/text.h"
#include "train/checkpoint/files.h"

namespace braid {

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMostHeaderBytes = 100'000'000;  // as in the reference implementation
constexpr std::size_t kMostShown = 101;                // characters of a name
constexpr std::size_t kAlignment = 8;                  // alignment of the first element
constexpr const char *kMetadata = "__metadata__", *kChecksum = "crc32";
constexpr const char* kMethod = "checksum";  // its value is kChecksum: damage to either is detected
constexpr std::string_view kNoChecksum = "00000000";

/// Names of types, in the order of DType.
constexpr const char* kTypes[] = {"F32", "F64", "F16", "BF16", "I32", "U8"};

std::optional<DType> dtype_named(std::string_view name) {
  const auto* found = std::ranges::find(kTypes, name);
  if (found == std::end(kTypes)) return std::nullopt;
  return static_cast<DType>(found - std::begin(kTypes));
}

/// Bytes of one element; 0 if the format has no such type.
std::size_t bytes_of(std::string_view dtype) {
  static const std::map<std::string_view, std::size_t> kBytes{
      {"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4},     {"U32", 4},     {"F16", 2}, {"BF16", 2},
      {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1}};
  const auto found = kBytes.find(dtype);
  return found == kBytes.end() ? 0 : found->second;
}

std::uint32_t update_crc(std::uint32_t crc, const void* data, std::size_t bytes) {
  return static_cast<std::uint32_t>(crc32_z(crc, static_cast<const Bytef*>(data), bytes));
}

std::string digits(std::uint32_t crc) {
  std::string text(kNoChecksum);
  for (std::size_t i = text.size(); i-- > 0; crc >>= 4) text[i] = "0123456789abcdef"[crc & 15];
  return text;
}

/// The position of the checksum's digits in a header that Braid wrote; npos if there are none. Its metadata comes
/// first.
std::size_t place_of_checksum(std::string_view header) {
  const std::string start = message("{\"", kMetadata, "\":{\"", kChecksum, "\":\"");
  return header.starts_with(start) && header.size() >= start.size() + kNoChecksum.size() ? start.size()
                                                                                         : std::string_view::npos;
}

/// The CRC of the length and the header without its checksum.
std::uint32_t crc_of_header(std::string header) {
  const std::size_t place = place_of_checksum(header);
  if (place != std::string::npos) header.replace(place, kNoChecksum.size(), kNoChecksum);
  const std::uint64_t length = header.size();
  return update_crc(update_crc(0, &length, sizeof length), header.data(), header.size());
}

std::string header_of(std::span<const NamedArray> tensors, const std::map<std::string, std::string>& metadata) {
  std::string text =
      message("{\"", kMetadata, "\":{\"", kChecksum, "\":\"", kNoChecksum, "\",\"", kMethod, "\":\"", kChecksum, '"');
  for (const auto& [key, value] : metadata) text += ',' + Json(key).dump() + ':' + Json(value).dump();
  text += '}';
  std::set<std::string_view> names;
  std::size_t begin = 0;
  for (const auto& [name, value, dtype] : tensors) {
    BRAID_CHECK(names.insert(name).second, Error, "[checkpoint] two tensors are named '", name,
                "': create the modules they belong to under different names");
    const Json entry{{"data_offsets", Json::array({begin, begin + value.bytes()})},
                     {"dtype", dtype.empty() ? kTypes[static_cast<std::size_t>(value.dtype())] : dtype},
                     {"shape", value.shape().extents()}};
    text += ',' + Json(name).dump() + ':' + entry.dump();
    begin += value.bytes();
  }
  text += '}';
  text.resize((kLengthBytes + text.size() + kAlignment - 1) / kAlignment * kAlignment - kLengthBytes, ' ');
  return text;
}

}  // namespace

SafeTensors::SafeTensors(const std::filesystem::path& path)
    : path_(path.string()), bytes_(read_file(path, "the checkpoint")) {
  expect(!bytes_.starts_with("BRAIDCKP"),
         "this is a checkpoint of an old format (.braid), which is no longer read: train the model again");
  const bool is_zip = bytes_.starts_with("PK\3\4");
  const std::string_view endings[] = {".pth", ".pt", ".ckpt", ".bin"};
  const bool of_pytorch =
      is_zip || bytes_.starts_with('\x80') || std::ranges::count(endings, path.extension().string()) > 0;
  const std::string hint = !of_pytorch ? ""
                                       : message(": write the weights of a file of PyTorch as one, in Python with ",
                                                 "safetensors.torch.save_file(torch.load(\"", path_,
                                                 "\", map_location=\"cpu\"), \"weights.safetensors\")");
  std::uint64_t length = 0;
  expect(bytes_.size() >= kLengthBytes, "this is not a safetensors file", hint);
  std::memcpy(&length, bytes_.data(), kLengthBytes);
  const std::size_t rest = bytes_.size() - kLengthBytes;
  expect(!is_zip && length <= kMostHeaderBytes && (rest == 0 || length > rest || bytes_[kLengthBytes] == '{'),
         "this is not a safetensors file", hint);
  expect(length <= rest, "truncated or damaged: has ", bytes_.size(), " bytes, but its header alone has ", length);
  const std::string_view header = std::string_view(bytes_).substr(kLengthBytes, length);
  elements_ = std::string_view(bytes_).substr(kLengthBytes + length);
  try {
    parse(header);
  } catch (const JsonError& error) {
    expect(false, "damaged header: ", error.what());
  }
  check_places();
  check_checksum(header);
}

void SafeTensors::parse(std::string_view text) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Json parsed = parse_json(text);
  const JsonPart header{parsed};
  if (!parsed.is_object()) header.fail("must be an object");
  for (const auto& [name, content] : parsed.members()) {
    const JsonPart part{content, shortened(name, kMostShown)};  // repeated in the path of every element
    if (name == kMetadata) {
      if (!content.is_object()) part.fail("must be an object");
      for (const auto& [key, text_of_key] : content.members()) metadata_[key] = JsonPart{text_of_key, key}.text();
      continue;
    }
    Entry entry{.dtype = part["dtype"].text(), .shape = {}, .begin = 0, .bytes = 0};
    const std::size_t element = bytes_of(entry.dtype);
    expect(element > 0, "tensor '", name, "': expected a dtype of the format, found '", entry.dtype, "'");
    std::uint64_t bytes = element;
    for (const JsonPart& extent : part["shape"].list()) {
      entry.shape.push_back(extent.integer(0, kMost));
      expect(!__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(entry.shape.back()), &bytes), "tensor '", name,
             "': its shape has more elements than memory");
    }
    const std::vector<JsonPart> offsets = part["data_offsets"].list();
    part["data_offsets"].check_size(2);
    entry.begin = static_cast<std::size_t>(offsets[0].integer(0, kMost));
    const auto end = static_cast<std::size_t>(offsets[1].integer(0, kMost));
    entry.bytes = end - entry.begin;
    expect(end >= entry.begin && entry.bytes == bytes, "tensor '", name, "': expected ", bytes, " bytes of ",
           entry.dtype, ' ', Json(entry.shape).dump(), ", found offsets ", entry.begin, " to ", end);
    entries_.emplace(name, std::move(entry));
  }
}

void SafeTensors::check_places() const {
  std::vector<std::pair<const Entry*, const std::string*>> places;
  for (const auto& [name, entry] : entries_) places.emplace_back(&entry, &name);
  std::ranges::sort(places, {}, [](const auto& place) { return std::pair(place.first->begin, place.first->bytes); });
  std::size_t expected = 0;
  for (const auto& [entry, name] : places) {
    expect(entry->begin == expected, "damaged header: tensor '", *name, "' begins at byte ", entry->begin,
           ", expected ", expected, ", where the one before it ends");
    expected += entry->bytes;
  }
  expect(expected == elements_.size(), "truncated or damaged: expected ", expected, " bytes of elements, found ",
         elements_.size());
}

void SafeTensors::check_checksum(std::string_view header) const {
  const std::size_t place = place_of_checksum(header);
  if (place == std::string_view::npos) {
    expect(!metadata_.contains(kMethod) && !metadata_.contains(kChecksum), "damaged header: the checksum is missing");
    return;
  }
  const std::uint32_t crc = update_crc(crc_of_header(std::string(header)), elements_.data(), elements_.size());
  expect(header.substr(place, kNoChecksum.size()) == digits(crc), "damaged: the checksum does not match");
}

Array SafeTensors::array(const std::string& name) const {
  const auto found = entries_.find(name);
  expect(found != entries_.end(), "has no tensor '", name, "'");
  const Entry& entry = found->second;
  const std::optional<DType> dtype = dtype_named(entry.dtype);
  expect(dtype.has_value() && entry.shape.size() <= Shape::kMaxRank, "tensor '", name, "': cannot use ", entry.dtype,
         ' ', Json(entry.shape).dump());
  Array value;
  try {
    value = Array(*dtype, Shape(std::span(entry.shape)));
  } catch (const ShapeError& error) {
    expect(false, "tensor '", name, "': ", error.what());
  }
  if (entry.bytes > 0) std::memcpy(value.data(), elements_.data() + entry.begin, entry.bytes);
  return value;
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::string header = header_of(tensors, metadata);
  const std::uint64_t length = header.size();
  std::uint32_t crc = crc_of_header(header);
  for (const NamedArray& tensor : tensors) crc = update_crc(crc, tensor.value.data(), tensor.value.bytes());
  header.replace(place_of_checksum(header), kNoChecksum.size(), digits(crc));

  AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(header);
  for (const NamedArray& tensor : tensors) file.write(tensor.value.data(), tensor.value.bytes());
  file.commit();
}

}  // namespace braid
