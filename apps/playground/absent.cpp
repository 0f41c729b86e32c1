// What a page has instead of a device, kernels and files. Planning asks for them and uses none.

#include "apps/playground/absent.h"

#include <cstring>

#include "core/base/read_file.h"
#include "core/device/cpu/cpu_backend.h"
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
  BRAID_CHECK(content != nullptr, DataError, path.string(), ": cannot read ", what, ": there is no such file");
  return content->text();
}

// Configs are JSON here.

ConfigNode::Entry* ConfigNode::find(std::string_view key) {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &*found;
}
const ConfigNode::Entry* ConfigNode::find(std::string_view key) const {
  return const_cast<ConfigNode*>(this)->find(key);
}

namespace {

ConfigNode node_of(const Json& json, const std::string& location) {
  ConfigNode node{.location = location};
  if (json.is_null()) return node;
  node.kind = ConfigNode::Kind::scalar;
  if (json.is_array()) {
    node.kind = ConfigNode::Kind::list;
    for (const Json& item : json.elements()) node.items.push_back(node_of(item, location));
  } else if (json.is_object()) {
    node.kind = ConfigNode::Kind::map;
    for (const auto& [key, value] : json.members()) node.entries.push_back({key, location, node_of(value, location)});
  } else {
    node.quoted = json.is_string();
    node.text = node.quoted ? json.text() : json.dump();
  }
  return node;
}

}  // namespace

ConfigNode parse_config(std::string_view text, const std::string& source) { return node_of(parse_json(text), source); }

}  // namespace braid

// Zig's C++ library lacks the tag of exceptions, and the list of destructors that the end of a thread calls, which a
// page never reaches.
asm(".globl __cpp_exception\n.tagtype __cpp_exception i32\n__cpp_exception:\n");
extern "C" int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }
