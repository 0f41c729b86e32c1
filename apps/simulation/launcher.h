#pragma once
// `braid launch` as a process whose mpirun starts nothing: it leaves each attempt to the simulation, and waits for its
// result.

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace braid::simulation {

class Launcher {
 public:
  /// What mpirun was asked to start.
  struct Attempt {
    int ranks;
    std::vector<std::string> words;  ///< of braid, as in: train, --resume, RUN
  };

  /// Starts `braid launch` with these words. Its mpirun and its output are in the folder.
  Launcher(std::filesystem::path folder, const std::vector<std::string>& words);
  /// Kills it.
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// Waits until mpirun is started; nullopt if the launcher ends instead.
  std::optional<Attempt> next();
  /// Asks it to stop, as Ctrl-C does, while mpirun runs.
  void stop() const;
  /// mpirun ends with this status.
  void finish(int status) const;
  /// Waits for its end. Returns the exit status; -1 if that was returned before.
  int status();
  /// What it has printed.
  std::string output() const;

 private:
  /// A line of mpirun; nullopt if the launcher has ended.
  std::optional<std::string> line() const;

  std::filesystem::path folder_;
  int socket_;     // its other end is open in the launcher, and in mpirun
  pid_t process_;  // 0 once it has been waited for
};

}  // namespace braid::simulation
