#include "apps/simulation/launcher.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "apps/simulation/processes.h"
#include "core/base/error.h"
#include "core/base/read_file.h"
#include "train/checkpoint/files.h"

namespace braid::simulation {

namespace {

namespace fs = std::filesystem;

/// Sends the number of its words and the words, a line each, and ends with the status that it receives. The ranks get
/// the signals that the real one passes on.
constexpr const char* kMpirun = R"(#!/bin/sh
trap '' USR2
printf '%s\n' $# "$@" >&3
read -r status <&3
exit "$status"
)";
constexpr int kDescriptor = 3;  // of the socket in that program

}  // namespace

Launcher::Launcher(fs::path folder, const std::vector<std::string>& words) : folder_(std::move(folder)) {
  const fs::path programs = folder_ / "bin";
  fs::create_directories(programs);
  write_file(programs / "mpirun", kMpirun);
  fs::permissions(programs / "mpirun", fs::perms::owner_all);
  std::array<int, 2> ends{};
  BRAID_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, Error,
              "[simulate] a socket cannot be made");
  socket_ = ends[0];
  constexpr timeval kPatience{600, 0};  // a launcher that does nothing for so long counts as ended
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  std::vector<std::string> all{"launch"};
  all.insert(all.end(), words.begin(), words.end());
  process_ = start_braid(all, folder_ / "launcher.txt", [&] {
    const char* const path = std::getenv("PATH");
    setenv("PATH", message(programs.string(), ':', path == nullptr ? "" : path).c_str(), 1);
    dup2(fcntl(ends[1], F_DUPFD_CLOEXEC, kDescriptor + 1), kDescriptor);  // a descriptor that execv() leaves open
  });
  close(ends[1]);
}

Launcher::~Launcher() {
  if (process_ > 0) kill(process_, SIGKILL);
  status();
  close(socket_);
}

std::optional<Launcher::Attempt> Launcher::next() {
  const std::optional<std::string> count = line();
  if (!count) return std::nullopt;
  std::vector<std::string> words;
  for (int left = std::stoi(*count); left > 0; --left) words.push_back(line().value_or(""));
  // -n, their number, options for hosts, the program, its words
  const auto program = std::ranges::find(words, fs::read_symlink("/proc/self/exe").string());
  BRAID_CHECK(words.size() > 2 && words[0] == "-n" && program != words.end(), Error,
              "[simulate] braid launch has started mpirun in an unknown way");
  return Attempt{std::stoi(words[1]), {program + 1, words.end()}};
}

void Launcher::stop() const { kill(process_, SIGTERM); }

void Launcher::finish(int status) const {
  const std::string text = message(status, '\n');
  send(socket_, text.data(), text.size(), MSG_NOSIGNAL);  // if it has ended, next() says so
}

int Launcher::status() {
  int status = 0;
  const pid_t process = std::exchange(process_, 0);
  return process > 0 && waitpid(process, &status, 0) == process ? exit_status(status) : -1;
}

std::string Launcher::output() const { return read_file(folder_ / "launcher.txt", "the output of the launcher"); }

std::optional<std::string> Launcher::line() const {
  std::string text;
  char letter = 0;
  ssize_t got = 0;
  while ((got = recv(socket_, &letter, 1, 0)) == 1) {
    if (letter == '\n') return text;
    text += letter;
  }
  if (got < 0 && process_ > 0) kill(process_, SIGKILL);  // it does nothing
  return std::nullopt;
}

}  // namespace braid::simulation
