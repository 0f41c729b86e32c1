#pragma once
// Writes messages in the wire format of Protocol Buffers (protobuf.dev/programming-guides/encoding). Fields are
// identified by their numbers; no schema is needed.

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace braid {

void append_little_endian(std::string& bytes, std::unsigned_integral auto value) {
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
}

class ProtoMessage {
 public:
  ProtoMessage& number(int field, std::int64_t value) {
    tag(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& real(int field, float value) {
    tag(field, 5);
    append_little_endian(bytes_, std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  ProtoMessage& real64(int field, double value) {
    tag(field, 1);
    append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& text(int field, std::string_view value) {
    begin(field, value.size()).bytes_ += value;
    return *this;
  }
  ProtoMessage& message(int field, const ProtoMessage& value) { return text(field, value.bytes_); }
  /// Begins a field of bytes or a message; the caller writes its `size` bytes right after this message.
  ProtoMessage& begin(int field, std::size_t size) {
    tag(field, 2);
    varint(size);
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, unsigned wire_type) { varint(static_cast<unsigned>(field) << 3U | wire_type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace braid
