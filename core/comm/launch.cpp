#include "core/comm/launch.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

#include "core/base/error.h"

namespace braid {

namespace {

/// A variable of the environment that is a number.
struct Variable {
  const char* name = nullptr;
  std::string text;
  int value = 0;
};

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

int parsed(const char* name, std::string_view text, int smallest) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  BRAID_CHECK(error == std::errc() && end == text.data() + text.size() && value >= smallest, Error, "[launch] ", name,
              " is '", text, "', expected a whole number of at least ", smallest);
  return value;
}

std::optional<Variable> read(const char* name, int smallest) {
  if (const char* text = std::getenv(name)) return Variable{name, text, parsed(name, text, smallest)};
  return std::nullopt;
}

Variable need(const char* name, int smallest, const char* because) {
  const auto variable = read(name, smallest);
  BRAID_CHECK(variable.has_value(), Error, "[launch] ", because, " is '", std::getenv(because), "', but ", name,
              " is not set");
  return *variable;
}

void check_below(const Variable& rank, const Variable& size) {
  BRAID_CHECK(rank.value < size.value, Error, "[launch] ", rank.name, " is '", rank.text, "', but ", size.name, " is '",
              size.text, "': ranks count from 0");
}

/// A launch whose rank and size have these names. Ranks that do not know which others share their host assume that all
/// do.
Launch from(std::string_view launcher, const char* rank_name, const char* size_name, std::optional<Variable> local_rank,
            std::optional<Variable> local_size) {
  const Variable rank = need(rank_name, 0, is_set(size_name) ? size_name : rank_name);
  const Variable size = need(size_name, 1, rank_name);
  check_below(rank, size);
  if (!local_rank && !local_size) local_rank = rank, local_size = size;
  BRAID_CHECK(local_rank && local_size, Error, "[launch] ", (local_rank ? local_rank : local_size)->name, " is '",
              (local_rank ? local_rank : local_size)->text, "', but the ", local_rank ? "number" : "rank",
              " among the ranks of this host is not set");
  check_below(*local_rank, *local_size);
  BRAID_CHECK(local_size->value <= size.value, Error, "[launch] ", local_size->name, " is '", local_size->text,
              "', but ", size.name, " is '", size.text, "': a host cannot have more ranks than there are");
  return {rank.value, size.value, local_rank->value, local_size->value, std::string(launcher)};
}

/// The number of tasks of this node, from a list such as "4(x2),3": four on two nodes, then three.
std::optional<Variable> tasks_of_node() {
  constexpr const char* kName = "SLURM_STEP_TASKS_PER_NODE";
  if (!is_set(kName) || !is_set("SLURM_NODEID")) return std::nullopt;
  const std::string list = std::getenv(kName);
  int nodes = read("SLURM_NODEID", 0)->value;
  for (std::string_view rest = list; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const std::size_t times = item.find("(x");
    const int tasks = parsed(kName, item.substr(0, times), 1);
    int repeated = 1;
    if (times != std::string_view::npos) {
      BRAID_CHECK(item.ends_with(')'), Error, "[launch] ", kName, " is '", list, "', expected a list like '4(x2),3'");
      repeated = parsed(kName, item.substr(times + 2, item.size() - times - 3), 1);
    }
    nodes -= repeated;
    if (nodes < 0) return Variable{kName, list, tasks};
  }
  throw Error(message("[launch] ", kName, " is '", list, "', but SLURM_NODEID is '", std::getenv("SLURM_NODEID"), "'"));
}

/// The mpirun, or its helper on another host, that this process descends from: "mpirun started this process", or "".
std::string launcher_above() {
  for (auto process = process_stat(getppid()); process; process = process_stat(process->parent)) {
    for (const char* launcher : {"mpirun", "mpiexec", "orterun", "orted", "prterun", "prted"}) {
      if (process->program == launcher) return process->program + " started this process";
    }
  }
  return "";
}

Launch from_slurm() {
  auto local_size = tasks_of_node();
  if (!local_size) local_size = read("SLURM_NTASKS_PER_NODE", 1);
  const auto tasks = read("SLURM_NTASKS", 1);
  // A job may have more tasks per node than one of its steps.
  if (local_size && tasks) local_size->value = std::min(local_size->value, tasks->value);
  auto local_rank = read("SLURM_LOCALID", 0);
  if (!local_size) local_rank.reset();  // on one node, where it is the rank
  return from("srun", "SLURM_PROCID", "SLURM_NTASKS", local_rank, local_size);
}

}  // namespace

std::optional<ProcessStat> process_stat(pid_t process) {
  std::ifstream file(message("/proc/", process, "/stat"));
  std::string text;
  std::getline(file, text);
  const std::size_t begin = text.find('('), end = text.rfind(')');  // the name in between may contain anything
  if (end == std::string::npos) return std::nullopt;
  ProcessStat stat{.program = text.substr(begin + 1, end - begin - 1)};
  std::istringstream(text.substr(end + 1)) >> stat.state >> stat.parent;
  return stat;
}

Launch launch_from_environment() {
  if (is_set("OMPI_COMM_WORLD_RANK") || is_set("OMPI_COMM_WORLD_SIZE")) {
    return from("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", read("OMPI_COMM_WORLD_LOCAL_RANK", 0),
                read("OMPI_COMM_WORLD_LOCAL_SIZE", 1));
  }
  // A launcher started by srun sets its own variables: the innermost counts. But srun itself may set PMI_RANK, and a
  // batch script, which is not a step, has some of Slurm's variables.
  const bool is_step = is_set("SLURM_STEP_ID") && (is_set("SLURM_PROCID") || is_set("SLURM_NTASKS"));
  const bool is_hydra = is_set("MPI_LOCALRANKID");
  if ((is_set("PMI_RANK") || is_set("PMI_SIZE")) && (is_hydra || !is_step)) {
    return from("mpirun", "PMI_RANK", "PMI_SIZE", read("MPI_LOCALRANKID", 0), read("MPI_LOCALNRANKS", 1));
  }
  // Scripts for srun often set one of these two.
  if (is_step ? is_set("RANK") && is_set("WORLD_SIZE") : is_set("RANK") || is_set("WORLD_SIZE")) {
    return from("torchrun", "RANK", "WORLD_SIZE", read("LOCAL_RANK", 0), read("LOCAL_WORLD_SIZE", 1));
  }
  if (is_step) return from_slurm();
  // Separate trainings that all write to the same files are never intended.
  const std::string launcher = is_set("PMIX_RANK") ? "PMIX_RANK is set" : launcher_above();
  BRAID_CHECK(launcher.empty(), Error, "[launch] ", launcher,
              ", but OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE are not: ",
              "expected the environment that mpirun gives its ranks; sudo and env -i drop it (sudo -E keeps it)");
  return {};
}

}  // namespace braid
