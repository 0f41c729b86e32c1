#include "train/checkpoint/checkpoint.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "runtime/session.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// A session with three tensors of different kinds and shapes.
struct Model {
  Session session{{.device = "cpu", .streams = 1}};
  std::vector<Parameter*> tensors;

  explicit Model(float first = 0, const Shape& shape = {2, 3}, const std::string& name = "conv.weight") {
    tensors.push_back(&session.add(name, {DType::f32, shape}, ValueKind::parameter));
    tensors.push_back(&session.add("bias", {DType::f32, {4}}, ValueKind::parameter));
    tensors.push_back(&session.add("bn.running_mean", {DType::f32, {}}, ValueKind::state));
    for (Parameter* tensor : tensors) {
      Array array(DType::f32, tensor->shape());
      for (float& value : array.as<float>()) value = first++;
      session.write(*tensor, array);
    }
  }
  std::vector<float> values() {
    std::vector<float> list;
    for (const Parameter* tensor : tensors) {
      const Array array = session.read(*tensor);
      list.insert(list.end(), array.as<float>().begin(), array.as<float>().end());
    }
    return list;
  }
  void save(const std::string& path) { save_checkpoint(path, session, tensors); }
  void load(const std::string& path) { load_checkpoint(path, session, tensors); }
};

Bytes read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr std::size_t kLengthBytes = 8;
const std::string kChecksum = "{\"__metadata__\":{\"crc32\":\"";  // the digits follow

/// Makes the checksum of a damaged file right again, to test what comes after it.
void repair_checksum(Bytes& file) {
  const auto place = file.begin() + kLengthBytes + static_cast<std::ptrdiff_t>(kChecksum.size());
  std::fill_n(place, 8, '0');
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(crc32_z(0, file.data(), file.size())));
  std::copy_n(digits, 8, place);
}

void replace(Bytes& file, const std::string& old, const std::string& text) {
  REQUIRE(old.size() == text.size());
  const auto at = std::search(file.begin(), file.end(), old.begin(), old.end());
  REQUIRE(at != file.end());
  std::copy(text.begin(), text.end(), at);
  repair_checksum(file);
}

}  // namespace

TEST_CASE("a checkpoint restores every bit, whatever the order of the tensors") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.safetensors";
  Model saved(1), loaded;
  saved.save(path);
  std::ranges::reverse(loaded.tensors);
  loaded.load(path);
  std::ranges::reverse(loaded.tensors);
  CHECK(loaded.values() == saved.values());
}

TEST_CASE("a checkpoint replaces an older one and leaves nothing else") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.safetensors";
  for (const float first : {1.0f, 2.0f, 3.0f}) Model(first).save(path);
  Model current;
  current.load(path);
  CHECK(current.values()[0] == 3);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a truncated checkpoint is an error wherever it ends") {
  const TemporaryFolder folder;
  Model(1).save(folder.path() + "/m.safetensors");
  const Bytes whole = read_all(folder.path() + "/m.safetensors");
  Model model(7);
  const std::vector<float> before = model.values();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string path =
        folder.write("cut", Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
    const std::string error = error_of<DataError>([&] { model.load(path); });
    CAPTURE(length);
    CHECK(contains(error, length < kLengthBytes ? "this is not a safetensors file" : "truncated or damaged"));
  }
  Bytes longer = whole;
  longer.push_back(0);
  CHECK(contains(error_of<DataError>([&] { model.load(folder.write("longer", longer)); }), "truncated or damaged"));
  CHECK(model.values() == before);
}

TEST_CASE("a flipped bit of a checkpoint is found wherever it is") {
  const TemporaryFolder folder;
  Model(1).save(folder.path() + "/m.safetensors");
  const Bytes whole = read_all(folder.path() + "/m.safetensors");
  Model model(7);
  const std::vector<float> before = model.values();
  for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 9) {  // one of each byte
    Bytes damaged = whole;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
    CAPTURE(bit);
    const std::string error = error_of<DataError>([&] { model.load(folder.write("flip", damaged)); });
    CHECK_FALSE(error.empty());
    if (bit / 8 + 1 == whole.size()) CHECK(error.ends_with("/flip: damaged: the checksum does not match"));
  }
  CHECK(model.values() == before);
}

TEST_CASE("loading the checkpoint of another model is an error that names the difference") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.safetensors";
  Model(1).save(path);
  CHECK(error_of<DataError>([&] {
          Model(0, {3, 2}).load(path);
        }) == path + ": tensor 'conv.weight': expected f32 [3,2], found f32 [2,3]");
  CHECK(error_of<DataError>([&] {
          Model(0, {2, 3}, "fc.weight").load(path);
        }) == path + ": has no tensor 'fc.weight': it belongs to another model");
  Model fewer;
  fewer.tensors.pop_back();
  CHECK(error_of<DataError>([&] { fewer.load(path); }) ==
        path + ": has a tensor 'bn.running_mean' that the model does not have: it belongs to another model");
}

