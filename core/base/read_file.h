#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

namespace braid {

/// The content of a file; `what` names it in messages, such as "the config". Throws DataError "path: cannot read the
/// config: why", also if the file has more than `most` bytes, is a folder, or is a named pipe, which could block
/// forever. The pipes that shells make, such as /dev/stdin and /dev/fd/63, are read to their end.
std::string read_file(const std::filesystem::path& path, std::string_view what,
                      std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace braid
