#pragma once
// What a page has in place of files.

#include "core/text/json.h"

namespace braid {

extern Json files;  ///< the content of every file by its name

}  // namespace braid
