#include "data/loader/collate.h"

#include <cstring>

#include "core/text/text.h"

namespace braid {

std::vector<Array> stack(std::span<const Sample> samples, std::span<const std::int64_t> indices) {
  const auto name_of_sample = [&](std::size_t i) {
    return message("sample ", indices.empty() ? static_cast<std::int64_t>(i) : indices[i]);
  };
  if (samples.empty()) return {};
  const Sample& first = samples[0];
  for (std::size_t i = 0; i < samples.size(); ++i) {
    BRAID_CHECK(!samples[i].empty(), DataError, name_of_sample(i), " has no tensors");
    BRAID_CHECK(samples[i].size() == first.size(), DataError, name_of_sample(i), " has ",
                plural(samples[i].size(), "tensor"), ", ", name_of_sample(0), " has ", first.size());
    for (std::size_t t = 0; t < first.size(); ++t) {
      const Array &array = samples[i][t], &other = first[t];
      BRAID_CHECK(array.data() != nullptr, DataError, "tensor ", t, " of ", name_of_sample(i), " is empty");
      BRAID_CHECK(array.dtype() == other.dtype() && array.shape() == other.shape(), DataError, "tensor ", t, " of ",
                  name_of_sample(i), " is ", array.dtype(), ' ', array.shape(), ", that of ", name_of_sample(0), " is ",
                  other.dtype(), ' ', other.shape(),
                  ": make them equal, or give the loader a collate function that pads");
    }
  }
  std::vector<Array> batch;
  for (std::size_t t = 0; t < first.size(); ++t) {
    const auto extents = first[t].shape().extents();
    BRAID_CHECK(extents.size() < Shape::kMaxRank, DataError, "tensor ", t, " of ", name_of_sample(0), " is ",
                first[t].shape(), ": a batch of it would have more than ", Shape::kMaxRank, " dimensions");
    std::vector<std::int64_t> shape{std::ssize(samples)};
    shape.insert(shape.end(), extents.begin(), extents.end());
    Array& stacked = batch.emplace_back(first[t].dtype(), Shape(shape));
    const std::size_t bytes = first[t].bytes();
    for (std::size_t i = 0; i < samples.size() && bytes > 0; ++i) {
      std::memcpy(stacked.data() + i * bytes, samples[i][t].data(), bytes);
    }
  }
  return batch;
}

}  // namespace braid
