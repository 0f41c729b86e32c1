#include "data/formats/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <system_error>

#include "core/base/error.h"
#include "core/base/read_file.h"
#include "core/device/cpu/free_memory.h"
#include "core/text/text.h"

namespace braid {
namespace {

constexpr std::size_t kFirstGuess = 64 * 1024;

using Bytes = std::vector<std::uint8_t>;

Bytes decompress(std::string& raw, const std::string& name, std::uint32_t max_bytes) {
  z_stream stream{};
  const int started = inflateInit2(&stream, 16 + MAX_WBITS);  // 16: a gzip header and checksum, nothing else
  BRAID_CHECK(started == Z_OK, DataError, name, ": zlib could not start (error ", started, ")");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(raw.data());
  stream.avail_in = static_cast<uInt>(raw.size());

  Bytes content;
  int status = Z_OK;
  while (status == Z_OK) {
    const std::size_t done = stream.total_out;
    content.resize(std::min<std::size_t>(std::max(2 * done, kFirstGuess), max_bytes));
    stream.next_out = content.data() + done;
    stream.avail_out = static_cast<uInt>(content.size() - done);
    status = inflate(&stream, Z_NO_FLUSH);
  }
  // Z_BUF_ERROR: no progress is possible, for lack of input or space.
  BRAID_CHECK(status != Z_BUF_ERROR || stream.avail_in == 0, DataError, name, ": byte ", stream.total_in,
              ": decompresses to more than the limit of ", plural(max_bytes, "byte"));
  BRAID_CHECK(status != Z_BUF_ERROR, DataError, name, ": truncated: the gzip stream is not complete at byte ",
              raw.size(), ", the end of the file");
  BRAID_CHECK(status == Z_STREAM_END, DataError, name, ": byte ", stream.total_in,
              ": corrupt gzip stream: ", stream.msg != nullptr ? stream.msg : zError(status));
  BRAID_CHECK(stream.avail_in == 0, DataError, name, ": byte ", stream.total_in, ": ", stream.avail_in,
              " bytes follow the end of the gzip stream");
  content.resize(stream.total_out);
  return content;
}

}  // namespace

std::vector<std::uint8_t> read_data_file(const std::filesystem::path& path, std::uint32_t max_bytes) {
  try {
    std::string raw = read_file(path, "the data", max_bytes);
    return raw.starts_with("\x1f\x8b") ? decompress(raw, path.string(), max_bytes) : Bytes(raw.begin(), raw.end());
  } catch (const std::bad_alloc&) {
    std::error_code ignored;
    cpu::throw_out_of_memory(path.string(), std::filesystem::file_size(path, ignored));
  }
}

}  // namespace braid
