// The functions of Open MPI that Braid calls (core/comm/mpi/library.h). Ranks exchange data in the memory that they
// share. A collective call ends some time after the last rank has made it; a message is sent once it is received.

#define OMPI_SKIP_MPICXX 1  // the C++ interface, which MPI 3 removed
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <ranges>
#include <vector>

#include "apps/simulation/inside/inside.h"

// Open MPI leaves these to its library.
struct ompi_communicator_t {
  int number, rank, size;
  std::array<int, braid::simulation::kMostRanks> members;  // their ranks among all
  std::int64_t calls;                                      // collective ones
};
struct ompi_datatype_t {
  char name;
  std::size_t bytes;
};
struct ompi_predefined_communicator_t : ompi_communicator_t {};
struct ompi_predefined_datatype_t : ompi_datatype_t {};
struct ompi_predefined_op_t {};
struct ompi_predefined_errhandler_t {};

namespace braid::simulation {

/// What a rank asks for: equal on all members of a collective call.
struct Call {
  enum class Kind { all_reduce, all_gather, all_to_all, broadcast, barrier, duplicate, split, message };
  Kind kind;
  char type;
  int count, root;  // root: of a broadcast
  bool operator==(const Call&) const = default;
};

/// Where members meet. A message has two: the first one sends.
struct Meeting {
  int communicator, size;
  std::int64_t number;                // of a collective call, on its communicator; -1 - tag of a message
  std::array<int, kMostRanks> ranks;  // of the members, among all
  bool operator==(const Meeting&) const = default;
};

/// A call from when the first member makes it until all have their results.
struct Operation {
  Call call;
  Meeting meeting;
  int posted, taken;
  std::array<bool, kMostRanks> has_posted;
  std::array<std::byte*, kMostRanks> data;  // what each member brings
  std::array<std::size_t, kMostRanks> bytes;
  int made;  // number of the first communicator that it makes
  Time ready;
  Operation* next;
};

namespace {

/// Blocks of powers of two, in the memory of the cluster.
void* allocate(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, sizeof(void*))), order = std::bit_width(size) - 1;
  if (void* const block = world->heap_free[order]; block != nullptr) {
    std::memcpy(&world->heap_free[order], block, sizeof block);
    return block;
  }
  constexpr std::size_t kPage = 4096;
  std::byte* const begin = reinterpret_cast<std::byte*>(world) + (sizeof(World) + kPage - 1) / kPage * kPage;
  world->heap_used = (world->heap_used + size - 1) / size * size;
  return begin + (world->heap_used += size) - size;
}
void release(void* block, std::size_t bytes) {
  const std::size_t order = std::bit_width(std::bit_ceil(std::max(bytes, sizeof(void*)))) - 1;
  std::memcpy(block, &world->heap_free[order], sizeof block);
  world->heap_free[order] = block;
}

template <class T>
void add(std::byte* sum, const std::byte* other, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
    reinterpret_cast<T*>(sum)[i] += reinterpret_cast<const T*>(other)[i];
  }
}

/// Braid compares calls before it makes them, so a difference is its mistake.
void require_same(const Operation& operation, const Call& call) {
  if (operation.call == call) return;
  std::fprintf(stderr, "[simulation] rank %d calls kind %d of %d, another rank kind %d of %d\n", own_rank,
               static_cast<int>(call.kind), call.count, static_cast<int>(operation.call.kind), operation.call.count);
  std::abort();
}

/// Joins the other members, of which this one brings some bytes. The first to come makes the operation.
Operation& post(const Meeting& meeting, int member, const Call& call, const void* data, std::size_t bytes) {
  const auto m = static_cast<std::size_t>(member);
  Operation** at = &world->operations;
  while (*at != nullptr && ((*at)->meeting != meeting || (*at)->has_posted[m])) at = &(*at)->next;
  if (*at == nullptr) {
    *at = new (allocate(sizeof(Operation))) Operation{};
    (*at)->call = call;
    (*at)->meeting = meeting;
    // One for each group that a split could make.
    (*at)->made = world->communicators + 1;
    if (call.kind == Call::Kind::duplicate || call.kind == Call::Kind::split) world->communicators += meeting.size;
  }
  Operation& operation = **at;
  require_same(operation, call);
  operation.has_posted[m] = true;
  operation.bytes[m] = bytes;
  if (bytes > 0) std::memcpy(operation.data[m] = static_cast<std::byte*>(allocate(bytes)), data, bytes);
  if (++operation.posted == meeting.size) operation.ready = world->now + world->random.next() % world->latency;
  return operation;
}

Operation& post_collective(ompi_communicator_t& communicator, const Call& call, const void* data, std::size_t bytes) {
  may_switch();
  const Meeting meeting{communicator.number, communicator.size, communicator.calls++, communicator.members};
  return post(meeting, communicator.rank, call, data, bytes);
}

/// Whether the results are there: the links between its members work, too.
bool is_done(const Operation& operation) {
  if (operation.posted < operation.meeting.size || world->now < operation.ready) return false;
  const auto members = std::views::take(operation.meeting.ranks, operation.meeting.size);
  return std::ranges::none_of(members, [](int rank) { return is_cut(own_rank, rank); });
}

