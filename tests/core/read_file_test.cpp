#include "core/base/read_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <thread>

#include "core/base/error.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

TEST_CASE("a file is read byte for byte, whatever its size") {
  const TemporaryFolder folder;
  for (const std::size_t size : {0u, 1u, 65535u, 65536u, 65537u, 300000u}) {
    const Bytes bytes = random_bytes(size, size);
    const std::string path = folder.write("file", bytes);
    CHECK(read_file(path, "the data") == std::string(bytes.begin(), bytes.end()));
  }
}

TEST_CASE("a read error names the file, its purpose and the reason") {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& name, std::size_t most = 100) {
    const std::string text = error_of<DataError>([&] { read_file(folder.path() + name, "the config", most); });
    const std::string start = folder.path() + name + ": cannot read the config: ";
    REQUIRE(text.starts_with(start));
    return text.substr(start.size());
  };
  CHECK(error("/none") == "No such file or directory");
  CHECK(error("") == "expected a file, this is a folder");
  folder.write("large", Bytes(101));
  CHECK(error("/large") == "it is larger than 100 bytes");
  CHECK(read_file(folder.path() + "/large", "the config", 101).size() == 101);
}

TEST_CASE("a named pipe is refused at once, and the pipes of a shell are read to their end") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(contains(error_of<DataError>([&] { read_file(path, "the config"); }), "this is a named pipe"));

  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::string text;
  {
    std::jthread reader([&] { text = read_file("/dev/fd/" + std::to_string(ends[0]), "the config"); });
    for (const char* part : {"a: 1\n", "b: 2\n"}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the pipe is empty at first
      REQUIRE(write(ends[1], part, 5) == 5);
    }
    close(ends[1]);
  }
  CHECK(text == "a: 1\nb: 2\n");
  close(ends[0]);
}
