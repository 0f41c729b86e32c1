#pragma once
// Writes messages in the wire format of Protocol Buffers (protobuf.dev/programming-guides/encoding). Fields go by their
// numbers; no schema is needed.

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace braid {

class ProtoMessage {
 public:
  ProtoMessage& number(int field, std::int64_t value) {
    tag(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& real(int field, float value) {
    tag(field, 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>((bits >> shift) & 0xFF);
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
