#pragma once
// Makes the tensors of a batch from its samples.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace braid {

/// Samples of a batch → its tensors, whose first axis is that of the samples. Called from several threads at once.
using Collate = std::function<std::vector<Array>(std::span<const Sample>)>;

/// Stacks tensor i of all samples along a new first axis: of N samples {[3], scalar}, {[N,3], [N]}. `indices` are those
/// of the samples in their dataset, for messages. Throws DataError unless all samples have as many tensors, with the
/// same dtypes and shapes.
std::vector<Array> stack(std::span<const Sample> samples, std::span<const std::int64_t> indices = {});

}  // namespace braid
