// Sockets between processes, and eventfds. Bytes arrive at once, but not at or from a rank that is cut off: they, and
// the end of a connection, arrive later, as TCP retransmits them.

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "apps/simulation/inside/inside.h"

namespace braid::simulation {

namespace {

using Kind = Socket::Kind;

std::array<Socket*, 1024> sockets;  // per descriptor of this process

/// The socket behind a descriptor; null if it is not simulated.
Socket* find(int descriptor) {
  const bool could_be = is_inside() && descriptor >= 0 && descriptor < static_cast<int>(sockets.size());
  return could_be ? sockets[static_cast<std::size_t>(descriptor)] : nullptr;
}

int fail(int error) { return errno = error, -1; }

/// Makes a socket without a descriptor; null if there are too many.
Socket* make(Kind kind) {
  for (Socket& socket : world->sockets) {
    if (socket.kind != Kind::none) continue;
    socket = {};
    socket.kind = kind;
    socket.rank = own_rank;
    return &socket;
  }
  return nullptr;
}

/// Opens a placeholder descriptor for a socket.
int open_socket(Socket* socket) {
  const int descriptor = socket == nullptr ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
  if (descriptor < 0 || descriptor >= static_cast<int>(sockets.size())) return fail(EMFILE);
  sockets[static_cast<std::size_t>(descriptor)] = socket;
  return descriptor;
}

void changed() {
  notify_all(&world->sockets);
  may_switch();
}

/// A connection to this listener that has not been accepted.
Socket* waiting(const Socket& listener) {
  const auto found = std::ranges::find_if(world->sockets, [&](const Socket& socket) {
    return socket.kind == Kind::stream && socket.port == listener.port && socket.rank == listener.rank &&
           !socket.is_accepted;
  });
  return found == world->sockets.end() ? nullptr : &*found;
}

/// What poll() reports of a socket.
short events_of(const Socket& socket) {
  if (socket.kind == Kind::event) return socket.arrived > 0 ? POLLIN : 0;
  if (socket.kind == Kind::listener) {
    const Socket* const first = waiting(socket);
    return first != nullptr && !is_cut(first->rank, first->other_rank) ? POLLIN : 0;
  }
  if (is_cut(socket.rank, socket.other_rank)) return 0;
  return static_cast<short>(POLLOUT | (socket.arrived > 0 || socket.is_over ? POLLIN : 0));
}

/// When poll() may report more by itself.
Time next_mend() {
  Time next = kNever;
  for (int rank = 0; rank < world->ranks; ++rank) {
    if (rank_state(rank).cut_until > world->now) next = std::min(next, rank_state(rank).cut_until);
  }
  return next;
}

/// The events of one entry of poll(). For a descriptor that is not simulated, asks the system.
short poll_one(const pollfd& entry) {
  if (const Socket* own = find(entry.fd)) return static_cast<short>(events_of(*own) & entry.events);
  pollfd copy = entry;
  return entry.fd >= 0 && BRAID_ORIGINAL(poll)(&copy, 1, 0) > 0 ? copy.revents : short{0};
}

}  // namespace

}  // namespace braid::simulation

using namespace braid::simulation;

extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  if (!is_inside() || domain != AF_INET) return BRAID_ORIGINAL(socket)(domain, type, protocol);
  return open_socket(make(Kind::created));
}

int eventfd(unsigned count, int flags) noexcept {
  if (!is_inside()) return BRAID_ORIGINAL(eventfd)(count, flags);
  Socket* const made = make(Kind::event);
  if (made != nullptr) made->arrived = count;
  return open_socket(made);
}

int bind(int descriptor, const sockaddr* address, socklen_t size) noexcept {
  Socket* const own = find(descriptor);
  if (own == nullptr) return BRAID_ORIGINAL(bind)(descriptor, address, size);
  own->port = ++world->last_port;
  return 0;
}

int listen(int descriptor, int backlog) noexcept {
  Socket* const own = find(descriptor);
  if (own == nullptr) return BRAID_ORIGINAL(listen)(descriptor, backlog);
  own->kind = Kind::listener;
  return 0;
}

