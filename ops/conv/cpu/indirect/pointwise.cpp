#include "ops/conv/cpu/indirect/pointwise.h"

// All of the filter is packed first. Then each task computes all channels of some neighbouring pixels: it reads these
// once, and writes whole rows.

namespace braid::cpu::indirect {

#if defined(__x86_64__)

namespace {

constexpr std::int64_t kTaskFloats = 32768;  ///< read and written by a task, about what the second cache holds
constexpr std::int64_t kTasksPerThread = 4;  ///< at least

class Pointwise final : public Kernel {
 public:
  Pointwise(std::int64_t pixels, const Panels& panels, int width, bool keeps_filter, ActivationRange range)
      : pixels_(pixels), panels_(panels), width_(width), keeps_filter_(keeps_filter), range_(range) {}

  std::size_t workspace_bytes() const override { return keeps_filter_ ? 0 : panels_.bytes(); }
  bool keeps_filter() const override { return keeps_filter_; }
  void keep_filter(std::uint64_t version) override {
    kept_->update(version, [&] { panels_.pack_all(filter_, width_, packed_); });
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    from_ = static_cast<const float*>(inputs[0]);
    filter_ = static_cast<const float*>(inputs[1]);
    bias_ = inputs.size() == 3 ? static_cast<const float*>(inputs[2]) : nullptr;
    to_ = static_cast<float*>(outputs[0]);
    if (keeps_filter_) kept_ = kept_panels(panels_, filter_);
    packed_ = static_cast<float*>(keeps_filter_ ? kept_->data() : workspace);
  }

  void launch(const LaunchContext&) override {
    if (!keeps_filter_) panels_.pack_all(filter_, width_, packed_);
    const std::int64_t depth = panels_.depth(), columns = panels_.columns(), blocks = divide_up(pixels_, kRows);
    const std::int64_t grain =
        std::min(grain_of(kRows * (depth + columns), kTaskFloats), divide_up(blocks, kTasksPerThread * width_));
    parallel_for(width_, blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t panel = 0; panel < panels_.count(); ++panel) {
        const std::int64_t column = panel * kColumns;
        Term term{packed_ + panel * panels_.size(), {}};
        Result result{
            {}, 0, std::min(kColumns, columns - column), false, bias_ == nullptr ? nullptr : bias_ + column, range_};
        for (std::int64_t first = begin * kRows; first < std::min(end * kRows, pixels_); first += kRows) {
          result.rows = std::min(kRows, pixels_ - first);
          for (std::int64_t row = 0; row < result.rows; ++row) {
            term.a[row] = from_ + (first + row) * depth;
            result.y[row] = to_ + (first + row) * columns + column;
          }
          multiply(&term, 1, depth, 1, result);
        }
      }
    });
  }

 private:
  std::int64_t pixels_;
  Panels panels_;
  int width_;
  bool keeps_filter_;
  ActivationRange range_;
  std::shared_ptr<KeptFilter> kept_;  // once bound, if it keeps the filter
  const float *from_ = nullptr, *filter_ = nullptr, *bias_ = nullptr;
  float *to_ = nullptr, *packed_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> pointwise(const KernelSpec& spec, const Conv2dOptions& options, const Panels& panels,
                                  ActivationRange range) {
  const bool is_pointwise = options.stride == Extent2d(1) && options.padding == Extent2d(0) && panels.taps() == 1;
  if (!is_pointwise) return nullptr;
  const Shape& pixels = spec.inputs[0].shape;
  return std::make_unique<Pointwise>(pixels[0] * pixels[1] * pixels[2], panels, spec.width, spec.constant_filter,
                                     range);
}

#endif

}  // namespace braid::cpu::indirect
