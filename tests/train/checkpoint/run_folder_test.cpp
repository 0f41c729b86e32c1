#include "train/run/log/run_folder.h"

#include <doctest/doctest.h>

#include <set>
#include <thread>

#include "core/base/error.h"
#include "tests/data/files.h"
#include "tests/train/file_size_limit.h"
#include "tests/train/run_files.h"

using namespace braid;
using namespace braid::testing;

namespace {

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

}  // namespace

TEST_CASE("a run folder has the next free number and the config") {
  const TemporaryFolder temporary;
  const std::filesystem::path root = temporary.path() + "/a/runs";
  CHECK(RunFolder(root, "x", "one").path() == root / "x-1");
  CHECK(RunFolder(root, "x", "two").path() == root / "x-2");
  std::filesystem::create_directory(root / "x-9");
  std::filesystem::create_directory(root / "x-y-30");
  std::filesystem::create_directory(root / "x-30b");
  CHECK(RunFolder(root, "x", "three").path() == root / "x-10");
  CHECK(RunFolder(root, "x-y", "four").path() == root / "x-y-31");
  CHECK(bytes_of(root / "x-2" / "config.yaml") == "two");
  CHECK(names_in(root / "x-2") == std::set<std::string>{"config.yaml", "metrics.jsonl"});
}

TEST_CASE("runs that start at the same time get folders of their own") {
  const TemporaryFolder temporary;
  constexpr int kThreads = 4, kRuns = 20;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int run = 0; run < kRuns; ++run) RunFolder(temporary.path(), "x", "c");
      });
    }
  }
  CHECK(names_in(temporary.path()).size() == kThreads * kRuns);
}

TEST_CASE("the next start removes the leftovers of a killed run, unless its process is still alive") {
  const TemporaryFolder temporary;
  const std::filesystem::path root = temporary.path(), run = root / "x-1", job = run / "job";
  const auto leave = [](const std::filesystem::path& folder) {
    for (const char* name :
         {"model.safetensors.tmp123", "model.safetensors.previous.tmp7", "notes.tmp", "tmp12", "a.tmp1b"}) {
      write_file(folder / name, "half");
    }
  };
  const std::set<std::string> kept{"config.yaml", "metrics.jsonl", "notes.tmp", "tmp12", "a.tmp1b"};
  {
    const RunFolder living(root, "x", ""), living_job(living, "job", "");
    leave(run);
    leave(job);
    RunFolder(root, "x", "");
    CHECK(std::filesystem::exists(run / "model.safetensors.tmp123"));
    CHECK(std::filesystem::exists(run / "model.safetensors.previous.tmp7"));
    CHECK(std::filesystem::exists(job / "model.safetensors.tmp123"));
  }
  RunFolder(root, "y", "");  // runs of another name are ignored
  CHECK(std::filesystem::exists(run / "model.safetensors.tmp123"));
  RunFolder(root, "x", "");
  CHECK(names_in(job) == kept);
  std::set<std::string> with_job = kept;
  with_job.insert("job");
  CHECK(names_in(run) == with_job);
}

TEST_CASE("folders that cannot be made are errors with path and reason") {
  const TemporaryFolder temporary;
  const std::string file = temporary.write("file", {});
  const auto error = [](const std::string& root) { return error_of<Error>([&] { RunFolder(root, "x", ""); }); };
  CHECK(error(file) == file + ": cannot make the folder for runs: Not a directory");
  CHECK(error(file + "/runs") == file + "/runs: cannot make the folder for runs: Not a directory");
  CHECK(contains(error("/proc/braid-runs"), "/proc/braid-runs: cannot make the folder for runs: "));
  CHECK(contains(error("/proc"), "/proc/x-1: cannot make the run's folder: "));
}

TEST_CASE("a config that does not fit on the disk leaves no folder behind") {
  const TemporaryFolder temporary;
  const std::string config(4096, 'x');
  std::string error;
  {
    const FileSizeLimit limit(1000);
    error = error_of<Error>([&] { RunFolder(temporary.path(), "x", config); });
  }
  CHECK(contains(error, "config.yaml"));
  CHECK(contains(error, "cannot write: File too large"));
  CHECK(names_in(temporary.path()).empty());
}

TEST_CASE("a file that does not fit on the disk leaves nothing behind") {
  const TemporaryFolder temporary;
  const std::string path = temporary.path() + "/page.html";
  std::string error;
  {
    const FileSizeLimit limit(10);
    error = error_of<Error>([&] { write_file(path, "more than ten bytes"); });
  }
  CHECK(error == path + ": cannot write: File too large");
  CHECK(names_in(temporary.path()).empty());
  CHECK_THROWS_AS(write_file("/dev/full", "text"), Error);
  CHECK(std::filesystem::exists("/dev/full"));
}

TEST_CASE("checking whether a file can be written neither creates nor changes it") {
  const TemporaryFolder temporary;
  check_writable(temporary.path() + "/new");
  CHECK(names_in(temporary.path()).empty());
  const std::string old = temporary.write("old", {'a', 'b'});
  check_writable(old);
  CHECK(bytes_of(old) == "ab");
  CHECK(error_of<Error>([&] { check_writable(temporary.path() + "/none/x"); }) ==
        temporary.path() + "/none/x: cannot open: No such file or directory");
}
