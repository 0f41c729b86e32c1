#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "train/report/report.h"

namespace braid::apps {

struct Served {
  std::string text;
  const char* type = "text/html; charset=utf-8";
};

/// Serves what `find` returns for a path, such as "/data.json", else the files of `folder` if there is one, to programs
/// of this machine, until a signal ends the process. A separate thread calls `find`. Port 0 is any free one. Throws
/// Error if the port or the folder cannot be used.
[[noreturn]] void serve(std::uint16_t port, const std::function<std::optional<Served>(const std::string& path)>& find,
                        const std::filesystem::path& folder = {});

/// The page of runs that train for "", and its "data.json".
std::optional<Served> find_in(const LiveReport& report, std::string_view path);

}  // namespace braid::apps
