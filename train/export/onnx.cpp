#include "train/export/onnx.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/expression.h"
#include "ops/elementwise/reduce.h"
#include "ops/elementwise/weighted_sum.h"
#include "ops/layout/concat.h"
#include "ops/layout/reshape.h"
#include "ops/layout/strided_copy.h"
#include "ops/loss/softmax.h"
#include "ops/matmul/linear.h"
#include "train/checkpoint/files.h"
#include "train/export/forward_pass.h"
#include "train/export/protobuf.h"

namespace braid {

namespace {

// Numbers of fields and enumerators in onnx.proto.
namespace field {
enum Model { ir_version = 1, producer_name = 2, graph = 7, opset_import = 8, metadata_props = 14 };
enum Graph { node = 1, graph_name = 2, initializer = 5, graph_input = 11, graph_output = 12 };
enum Node { node_input = 1, node_output = 2, node_name = 3, op_type = 4, attribute = 5 };
enum Attribute { attribute_name = 1, attribute_f = 2, attribute_i = 3, attribute_ints = 8, attribute_type = 20 };
enum Tensor { dims = 1, data_type = 2, tensor_name = 8, raw_data = 9 };
}  // namespace field
enum AttributeType { kFloatAttribute = 1, kIntAttribute = 2, kIntsAttribute = 7 };
constexpr int kFloat = 1;      // TensorProto.DataType
constexpr int kIrVersion = 8;  // the first release with that opset
constexpr int kOpset = 17;

ProtoMessage attribute_of(std::string_view name, std::int64_t value) {
  return ProtoMessage()
      .text(field::attribute_name, name)
      .number(field::attribute_i, value)
      .number(field::attribute_type, kIntAttribute);
}

ProtoMessage attribute_of(std::string_view name, double value) {
  return ProtoMessage()
      .text(field::attribute_name, name)
      .real(field::attribute_f, static_cast<float>(value))
      .number(field::attribute_type, kFloatAttribute);
}

ProtoMessage attribute_of(std::string_view name, std::span<const std::int64_t> values) {
  ProtoMessage attribute;
  attribute.text(field::attribute_name, name).number(field::attribute_type, kIntsAttribute);
  for (const std::int64_t value : values) attribute.number(field::attribute_ints, value);
  return attribute;
}

ProtoMessage attribute_of(std::string_view name, std::initializer_list<std::int64_t> values) {
  return attribute_of(name, std::span(values.begin(), values.size()));
}

ProtoMessage attribute_of(std::string_view name, Extent2d extent) { return attribute_of(name, {extent.h, extent.w}); }

/// ValueInfoProto of f32 [batch,extents…].
ProtoMessage value_info(std::string_view name, std::span<const std::int64_t> extents) {
  ProtoMessage shape;
  shape.message(1, ProtoMessage().text(2, "batch"));
  for (const std::int64_t extent : extents) shape.message(1, ProtoMessage().number(1, extent));
  const ProtoMessage tensor = ProtoMessage().number(1, kFloat).message(2, shape);
  return ProtoMessage().text(1, name).message(2, ProtoMessage().message(1, tensor));
}

/// A constant of the network.
struct Initializer {
  std::string name;
  Shape shape;
  std::function<Array()> elements;

