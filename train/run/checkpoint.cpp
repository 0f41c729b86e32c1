#include "train/run/checkpoint.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "core/json_part.h"
#include "core/read_file.h"
#include "train/run/files.h"

namespace braid {

namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t crc;  ///< of all bytes after it
  std::uint64_t index_bytes;
  std::uint64_t element_bytes;
};
static_assert(sizeof(Header) == 32 && std::is_trivially_copyable_v<Header>);
constexpr char kMagic[] = "BRAIDCKP";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kChecked = offsetof(Header, index_bytes);  ///< where the bytes under the checksum begin

std::uint32_t update_crc(std::uint32_t crc, const void* data, std::size_t bytes) {
  return static_cast<std::uint32_t>(crc32_z(crc, static_cast<const Bytef*>(data), bytes));
}

/// One tensor of the index.
struct Entry {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::int64_t offset, bytes;
};

const json kLayout{{"activations", "NHWC"}, {"filters", "KRSC"}};

json index_of(std::span<Parameter* const> tensors, std::span<const Array> values) {
  json list = json::array();
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto extents = values[i].shape().extents();
    list.push_back({{"name", tensors[i]->name()},
                    {"kind", name_of(tensors[i]->kind())},
                    {"dtype", name_of(values[i].dtype())},
                    {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
                    {"offset", offset},
                    {"bytes", values[i].bytes()}});
    offset += values[i].bytes();
  }
  return {{"layout", kLayout}, {"tensors", list}};
}

/// The content of a checkpoint with a valid length and checksum.
class Content {
 public:
  explicit Content(const std::filesystem::path& path)
      : path_(path.string()), bytes_(read_file(path, "the checkpoint")) {
    Header header{};
    check(bytes_.size() >= sizeof header && std::memcmp(bytes_.data(), kMagic, sizeof header.magic) == 0,
          "this is not a Braid checkpoint");
    std::memcpy(&header, bytes_.data(), sizeof header);
    check(header.version == kVersion, "version ", header.version, " of the format is not supported; expected ",
          kVersion);
    const std::uint64_t body = bytes_.size() - sizeof header;
    check(header.index_bytes <= body && header.element_bytes == body - header.index_bytes, "truncated or damaged: has ",
          bytes_.size(), " bytes, but its header states ", sizeof header, " + ", header.index_bytes, " + ",
          header.element_bytes);
    check(update_crc(0, bytes_.data() + kChecked, bytes_.size() - kChecked) == header.crc,
          "damaged: the checksum does not match");
    elements_ = std::string_view(bytes_).substr(sizeof header + header.index_bytes);
    parse_index(std::string_view(bytes_).substr(sizeof header, header.index_bytes));
    check_places();
  }

  /// The elements of a tensor like `tensor`.
  Array array(const Parameter& tensor) const {
    const auto found = entries_.find(tensor.name());
    check(found != entries_.end(), "has no tensor '", tensor.name(), "': it belongs to another model");
    const Entry& entry = found->second;
    Array value(tensor.desc().dtype, tensor.shape());
    const auto extents = tensor.shape().extents();
    const bool fits = entry.dtype == name_of(value.dtype()) && std::ranges::equal(entry.shape, extents);
    check(fits, "tensor '", tensor.name(), "': expected ", value.dtype(), ' ', value.shape(), ", found ", entry.dtype,
          ' ', json(entry.shape).dump());
    check(static_cast<std::size_t>(entry.bytes) == value.bytes(), "tensor '", tensor.name(), "': expected ",
          value.bytes(), " bytes, found ", entry.bytes);
    if (value.bytes() > 0) std::memcpy(value.data(), elements_.data() + entry.offset, value.bytes());
    return value;
  }

  void check_names(std::span<Parameter* const> tensors) const {
    std::map<std::string, int> wanted;
    for (const Parameter* tensor : tensors) wanted[tensor->name()] = 1;
    for (const auto& [name, entry] : entries_) {
      check(wanted.contains(name), "has a tensor '", name,
            "' that the model does not have: it belongs to another model");
    }
  }

