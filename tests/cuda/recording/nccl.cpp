// NCCL: communicators, and calls that wait for each other.

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/comm/nccl/library.h"
#include "tests/cuda/recording/world.h"

namespace {

using namespace braid::recording;
using Kind = Call::Kind;
using Bytewise = std::vector<std::vector<std::byte>>;  // bytes of every rank

constexpr const char* kTypes[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                  "uint64", "float16", "float32", "float64", "bfloat16"};
constexpr std::size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

ncclResult_t nccl_call(Kind kind, std::string_view function, const std::function<int(World&, Call&)>& body) {
  return static_cast<ncclResult_t>(library_call(kind, function, ncclUnhandledCudaError, body));
}

/// Whether a communicator may be used in this call, by this thread.
bool usable(World& world, ncclComm* communicator, Call& call) {
  if (communicator == nullptr || !communicator->alive || communicator->aborted) {
    world.mistake(braid::message(call.function, " uses a communicator after its end"));
    return false;
  }
  call.handle = communicator->id;
  return true;
}

/// What one rank reads, as bytes.
std::vector<std::byte> read(const std::byte* data, std::size_t bytes) { return {data, data + bytes}; }

template <class T>
void add(std::vector<std::byte>& sum, const std::vector<std::byte>& more) {
  for (std::size_t at = 0; at < sum.size(); at += sizeof(T)) {
    T a{}, b{};
    std::memcpy(&a, &sum[at], sizeof a);
    std::memcpy(&b, &more[at], sizeof b);
    a += b;
    std::memcpy(&sum[at], &a, sizeof a);
  }
}

/// f16 and bf16 are not added: the first rank's stand for the sum.
std::vector<std::byte> sum_of(const Bytewise& parts, int type) {
  std::vector<std::byte> sum = parts.front();
  for (std::size_t r = 1; r < parts.size(); ++r) {
    if (type == ncclFloat32) add<float>(sum, parts[r]);
    if (type == ncclFloat64) add<double>(sum, parts[r]);
    if (type == ncclInt32) add<std::int32_t>(sum, parts[r]);
  }
  return sum;
}

void write(std::byte* data, const std::vector<std::byte>& bytes) {
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
}

/// Moves the data, once all ranks have reached their call.
void perform(World& world, const Clique& clique) {
  const std::size_t ranks = clique.members.size();
  const Collective& first = *clique.waiting.front();
  for (const auto& other : clique.waiting) {
    if (other->function == first.function && other->text == first.text && other->root == first.root) continue;
    world.mistake(braid::message("ranks call ", first.function, " of ", first.text, " and ", other->function, " of ",
                                 other->text));
    return;
  }
  const std::size_t part = first.count * kSizes[first.type];
  const std::size_t in = first.function == "ncclReduceScatter" ? part * ranks : part;
  Bytewise parts;
  for (const auto& rank : clique.waiting) {
    parts.push_back(rank->in == nullptr ? std::vector<std::byte>() : read(rank->in, in));
  }
  if (first.function == "ncclAllReduce") {
    const auto sum = sum_of(parts, first.type);
    for (const auto& rank : clique.waiting) write(rank->out, sum);
  } else if (first.function == "ncclReduceScatter") {
    const auto sum = sum_of(parts, first.type);
    for (std::size_t r = 0; r < ranks; ++r) write(clique.waiting[r]->out, read(sum.data() + r * part, part));
  } else if (first.function == "ncclAllGather") {
    for (const auto& rank : clique.waiting) {
      for (std::size_t r = 0; r < ranks; ++r) write(rank->out + r * part, parts[r]);
    }
  } else if (first.function == "ncclBroadcast") {
    for (const auto& rank : clique.waiting) write(rank->out, parts[static_cast<std::size_t>(first.root)]);
  } else {
    for (std::size_t r = 0; r < ranks; ++r) {
      for (const Collective::Message& to : clique.waiting[r]->received) {
        const auto& sent = clique.waiting[static_cast<std::size_t>(to.peer)]->sent;
        const auto from = std::ranges::find(sent, static_cast<int>(r), &Collective::Message::peer);
        if (from == sent.end() || from->bytes != to.bytes) {
          world.mistake(braid::message("rank ", r, " receives what rank ", to.peer, " does not send"));
          continue;
        }
        write(to.data, read(from->data, from->bytes));
      }
    }
  }
}

/// Called when the stream of a rank has reached a call. False as long as others have not.
bool arrive(World& world, ncclComm& communicator, const Collective& collective) {
  if (communicator.aborted) return true;
  Clique& clique = *communicator.clique;
  const auto rank = static_cast<std::size_t>(communicator.rank);
  if (clique.done[rank]) {
    clique.done[rank] = false;
    return true;
  }
  auto& waiting = clique.waiting[rank];
  if (waiting.has_value() && waiting->stream != collective.stream) {
    world.mistake(braid::message("rank ", rank, " has two calls in progress at once"));
  }
  waiting = collective;
  if (!std::ranges::all_of(clique.waiting, [](const auto& its) { return its.has_value(); })) return false;
  perform(world, clique);
  for (auto& its : clique.waiting) its.reset();
  clique.done.assign(clique.done.size(), true);
  clique.done[rank] = false;
  return true;
}

/// The first call of each function is in progress until NCCL is asked about it: ranks connect.
ncclResult_t collective(Collective collective, ncclComm* communicator, cudaStream_t handle) {
  return nccl_call(Kind::launch, collective.function, [&](World& world, Call& call) -> int {
    if (!usable(world, communicator, call)) return ncclInvalidArgument;
    if (communicator->error != ncclSuccess) return communicator->error;
    CUstream_st* stream = world.stream(handle, call);
    if (stream == nullptr) return ncclInvalidArgument;
    if (stream->context->device != communicator->device || world.current()->device != communicator->device) {
      world.mistake(braid::message(call.function, " of rank ", communicator->rank, " on another device"));
    }
    if (communicator->in_progress != nullptr) {
      world.mistake(braid::message(call.function, " while the last call is in progress"));
    }
    collective.stream = stream;
    call.kernel = "nccl " + collective.text;
    const std::size_t bytes = collective.count * kSizes[collective.type], ranks = communicator->clique->members.size();
    const bool scatters = call.function == "ncclReduceScatter", gathers = call.function == "ncclAllGather";
    if (collective.in != nullptr) {
      call.pointers = {{collective.in, scatters ? bytes * ranks : bytes},
                       {collective.out, gathers ? bytes * ranks : bytes}};
    }
    for (const auto& message : collective.sent) call.pointers.push_back({message.data, message.bytes});
    for (const auto& message : collective.received) call.pointers.push_back({message.data, message.bytes});
    const auto holds = stream->capture != nullptr ? communicator->graphs : nullptr;
    const auto post = [&world, stream, communicator, collective, holds](Call& enqueued) {
      return world.enqueue(*stream, enqueued, [&world, communicator, collective, holds] {
        return arrive(world, *communicator, collective);
      });
    };
    if (communicator->connected.insert(call.function).second) {
      if (stream->capture != nullptr) world.mistake("the first " + call.function + " of a communicator is captured");
      communicator->in_progress = [post] {
        Call later;
        later.kind = Kind::launch;
        static_cast<void>(post(later));
      };
      return ncclInProgress;
    }
    return post(call) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
  });
}

std::string text_of(std::size_t count, ncclDataType_t type) { return braid::message(count, ' ', kTypes[type]); }

Collective with_data(const char* function, const void* in, void* out, std::size_t count, ncclDataType_t type,
                     int root = 0) {
  return {.function = function,
          .text = text_of(count, type),
          .in = static_cast<const std::byte*>(in),
          .out = static_cast<std::byte*>(out),
          .count = count,
          .type = type,
          .root = root};
}

/// This thread's calls between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  Collective messages;
  ncclComm* communicator = nullptr;
  cudaStream_t stream = nullptr;
};
thread_local Group group;

