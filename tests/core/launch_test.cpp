#include "core/comm/launch.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

#include "core/base/error.h"

namespace braid::testing {
namespace {

using Environment = std::map<std::string, std::string>;

/// Has these variables and no others.
class ScopedEnvironment {
 public:
  explicit ScopedEnvironment(const Environment& variables) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      const std::size_t end = text.find('=');
      before_[text.substr(0, end)] = text.substr(end + 1);
    }
    replace(variables);
  }
  ~ScopedEnvironment() { replace(before_); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  static void replace(const Environment& variables) {
    clearenv();
    for (const auto& [name, text] : variables) setenv(name.c_str(), text.c_str(), 1);
  }
  Environment before_;
};

Environment open_mpi(const char* rank, const char* size, const char* local_rank, const char* local_size) {
  return {{"OMPI_COMM_WORLD_RANK", rank},
          {"OMPI_COMM_WORLD_SIZE", size},
          {"OMPI_COMM_WORLD_LOCAL_RANK", local_rank},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", local_size}};
}

Environment torchrun(const char* rank, const char* size, const char* local_rank, const char* local_size) {
  return {{"RANK", rank}, {"WORLD_SIZE", size}, {"LOCAL_RANK", local_rank}, {"LOCAL_WORLD_SIZE", local_size}};
}

Environment slurm(const char* rank, const char* size, const char* local_rank) {
  return {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", rank}, {"SLURM_NTASKS", size}, {"SLURM_LOCALID", local_rank}};
}

Environment operator+(Environment a, const Environment& b) {
  a.insert(b.begin(), b.end());
  return a;
}

TEST_CASE("the launcher's variables say who this process is") {
  struct Row {
    const char* what;
    Environment environment;
    Launch expected;
  };
  const Row rows[] = {
      {"nothing", {}, {0, 1, 0, 1, ""}},
      {"mpirun, two hosts", open_mpi("5", "8", "1", "4"), {5, 8, 1, 4, "mpirun"}},
      {"mpirun, one rank", open_mpi("0", "1", "0", "1"), {0, 1, 0, 1, "mpirun"}},
      {"MPICH",
       {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
       {3, 4, 1, 2, "mpirun"}},
      {"PMI without local ranks", {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}, {3, 4, 3, 4, "mpirun"}},
      {"torchrun", torchrun("2", "4", "0", "2"), {2, 4, 0, 2, "torchrun"}},
      {"torchrun's variables set by hand", {{"RANK", "1"}, {"WORLD_SIZE", "2"}}, {1, 2, 1, 2, "torchrun"}},
      {"srun, one host", slurm("1", "2", "1"), {1, 2, 1, 2, "srun"}},
      {"srun, tasks per node asked for",
       slurm("3", "4", "1") + Environment{{"SLURM_NTASKS_PER_NODE", "2"}},
       {3, 4, 1, 2, "srun"}},
      {"srun, a step smaller than its job",
       slurm("0", "1", "0") + Environment{{"SLURM_NTASKS_PER_NODE", "8"}},
       {0, 1, 0, 1, "srun"}},
      {"srun, uneven nodes",
       slurm("8", "11", "0") + Environment{{"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}, {"SLURM_NODEID", "2"}},
       {8, 11, 0, 3, "srun"}},
      {"srun, among equal nodes",
       slurm("7", "11", "3") + Environment{{"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}, {"SLURM_NODEID", "1"}},
       {7, 11, 3, 4, "srun"}},
      {"a batch script is no step",
       {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "0"}},
       {0, 1, 0, 1, ""}},
      {"srun that also speaks PMI",
       slurm("1", "2", "1") + Environment{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}},
       {1, 2, 1, 2, "srun"}},
      {"MPICH's launcher below srun",
       slurm("0", "1", "0") +
           Environment{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"}},
       {3, 4, 3, 4, "mpirun"}},
      {"mpirun below srun", slurm("0", "1", "0") + open_mpi("1", "4", "1", "2"), {1, 4, 1, 2, "mpirun"}},
      {"torchrun below srun", slurm("1", "2", "0") + torchrun("3", "4", "1", "2"), {3, 4, 1, 2, "torchrun"}},
      {"WORLD_SIZE set by a script for srun",
       slurm("1", "2", "1") + Environment{{"WORLD_SIZE", "2"}},
       {1, 2, 1, 2, "srun"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const ScopedEnvironment environment(row.environment);
    const Launch launch = launch_from_environment();
    CHECK(launch.rank == row.expected.rank);
    CHECK(launch.size == row.expected.size);
    CHECK(launch.local_rank == row.expected.local_rank);
    CHECK(launch.local_size == row.expected.local_size);
    CHECK(launch.launcher == row.expected.launcher);
  }
}

TEST_CASE("variables that cannot be true are errors that quote them") {
  struct Row {
    Environment environment;
    const char* error;
  };
  const Row rows[] = {
      {open_mpi("one", "2", "0", "1"), "[launch] OMPI_COMM_WORLD_RANK is 'one', expected a whole number of at least 0"},
      {open_mpi("1", "", "0", "1"), "[launch] OMPI_COMM_WORLD_SIZE is '', expected a whole number of at least 1"},
      {open_mpi("1", "2x", "0", "1"), "[launch] OMPI_COMM_WORLD_SIZE is '2x', expected a whole number of at least 1"},
      {open_mpi("0", "0", "0", "1"), "[launch] OMPI_COMM_WORLD_SIZE is '0', expected a whole number of at least 1"},
      {open_mpi("-1", "2", "0", "1"), "[launch] OMPI_COMM_WORLD_RANK is '-1', expected a whole number of at least 0"},
      {open_mpi("99999999999", "2", "0", "1"),
       "[launch] OMPI_COMM_WORLD_RANK is '99999999999', expected a whole number of at least 0"},
      {open_mpi("2", "2", "0", "1"),
       "[launch] OMPI_COMM_WORLD_RANK is '2', but OMPI_COMM_WORLD_SIZE is '2': ranks count from 0"},
      {open_mpi("1", "4", "2", "2"),
       "[launch] OMPI_COMM_WORLD_LOCAL_RANK is '2', but OMPI_COMM_WORLD_LOCAL_SIZE is '2': ranks count from 0"},
      {open_mpi("1", "2", "1", "4"),
       "[launch] OMPI_COMM_WORLD_LOCAL_SIZE is '4', but OMPI_COMM_WORLD_SIZE is '2': a host cannot have more ranks "
       "than "
       "there are"},
      {{{"OMPI_COMM_WORLD_SIZE", "2"}}, "[launch] OMPI_COMM_WORLD_SIZE is '2', but OMPI_COMM_WORLD_RANK is not set"},
      {{{"PMIX_RANK", "1"}},
       "[launch] PMIX_RANK is set, but OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE are not: expected the environment "
       "that mpirun gives its ranks; sudo and env -i drop it (sudo -E keeps it)"},
      {{{"PMI_RANK", "0"}}, "[launch] PMI_RANK is '0', but PMI_SIZE is not set"},
      {{{"WORLD_SIZE", "2"}}, "[launch] WORLD_SIZE is '2', but RANK is not set"},
      {{{"RANK", "0"}}, "[launch] RANK is '0', but WORLD_SIZE is not set"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}},
       "[launch] LOCAL_RANK is '0', but the number among the ranks of this host is not set"},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}}, "[launch] SLURM_NTASKS is '2', but SLURM_PROCID is not set"},
      {slurm("1", "2", "1") + Environment{{"SLURM_STEP_TASKS_PER_NODE", "2(x"}, {"SLURM_NODEID", "0"}},
       "[launch] SLURM_STEP_TASKS_PER_NODE is '2(x', expected a list like '4(x2),3'"},
      {slurm("1", "2", "1") + Environment{{"SLURM_STEP_TASKS_PER_NODE", "2"}, {"SLURM_NODEID", "1"}},
       "[launch] SLURM_STEP_TASKS_PER_NODE is '2', but SLURM_NODEID is '1'"},
  };
  for (const Row& row : rows) {
    const ScopedEnvironment environment(row.environment);
    CHECK_THROWS_WITH_AS(launch_from_environment(), row.error, Error);
  }
}

}  // namespace
}  // namespace braid::testing