 private:
  template <class... Parts>
  void check(bool condition, const Parts&... what) const {
    if (!condition) throw DataError(message(path_, ": ", what...));
  }

  void parse_index(std::string_view text) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    try {
      const auto parsed = parse_json(text);
      const JsonPart index{parsed};
      const json layout = index["layout"].json;
      check(layout == kLayout, "expected the layout ", kLayout.dump(), " of the tensors' axes, found ", layout.dump());
      for (const JsonPart& tensor : index["tensors"].list()) {
        const std::string name = tensor["name"].text();
        Entry entry{.dtype = tensor["dtype"].text(),
                    .shape = {},
                    .offset = tensor["offset"].integer(0, kMost),
                    .bytes = tensor["bytes"].integer(0, kMost)};
        for (const JsonPart& extent : tensor["shape"].list()) entry.shape.push_back(extent.integer(0, kMost));
        check(entries_.emplace(name, std::move(entry)).second, "damaged index: two tensors named '", name, "'");
      }
    } catch (const JsonError& error) {
      check(false, "damaged index: ", error.what());
    }
  }

  /// Every tensor lies within the elements, and no two share a byte.
  void check_places() const {
    const auto bytes = static_cast<std::int64_t>(elements_.size());
    std::vector<std::pair<std::int64_t, const std::string*>> places;
    for (const auto& [name, entry] : entries_) {
      check(entry.bytes <= bytes && entry.offset <= bytes - entry.bytes, "tensor '", name,
            "': its bytes lie outside the file");
      if (entry.bytes > 0) places.emplace_back(entry.offset, &name);
    }
    std::ranges::sort(places);
    for (std::size_t i = 1; i < places.size(); ++i) {
      const std::string &before = *places[i - 1].second, &name = *places[i].second;
      const Entry& entry = entries_.at(before);
      check(entry.offset + entry.bytes <= places[i].first, "damaged index: the tensors '", before, "' and '", name,
            "' overlap: one has ", entry.bytes, " bytes from byte ", entry.offset, ", the other begins at byte ",
            places[i].first);
    }
  }

  std::string path_;
  std::string bytes_;
  std::string_view elements_;
  std::map<std::string, Entry> entries_;
};

}  // namespace

void save_checkpoint(const std::filesystem::path& path, Context& context, std::span<Parameter* const> tensors) {
  std::vector<Array> values;
  std::set<std::string_view> names;
  for (const Parameter* tensor : tensors) {
    BRAID_CHECK(names.insert(tensor->name()).second, Error, "[checkpoint] two tensors are named '", tensor->name(),
                "': create the modules they belong to under different names");
    values.push_back(context.read(*tensor));
  }
  const std::string index = index_of(tensors, values).dump();

  Header header{.magic = {}, .version = kVersion, .crc = 0, .index_bytes = index.size(), .element_bytes = 0};
  std::memcpy(header.magic, kMagic, sizeof header.magic);
  for (const Array& value : values) header.element_bytes += value.bytes();
  const char* checked = reinterpret_cast<const char*>(&header) + kChecked;
  header.crc = update_crc(0, checked, sizeof header - kChecked);
  header.crc = update_crc(header.crc, index.data(), index.size());
  for (const Array& value : values) header.crc = update_crc(header.crc, value.data(), value.bytes());

  AtomicFile file(path);
  file.write(&header, sizeof header);
  file.write(index);
  for (const Array& value : values) file.write(value.data(), value.bytes());
  file.commit(path.string() + ".previous");
}

void load_checkpoint(const std::filesystem::path& path, Context& context, std::span<Parameter* const> tensors) {
  const Content content(path);
  std::vector<Array> values;
  for (const Parameter* tensor : tensors) values.push_back(content.array(*tensor));
  content.check_names(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) context.write(*tensors[i], values[i]);
}

}  // namespace braid
