#include "train/checkpoint.h"

#include <zlib.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "train/files.h"

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
constexpr std::size_t kChecked = offsetof(Header, index_bytes);  ///< where the checked bytes begin

std::uint32_t update_crc(std::uint32_t crc, const void* data, std::size_t bytes) {
  return static_cast<std::uint32_t>(crc32_z(crc, static_cast<const Bytef*>(data), bytes));
}

/// One tensor of the index.
struct Entry {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t offset, bytes;
};

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
  return {{"layout", {{"activations", "NHWC"}, {"filters", "KRSC"}}}, {"tensors", list}};
}

/// The content of a checkpoint whose length and checksum are right.
class Content {
 public:
  explicit Content(const std::filesystem::path& path) : path_(path.string()), bytes_(read_file()) {
    Header header{};
    check(bytes_.size() >= sizeof header && std::memcmp(bytes_.data(), kMagic, sizeof header.magic) == 0,
          "this is no Braid checkpoint");
    std::memcpy(&header, bytes_.data(), sizeof header);
    check(header.version == kVersion, "version ", header.version, " of the format is not supported; expected ",
          kVersion);
    const std::uint64_t body = bytes_.size() - sizeof header;
    check(header.index_bytes <= body && header.element_bytes == body - header.index_bytes, "truncated or damaged: has ",
          bytes_.size(), " bytes, but its header speaks of ", sizeof header, " + ", header.index_bytes, " + ",
          header.element_bytes);
    check(update_crc(0, bytes_.data() + kChecked, bytes_.size() - kChecked) == header.crc,
          "damaged: the checksum does not match");
    elements_ = std::string_view(bytes_).substr(sizeof header + header.index_bytes);
    parse_index(std::string_view(bytes_).substr(sizeof header, header.index_bytes));
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
    const bool inside = entry.bytes == value.bytes() && entry.offset <= elements_.size() &&
                        entry.bytes <= elements_.size() - entry.offset;
    check(inside, "tensor '", tensor.name(), "': its bytes lie outside the file");
    if (value.bytes() > 0) std::memcpy(value.data(), elements_.data() + entry.offset, value.bytes());
    return value;
  }

  void check_names(std::span<Parameter* const> tensors) const {
    std::map<std::string, int> wanted;
    for (const Parameter* tensor : tensors) wanted[tensor->name()] = 1;
    for (const auto& [name, entry] : entries_) {
      check(wanted.contains(name), "has a tensor '", name, "' that the model has not: it belongs to another model");
    }
  }

 private:
  template <class... Parts>
  void check(bool condition, const Parts&... what) const {
    if (!condition) throw DataError(message(path_, ": ", what...));
  }

  std::string read_file() const {
    errno = 0;
    std::ifstream file(path_, std::ios::binary);
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(path_, error);
    check(file.is_open() && !error,
          "cannot read the checkpoint: ", error ? error.message() : std::strerror(errno != 0 ? errno : EIO));
    std::string content(bytes, '\0');
    file.read(content.data(), static_cast<std::streamsize>(bytes));
    check(!file.bad() && static_cast<std::uintmax_t>(file.gcount()) == bytes, "cannot read the checkpoint as a whole");
    return content;
  }

  void parse_index(std::string_view text) {
    try {
      const json index = json::parse(text);
      for (const json& tensor : index.at("tensors")) {
        const std::string name = tensor.at("name");
        check(entries_.insert({name, {tensor.at("dtype"), tensor.at("shape"), tensor.at("offset"), tensor.at("bytes")}})
                  .second,
              "damaged index: two tensors named '", name, "'");
      }
    } catch (const json::exception& error) {
      check(false, "damaged index: ", error.what());
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
