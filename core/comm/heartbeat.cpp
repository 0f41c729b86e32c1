#include "core/comm/heartbeat.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>

#include "core/base/failure_reason.h"
#include "core/base/start_thread.h"

namespace braid {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kGoodbye = "goodbye";  // other lines are states

/// The first message of a rank. The key distinguishes ranks of this training from other clients.
struct Hello {
  std::uint64_t key;
  std::int32_t rank;
};

int milliseconds(std::chrono::nanoseconds time) {
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(time).count());
}

/// Waits until there is something to read, or to write.
bool ready(const Descriptor& file, short event, std::chrono::nanoseconds most) {
  pollfd entry{file.get(), event, 0};
  return poll(&entry, 1, milliseconds(most)) == 1;
}

sockaddr_in address_of(std::uint32_t host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = host;
  address.sin_port = port;
  return address;
}

}  // namespace

Descriptor::~Descriptor() {
  if (descriptor_ >= 0) close(descriptor_);
}

/// Where rank 0 listens; in network byte order.
struct Heartbeat::Meeting {
  std::uint64_t key = 0;
  std::uint16_t port = 0;                   // 0: nowhere
  std::array<std::uint32_t, 8> hosts = {};  // addresses of its interfaces; 0: no more
};

Heartbeat::Heartbeat(Communicator& ranks, bool one_host, std::chrono::nanoseconds timeout,
                     std::function<void(const std::string&)> on_loss)
    : rank_(ranks.rank()),
      watches_(rank_ <= 1),
      timeout_(timeout),
      interval_(std::clamp<std::chrono::nanoseconds>(timeout / 8, std::chrono::milliseconds(1),
                                                     std::chrono::milliseconds(500))),
      on_loss_(std::move(on_loss)),
      ended_(eventfd(0, EFD_CLOEXEC)),
      states_{{rank_, "has made no call"}} {
  Meeting meeting;
  if (rank_ == 0) {
    listener_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = address_of(htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY), 0);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (bind(listener_.get(), any, size) == 0 && listen(listener_.get(), ranks.size()) == 0 &&
        getsockname(listener_.get(), any, &size) == 0) {
      std::random_device random;
      meeting.key = std::uint64_t{random()} << 32 | random();
      meeting.port = address.sin_port;
    }
    std::size_t count = 0;
    ifaddrs* interfaces = nullptr;
    if (getifaddrs(&interfaces) != 0) interfaces = nullptr;
    for (const ifaddrs* one = interfaces; one != nullptr && count < meeting.hosts.size(); one = one->ifa_next) {
      const bool is_loopback = (one->ifa_flags & IFF_LOOPBACK) != 0;
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || is_loopback != one_host) continue;
      meeting.hosts[count++] = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr;
    }
    freeifaddrs(interfaces);
  }
  ranks.broadcast(&meeting, sizeof meeting, 0, {});
  thread_ = start_thread("the heartbeat of a rank", [this, meeting] { run(meeting); });
}

Heartbeat::~Heartbeat() {
  end();
  thread_.join();
}

void Heartbeat::end() {
  const std::uint64_t one = 1;
  static_cast<void>(!write(ended_.get(), &one, sizeof one));
}

void Heartbeat::begin_call(const std::string& call) {
  const std::lock_guard lock(mutex_);
  states_[rank_] = message("last called ", call, " (call ", ++calls_, ')');
}

std::string Heartbeat::other_states() {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [rank, state] : states_) {
    if (state == states_[rank_]) continue;
    text += message(text.empty() ? "" : "; ", "rank ", rank, ' ', state);
  }
  return text;
}