/// Writes a member's result.
void deliver(const Operation& operation, int rank, std::byte* target) {
  const auto copy_from = [&](std::size_t member, std::size_t from, std::size_t to, std::size_t bytes) {
    if (bytes > 0) std::memcpy(target + to, operation.data[member] + from, bytes);
  };
  const auto members = static_cast<std::size_t>(operation.meeting.size), own = static_cast<std::size_t>(rank);
  const std::size_t bytes = operation.bytes[0];
  switch (operation.call.kind) {
    case Call::Kind::all_reduce:
      copy_from(0, 0, 0, bytes);
      for (std::size_t m = 1; m < members; ++m) {
        if (operation.call.type == 'f') add<float>(target, operation.data[m], bytes);
        if (operation.call.type == 'd') add<double>(target, operation.data[m], bytes);
        if (operation.call.type == 'i') add<std::uint32_t>(target, operation.data[m], bytes);
      }
      break;
    case Call::Kind::all_gather:
      for (std::size_t m = 0; m < members; ++m) copy_from(m, 0, m * bytes, bytes);
      break;
    case Call::Kind::all_to_all:
      for (std::size_t m = 0; m < members; ++m)
        copy_from(m, own * (bytes / members), m * (bytes / members), bytes / members);
      break;
    case Call::Kind::broadcast:
      copy_from(static_cast<std::size_t>(operation.call.root), 0, 0, static_cast<std::size_t>(operation.call.count));
      break;
    case Call::Kind::message:
      if (rank == 1) copy_from(0, 0, 0, bytes);
      break;
    case Call::Kind::barrier:
    case Call::Kind::duplicate:
    case Call::Kind::split: break;
  }
}

/// The last member to have its result frees the operation.
void take(Operation& operation) {
  if (++operation.taken < operation.meeting.size) return;
  for (std::size_t m = 0; m < kMostRanks; ++m) {
    if (operation.data[m] != nullptr) release(operation.data[m], operation.bytes[m]);
  }
  Operation** at = &world->operations;
  while (*at != &operation) at = &(*at)->next;
  *at = operation.next;
  release(&operation, sizeof operation);
}

}  // namespace

}  // namespace braid::simulation

using namespace braid::simulation;

struct ompi_request_t {
  Operation* operation;
  int member;
  std::byte* target;
  ompi_communicator_t* duplicated;  // null in other calls
  MPI_Comm* duplicate;
};

namespace {

/// Begins a collective call whose result a test writes to the target.
int begin(MPI_Request* made, MPI_Comm communicator, const Call& call, const void* source, std::size_t bytes,
          void* target) {
  Operation& operation = post_collective(*communicator, call, source, bytes);
  *made = new ompi_request_t{&operation, communicator->rank, static_cast<std::byte*>(target), nullptr, nullptr};
  return MPI_SUCCESS;
}

/// Begins to send (member 0) or to receive (1).
int begin_message(MPI_Request* made, MPI_Comm communicator, int member, int peer, int tag, const Call& call,
                  const void* source, void* target) {
  may_switch();
  Meeting meeting{.communicator = communicator->number, .size = 2, .number = -1 - tag, .ranks = {}};
  const auto rank_of = [&](int rank) { return communicator->members[static_cast<std::size_t>(rank)]; };
  meeting.ranks[0] = rank_of(member == 0 ? communicator->rank : peer);
  meeting.ranks[1] = rank_of(member == 0 ? peer : communicator->rank);
  Operation& operation = post(meeting, member, call, source, member == 0 ? static_cast<std::size_t>(call.count) : 0);
  *made = new ompi_request_t{&operation, member, static_cast<std::byte*>(target), nullptr, nullptr};
  return MPI_SUCCESS;
}

std::size_t bytes_of(int count, MPI_Datatype type) { return static_cast<std::size_t>(count) * type->bytes; }

bool is_initialized = false, is_finalized = false;

}  // namespace