  std::size_t bytes() const { return sizeof(float) * static_cast<std::size_t>(shape.size()); }
  /// Its field in the graph, except the elements.
  std::string header() const {
    ProtoMessage prefix, tensor;
    for (const std::int64_t extent : shape.extents()) tensor.number(field::dims, extent);
    tensor.number(field::data_type, kFloat).text(field::tensor_name, name).begin(field::raw_data, bytes());
    return prefix.begin(field::initializer, tensor.bytes().size() + bytes()).bytes() + tensor.bytes();
  }
};

/// The node for a function; empty if there is none.
std::string_view node_type(Function function) {
  using enum Function;
  switch (function) {
    case add: return "Add";
    case sub: return "Sub";
    case mul: return "Mul";
    case Function::div: return "Div";
    case minimum:
    case clamp_max: return "Min";
    case maximum:
    case clamp_min: return "Max";
    case pow: return "Pow";
    case neg: return "Neg";
    case abs: return "Abs";
    case sign: return "Sign";
    case exp: return "Exp";
    case log: return "Log";
    case sqrt: return "Sqrt";
    case sigmoid: return "Sigmoid";
    case tanh: return "Tanh";
    case softplus: return "Softplus";
    case leaky_relu: return "PRelu";
    default: return {};
  }
}

/// The place of an axis of an image where channels come first, else the axis.
std::int64_t onnx_axis(const Shape& shape, std::int64_t axis) {
  constexpr std::int64_t kPlaces[] = {0, 2, 3, 1};
  return shape.rank() == 4 ? kPlaces[axis] : axis;
}

/// The extents of one sample, channels first.
std::vector<std::int64_t> sample_extents(const Shape& shape) {
  std::vector<std::int64_t> extents(static_cast<std::size_t>(shape.rank() - 1));
  for (int axis = 1; axis < shape.rank(); ++axis) {
    extents[static_cast<std::size_t>(onnx_axis(shape, axis) - 1)] = shape[axis];
  }
  return extents;
}

/// The rows, or columns, of the matrix that averages `in` pixels down or up to `out` (ops/pool/pool.h,
/// AdaptiveAvgPool2d).
Array averages(std::int64_t in, std::int64_t out, bool transposed = false) {
  Array matrix(DType::f32, transposed ? Shape{in, out} : Shape{out, in});
  for (std::int64_t row = 0; row < out; ++row) {
    const std::int64_t begin = row * in / out, end = ((row + 1) * in + out - 1) / out;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t place = transposed ? i * out + row : row * in + i;
      matrix.as<float>()[static_cast<std::size_t>(place)] = 1 / static_cast<float>(end - begin);
    }
  }
  return matrix;
}

class OnnxWriter {
 public:
  OnnxWriter(Module& model, const Shape& image)
      : context_(model.context()),
        forward_(model, image),
        graph_(forward_.graph()),
        orders_(forward_),
        names_(static_cast<std::size_t>(graph_.value_count())) {
    name_of(forward_.images) = "images";
    for (node_ = 0; node_ < graph_.node_count(); ++node_) name_of(graph_.output(node_, 0)) = translate();
    check(!orders_.differ(logits()));
    nodes_.message(field::node, ProtoMessage()
                                    .text(field::node_input, name_of(logits()))
                                    .text(field::node_output, "logits")
                                    .text(field::op_type, "Identity"));
    nodes_.text(field::graph_name, "braid")
        .message(field::graph_input, value_info("images", sample_extents(shape(forward_.images))))
        .message(field::graph_output, value_info("logits", sample_extents(shape(logits()))));
  }

  void write(const std::filesystem::path& path, std::span<const std::pair<std::string, std::string>> metadata) const {
    std::size_t size = nodes_.bytes().size();
    for (const Initializer& tensor : initializers_) size += tensor.header().size() + tensor.bytes();
    BRAID_CHECK(size < std::numeric_limits<std::int32_t>::max(), Error, "[onnx] the network has ", size,
                " bytes: an ONNX file holds less than 2 GiB");
    ProtoMessage model;
    model.number(field::ir_version, kIrVersion).text(field::producer_name, "braid");
    model.message(field::opset_import, ProtoMessage().number(2, kOpset));
    for (const auto& [key, value] : metadata) {
      model.message(field::metadata_props, ProtoMessage().text(1, key).text(2, value));
    }
    model.begin(field::graph, size);
    AtomicFile file(path);
    file.write(model.bytes());
    file.write(nodes_.bytes());
    for (const Initializer& tensor : initializers_) {
      file.write(tensor.header());
      const Array elements = tensor.elements();
      file.write(elements.data(), tensor.bytes());
    }
    file.commit();
  }

 private:
  using Names = std::vector<std::string>;

  ValueId logits() const { return forward_.logits.front(); }
  std::string& name_of(ValueId value) { return names_[static_cast<std::size_t>(value)]; }
  ValueId input(std::size_t i) const { return graph_.inputs(node_)[i]; }
  std::size_t input_count() const { return graph_.inputs(node_).size(); }
  const Shape& shape(ValueId value) const { return graph_.value(value).desc.shape; }
  const Shape& output_shape() const { return shape(graph_.output(node_, 0)); }

  /// The name of an input; a parameter becomes an initializer when first used.
  const std::string& operand(std::size_t i) {
    std::string& name = name_of(input(i));
    if (!name.empty()) return name;
    const Value& value = graph_.value(input(i));
    check(value.slot >= 0);
    const Parameter& parameter = context_.parameter(value.slot);
    const FeatureOrder* order = orders_.of_weight(value.slot);
    initializers_.push_back({.name = parameter.name(),
                             .shape = order != nullptr ? channels_first(parameter.shape()) : parameter.shape(),
                             .elements = [this, &parameter, order] {
                               const Array array = context_.read(parameter);
                               return order != nullptr ? channels_first(array, *order) : array;
                             }});
    return name = parameter.name();
  }
  Names operands() {
    Names list;
    for (std::size_t i = 0; i < input_count(); ++i) list.push_back(operand(i));
    return list;
  }
  std::string constant(const Array& array) {
    initializers_.push_back({message("constant.", initializers_.size()), array.shape(), [array] { return array; }});
    return initializers_.back().name;
  }