ncclResult_t message(std::vector<Collective::Message> Collective::*list, const char* function, const void* data,
                     std::size_t count, ncclDataType_t type, int peer, ncclComm* communicator, cudaStream_t stream) {
  return nccl_call(Kind::other, function, [&](World& world, Call& call) -> int {
    if (!usable(world, communicator, call)) return ncclInvalidArgument;
    if (group.depth == 0) world.mistake(call.function + " alone: two ranks that both send would wait for ever");
    if (group.communicator != nullptr && (group.communicator != communicator || group.stream != stream)) {
      world.mistake("messages of several communicators or streams in one group");
    }
    group.communicator = communicator;
    group.stream = stream;
    auto* bytes = static_cast<std::byte*>(const_cast<void*>(data));
    (group.messages.*list).push_back({peer, bytes, count * kSizes[type]});
    group.messages.text = text_of(count, type);
    call.pointers = {{data, count * kSizes[type]}};
    call.index = peer;
    return ncclSuccess;
  });
}

/// Frees what belongs to it, and informs the other ranks.
void remove(World& world, ncclComm& communicator) {
  communicator.alive = false;
  --world.alive.communicators;
}

bool in_graphs(const ncclComm& communicator) { return communicator.graphs.use_count() > 1; }

}  // namespace

braid::Symbol braid::nccl::find_function(const char* name) { return {dlsym(RTLD_DEFAULT, name)}; }

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError    ? "remote process exited or there was a network error"
         : result == ncclInvalidUsage ? "invalid usage"
         : result == ncclSystemError  ? "unhandled system error"
                                      : "another error";
}