TEST_CASE("the tensors that a checkpoint and a model share are read, and the names of the others returned") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.safetensors";
  Model(1).save(path);  // conv.weight 1 … 6, bias 7 … 10, bn.running_mean 11
  Model other(20, {2, 3}, "fc.weight");
  other.tensors.pop_back();
  const Unmatched rest = load_checkpoint(path, other.session, other.tensors, {.strict = false});
  CHECK(rest.missing == std::vector<std::string>{"fc.weight"});
  CHECK(rest.unexpected == std::vector<std::string>{"bn.running_mean", "conv.weight"});
  CHECK(other.values() == std::vector<float>{20, 21, 22, 23, 24, 25, 7, 8, 9, 10});

  const auto read = [&](Model& model, const LoadOptions& options) {
    return error_of<DataError>([&] { load_checkpoint(path, model.session, model.tensors, options); });
  };
  Model reshaped(20, {3, 2});
  CHECK(read(reshaped, {.strict = false}) == path + ": tensor 'conv.weight': expected f32 [3,2], found f32 [2,3]");
  CHECK(reshaped.values()[0] == 20);
  other.tensors.pop_back();
  CHECK(read(other, {.strict = false}) == path + ": has none of the tensors: it belongs to another model");
}

TEST_CASE("a checkpoint gives the tensors under one prefix to those under another") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.safetensors";
  Model(1).save(path);
  Model other(20, {2, 3}, "backbone.weight");
  other.tensors.resize(1);
  const LoadOptions options{.prefix = "backbone.", .file_prefix = "conv."};
  const Unmatched rest = load_checkpoint(path, other.session, other.tensors, options);
  CHECK(rest.missing.empty());
  CHECK(rest.unexpected.empty());  // of those under conv.
  CHECK(other.values() == std::vector<float>{1, 2, 3, 4, 5, 6});
  Model longer(20, {2, 3}, "backbone.weight");
  longer.tensors.resize(2);
  CHECK(error_of<DataError>([&] { load_checkpoint(path, longer.session, longer.tensors, {.file_prefix = "conv."}); }) ==
        path + ": has no tensor 'conv.backbone.weight': it belongs to another model");
}

TEST_CASE("an inconsistent header is an error even if the checksum is right") {
  const TemporaryFolder folder;
  Model(1).save(folder.path() + "/m.safetensors");
  const Bytes whole = read_all(folder.path() + "/m.safetensors");
  const auto error = [&](const std::string& old, const std::string& text) {
    Bytes changed = whole;
    replace(changed, old, text);
    const std::string path = folder.write("changed", changed), start = path + ": ";
    const std::string complaint = error_of<DataError>([&] { Model().load(path); });
    return complaint.starts_with(start) ? complaint.substr(start.size()) : "no path: " + complaint;
  };
  CHECK(error("[0,24]", "[0,20]") == "tensor 'conv.weight': expected 24 bytes of F32 [2,3], found offsets 0 to 20");
  CHECK(error("[24,40]", "[20,36]") ==
        "damaged header: tensor 'bias' begins at byte 20, expected 24, where the one before it ends");
  CHECK(error("[24,40]", "[28,44]").starts_with("damaged header: tensor 'bias' begins at byte 28, expected 24"));
  CHECK(error("[24,40]", "[-4,12]").starts_with("damaged header: 'bias.data_offsets[0]' must be an integer from 0"));
  CHECK(error("[24,40]", "[40,24]").starts_with("tensor 'bias': expected 16 bytes"));
  CHECK(error("[24,40]", "[24]   ").starts_with("damaged header: 'bias.data_offsets' has 1 entries instead of 2"));
  CHECK(error("\"shape\":[4]", "\"shape\":{} ").starts_with("damaged header: 'bias.shape' must be a list"));
  CHECK(error("\"dtype\":\"F32\"", "\"dtype\":12345").starts_with("damaged header: "));
  CHECK(contains(error("\"dtype\":\"F32\"", "\"dtype\":\"F99\""), "expected a dtype of the format, found 'F99'"));
  CHECK(contains(error("\"dtype\":\"F32\"", "\"dtype\":\"U32\""), "cannot use U32"));
  CHECK(error("\"shape\"", "\"shapz\"").starts_with("damaged header: 'conv.weight' has no key 'shape'"));
  CHECK(error("\"bias\":{", "\"bias\":}").starts_with("damaged header: line 1, column "));
  CHECK(error("NHWC", "NCHW") ==
        "expected the layouts 'activations NHWC, filters KRSC' in the metadata, found "
        "'activations NCHW, filters KRSC'");
  CHECK(error("\"layout\"", "\"layouz\"").ends_with("found none: the file comes from another program"));
}