  std::string integers(const std::vector<std::int64_t>& values) {
    return emit("Constant", {}, {attribute_of("value_ints", values)});
  }

  /// Adds a node; returns its output.
  std::string emit(std::string_view type, const Names& inputs, const std::vector<ProtoMessage>& attributes = {}) {
    const std::string_view layer = forward_.tape.layer(node_);
    std::string name = message(layer, layer.empty() ? "" : "/", type);
    if (const int uses = ++uses_[name]; uses > 1) name += message('_', uses);
    ProtoMessage node;
    for (const std::string& each : inputs) node.text(field::node_input, each);
    node.text(field::node_output, name).text(field::node_name, name).text(field::op_type, type);
    for (const ProtoMessage& attribute : attributes) node.message(field::attribute, attribute);
    nodes_.message(field::node, node);
    return name;
  }
  std::string activated(std::string x, Activation activation) {
    switch (activation) {
      case Activation::none: return x;
      case Activation::relu: return emit("Relu", {x});
      case Activation::relu6: return emit("Clip", {x, constant(Array::scalar(0.0f)), constant(Array::scalar(6.0f))});
    }
    return x;
  }

  /// Throws that the current node has no translation.
  void check(bool condition) const {
    if (condition) return;
    const bool in_graph = node_ < graph_.node_count();
    throw Error(message("[onnx] the layer '", in_graph ? forward_.tape.layer(node_) : "", "' has no translation: ",
                        in_graph ? message(*graph_.node(node_).op) : "its output is an image"));
  }

  template <class T>
  const T* as() const {
    return dynamic_cast<const T*>(graph_.node(node_).op.get());
  }

  /// The name of what the current node computes.
  std::string translate() {
    check(!orders_.unknown(graph_.output(node_, 0)));
    if (const auto* conv = as<ops::Conv2d>()) return convolution(conv->attributes());
    if (const auto* conv = as<ops::Conv2dBackwardData>()) return transposed_convolution(conv->attributes().options);
    if (const auto* norm = as<ops::BatchNormInference>()) return batch_norm(norm->attributes());
    if (const auto* max = as<ops::MaxPool2d>()) return pool("MaxPool", max->attributes(), {});
    if (const auto* average = as<ops::AvgPool2d>()) {
      return pool("AveragePool", average->attributes(),
                  {attribute_of("count_include_pad", std::int64_t{average->attributes().count_include_pad})});
    }
    if (as<ops::AdaptiveAvgPool2d>() != nullptr) return adaptive_average();
    if (as<ops::GlobalAvgPool>() != nullptr) return emit("Flatten", {emit("GlobalAveragePool", {operand(0)})});
    if (as<ops::Linear>() != nullptr) return emit("Gemm", operands(), {attribute_of("transB", std::int64_t{1})});
    if (as<ops::Relu>() != nullptr) return activated(operand(0), Activation::relu);
    if (as<ops::Relu6>() != nullptr) return activated(operand(0), Activation::relu6);
    if (const auto* scale = as<ops::Scale>()) {
      return scaled(operand(0), static_cast<float>(scale->attributes().factor));
    }
    if (as<ops::Sum>() != nullptr) return emit("Sum", operands());
    if (as<ops::WeightedSum>() != nullptr) return weighted_sum();
    if (as<ops::Concat>() != nullptr) return emit("Concat", operands(), {attribute_of("axis", std::int64_t{1})});
    if (const auto* permute = as<ops::Permute>()) return permuted(permute->attributes().axes);
    if (const auto* window = as<ops::Window>()) return windowed(window->attributes());
    if (as<ops::Reshape>() != nullptr) return flatten();
    if (const auto* elementwise = as<ops::Elementwise>()) return expression(elementwise->attributes().expression);
    if (const auto* reduce = as<ops::Reduce>()) return reduced(reduce->attributes());
    const auto* softmax = as<ops::Softmax>();
    check(softmax != nullptr);
    return emit(softmax->attributes().logarithm ? "LogSoftmax" : "Softmax", {operand(0)},
                {attribute_of("axis", onnx_axis(output_shape(), softmax->attributes().axis))});
  }

  std::string convolution(const Conv2dOptions& options) {
    const Shape& filter = shape(input(1));
    const auto [h, w] = options.padding.extents();
    return activated(emit("Conv", operands(),
                          {attribute_of("kernel_shape", {filter[1], filter[2]}), attribute_of("pads", {h, w, h, w}),
                           attribute_of("strides", options.stride), attribute_of("dilations", options.dilation),
                           attribute_of("group", options.groups)}),
                     options.activation);
  }

