#pragma once
// The time and units that a matrix product takes on a GPU. Libraries run it as thread blocks that each compute a tile
// of the result, and fetch its rows and columns through the L2 cache.

#include "core/device/device.h"
#include "core/graph/op.h"

namespace braid::scheduler {

struct MatrixKernel {
  double seconds = 0;  ///< when it runs alone, without its launch
  double units = 0;    ///< share of the device that others cannot use meanwhile, averaged over these seconds
};

/// Whether libraries run work as a product of tiles. Depthwise convolutions and products with a vector are not: their
/// kernels work element by element, and are memory-bound.
bool is_tiled(const Work& work);

/// The fastest tiles for the product; `flops_per_unit` in its number format, whose elements have `element_bytes`.
MatrixKernel fastest_matrix_kernel(const Work& work, const DeviceInfo& device, double flops_per_unit,
                                   double element_bytes);

}  // namespace braid::scheduler