TEST_CASE("sizes that a header claims are not believed") {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& header, std::uint64_t length) {
    Bytes file(kLengthBytes);
    std::memcpy(file.data(), &length, kLengthBytes);
    file.insert(file.end(), header.begin(), header.end());
    return error_of<DataError>([&] { SafeTensors(folder.write("claim", file)); });
  };
  const std::string huge = R"({"w":{"dtype":"F32","shape":[1000000000,1000000000,10],"data_offsets":[0,8]}})";
  CHECK(contains(error(huge, huge.size()), "tensor 'w': its shape has more elements than memory"));
  const std::string far = R"({"w":{"dtype":"F32","shape":[1000000000],"data_offsets":[0,4000000000]}})";
  CHECK(contains(error(far, far.size()), "truncated or damaged: expected 4000000000 bytes of elements, found 0"));
  CHECK(contains(error("{}", 1'000'000), "truncated or damaged"));
  CHECK(contains(error("{}", ~0ull), "this is not a safetensors file"));
  CHECK(contains(error("[]", 2), "this is not a safetensors file"));
  // The name counts once, not for every extent: that could be more than memory.
  const std::string long_name =
      "{\"" + std::string(5000, 'n') + "\":{\"dtype\":\"F32\",\"shape\":[1,true],\"data_offsets\":[0,4]}}";
  CHECK(error(long_name, long_name.size()).size() < 400);
}

TEST_CASE("a file without a checksum is read, and its tensors that training needs are passed over") {
  const TemporaryFolder folder;
  const std::string header =
      R"({"__metadata__":{"layout":"activations NHWC, filters KRSC"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("training.step":{"dtype":"I64","shape":[],"data_offsets":[4,12]}})";
  const std::uint64_t length = header.size();
  Bytes file(kLengthBytes);
  std::memcpy(file.data(), &length, kLengthBytes);
  file.insert(file.end(), header.begin(), header.end());
  file.insert(file.end(), {0, 0, 0x80, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0});
  Session session({.device = "cpu", .streams = 1});
  Parameter* const tensor = &session.add("w", {DType::f32, {1}}, ValueKind::parameter);
  load_checkpoint(folder.write("other", file), session, std::span(&tensor, 1));
  CHECK(session.read(*tensor).as<float>()[0] == 1);
}

TEST_CASE("two tensors of one name are refused") {
  const TemporaryFolder folder;
  Context context(make_backend(Device{}), 1);
  RandomState other;  // state of a second model, which is trained as if it were alone
  std::vector<Parameter*> twins{&context.add("w", {DType::f32, {1}}, ValueKind::parameter)};
  const Context::RandomScope scope(context, other);
  twins.push_back(&context.add("w", {DType::f32, {1}}, ValueKind::parameter));
  CHECK(contains(error_of<Error>([&] { save_checkpoint(folder.path() + "/m.safetensors", context, twins); }),
                 "two tensors are named 'w'"));
}

TEST_CASE("files that are not checkpoints are reported as such") {
  const TemporaryFolder folder;
  CHECK(error_of<DataError>([&] { Model().load(folder.path() + "/none"); }) ==
        folder.path() + "/none: cannot read the checkpoint: No such file or directory");
  CHECK(contains(error_of<DataError>([&] { Model().load(folder.path()); }), ": cannot read the checkpoint: "));
  const std::string text = folder.write("text", Bytes(100, 'a'));
  CHECK(error_of<DataError>([&] { Model().load(text); }) == text + ": this is not a safetensors file");
  for (const std::string& of_pytorch : {folder.write("weights", {'P', 'K', 3, 4, 0, 0, 0, 0, 0, 0}),
                                        folder.write("pickle", {0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20}),
                                        folder.write("text.pt", Bytes(100, 'a')), folder.write("short.bin", {})}) {
    CHECK(contains(error_of<DataError>([&] { Model().load(of_pytorch); }),
                   "this is not a safetensors file: write the weights of a file of PyTorch as one, in Python with "
                   "safetensors.torch.save_file(torch.load(\"" +
                       of_pytorch + "\", map_location=\"cpu\"), \"weights.safetensors\")"));
  }
  const std::string old = folder.write("old", {'B', 'R', 'A', 'I', 'D', 'C', 'K', 'P', 1, 0, 0, 0});
  CHECK(contains(error_of<DataError>([&] { Model().load(old); }), "a checkpoint of an old format (.braid)"));
}