  std::string transposed_convolution(const Conv2dOptions& options) {
    const Shape &x = shape(input(0)), &filter = shape(input(1)), &y = output_shape();
    const auto [h, w] = options.padding.extents();
    const auto added = [&](int axis, std::int64_t stride, std::int64_t padding, std::int64_t dilation) {
      return y[axis] - ((x[axis] - 1) * stride - 2 * padding + dilation * (filter[axis] - 1) + 1);
    };
    return emit("ConvTranspose", operands(),
                {attribute_of("kernel_shape", {filter[1], filter[2]}), attribute_of("pads", {h, w, h, w}),
                 attribute_of("output_padding", {added(1, options.stride.h, h, options.dilation.h),
                                                 added(2, options.stride.w, w, options.dilation.w)}),
                 attribute_of("strides", options.stride), attribute_of("dilations", options.dilation),
                 attribute_of("group", options.groups)});
  }

  std::string batch_norm(const BatchNormOptions& options) {
    Names inputs = operands();
    inputs.resize(5);
    std::string y = emit("BatchNormalization", inputs, {attribute_of("epsilon", options.epsilon)});
    if (options.add) y = emit("Add", {y, operand(5)});
    return activated(y, options.activation);
  }

  /// Padding at the end as far as the last window reaches, because rounding up differs between versions of ONNX.
  std::string pool(std::string_view type, const PoolOptions& options, std::vector<ProtoMessage> attributes) {
    const Shape &x = shape(input(0)), &y = output_shape();
    const auto [h, w] = options.padding.extents();
    const std::int64_t bottom = std::max(h, (y[1] - 1) * options.stride.h + options.window.h - x[1] - h);
    const std::int64_t right = std::max(w, (y[2] - 1) * options.stride.w + options.window.w - x[2] - w);
    check(type == "MaxPool" || !options.count_include_pad || (bottom == h && right == w));
    attributes.push_back(attribute_of("kernel_shape", options.window));
    attributes.push_back(attribute_of("strides", options.stride));
    attributes.push_back(attribute_of("pads", {h, w, bottom, right}));
    return emit(type, {operand(0)}, attributes);
  }

  /// Multiplies the rows of each image by the matrix of averages, and the columns by that of theirs.
  std::string adaptive_average() {
    const Shape &x = shape(input(0)), &y = output_shape();
    std::string image = operand(0);
    if (y[1] != x[1]) image = emit("MatMul", {constant(averages(x[1], y[1])), image});
    if (y[2] == x[2]) return image;
    return emit("MatMul", {image, constant(averages(x[2], y[2], true))});
  }

  /// A node for each instruction, or a few.
  std::string expression(const ops::Expression& expression) {
    for (std::size_t i = 0; i < input_count(); ++i) {
      // Channels come elsewhere, so shapes must line up axis by axis, and parameters must vary along the channels only.
      const Shape& own = shape(input(i));
      check(own.size() == 1 || own.rank() == output_shape().rank() || is_of_channels(i));
      check(graph_.value(input(i)).slot < 0 || own.rank() != 4 || own.size() == own[3]);
    }
    Names results;
    const auto name = [&](std::size_t place) {
      if (place < ops::Expression::kFirstConstant && is_of_channels(place)) {
        return emit("Unsqueeze", {operand(place), integers({1, 2})});
      }
      if (place < ops::Expression::kFirstConstant) return operand(place);
      if (place >= ops::Expression::kFirstResult) return results[place - ops::Expression::kFirstResult];
      const double value = expression.constants[place - ops::Expression::kFirstConstant];
      return constant(Array::scalar(static_cast<float>(value)));
    };
    for (const ops::Instruction& at : expression.instructions) {
      const std::string a = name(at.a);
      if (at.function == Function::silu) {
        results.push_back(emit("Mul", {a, emit("Sigmoid", {a})}));
      } else if (at.function == Function::gelu) {
        const std::string half = scaled(a, 0.5f), erf = emit("Erf", {scaled(a, 0.70710678f)});
        results.push_back(emit("Add", {half, emit("Mul", {half, erf})}));
      } else {
        check(!node_type(at.function).empty());
        results.push_back(emit(node_type(at.function), arity_of(at.function) == 2 ? Names{a, name(at.b)} : Names{a}));
      }
    }
    return results.empty() ? operand(0) : results.back();
  }

  /// Whether an input has a number for each channel of an image.
  bool is_of_channels(std::size_t i) const {
    const Shape &own = shape(input(i)), &image = output_shape();
    return image.rank() == 4 && own.rank() == 1 && own[0] == image[3] && own[0] > 1;
  }

