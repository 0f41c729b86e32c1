#include "tests/source_dir.h"

std::string braid::testing::source_dir() { return BRAID_SOURCE_DIR; }
