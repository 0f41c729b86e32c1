// Checkpoints against all that can go wrong while they are written.

#include "train/checkpoint/checkpoint_folder.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <thread>

#include "tests/data/files.h"
#include "tests/effort.h"

namespace {

/// The call to fail, counted from 1, of all that write to files; 0: none.
std::atomic<int> failing_call = 0, calls = 0;

bool fails() {
  if (failing_call == 0 || ++calls != failing_call) return false;
  errno = ENOSPC;
  return true;
}

}  // namespace

// These replace the C library's in the whole program.
extern "C" {
ssize_t write(int file, const void* data, size_t bytes) {
  return fails() ? -1 : static_cast<ssize_t>(syscall(SYS_write, file, data, bytes));
}
int fsync(int file) { return fails() ? -1 : static_cast<int>(syscall(SYS_fsync, file)); }
int rename(const char* from, const char* to) noexcept {
  return fails() ? -1 : static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}

using namespace braid;
using namespace braid::testing;

namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "BRAID_TEST_CHECKPOINTS";  // environment: where the program saves until it is killed

/// Some tensors, all elements of which are the step.
Checkpoint checkpoint_of(std::int64_t step) {
  Checkpoint checkpoint{.step = step, .tensors = {}, .metadata = {{"step", std::to_string(step)}}};
  for (const std::string name : {"a", "b", "c"}) {
    Array value(DType::f32, {1000});
    std::ranges::fill(value.as<float>(), static_cast<float>(step));
    checkpoint.tensors.push_back({name, value});
  }
  return checkpoint;
}

void save(CheckpointFolder& folder, const fs::path& path, std::int64_t step) {
  const Checkpoint checkpoint = checkpoint_of(step);
  folder.save(checkpoint, path / "model.safetensors", checkpoint);
  folder.finish();
}

/// The step of the model; 0: there is none.
std::int64_t step_of_model(const fs::path& path) {
  const fs::path model = path / "model.safetensors";
  return fs::exists(model) ? std::stoll(SafeTensors(model).metadata().at("step")) : 0;
}

/// The step of the newest checkpoint that can be read; every one that can is complete. 0: none.
std::int64_t newest(const fs::path& path) {
  std::int64_t found = 0;
  for (const std::int64_t step : CheckpointFolder::steps_in(path)) {
    const SafeTensors file(CheckpointFolder::path_of(path, step));
    CHECK(file.metadata().at("step") == std::to_string(step));
    for (const auto& [name, entry] : file.entries()) {
      const Array value = file.array(name);
      CHECK(std::ranges::all_of(value.as<float>(), [&](float x) { return x == static_cast<float>(step); }));
    }
    found = std::max(found, step);
  }
  return found;
}

std::size_t files_in(const fs::path& path) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {}));
}

/// This program as one that saves one checkpoint after the other and prints each step once it is saved.
struct Saver {
  pid_t process = 0;
  int output[2] = {};

  explicit Saver(const fs::path& path) {
    REQUIRE(pipe(output) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output[1], 1);
    setenv(kFolder, path.c_str(), 1);
    const char* const arguments[] = {"test_train", "--test-case=saves until it is killed", "--no-skip", nullptr};
    REQUIRE(posix_spawn(&process, "/proc/self/exe", &actions, nullptr, const_cast<char* const*>(arguments), environ) ==
            0);
    posix_spawn_file_actions_destroy(&actions);
    unsetenv(kFolder);
    close(output[1]);
  }
  /// The next byte that it printed.
  char get() const {
    char byte = 0;
    REQUIRE(read(output[0], &byte, 1) == 1);
    return byte;
  }
  /// The last step that it printed, in a line that begins with '#'.
  std::int64_t kill_after(int lines, std::chrono::microseconds delay) const {
    for (int line = 0; line < lines;) line += get() == '#' ? 1 : 0;
    std::this_thread::sleep_for(delay);
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
    std::string rest = "#";
    for (char byte = 0; read(output[0], &byte, 1) == 1;) rest += byte;
    close(output[0]);
    if (rest.back() != '\n') rest.resize(rest.rfind('\n') == std::string::npos ? 0 : rest.rfind('\n'));
    const std::size_t last = rest.rfind('#');
    return last == std::string::npos ? 0 : std::stoll(rest.substr(last + 1));
  }
};

}  // namespace

TEST_CASE("saves until it is killed" * doctest::skip()) {
  const char* path = std::getenv(kFolder);
  if (path == nullptr) return;
  CheckpointFolder folder(path, {.last = 2, .best = 0});
  for (std::int64_t step = newest(path) + 1;; ++step) {
    save(folder, path, step);
    std::cout << '#' << step << std::endl;
  }
}

