#include "core/base/error.h"

#include "core/base/text_stream.h"

namespace braid {

void MessagePart::print(std::ostream& out) const {
  switch (kind_) {
    case Kind::text: out << text_; break;
    case Kind::character: out << static_cast<char>(integer_); break;
    case Kind::number: out << number_; break;
    case Kind::integer: out << integer_; break;
    case Kind::size: out << static_cast<std::uint64_t>(integer_); break;
    case Kind::object: object_.print(out, object_.address); break;
  }
}

std::string joined(std::initializer_list<MessagePart> parts) {
  TextStream out;
  for (const MessagePart& part : parts) part.print(out);
  return out.str();
}

}  // namespace braid