extern "C" {

ompi_predefined_communicator_t ompi_mpi_comm_world{};
ompi_predefined_datatype_t ompi_mpi_byte{{'b', 1}}, ompi_mpi_float{{'f', 4}}, ompi_mpi_double{{'d', 8}},
    ompi_mpi_int32_t{{'i', 4}};
ompi_predefined_op_t ompi_mpi_op_sum{};
ompi_predefined_errhandler_t ompi_mpi_errors_return{};

int MPI_Initialized(int* flag) { return *flag = is_initialized, MPI_SUCCESS; }
int MPI_Finalized(int* flag) { return *flag = is_finalized, MPI_SUCCESS; }
int MPI_Query_thread(int* provided) { return *provided = MPI_THREAD_SERIALIZED, MPI_SUCCESS; }
int MPI_Init_thread(int*, char***, int, int* provided) {
  ompi_communicator_t& all = ompi_mpi_comm_world;
  all = {0, own_rank, world->ranks, {}, 0};
  for (int rank = 0; rank < world->ranks; ++rank) all.members[static_cast<std::size_t>(rank)] = rank;
  is_initialized = true;
  return MPI_Query_thread(provided);
}
int MPI_Finalize() { return is_finalized = true, MPI_SUCCESS; }
int MPI_Abort(MPI_Comm, int error) {
  world->killed_at = std::min(world->killed_at, world->now + kSecond);  // the launcher ends the other ranks
  _exit(error);
}
int MPI_Error_string(int, char* text, int* length) {
  *length = std::snprintf(text, MPI_MAX_ERROR_STRING, "an error");
  return MPI_SUCCESS;
}
int MPI_Comm_set_errhandler(MPI_Comm, MPI_Errhandler) { return MPI_SUCCESS; }
int MPI_Comm_rank(MPI_Comm communicator, int* rank) { return *rank = communicator->rank, MPI_SUCCESS; }
int MPI_Comm_size(MPI_Comm communicator, int* size) { return *size = communicator->size, MPI_SUCCESS; }

int MPI_Comm_idup(MPI_Comm communicator, MPI_Comm* made, MPI_Request* r) {
  begin(r, communicator, {Call::Kind::duplicate, 0, 0, 0}, nullptr, 0, nullptr);
  (*r)->duplicated = communicator;
  (*r)->duplicate = made;
  return MPI_SUCCESS;
}

int MPI_Comm_split(MPI_Comm communicator, int color, int key, MPI_Comm* made) {
  const std::array<int, 2> own{color, key};
  Operation& operation = post_collective(*communicator, {Call::Kind::split, 0, 0, 0}, own.data(), sizeof own);
  while (!is_done(operation)) wait_for(&operation, world->now + kMillisecond);
  auto* const group = *made = new ompi_communicator_t{};
  std::vector<std::array<int, 3>> members;  // key, rank in the old communicator, rank among all
  for (int member = 0; member < communicator->size; ++member) {
    std::array<int, 2> its{};
    std::memcpy(its.data(), operation.data[static_cast<std::size_t>(member)], sizeof its);
    if (its[0] == color) members.push_back({its[1], member, communicator->members[static_cast<std::size_t>(member)]});
  }
  const int first = members.front()[1];
  std::ranges::sort(members);
  for (const auto& [its_key, member, rank] : members) {
    if (member == communicator->rank) group->rank = group->size;
    group->members[static_cast<std::size_t>(group->size++)] = rank;
  }
  group->number = operation.made + first;
  take(operation);
  return MPI_SUCCESS;
}

int MPI_Iallreduce(const void*, void* data, int count, MPI_Datatype type, MPI_Op, MPI_Comm communicator,
                   MPI_Request* r) {
  return begin(r, communicator, {Call::Kind::all_reduce, type->name, count, 0}, data, bytes_of(count, type), data);
}

int MPI_Iallgather(const void*, int, MPI_Datatype, void* whole, int count, MPI_Datatype type, MPI_Comm communicator,
                   MPI_Request* r) {
  const std::size_t bytes = bytes_of(count, type);
  const std::byte* const own = static_cast<std::byte*>(whole) + bytes * static_cast<std::size_t>(communicator->rank);
  return begin(r, communicator, {Call::Kind::all_gather, type->name, count, 0}, own, bytes, whole);
}

int MPI_Ialltoall(const void* source, int count, MPI_Datatype type, void* target, int, MPI_Datatype,
                  MPI_Comm communicator, MPI_Request* r) {
  const std::size_t bytes = bytes_of(count, type) * static_cast<std::size_t>(communicator->size);
  return begin(r, communicator, {Call::Kind::all_to_all, type->name, count, 0}, source, bytes, target);
}

int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator, MPI_Request* r) {
  const std::size_t bytes = communicator->rank == root ? bytes_of(count, type) : 0;
  return begin(r, communicator, {Call::Kind::broadcast, type->name, count, root}, data, bytes, data);
}

int MPI_Ibarrier(MPI_Comm communicator, MPI_Request* r) {
  return begin(r, communicator, {Call::Kind::barrier, 0, 0, 0}, nullptr, 0, nullptr);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm communicator, MPI_Request* r) {
  return begin_message(r, communicator, 0, to, tag, {Call::Kind::message, type->name, count, 0}, data, nullptr);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm communicator, MPI_Request* r) {
  return begin_message(r, communicator, 1, from, tag, {Call::Kind::message, type->name, count, 0}, nullptr, data);
}

int MPI_Test(MPI_Request* r, int* flag, MPI_Status*) {
  may_switch();
  ompi_request_t* const own = *r;
  *flag = own == nullptr || is_done(*own->operation);
  if (*flag == 0 || own == nullptr) return MPI_SUCCESS;
  deliver(*own->operation, own->member, own->target);
  if (own->duplicated != nullptr) {
    *own->duplicate = new ompi_communicator_t(*own->duplicated);
    (*own->duplicate)->number = own->operation->made;
    (*own->duplicate)->calls = 0;
  }
  take(*own->operation);
  delete own;
  *r = nullptr;
  return MPI_SUCCESS;
}

}  // extern "C"
