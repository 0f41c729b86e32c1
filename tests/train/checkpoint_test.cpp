#include "train/run/checkpoint.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "runtime/session.h"
#include "tests/data/files.h"
#include "tests/train/file_size_limit.h"

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

constexpr std::size_t kHeaderBytes = 32, kChecked = 16;

/// Makes the checksum of a damaged file right again, to test what comes after it.
void repair_checksum(Bytes& file) {
  const auto crc = static_cast<std::uint32_t>(crc32_z(0, file.data() + kChecked, file.size() - kChecked));
  std::memcpy(file.data() + 12, &crc, sizeof crc);
}

void replace(Bytes& file, const std::string& old, const std::string& text) {
  REQUIRE(old.size() == text.size());
  const auto at = std::search(file.begin(), file.end(), old.begin(), old.end());
  REQUIRE(at != file.end());
  std::copy(text.begin(), text.end(), at);
  repair_checksum(file);
}

}  // namespace

TEST_CASE("a checkpoint restores every bit") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.braid";
  Model saved(1), loaded;
  saved.save(path);
  loaded.load(path);
  CHECK(loaded.values() == saved.values());
}

TEST_CASE("the order of the tensors does not matter") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.braid";
  Model saved(1), loaded;
  saved.save(path);
  std::ranges::reverse(loaded.tensors);
  loaded.load(path);
  std::ranges::reverse(loaded.tensors);
  CHECK(loaded.values() == saved.values());
}

TEST_CASE("the previous checkpoint is kept and nothing else is left") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.braid";
  for (const float first : {1.0f, 2.0f, 3.0f}) Model(first).save(path);
  Model current, previous;
  current.load(path);
  previous.load(path + ".previous");
  CHECK(current.values()[0] == 3);
  CHECK(previous.values()[0] == 2);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("a checkpoint that cannot be written leaves the old one alone") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.braid";
  Model(5).save(path);
  std::string error;
  {
    const FileSizeLimit limit(100);
    error = error_of<Error>([&] { Model(6).save(path); });
  }
  CHECK(contains(error, "cannot write: File too large"));
  Model loaded;
  loaded.load(path);
  CHECK(loaded.values()[0] == 5);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK_THROWS_AS(Model().save(folder.path() + "/none/m.braid"), Error);
}

