#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace braid::apps {

/// Serves a page at / and its data at /data.json to programs of this machine, until a signal ends the process. A
/// separate thread calls `page` and `data` for each request. Port 0 is any free one. Throws Error if the port cannot be
/// used.
[[noreturn]] void serve(std::uint16_t port, const std::function<std::string()>& page,
                        const std::function<std::string()>& data);

/// Serves the files of a folder in the same way.
[[noreturn]] void serve(std::uint16_t port, const std::filesystem::path& folder);

}  // namespace braid::apps
