#include "ops/kernels/own_kernels.h"

namespace braid::cpu {

std::span<const OwnKernel> own_kernels() {
  constexpr auto takes_low_precision = [](std::string_view op) {
    return op == "all_gather" || op == "all_to_all" || op == "assign" || op == "cast" || op == "fill" ||
           op == "gather_pieces" || op == "from_neighbour" || op == "own_piece" || op == "permute" || op == "receive" ||
           op == "send" || op == "shard_rows" || op == "window";
  };
#define BRAID_ENTRY(op) {#op, make_##op, {takes_low_precision(#op)}},
  static constexpr OwnKernel kKernels[] = {BRAID_FOR_EACH_KERNEL(BRAID_ENTRY)};
#undef BRAID_ENTRY
  return kKernels;
}

}  // namespace braid::cpu