const char* ncclGetLastError(ncclComm_t) { return "the recorder says so"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  return nccl_call(Kind::other, __func__, [&](World&, Call&) {
    const char* address = std::getenv("NCCL_COMM_ID");
    const std::string text = address != nullptr ? address : braid::message("id ", ++made);
    *id = {};
    text.copy(id->internal, sizeof id->internal - 1);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return nccl_call(Kind::create, __func__, [&](World& world, Call& call) -> int {
    if (config == nullptr || config->blocking != 0) world.mistake("calls of a communicator may block for ever");
    auto& clique = world.cliques[id.internal];
    if (clique == nullptr) clique = std::make_shared<Clique>(size);
    if (rank < 0 || rank >= size || clique->members.size() != static_cast<std::size_t>(size))
      return ncclInvalidArgument;
    ncclComm& made = world.communicators.emplace_back();
    made.id = call.handle = ++world.last_handle;
    made.rank = rank;
    made.device = world.current()->device;
    made.clique = clique;
    made.error = ncclInProgress;
    clique->members[static_cast<std::size_t>(rank)] = *handle = &made;
    ++world.alive.communicators;
    if (std::ranges::count(clique->members, nullptr) > 0) return ncclInProgress;
    std::set<int> devices;
    for (const ncclComm* member : clique->members) devices.insert(member->device);
    const bool own = devices.size() == clique->members.size();
    for (ncclComm* member : clique->members) member->error = own ? ncclSuccess : ncclInvalidUsage;
    world.cliques.erase(id.internal);
    return ncclInProgress;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  const LockedWorld locked;  // not logged: how often it is called depends on time
  Call call;
  call.function = __func__;
  if (!usable(locked.world, communicator, call)) return ncclInvalidArgument;
  *error = static_cast<ncclResult_t>(communicator->error);
  if (communicator->finalized && in_graphs(*communicator)) *error = ncclInProgress;
  if (*error == ncclSuccess && communicator->in_progress != nullptr)
    std::exchange(communicator->in_progress, nullptr)();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  return nccl_call(Kind::other, __func__, [&](World& world, Call& call) -> int {
    if (!usable(world, communicator, call)) return ncclInvalidArgument;
    communicator->finalized = true;
    return ncclInProgress;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  return nccl_call(Kind::destroy, __func__, [&](World& world, Call& call) -> int {
    if (!usable(world, communicator, call)) return ncclInvalidArgument;
    if (!communicator->finalized) world.mistake("ncclCommDestroy of what is not finalized waits for other ranks");
    if (in_graphs(*communicator)) world.mistake("ncclCommDestroy while graphs have calls of it waits for ever");
    remove(world, *communicator);
    return ncclSuccess;
  });
}

/// Ends calls at once, and returns when the last graph with calls of it is gone.
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  constexpr int kMost = 60'000;  // milliseconds: a minute, which only a hang takes
  World& world = World::get();
  bool known = false;
  const ncclResult_t result = nccl_call(Kind::destroy, __func__, [&](World&, Call& call) -> int {
    known = usable(world, communicator, call);
    if (!known) return ncclInvalidArgument;
    communicator->aborted = true;
    for (ncclComm* member : communicator->clique->members) {
      if (member != nullptr && member != communicator && member->error != ncclInvalidUsage) {
        member->error = ncclRemoteError;
      }
    }
    return ncclSuccess;
  });
  for (int waited = 0; known; ++waited) {
    {
      const std::lock_guard lock(world.mutex);
      if (!in_graphs(*communicator) || waited == kMost) {
        if (waited == kMost) world.mistake("ncclCommAbort waits for ever for graphs with calls of it");
        remove(world, *communicator);
        break;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return result;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  --group.depth;
  Group ended = std::exchange(group, {});
  ended.messages.function = __func__;
  if (ended.communicator == nullptr) return ncclSuccess;
  return collective(std::move(ended.messages), ended.communicator, ended.stream);
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t communicator, cudaStream_t stream) {
  if (op != ncclSum) return ncclInvalidArgument;
  return collective(with_data(__func__, in, out, count, type), communicator, stream);
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t communicator, cudaStream_t stream) {
  if (op != ncclSum) return ncclInvalidArgument;
  return collective(with_data(__func__, in, out, count, type), communicator, stream);
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  return collective(with_data(__func__, in, out, count, type), communicator, stream);
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return collective(with_data(__func__, in, out, count, type, root), communicator, stream);
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return message(&Collective::sent, __func__, data, count, type, peer, communicator, stream);
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return message(&Collective::received, __func__, data, count, type, peer, communicator, stream);
}

}  // extern "C"

void braid::recording::fail_communicator(int rank, int status) {
  const LockedWorld world;
  for (ncclComm& communicator : world->communicators) {
    if (communicator.alive && communicator.rank == rank) communicator.error = status;
  }
}
