#include "apps/serve.h"

#include <httplib.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "core/base/error.h"

namespace braid::apps {

namespace {

constexpr const char* kAddress = "127.0.0.1";

/// Whether a browser reaches this server under one of its names. A web page whose name suddenly resolves to
/// 127.0.0.1 ("DNS rebinding") does not.
bool names_this_machine(const std::string& host) {
  const std::string name = host.substr(0, host.find(':'));
  return name == kAddress || name == "localhost";
}

}  // namespace

void serve(std::uint16_t port, const std::function<std::optional<Served>(const std::string& path)>& find,
           const std::filesystem::path& folder) {
  using httplib::Request, httplib::Response, httplib::Server;
  Server server;
  BRAID_CHECK(folder.empty() || server.set_mount_point("/", folder.string()), Error, "cannot serve ", folder.string(),
              ": it is no folder");
  server.set_socket_options([](socket_t socket) {  // the library's own would let two servers share a port
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  // One thread, so that many pages do not take the training's cores. No connection may occupy it for long.
  server.new_task_queue = [] { return new httplib::ThreadPool(1); };
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(1);
  server.set_read_timeout(1);
  server.set_default_headers({{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}});
  server.set_pre_routing_handler([&](const Request& request, Response& response) {
    const bool known = names_this_machine(request.get_header_value("Host"));
    if (!known || (request.method != "GET" && request.method != "HEAD")) {
      response.status = known ? 404 : 403;
    } else if (std::optional<Served> served = find(request.path)) {
      response.set_content(std::move(served->text), served->type);
    } else {
      return Server::HandlerResponse::Unhandled;
    }
    return Server::HandlerResponse::Handled;
  });
  errno = 0;
  const int bound = port == 0 ? server.bind_to_any_port(kAddress) : server.bind_to_port(kAddress, port) ? port : -1;
  BRAID_CHECK(bound > 0, Error, "cannot serve on port ", port, ": ", std::strerror(errno),
              "; choose another port, or 0 for any free one");
  std::cout << "serving http://" << kAddress << ':' << bound << "/ (Ctrl-C ends)" << std::endl;
  server.listen_after_bind();
  throw Error(message("the server on port ", bound, " has ended: ", std::strerror(errno)));
}

std::optional<Served> find_in(const LiveReport& report, std::string_view path) {
  if (path.empty()) return Served{report.page()};
  if (path == "data.json") return Served{report.data(), "application/json"};
  return {};
}

}  // namespace braid::apps