  std::string permuted(const std::vector<int>& axes) {
    const Shape &x = shape(input(0)), &y = output_shape();
    check(axes[0] == 0);
    std::vector<std::int64_t> order(axes.size());
    for (int axis = 0; axis < y.rank(); ++axis) {
      order[static_cast<std::size_t>(onnx_axis(y, axis))] = onnx_axis(x, axes[static_cast<std::size_t>(axis)]);
    }
    return emit("Transpose", {operand(0)}, {attribute_of("perm", order)});
  }

  /// The part of the window that lies in x, then its surroundings.
  std::string windowed(const ops::WindowAttributes& window) {
    const Shape &x = shape(input(0)), &y = output_shape();
    check(window.begin[0] == 0 && x[0] == y[0]);
    std::vector<std::int64_t> begins, ends, axes, pads(static_cast<std::size_t>(2 * x.rank()));
    bool cuts = false, surrounds = false;
    for (int axis = 1; axis < x.rank(); ++axis) {
      const std::int64_t begin = window.begin[static_cast<std::size_t>(axis)], end = begin + y[axis];
      const auto place = static_cast<std::size_t>(onnx_axis(x, axis));
      begins.push_back(std::clamp<std::int64_t>(begin, 0, x[axis]));
      ends.push_back(std::clamp<std::int64_t>(end, begins.back(), x[axis]));
      axes.push_back(static_cast<std::int64_t>(place));
      pads[place] = begins.back() - begin;
      pads[place + static_cast<std::size_t>(x.rank())] = end - ends.back();
      cuts = cuts || ends.back() - begins.back() < x[axis];
      surrounds = surrounds || ends.back() - begins.back() < y[axis];
    }
    std::string result = operand(0);
    if (cuts) result = emit("Slice", {result, integers(begins), integers(ends), integers(axes)});
    if (!surrounds) return result;
    return emit("Pad", {result, integers(pads), constant(Array::scalar(static_cast<float>(window.value)))});
  }

  std::string reduced(const ops::ReduceAttributes& reduce) {
    const Shape& x = shape(input(0));
    std::vector<std::int64_t> axes;
    for (const std::int64_t axis : reduce.axes.extents()) axes.push_back(onnx_axis(x, axis));
    // The remaining axes of an image must be in the same order: all its axes, or not both channels and pixels.
    const bool has_channels = std::ranges::find(axes, 1) == axes.end();
    const bool has_pixels = std::ranges::find(axes, 2) == axes.end() || std::ranges::find(axes, 3) == axes.end();
    check(x.rank() != 4 || reduce.keep_axes || !has_channels || !has_pixels);
    const ProtoMessage keep = attribute_of("keepdims", std::int64_t{reduce.keep_axes});
    const std::string_view type = reduce.kind == ops::ReduceKind::max   ? "ReduceMax"
                                  : reduce.kind == ops::ReduceKind::min ? "ReduceMin"
                                                                        : "ReduceMean";
    const std::string y = emit(type, {operand(0)}, {attribute_of("axes", axes), keep});
    if (reduce.kind != ops::ReduceKind::sum) return y;
    return scaled(y, static_cast<float>(x.size() / output_shape().size()));  // ReduceSum takes axes in another form
  }

  std::string scaled(const std::string& x, float factor) { return emit("Mul", {x, constant(Array::scalar(factor))}); }

  std::string weighted_sum() {
    const Array weights = context_.read(context_.parameter(graph_.value(input(0)).slot));
    Names terms;
    for (std::size_t i = 1; i < input_count(); ++i) {
      terms.push_back(scaled(operand(i), 1 / (1 + std::exp(-weights.as<float>()[i - 1]))));
    }
    return emit("Sum", terms);
  }

  std::string flatten() {
    const Shape &x = shape(input(0)), &y = output_shape();
    if (x == y) return operand(0);
    check(y.rank() == 2 && y[0] == x[0]);
    return emit("Flatten", {operand(0)});
  }

  Context& context_;
  ForwardPass forward_;
  const StepGraph& graph_;
  const FeatureOrders orders_;
  Names names_;  // names of values
  NodeId node_ = 0;
  std::map<std::string, int> uses_;  // uses of names of nodes
  ProtoMessage nodes_;
  std::vector<Initializer> initializers_;
};

}  // namespace

void export_onnx(const std::filesystem::path& path, Module& model, const Shape& image,
                 std::span<const std::pair<std::string, std::string>> metadata) {
  OnnxWriter(model, image).write(path, metadata);
}

}  // namespace braid