TEST_CASE("a truncated checkpoint is an error wherever it ends") {
  const TemporaryFolder folder;
  Model(1).save(folder.path() + "/m.braid");
  const Bytes whole = read_all(folder.path() + "/m.braid");
  Model model(7);
  const std::vector<float> before = model.values();
  for (std::size_t length = 0; length < whole.size(); length += length < 2 * kHeaderBytes ? 1 : 7) {
    const std::string path =
        folder.write("cut", Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
    const std::string error = error_of<DataError>([&] { model.load(path); });
    CAPTURE(length);
    CHECK(contains(error, length < kHeaderBytes ? "this is not a Braid checkpoint" : "truncated or damaged"));
  }
  Bytes longer = whole;
  longer.push_back(0);
  CHECK(contains(error_of<DataError>([&] { model.load(folder.write("longer", longer)); }), "truncated or damaged"));
  CHECK(model.values() == before);
}

TEST_CASE("a flipped bit of a checkpoint is found wherever it is") {
  const TemporaryFolder folder;
  Model(1).save(folder.path() + "/m.braid");
  const Bytes whole = read_all(folder.path() + "/m.braid");
  Model model(7);
  const std::vector<float> before = model.values();
  for (std::size_t bit = 0; bit < 8 * whole.size(); bit += bit < 8 * kHeaderBytes ? 1 : 13) {
    Bytes damaged = whole;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
    CAPTURE(bit);
    CHECK_THROWS_AS(model.load(folder.write("flip", damaged)), DataError);
  }
  CHECK(model.values() == before);
}

TEST_CASE("loading the checkpoint of another model is an error that names the difference") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.braid";
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

TEST_CASE("an inconsistent index is an error even if the checksum is right") {
  const TemporaryFolder folder;
  Model(1).save(folder.path() + "/m.braid");
  const Bytes whole = read_all(folder.path() + "/m.braid");
  const auto error = [&](const std::string& old, const std::string& text) {
    Bytes damaged = whole;
    replace(damaged, old, text);
    return error_of<DataError>([&] { Model().load(folder.write("lie", damaged)); });
  };
  CHECK(contains(error("\"offset\":24", "\"offset\":99"), "its bytes lie outside the file"));
  CHECK(contains(error("\"offset\":24", "\"offset\":-1"),
                 "damaged index: 'tensors[1].offset' must be an integer from 0"));
  CHECK(contains(error("\"bytes\":24", "\"bytes\":20"), "tensor 'conv.weight': expected 24 bytes, found 20"));
  CHECK(contains(error("\"shape\":[4]", "\"shape\":{} "), "damaged index"));
  CHECK(contains(error("\"dtype\":\"f32\"", "\"dtype\":1234 "), "damaged index"));
  CHECK(contains(error("\"tensors\"", "\"tensorz\""), "damaged index: the whole has no key 'tensors'"));
  CHECK(contains(error("\"tensors\":[", "\"tensors\":]"), "damaged index: line 1, column "));
}

TEST_CASE("tensors that overlap or lie in another layout are refused even if the checksum is right") {
  const TemporaryFolder folder;
  Model(1).save(folder.path() + "/m.braid");
  const Bytes whole = read_all(folder.path() + "/m.braid");
  const auto error = [&](const std::string& old, const std::string& text) {
    Bytes changed = whole;
    replace(changed, old, text);
    const std::string path = folder.write("changed", changed), start = path + ": ";
    const std::string complaint = error_of<DataError>([&] { Model().load(path); });
    return complaint.starts_with(start) ? complaint.substr(start.size()) : "no path: " + complaint;
  };
  const std::string overlap =
      "damaged index: the tensors 'conv.weight' and 'bias' overlap: one has 24 bytes from byte 0, ";
  CHECK(error("\"offset\":24", "\"offset\":20") == overlap + "the other begins at byte 20");
  CHECK(error("\"offset\":24", "\"offset\":00").starts_with("damaged index: line 1, column "));  // no number
  CHECK(error("\"offset\":24", "\"offset\":0 ").starts_with("damaged index: the tensors "));
  const std::string expected =
      R"(expected the layout {"activations":"NHWC","filters":"KRSC"} of the tensors' axes, found )";
  CHECK(error("NHWC", "NCHW") == expected + R"({"activations":"NCHW","filters":"KRSC"})");
  CHECK(error("KRSC", "KCRS") == expected + R"({"activations":"NHWC","filters":"KCRS"})");
  CHECK(error("\"layout\"", "\"layouz\"").starts_with("damaged index: the whole has no key 'layout', got {\"layouz\""));
}

TEST_CASE("two tensors of one name are refused") {
  const TemporaryFolder folder;
  Context context(make_backend(Device{}), 1);
  const std::vector<Parameter*> twins{&context.add("w", {DType::f32, {1}}, ValueKind::parameter),
                                      &context.add("w", {DType::f32, {1}}, ValueKind::parameter)};
  CHECK(contains(error_of<Error>([&] { save_checkpoint(folder.path() + "/m.braid", context, twins); }),
                 "two tensors are named 'w'"));
}

TEST_CASE("leftovers of a crash while saving do no harm") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.braid";
  Model(1).save(path);
  std::filesystem::create_hard_link(path, path + ".previous");  // as if killed between the link and the rename
  Model(2).save(path);
  Model(3).save(path);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder.path())) ++files;
  CHECK(files == 2);
  Model().load(path);
  Model().load(path + ".previous");
}

TEST_CASE("files that are not checkpoints are reported as such") {
  const TemporaryFolder folder;
  CHECK(error_of<DataError>([&] { Model().load(folder.path() + "/none"); }) ==
        folder.path() + "/none: cannot read the checkpoint: No such file or directory");
  CHECK(contains(error_of<DataError>([&] { Model().load(folder.path()); }), ": cannot read the checkpoint: "));
  const std::string text = folder.write("text", Bytes(100, 'a'));
  CHECK(error_of<DataError>([&] { Model().load(text); }) == text + ": this is not a Braid checkpoint");
}
