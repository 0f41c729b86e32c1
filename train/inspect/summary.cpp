#include "train/inspect/summary.h"

#include <array>
#include <set>
#include <sstream>

#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "train/run/factories.h"

namespace braid {

namespace {

/// The first `depth` parts of a name; all of it for 0.
std::string_view shorten(std::string_view name, int depth) {
  std::size_t end = 0;
  for (int i = 0; i < depth && end != std::string_view::npos; ++i) end = name.find('.', end == 0 ? 0 : end + 1);
  return depth == 0 ? name : name.substr(0, end);
}

/// A row for neighbouring nodes of one layer.
std::vector<LayerSummary> layers_of(const Tape& tape, int depth, std::int64_t images) {
  const StepGraph& graph = tape.graph();
  std::vector<LayerSummary> rows;
  std::set<std::string> ops;  // ops of the last row
  std::set<std::int32_t> counted;
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    const Node& node = graph.node(id);
    const std::string_view layer = shorten(tape.layer(id), depth);
    if (rows.empty() || rows.back().name != layer || layer.empty()) {
      rows.push_back({std::string(layer), "", {}, 0, 0});
      ops.clear();
    }
    LayerSummary& row = rows.back();
    const std::string op(node.op->name());
    if (ops.insert(op).second) row.ops += (row.ops.empty() ? "" : ", ") + op;
    row.output = graph.value(graph.output(id, 0)).desc.shape;
    if (op == "conv2d" || op == "linear") {
      row.macs += node.op->work(graph.input_descs(id), graph.output_descs(id)).flops / 2 / static_cast<double>(images);
    }
    for (const ValueId input : graph.inputs(node)) {
      const Value& value = graph.value(input);
      if (value.kind == ValueKind::parameter && counted.insert(value.slot).second) {
        row.parameters += value.desc.shape.size();
      }
    }
  }
  return rows;
}

}  // namespace

Summary summarize(const TrainConfig& config, int depth) {
  DatasetPool datasets;
  const auto dataset = datasets.get(config, Split::train);
  SessionOptions options = config.session;
  options.draw_weights = false;
  Session session(options);
  const auto model = make_model(config.model, session, *dataset);
  const auto optimizer = make_optimizer(config.optimizer, model->parameters());
  const auto loss_scale = make_loss_scale(config.dtype, session);
  const Shape image = dataset->image_shape();

  Summary summary;
  summary.name = config.name;
  summary.model = config.model.title();
  summary.input = {config.batch_size, image[0], image[1], image[2]};
  Step step = session.step();
  const Tape& tape = session.tape();
  const std::vector<Head> heads = model->heads(cast(Array(DType::f32, summary.input), config.dtype));
  summary.layers = layers_of(tape, depth, config.batch_size);
  step.discard();
  Step whole = session.step();
  const Batch batch = blank_batch(*dataset, config.batch_size);
  const Tensor labels = batch.labels;
  backward(model->training_step(cast(batch.images, config.dtype), labels, labels, config.loss).objectives,
           loss_scale.get());
  optimizer->step(loss_scale.get());
  whole.discard();

  for (const LayerSummary& layer : summary.layers) summary.macs += layer.macs;
  summary.parameters = model->parameter_count();
  summary.nodes = tape.graph().node_count();
  constexpr std::array kOneCore{1};
  const DeviceInfo& device = session.backend().info();
  scheduler::Costs costs = scheduler::analytic_costs(tape.graph(), device, kOneCore);
  const scheduler::LowerBound bound = lower_bound(make_problem(tape.graph(), std::move(costs), device, 1));
  summary.work = bound.work;
  summary.depth = bound.depth;
  return summary;
}

std::string to_text(const Summary& summary) {
  std::vector<std::vector<std::string>> cells{{"layer", "ops", "output", "parameters", "MACs per image"}};
  const auto count = [](double value) { return value > 0 ? grouped(value) : ""; };
  for (const LayerSummary& layer : summary.layers) {
    cells.push_back({layer.name, layer.ops, message(layer.output), count(static_cast<double>(layer.parameters)),
                     count(layer.macs)});
  }
  std::ostringstream out;
  out << summary.model << ", images " << summary.input << "\n\n";
  out << text_table(cells, "lllrr");
  out << "\nparameters  " << grouped(static_cast<double>(summary.parameters)) << "\nMACs        "
      << grouped(summary.macs) << " per image\nstep        " << plural(summary.nodes, "node")
      << ": forward, backward and update\nW           " << fixed(summary.work / 1e3, 1)
      << " ms: the step on one core, by the analytic model\nD           " << fixed(summary.depth / 1e3, 1)
      << " ms: its critical path\nW/D         " << fixed(summary.work / summary.depth, 2)
      << ": average number of nodes that could run at once\n";
  return out.str();
}

std::string to_json(const Summary& summary) {
  Json layers;
  for (const LayerSummary& layer : summary.layers) {
    layers.push_back({{"name", layer.name},
                      {"ops", layer.ops},
                      {"output", layer.output.extents()},
                      {"parameters", layer.parameters},
                      {"macs", layer.macs}});
  }
  return Json{{"name", summary.name},   {"model", summary.model},  {"input", summary.input.extents()},
              {"layers", layers},       {"macs", summary.macs},    {"parameters", summary.parameters},
              {"nodes", summary.nodes}, {"work_us", summary.work}, {"depth_us", summary.depth}}
      .dump();
}

}  // namespace braid