int getsockname(int descriptor, sockaddr* address, socklen_t* size) noexcept {
  Socket* const own = find(descriptor);
  if (own == nullptr) return BRAID_ORIGINAL(getsockname)(descriptor, address, size);
  reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(static_cast<std::uint16_t>(own->port));
  return 0;
}

int connect(int descriptor, const sockaddr* address, socklen_t size) {
  Socket* const own = find(descriptor);
  if (own == nullptr) return BRAID_ORIGINAL(connect)(descriptor, address, size);
  const int port = ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port);
  const auto listener = std::ranges::find_if(
      world->sockets, [&](const Socket& its) { return its.kind == Kind::listener && its.port == port; });
  Socket* const other = listener == world->sockets.end() ? nullptr : make(Kind::stream);
  if (other == nullptr) return fail(ECONNREFUSED);
  own->kind = Kind::stream;
  own->is_accepted = true;
  own->other_rank = other->rank = listener->rank;
  other->other_rank = own_rank;
  other->port = port;
  own->peer = other;
  other->peer = own;
  changed();
  return fail(EINPROGRESS);
}

int accept4(int descriptor, sockaddr* address, socklen_t* size, int flags) {
  Socket* const own = find(descriptor);
  if (own == nullptr) return BRAID_ORIGINAL(accept4)(descriptor, address, size, flags);
  Socket* const first = waiting(*own);
  if (first == nullptr) return fail(EAGAIN);
  first->is_accepted = true;
  return open_socket(first);
}

ssize_t send(int descriptor, const void* data, std::size_t size, int flags) {
  Socket* const own = find(descriptor);
  if (own == nullptr) return BRAID_ORIGINAL(send)(descriptor, data, size, flags);
  if (own->peer == nullptr) return fail(EPIPE);
  Socket& other = *own->peer;
  if (other.arrived + size > other.bytes.size()) return fail(EAGAIN);
  std::memcpy(other.bytes.data() + other.arrived, data, size);
  other.arrived += static_cast<std::uint32_t>(size);
  if (own_rank == 1) rank_state(own->other_rank).is_watched = true;  // rank 1 watches rank 0, which watches all
  changed();
  return static_cast<ssize_t>(size);
}

ssize_t recv(int descriptor, void* data, std::size_t size, int flags) {
  Socket* const own = find(descriptor);
  if (own == nullptr) return BRAID_ORIGINAL(recv)(descriptor, data, size, flags);
  const bool is_reachable = own->kind == Kind::stream && !is_cut(own->rank, own->other_rank);
  may_switch();  // what poll() has reported stays readable if a cut begins now
  if (!is_reachable) return fail(EAGAIN);
  const std::uint32_t count = std::min(own->arrived, static_cast<std::uint32_t>(size));
  if (count == 0) return own->is_over ? 0 : fail(EAGAIN);
  if (own_rank == 0) rank_state(own->other_rank).is_watched = true;
  std::memcpy(data, own->bytes.data(), count);
  std::memmove(own->bytes.data(), own->bytes.data() + count, own->arrived - count);
  own->arrived -= count;
  return count;
}

int poll(pollfd* entries, nfds_t count, int milliseconds) {
  if (!is_inside()) return BRAID_ORIGINAL(poll)(entries, count, milliseconds);
  may_switch();
  const Time deadline = milliseconds < 0 ? kNever : world->now + milliseconds * kMillisecond;
  while (true) {
    int ready = 0;
    for (nfds_t i = 0; i < count; ++i) {
      entries[i].revents = poll_one(entries[i]);
      ready += entries[i].revents != 0;
    }
    if (ready > 0 || world->now >= deadline) return ready;
    wait_for(&world->sockets, std::min(deadline, next_mend()));
  }
}

int close(int descriptor) {
  if (Socket* const own = find(descriptor); own != nullptr) {
    close_socket(*own);
    sockets[static_cast<std::size_t>(descriptor)] = nullptr;
    changed();
  }
  return BRAID_ORIGINAL(close)(descriptor);
}

}  // extern "C"

bool braid::simulation::write_event(int descriptor, std::uint64_t count) {
  Socket* const own = find(descriptor);
  if (own == nullptr) return false;
  own->arrived += static_cast<std::uint32_t>(count);
  changed();
  return true;
}
