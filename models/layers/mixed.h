#pragma once
// The module of the Inception family (Szegedy et al., 2015 and 2016): branches of convolutions side by side, joined
// along channels. The branches do not depend on each other, so the scheduler may run them at once.

#include "models/layers/layers.h"

namespace braid::models {

/// A convolution with batch normalisation and ReLU.
struct ConvSpec {
  const char* name;       ///< as "branch3x3_1"
  std::int64_t channels;  ///< that go out, before the width multiplies them
  Extent2d kernel = 1;
  std::int64_t stride = 1;  ///< with stride 1 the image keeps its size, else there is no padding
};

/// A branch: an optional 3x3 pool, convolutions one after the other, and convolutions side by side at the end.
struct Branch {
  enum class Pool { none, average, maximum, maximum_stride_2 };
  Pool pool = Pool::none;
  std::vector<ConvSpec> chain;
  std::vector<ConvSpec> split = {};
};

/// Batch normalisation of the Inception family.
constexpr NormOptions kInceptionNorm{.epsilon = 1e-3};

/// [N,H,W,in] → [N,P,Q,channels()]
class Mixed final : public Module {
 public:
  Mixed(Context& context, std::int64_t in, const std::vector<Branch>& branches, double width);
  Tensor forward(const Tensor& x) override;
  std::int64_t channels() const { return channels_; }

 private:
  struct Path {
    Branch::Pool pool;
    std::vector<Module*> chain;
    std::vector<Module*> split;
  };
  std::vector<Path> paths_;
  std::int64_t channels_ = 0;
};

/// A chain with auxiliary classifiers, which in training read what steps in its middle give.
class AuxiliaryChain : public Chain {
 public:
  using Chain::Chain;
  /// The main classifier, and in training mode the auxiliary ones, in their order.
  std::vector<Head> heads(const Tensor& x) override;

 protected:
  /// Makes a classifier of what the last step so far gives, to be filled by the caller.
  Chain& add_auxiliary(std::string_view name, double weight);

 private:
  struct Auxiliary {
    Chain* classifier;
    double weight;
    std::size_t place;  ///< how many steps come before it
  };
  std::vector<Auxiliary> auxiliary_;
};

}  // namespace braid::models
