#include "models/layers/mixed.h"

#include <utility>

namespace braid::models {

namespace {

Tensor pooled(const Tensor& x, Branch::Pool pool) {
  switch (pool) {
    case Branch::Pool::none: return x;
    case Branch::Pool::average: return avg_pool2d(x, {.window = 3, .stride = 1, .padding = 1});
    case Branch::Pool::maximum: return max_pool2d(x, {.window = 3, .stride = 1, .padding = 1});
    case Branch::Pool::maximum_stride_2: return max_pool2d(x, {.window = 3, .stride = 2});
  }
  return x;
}

}  // namespace

Mixed::Mixed(Context& context, std::int64_t in, const std::vector<Branch>& branches, double width) : Module(context) {
  const auto conv = [&](const ConvSpec& spec, std::int64_t from) {
    const Extent2d same(spec.kernel.h / 2, spec.kernel.w / 2);
    return &add<ConvNormLayer>(spec.name, from, scaled(spec.channels, width), spec.kernel,
                               Conv2dOptions{.stride = spec.stride, .padding = spec.stride == 1 ? same : 0},
                               kInceptionNorm);
  };
  for (const Branch& branch : branches) {
    Path& path = paths_.emplace_back(Path{.pool = branch.pool, .chain = {}, .split = {}});
    std::int64_t channels = in, joined = 0;
    for (const ConvSpec& spec : branch.chain) {
      path.chain.push_back(conv(spec, channels));
      channels = scaled(spec.channels, width);
    }
    for (const ConvSpec& spec : branch.split) {
      path.split.push_back(conv(spec, channels));
      joined += scaled(spec.channels, width);
    }
    channels_ += branch.split.empty() ? channels : joined;
  }
}

Tensor Mixed::forward(const Tensor& x) {
  std::vector<Tensor> outputs;
  for (const Path& path : paths_) {
    Tensor y = pooled(x, path.pool);
    for (Module* layer : path.chain) y = (*layer)(y);
    if (path.split.empty()) outputs.push_back(y);
    for (Module* conv : path.split) outputs.push_back((*conv)(y));
  }
  return concat(outputs);
}

Chain& AuxiliaryChain::add_auxiliary(std::string_view name, double weight) {
  auto& classifier = add<Chain>(name);
  auxiliary_.push_back({&classifier, weight, steps()});
  return classifier;
}

std::vector<Head> AuxiliaryChain::heads(const Tensor& x) {
  if (!training()) return Chain::heads(x);
  const Tape::Layer layer(x.tape(), name());
  std::vector<Head> heads(1);
  Tensor y = x;
  std::size_t done = 0;
  for (const auto& [classifier, weight, place] : auxiliary_) {
    y = forward_from(std::exchange(done, place), place, y);
    heads.push_back({(*classifier)(y), weight});
  }
  heads.front().logits = forward_from(done, steps(), y);
  return heads;
}

}  // namespace braid::models
