// What a page has instead of a device, kernels and files. Planning asks for them and uses none.

#include <cstring>

#include "core/base/read_file.h"
#include "core/device/cpu/cpu_backend.h"
#include "core/text/json.h"
#include "data/formats/cifar.h"
#include "data/formats/fashion_mnist.h"
#include "data/formats/image_files.h"
#include "data/shapes.h"
#include "data/synthetic.h"
#include "ops/kernels/own_kernels.h"
#include "train/config/tree.h"

namespace braid {

namespace cpu {

namespace {

class NoStreams final : public StreamGroup {
 public:
  int size() const override { return 1; }
  int admit() override { return 0; }
  void launch(const Program&) override { throw Error("[playground] a recorded step does not run"); }
  void synchronize() override {}
  void upload(std::span<const Upload>) override {}
  void download(std::span<const Download>) override {}
  RunTimes measure(const Program&) override { return {}; }
  void set_observer(LaunchObserver*) override {}
};

/// A device without memory: buffers have sizes and no bytes.
class NoDevice final : public Backend {
 public:
  Device device() const override { return {}; }
  const DeviceInfo& info() const override { return info_; }
  Buffer allocate(std::size_t bytes) override {
    return {this, bytes, [](void*, std::size_t) {}};
  }
  void clear(void*, std::size_t) override {}
  void copy_to_device(void*, const void*, std::size_t) override {}
  void copy_to_host(void* target, const void*, std::size_t bytes) override { std::memset(target, 0, bytes); }
  std::unique_ptr<StreamGroup> make_streams(const StreamOptions&) override { return std::make_unique<NoStreams>(); }

 private:
  DeviceInfo info_{.name = "page"};
};

}  // namespace

std::unique_ptr<Backend> make_backend(int) { return std::make_unique<NoDevice>(); }
std::span<const OwnKernel> own_kernels() { return {}; }

}  // namespace cpu

Json files = Json::object();

std::string read_file(const std::filesystem::path& path, std::string_view what, std::size_t) {
  const Json* content = files.find(path.string());
  BRAID_CHECK(content != nullptr, DataError, "cannot read ", what, " '", path.string(), "': no such file is open");
  return content->text();
}

// A plan needs only the shape and the number of classes of a data set in files.

namespace {

std::shared_ptr<const ImageDataset> blank(const Shape& shape, int classes) {
  return synthetic({.size = classes, .shape = shape, .classes = classes});
}
[[noreturn]] void count_classes(std::string_view name) {
  throw ConfigError(
      message("data.name: expected a data set whose classes are known without its files, got ", name,
              "; data: {name: synthetic, image_size: 224, classes: 10} gives the same plan for 10 classes"));
}

}  // namespace

std::shared_ptr<const ImageDataset> fashion_mnist(const std::string&, Split) { return blank({28, 28, 1}, 10); }
std::shared_ptr<const ImageDataset> mnist(const std::string&, Split) { return blank({28, 28, 1}, 10); }
std::shared_ptr<const ImageDataset> cifar10(const std::string&, Split) { return blank({32, 32, 3}, 10); }
std::shared_ptr<const ImageDataset> cifar100(const std::string&, Split) { return blank({32, 32, 3}, 100); }
std::shared_ptr<const ImageDataset> image_masks(const std::string&, Split, int classes,
                                                const ImageFilesOptions& options) {
  return shapes({.size = 1, .shape = options.image_shape, .classes = classes});
}
std::shared_ptr<const ImageDataset> image_folder(const std::string&, Split, const ImageFilesOptions&) {
  count_classes("image_folder");
}
std::shared_ptr<const ImageDataset> image_list(const std::string&, const std::string&, const std::string&,
                                               const std::string&, Split, const ImageFilesOptions&) {
  count_classes("csv");
}

// Configs are JSON here, or {"config": JSON, "source": the name of a file, "places": {path: [line, whether quoted]}}.

namespace {

struct ConfigReader {
  std::string source;
  Json places;

  ConfigNode operator()(const Json& json, const std::string& path) const {
    const Json* place = places.find(path);
    ConfigNode node{.location = place == nullptr ? source : message(source, ':', (*place)[0].as_int64())};
    const std::string prefix = path.empty() ? "" : path + '.';
    if (json.is_null()) return node;
    if (json.is_array()) {
      node.kind = ConfigNode::Kind::list;
      for (const Json& item : json.elements()) node.items.push_back((*this)(item, message(prefix, node.items.size())));
    } else if (json.is_object()) {
      node.kind = ConfigNode::Kind::map;
      for (const auto& [key, value] : json.members()) {
        ConfigNode inner = (*this)(value, prefix + key);
        node.entries.push_back({key, inner.location, std::move(inner)});
      }
    } else {
      node.kind = ConfigNode::Kind::scalar;
      node.quoted = place == nullptr ? json.is_string() : (*place)[1].as_bool();
      node.text = json.is_string() ? json.text() : json.dump();
    }
    return node;
  }
};

}  // namespace

ConfigNode parse_config(std::string_view text, const std::string& source) {
  const Json json = parse_json(text);
  const bool has_places = json.contains("places");
  const ConfigReader read{has_places ? json["source"].text() : source, has_places ? json["places"] : Json()};
  ConfigNode root = read(has_places ? json["config"] : json, "");
  if (root.kind == ConfigNode::Kind::null) root.kind = ConfigNode::Kind::map;
  BRAID_CHECK(root.kind == ConfigNode::Kind::map, ConfigError, root.location, ": expected lines such as 'name: value'");
  return root;
}
ConfigNode read_config_file(const std::filesystem::path& path) {
  return parse_config(read_file(path, "the config"), path.string());
}

}  // namespace braid

// Zig's C++ library lacks the tag of exceptions, and the list of destructors that the end of a thread calls, which a
// page never reaches.
asm(".globl __cpp_exception\n.tagtype __cpp_exception i32\n__cpp_exception:\n");
extern "C" int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }
