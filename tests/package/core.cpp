// Uses the library braid::core alone.

#include <braid/core/graph/array.h>

int main() { return braid::Array(braid::DType::f32, {2, 3}).bytes() == 24 ? 0 : 1; }
