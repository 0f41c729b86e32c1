#include "ops/conv/cpu/indirect/panels.h"

// All of the filter is packed first. Then each task computes all channels of some neighbouring pixels: it reads these
// once, and writes whole rows. Pixels that must be normalised are copied first, into the L2 cache.

namespace braid::cpu::indirect {

#if defined(__x86_64__)

namespace {

constexpr std::int64_t kTaskFloats = 32768;  ///< read and written by a task, about what the second cache holds
constexpr std::int64_t kTasksPerThread = 4;  ///< at least

class Pointwise final : public PanelKernel {
 public:
  Pointwise(std::int64_t pixels, const Panels& panels, const KernelSpec& spec, ActivationRange range)
      : PanelKernel(spec, panels, range), pixels_(pixels), normalized_(spec.normalized) {}

  std::size_t workspace_bytes() const override {
    const std::int64_t task = normalized_ == nullptr ? 0 : width_ * grain() * kRows * panels_.depth();
    return (keeps_filter_ ? 0 : panels_.bytes()) + static_cast<std::size_t>(task) * sizeof(float);
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    PanelKernel::bind(inputs, outputs, workspace);
    packed_ = static_cast<float*>(keeps_filter_ ? kept_->data() : workspace);
    task_ = static_cast<float*>(workspace) + (keeps_filter_ ? 0 : panels_.count() * panels_.size());
  }

  void launch(const LaunchContext&) override {
    if (!keeps_filter_) panels_.pack_all(filter_, width_, packed_);
    const std::int64_t depth = panels_.depth(), columns = panels_.columns();
    parallel_for(width_, blocks(), grain(), [&](std::int64_t begin, std::int64_t end, int member) {
      const float* from = from_ + begin * kRows * depth;
      if (normalized_ != nullptr) {
        float* const task = task_ + member * grain() * kRows * depth;
        normalize(*normalized_, from, std::min(end * kRows, pixels_) - begin * kRows, depth, task);
        from = task;
      }
      for (std::int64_t panel = 0; panel < panels_.count(); ++panel) {
        const std::int64_t column = panel * kColumns;
        Term term{packed_ + panel * panels_.size(), {}};
        Result result{
            {}, 0, std::min(kColumns, columns - column), false, bias_ == nullptr ? nullptr : bias_ + column, range_};
        for (std::int64_t first = begin * kRows; first < std::min(end * kRows, pixels_); first += kRows) {
          result.rows = std::min(kRows, pixels_ - first);
          for (std::int64_t row = 0; row < result.rows; ++row) {
            term.a[row] = from + (first - begin * kRows + row) * depth;
            result.y[row] = to_ + (first + row) * columns + column;
          }
          multiply(&term, 1, depth, 1, result);
        }
      }
    });
  }

 private:
  std::int64_t blocks() const { return divide_up(pixels_, kRows); }
  /// Blocks of a task.
  std::int64_t grain() const {
    const std::int64_t most = grain_of(kRows * (panels_.depth() + panels_.columns()), kTaskFloats);
    return std::min(most, divide_up(blocks(), kTasksPerThread * width_));
  }

  std::int64_t pixels_;
  const NormalizedInput* normalized_;
  float *packed_ = nullptr, *task_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> pointwise(const KernelSpec& spec, const Panels& panels, ActivationRange range) {
  const Shape& pixels = spec.inputs[0].shape;
  return std::make_unique<Pointwise>(pixels[0] * pixels[1] * pixels[2], panels, spec, range);
}

#endif

}  // namespace braid::cpu::indirect