/// Tries the addresses of rank 0 one after another.
void Heartbeat::connect(const Meeting& meeting) {
  constexpr std::chrono::seconds kPatience{5};
  for (const std::uint32_t host : meeting.hosts) {
    if (host == 0 || meeting.port == 0) return;
    Descriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_in address = address_of(host, meeting.port);
    const auto* const any = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(connection.get(), any, sizeof address) != 0 && errno != EINPROGRESS) continue;
    const Hello hello{meeting.key, rank_};
    if (!ready(connection, POLLOUT, kPatience)) continue;
    if (send(connection.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) continue;
    peers_.push_back({0, std::move(connection), Clock::now()});
    return;
  }
}

/// Accepts a rank that connects to rank 0.
void Heartbeat::admit(const Meeting& meeting) {
  constexpr std::chrono::seconds kPatience{1};
  Descriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  Hello hello{};
  if (!ready(connection, POLLIN, kPatience)) return;
  if (recv(connection.get(), &hello, sizeof hello, 0) != sizeof hello || hello.key != meeting.key) return;
  peers_.push_back({hello.rank, std::move(connection), Clock::now()});
}

std::string Heartbeat::missed() {
  const Clock::time_point now = Clock::now();
  std::string reason;
  std::erase_if(peers_, [&](Peer& peer) {
    std::array<char, 256> said{};
    ssize_t count = 0;
    while ((count = recv(peer.connection.get(), said.data(), said.size(), 0)) > 0) {
      peer.heard = now;
      peer.unread.append(said.data(), static_cast<std::size_t>(count));
    }
    const bool is_gone = count == 0 || (errno != EAGAIN && errno != EINTR);
    for (std::size_t end = 0; (end = peer.unread.find('\n')) != std::string::npos; peer.unread.erase(0, end + 1)) {
      const std::string line = peer.unread.substr(0, end);
      if (line == kGoodbye) return true;
      const std::lock_guard lock(mutex_);
      if (!line.empty()) states_[peer.rank] = line;
    }
    const bool is_silent = watches_ && now - peer.heard >= timeout_;
    if (is_gone || is_silent) {
      const std::lock_guard lock(mutex_);
      std::string& state = states_[peer.rank];
      state = (is_silent ? "has given no sign of life for " + in_seconds(timeout_) : "has died") +
              (state.empty() ? "" : "; it " + state);
      if (watches_) reason = message("rank ", peer.rank, ' ', state);
    }
    return is_gone;
  });
  return reason;
}

void Heartbeat::run(const Meeting& meeting) {
  if (rank_ > 0) connect(meeting);
  const auto send_all = [&](std::string_view what) {
    const std::string line = message('\n', what, '\n');  // the first ends a line of which only a part was sent
    for (const Peer& peer : peers_) {
      static_cast<void>(send(peer.connection.get(), line.data(), line.size(), MSG_NOSIGNAL));
    }
  };
  const auto own_state = [&] {
    const std::lock_guard lock(mutex_);
    return states_[rank_];
  };
  Clock::time_point next = Clock::now();
  while (rank_ == 0 || !peers_.empty()) {
    connections_ = static_cast<int>(peers_.size());
    if (Clock::now() >= next) {
      send_all(own_state());
      next = Clock::now() + interval_;
    }
    std::vector<pollfd> files{{ended_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Peer& peer : peers_) files.push_back({peer.connection.get(), POLLIN, 0});
    Clock::time_point wake = next;
    for (const Peer& peer : peers_) wake = watches_ ? std::min(wake, peer.heard + timeout_) : wake;
    poll(files.data(), files.size(), std::max(0, milliseconds(wake - Clock::now())));
    if (files[0].revents != 0) break;
    // If all ranks were suspended for a while, the others may be as late as this one.
    if (const Clock::time_point now = Clock::now(); now - wake > timeout_ / 2) {
      for (Peer& peer : peers_) peer.heard = now;
    }
    if ((files[1].revents & POLLIN) != 0) admit(meeting);
    if (const std::string reason = missed(); !reason.empty()) {
      on_loss_(reason);
      break;
    }
  }
  connections_ = 0;
  send_all(kGoodbye);
}

}  // namespace braid
