#include "models/zoo/wired/randwire.h"

namespace braid::models {

namespace {

constexpr int kNodes = 32;
constexpr int kRandWireStages = 3;
constexpr std::int64_t kChannels = 78;

class Node final : public Chain {
 public:
  /// `inputs` are those within the graph; a node that has none reads the stage's input with stride 2.
  Node(Context& context, std::size_t inputs, std::int64_t in, std::int64_t out)
      : Chain(context), gates_(inputs > 1 ? &add_tensor("gates", {static_cast<std::int64_t>(inputs)}) : nullptr) {
    then(relu);
    then<ConvLayer>("depthwise", in, in, 3, Conv2dOptions{.stride = inputs == 0 ? 2 : 1, .padding = 1, .groups = in});
    then<ConvLayer>("pointwise", in, out, 1);
    then<BatchNormLayer>("bn", out);
  }
  using Module::operator();
  Tensor operator()(std::span<const Tensor> inputs) {
    const Tape::Layer layer(inputs.front().tape(), name());
    return forward(gates_ == nullptr ? inputs.front() : weighted_sum(cast(*gates_, inputs.front().dtype()), inputs));
  }

 private:
  Parameter* gates_;
};

class RandWireStage final : public Module {
 public:
  RandWireStage(Context& context, RandomGraph graph, std::int64_t in, std::int64_t out)
      : Module(context), graph_(std::move(graph)) {
    for (const std::vector<int>& inputs : graph_.inputs) {
      nodes_.push_back(&add<Node>(message("node", nodes_.size()), inputs.size(), inputs.empty() ? in : out, out));
    }
  }
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> values;
    const auto gather = [&](const std::vector<int>& sources) {
      std::vector<Tensor> list;
      for (const int source : sources) list.push_back(values[static_cast<std::size_t>(source)]);
      return list;
    };
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      const std::vector<int>& inputs = graph_.inputs[v];
      values.push_back((*nodes_[v])(inputs.empty() ? std::vector<Tensor>{x} : gather(inputs)));
    }
    const std::vector<Tensor> outputs = gather(graph_.outputs());
    return outputs.size() == 1 ? outputs.front() : sum(outputs) * (1.0 / static_cast<double>(outputs.size()));
  }

 private:
  RandomGraph graph_;
  std::vector<Node*> nodes_;
};

}  // namespace

RandomGraph randwire_graph(std::uint64_t graph_seed, int stage) {
  return watts_strogatz(kNodes, 4, 0.75, Generator(graph_seed, static_cast<std::uint64_t>(stage)));
}

RandWire::RandWire(Context& context, const RandWireOptions& options) : Chain(context) {
  const Conv2dOptions stem{.stride = options.stem == Stem::image ? 2 : 1, .padding = 1};
  const std::int64_t half = scaled(kChannels / 2, options.width);
  std::int64_t in = scaled(kChannels, options.width);
  then(checked_images("randwire", options.channels, 1));
  then<ConvNormLayer>("conv1", options.channels, half, 3, stem);
  then<ConvNormLayer>("conv2", half, in, 3, stem, NormOptions{.activation = Activation::none});
  for (int stage = 0; stage < kRandWireStages; ++stage) {
    const std::int64_t out = scaled(kChannels << stage, options.width);
    then<RandWireStage>(message("stage", stage + 1), randwire_graph(options.graph_seed, stage), in, out);
    in = out;
  }
  then<ReluLayer>("relu");
  const std::int64_t last = scaled(1280, options.width);
  then<ConvNormLayer>("conv6", in, last, 1);
  then(global_avg_pool);
  then<LinearLayer>("fc", last, options.classes);
}

}  // namespace braid::models