TEST_CASE(
    "a process that is killed while it saves leaves the last checkpoint that it had saved, or a newer one, and a model "
    "as new") {
  constexpr int kKills = kOnce ? 20 : 200;
  const TemporaryFolder folder;
  Generator random(7);
  std::int64_t saved = 0, before = 0;
  std::size_t unfinished = 0;  // kills since the last save that removed what it no longer keeps
  for (int i = 0; i < kKills; ++i) {
    CAPTURE(i);
    const Saver saver(folder.path());
    const int lines = static_cast<int>(random.below(3));
    const std::int64_t printed =
        saver.kill_after(lines, std::chrono::microseconds(random.below(lines == 0 ? 30000 : 3000)));
    saved = std::max(saved, printed);
    unfinished = lines > 0 || printed > 0 ? 0 : unfinished + 1;
    const std::int64_t found = newest(folder.path());
    CHECK(found >= saved);
    CHECK(found >= before);
    CHECK(step_of_model(folder.path()) >= found);
    before = found;
    // Two or three checkpoints, the model, what was being written, and a checkpoint of every unfinished save.
    CHECK(files_in(folder.path()) <= 6 + unfinished);
  }
  CHECK(before > kKills / 2);  // it did save
}

TEST_CASE(
    "whichever write, flush or rename fails, the checkpoint of before remains, no model is older, and the error says "
    "why") {
  for (int failing = 1;; ++failing) {
    CAPTURE(failing);
    const TemporaryFolder folder;
    CheckpointFolder checkpoints(folder.path(), {.last = 2, .best = 0});
    save(checkpoints, folder.path(), 1);
    calls = 0;
    failing_call = failing;
    const std::string error = error_of<Error>([&] { save(checkpoints, folder.path(), 2); });
    failing_call = 0;
    if (error.empty()) {
      CHECK(failing > 15);  // three files' worth of calls, and none was left out
      CHECK(newest(folder.path()) == 2);
      break;
    }
    CHECK(contains(error, folder.path()));
    CHECK(contains(error, "No space left on device"));
    CHECK(newest(folder.path()) >= 1);
    CHECK(step_of_model(folder.path()) >= newest(folder.path()));
    for (const auto& file : fs::directory_iterator(folder.path())) CHECK(file.path().extension() == ".safetensors");
    save(checkpoints, folder.path(), 3);  // once there is room again
    CHECK(newest(folder.path()) == 3);
  }
}

TEST_CASE("a failure to save is thrown by the next save, and by finish") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {.last = 2, .best = 0});
  const Checkpoint checkpoint = checkpoint_of(1);
  const auto begin = [&] { checkpoints.save(checkpoint, folder.path() + "/none/model.safetensors", {}); };
  begin();
  CHECK(contains(error_of<Error>(begin), "none/model.safetensors"));
  begin();
  CHECK(contains(error_of<Error>([&] { checkpoints.finish(); }), "none/model.safetensors"));
  CHECK_NOTHROW(checkpoints.finish());
}

TEST_CASE("a checkpoint for which no thread can be started is an error that says so, and the next one is written") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {.last = 2, .best = 0});
  pthread_attr_t usual, too_large;
  pthread_getattr_default_np(&usual);
  pthread_attr_init(&too_large);
  pthread_attr_setstacksize(&too_large, std::size_t{1} << 50);
  pthread_setattr_default_np(&too_large);
  const std::string error = error_of<DeviceError>([&] { save(checkpoints, folder.path(), 1); });
  pthread_setattr_default_np(&usual);
  CHECK(contains(error, "cannot start a thread for writing a checkpoint"));
  CHECK_NOTHROW(checkpoints.finish());
  save(checkpoints, folder.path(), 2);
  CHECK(newest(folder.path()) == 2);
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&too_large);
}

TEST_CASE("a folder for checkpoints that cannot be made or written is an error at once") {
  const TemporaryFolder folder;
  folder.write("file", {});
  CHECK(contains(error_of<Error>([&] { CheckpointFolder(folder.path() + "/file/checkpoints", {}); }),
                 "file/checkpoints: cannot make the folder of checkpoints: "));
  CHECK(contains(error_of<Error>([&] { CheckpointFolder("/proc", {}); }), "/proc/step-0.safetensors.tmp"));
}

TEST_CASE("a training that continues from a checkpoint before a damaged one keeps what it saves") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {.last = 1, .best = 0});
  save(checkpoints, folder.path(), 8);
  folder.write("step-12.safetensors", {});
  save(checkpoints, folder.path(), 9);
  CHECK(CheckpointFolder::steps_in(folder.path()) == std::vector<std::int64_t>{9});
}

TEST_CASE("a training that continues from an earlier checkpoint leaves later ones that can be read") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {.last = 1, .best = 0});
  save(checkpoints, folder.path(), 12);
  save(checkpoints, folder.path(), 9);
  CHECK(CheckpointFolder::steps_in(folder.path()) == std::vector<std::int64_t>{12, 9});
}

TEST_CASE("the best checkpoints are kept in addition to the last ones") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {.last = 1, .best = 2});
  const double scores[] = {0.5, 0.9, 0.7, 0.9, 0.1, 0.2};
  for (std::int64_t step = 1; step <= 6; ++step) {
    save(checkpoints, folder.path(), step);
    checkpoints.rate(step, scores[step - 1]);
  }
  CHECK(CheckpointFolder::steps_in(folder.path()) == std::vector<std::int64_t>{6, 4, 2});
  folder.write("step-7.safetensors.tmp12", {});
  folder.write("step-x.safetensors", {});
  folder.write("step-.safetensors", {});
  folder.write("other-9.safetensors", {});
  CHECK(CheckpointFolder::steps_in(folder.path()) == std::vector<std::int64_t>{6, 4, 2});
}
