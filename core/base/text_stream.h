#pragma once
// A string that is written piece by piece. Its numbers look the same in every locale that a program may have set.

#include <locale>
#include <sstream>

namespace braid {

struct TextStream : std::ostringstream {
  TextStream() { imbue(std::locale::classic()); }
};

}  // namespace braid
