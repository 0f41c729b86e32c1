// Computes the cases that tests/golden/sweep.py has drawn:
//
//     sweep_ops FOLDER f32|f64      cases.json and values.bin → found.bin: of each case the output, then the gradients

#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autograd/functions.h"
#include "core/base/read_file.h"
#include "core/text/json.h"
#include "runtime/session.h"

namespace braid {

namespace {

template <class T = std::int64_t>
std::vector<T> numbers(const Json& list) {
  std::vector<T> numbers;
  for (const Json& number : list.elements()) numbers.push_back(static_cast<T>(number.as_int64()));
  return numbers;
}

struct Call {
  const Json& options;
  std::vector<Tensor> in;
  DType dtype;
  std::vector<Parameter*> states = {};

  double number(const char* key = "number") const { return options[key].as_double(); }
  std::int64_t integer(const char* key) const { return options[key].as_int64(); }
  int axis(const char* key = "axis") const { return static_cast<int>(integer(key)); }
  bool flag(const char* key) const { return options[key].as_bool(); }
  double epsilon() const { return options.contains("epsilon") ? number("epsilon") : 1e-5; }
  Extent2d extent(const char* key) const { return {list(key)[0], list(key)[1]}; }
  std::vector<std::int64_t> list(const char* key) const { return numbers(options[key]); }
};

using Function = std::function<Tensor(const Call&)>;

Function unary(Tensor (*function)(const Tensor&)) {
  return [function](const Call& call) { return function(call.in[0]); };
}

Function binary(Tensor (*function)(const Tensor&, const Tensor&)) {
  return [function](const Call& call) { return function(call.in[0], call.in[1]); };
}

Axes axes_of(const Call& call) {
  const std::vector<std::int64_t> axes = call.list("axes");
  switch (axes.size()) {
    case 0: return {};
    case 1: return {axes[0]};
    case 2: return {axes[0], axes[1]};
    case 3: return {axes[0], axes[1], axes[2]};
    default: return {axes[0], axes[1], axes[2], axes[3]};
  }
}

Function reduce(Tensor (*function)(const Tensor&, const Axes&, bool)) {
  return [function](const Call& call) { return function(call.in[0], axes_of(call), call.flag("keep")); };
}

Function compare(Tensor (*function)(const Operand&, const Operand&)) {
  return [function](const Call& call) { return function(call.in[0], call.in[1]); };
}

template <class Place>
Function at_axis(const Place& function) {
  return [function](const Call& call) { return function(call.in[0], call.axis(), call.flag("keep")); };
}

LossReduction reduction_of(const Call& call) {
  const std::string& kind = call.options["reduction"].text();
  return kind == "mean"        ? LossReduction::mean
         : kind == "sum"       ? LossReduction::sum
         : kind == "batchmean" ? LossReduction::batch_mean
                               : LossReduction::none;
}

template <class Loss>
Function loss(const Loss& function) {
  return [function](const Call& call) {
    if constexpr (requires { function(call, reduction_of(call)); }) {
      return function(call, reduction_of(call));
    } else {
      return function(call.in[0], call.in[1], reduction_of(call));
    }
  };
}

Tensor class_loss(const Call& call) {
  if (!call.options.contains("reduction")) return cross_entropy(call.in[0], call.in[1], call.number("smoothing"));
  return cross_entropy(call.in[0], call.in[1],
                       {.label_smoothing = call.number("smoothing"),
                        .weight = call.in.size() == 3 ? call.in[2] : Tensor(),
                        .ignore_index = call.integer("ignore_index"),
                        .reduction = reduction_of(call)});
}

Tensor conv(const Call& call) {
  const Conv2dOptions options{.stride = call.extent("stride"),
                              .padding = call.extent("padding"),
                              .dilation = call.extent("dilation"),
                              .groups = call.integer("groups")};
  return call.in.size() == 3 ? conv2d(call.in[0], call.in[1], call.in[2], options)
                             : conv2d(call.in[0], call.in[1], options);
}

Tensor conv_transpose(const Call& call) {
  const ConvTranspose2dOptions options{.stride = call.extent("stride"),
                                       .padding = call.extent("padding"),
                                       .output_padding = call.extent("output_padding"),
                                       .dilation = call.extent("dilation"),
                                       .groups = call.integer("groups")};
  return call.in.size() == 3 ? conv_transpose2d(call.in[0], call.in[1], call.in[2], options)
                             : conv_transpose2d(call.in[0], call.in[1], options);
}

PoolOptions pool_options(const Call& call) {
  return {.window = call.extent("window"),
          .stride = call.extent("stride"),
          .padding = call.extent("padding"),
          .ceil_mode = call.flag("ceil_mode"),
          .count_include_pad = call.flag("count_include_pad")};
}

Tensor resize(const Call& call) {
  InterpolateOptions options;
  if (call.options.contains("size")) options.size = call.extent("size");
  if (call.options.contains("scale")) options.scale = call.number("scale");
  for (const Interpolation mode : {Interpolation::bilinear, Interpolation::nearest_exact, Interpolation::bicubic}) {
    if (call.options["mode"] == name_of(mode)) options.mode = mode;
  }
  options.align_corners = call.options.contains("align_corners") && call.flag("align_corners");
  return interpolate(call.in[0], options);
}

/// Scale, shift, mean and variance are tensors of the session.
Tensor norm(const Call& call) {
  const auto& in = call.in;
  const bool residual = in.size() == 6;
  const BatchNormOptions options{
      .epsilon = call.epsilon(),
      .activation = call.options["activation"] == "relu" ? Activation::relu : Activation::none,
      .add = residual};
  return batch_norm(in[0], {*call.states[1], *call.states[2], *call.states[3], *call.states[4]}, options,
                    call.flag("training"), residual ? in[5] : Tensor());
}

Tensor padded(const Call& call) {
  std::vector<Padding> paddings;
  for (const Json& amount : call.options["amounts"].elements()) {
    paddings.push_back({amount[0].as_int64(), amount[1].as_int64()});
  }
  const std::string mode = call.options.contains("mode") ? call.options["mode"].text() : "constant";
  if (mode == "reflect") return pad(call.in[0], paddings, PadMode::reflect);
  if (mode == "replicate") return pad(call.in[0], paddings, PadMode::replicate);
  if (mode == "circular") return pad(call.in[0], paddings, PadMode::circular);
  return pad(call.in[0], paddings, call.number("value"));
}

const std::map<std::string, Function>& functions() {
  static const std::map<std::string, Function> all{
      {"add", binary(add)},
      {"sub", binary(sub)},
      {"mul", binary(mul)},
      {"div", binary(div)},
      {"minimum", binary(minimum)},
      {"maximum", binary(maximum)},
      {"exp", unary(exp)},
      {"log", unary(log)},
      {"sqrt", unary(sqrt)},
      {"square", unary(square)},
      {"abs", unary(abs)},
      {"neg", [](const Call& call) { return -call.in[0]; }},
      {"relu", unary(relu)},
      {"relu6", unary(relu6)},
      {"sigmoid", unary(sigmoid)},
      {"tanh", unary(tanh)},
      {"softplus", unary(softplus)},
      {"silu", unary(silu)},
      {"gelu", [](const Call& call) { return gelu(call.in[0]); }},
      {"gelu_tanh", [](const Call& call) { return gelu(call.in[0], Gelu::tanh); }},
      {"leaky_relu", [](const Call& call) { return leaky_relu(call.in[0], call.number()); }},
      {"pow",
       [](const Call& call) {
         return call.in.size() == 2 ? pow(call.in[0], call.in[1]) : pow(call.in[0], call.number());
       }},
      {"sign", unary(sign)},
      {"elu", [](const Call& call) { return elu(call.in[0]); }},
      {"hardswish", unary(hardswish)},
      {"hardsigmoid", unary(hardsigmoid)},
      {"eq", compare(eq)},
      {"ne", compare(ne)},
      {"lt", compare(lt)},
      {"le", compare(le)},
      {"gt", compare(gt)},
      {"ge", compare(ge)},
      {"where", [](const Call& call) { return where(call.in[0], call.in[1], call.in[2]); }},
      {"var",
       [](const Call& call) { return var(call.in[0], axes_of(call), call.number("correction"), call.flag("keep")); }},
      {"std",
       [](const Call& call) {
         return stddev(call.in[0], axes_of(call), call.number("correction"), call.flag("keep"));
       }},
      {"norm",
       [](const Call& call) {  // -1 is infinite: JSON has no number for that
         const double p = call.number("p");
         return norm(call.in[0], p < 0 ? std::numeric_limits<double>::infinity() : p, axes_of(call), call.flag("keep"));
       }},
      {"logsumexp", reduce(logsumexp)},
      {"argmax", at_axis(argmax)},
      {"argmin", at_axis(argmin)},
      {"topk",
       [](const Call& call) { return topk(call.in[0], call.integer("k"), call.axis(), call.flag("largest")).values; }},
      {"topk_indices",
       [](const Call& call) { return topk(call.in[0], call.integer("k"), call.axis(), call.flag("largest")).indices; }},
      {"sort", [](const Call& call) { return sort(call.in[0], call.axis(), call.flag("descending")).values; }},
      {"expand", [](const Call& call) { return expand(call.in[0], call.list("shape")); }},
      {"stack", [](const Call& call) { return stack(call.in, call.axis()); }},
      {"squeeze", [](const Call& call) { return squeeze(call.in[0], call.axis()); }},
      {"squeeze_all", [](const Call& call) { return squeeze(call.in[0]); }},
      {"unsqueeze", [](const Call& call) { return unsqueeze(call.in[0], call.axis()); }},
      {"flip", [](const Call& call) { return flip(call.in[0], numbers<int>(call.options["axes"])); }},
      {"gather", [](const Call& call) { return gather(call.in[0], call.axis(), call.in[1]); }},
      {"index_select", [](const Call& call) { return index_select(call.in[0], call.axis(), call.in[1]); }},
      {"embedding", [](const Call& call) { return embedding(call.in[1], call.in[0]); }},
      {"one_hot", [](const Call& call) { return one_hot(call.in[0], call.integer("classes"), call.dtype); }},
      {"huber_loss", loss([](const Call& call, LossReduction how) {
         return huber_loss(call.in[0], call.in[1], call.number("delta"), how);
       })},
      {"smooth_l1_loss", loss([](const Call& call, LossReduction how) {
         return smooth_l1_loss(call.in[0], call.in[1], call.number("beta"), how);
       })},
      {"kl_div", loss([](const Call& call, LossReduction how) {
         return kl_div(call.in[0], call.in[1], how, call.flag("log_target"));
       })},
      {"sigmoid_focal_loss", loss([](const Call& call, LossReduction how) {
         return sigmoid_focal_loss(call.in[0], call.in[1], call.number("alpha"), call.number("gamma"), how);
       })},
      {"clamp", [](const Call& call) { return clamp(call.in[0], call.number("least"), call.number("most")); }},
      {"scale", [](const Call& call) { return call.number() * call.in[0]; }},
      {"plus", [](const Call& call) { return call.in[0] + call.number(); }},
      {"from", [](const Call& call) { return call.number() - call.in[0]; }},
      {"over", [](const Call& call) { return call.number() / call.in[0]; }},
      {"sum", reduce(sum)},
      {"mean", reduce(mean)},
      {"amax", reduce(amax)},
      {"amin", reduce(amin)},
      {"softmax", [](const Call& call) { return softmax(call.in[0], call.axis()); }},
      {"log_softmax", [](const Call& call) { return log_softmax(call.in[0], call.axis()); }},
      {"mse_loss", loss(mse_loss)},
      {"l1_loss", loss(l1_loss)},
      {"binary_cross_entropy_with_logits", loss([](const Call& call, LossReduction how) {
         return binary_cross_entropy_with_logits(call.in[0], call.in[1], how,
                                                 call.in.size() == 3 ? call.in[2] : Tensor());
       })},
      {"cross_entropy", class_loss},
      {"conv2d", conv},
      {"conv_transpose2d", conv_transpose},
      {"linear",
       [](const Call& call) {
         return call.in.size() == 3 ? linear(call.in[0], call.in[1], call.in[2]) : linear(call.in[0], call.in[1]);
       }},
      {"matmul",
       [](const Call& call) {
         return matmul(call.in[0], call.in[1],
                       {.transpose_a = call.flag("transpose_a"), .transpose_b = call.flag("transpose_b")});
       }},
      {"max_pool2d",
       [](const Call& call) {
         const bool dilates = call.options.contains("dilation");
         return max_pool2d(call.in[0], pool_options(call), dilates ? call.extent("dilation") : Extent2d(1));
       }},
      {"avg_pool2d",
       [](const Call& call) {
         if (!call.options.contains("divisor")) return avg_pool2d(call.in[0], pool_options(call));
         return avg_pool2d(call.in[0], pool_options(call), call.integer("divisor"));
       }},
      {"adaptive_avg_pool2d", [](const Call& call) { return adaptive_avg_pool2d(call.in[0], call.extent("size")); }},
      {"interpolate", resize},
      {"batch_norm", norm},
      {"group_norm",
       [](const Call& call) {
         return group_norm(call.in[0], call.integer("groups"), call.in[1], call.in[2], call.epsilon());
       }},
      {"layer_norm", [](const Call& call) { return layer_norm(call.in[0], call.in[1], call.in[2], call.epsilon()); }},
      {"permute", [](const Call& call) { return permute(call.in[0], numbers<int>(call.options["axes"])); }},
      {"transpose", [](const Call& call) { return transpose(call.in[0], call.axis("a"), call.axis("b")); }},
      {"slice",
       [](const Call& call) { return slice(call.in[0], call.axis(), call.integer("begin"), call.integer("end")); }},
      {"pad", padded},
      {"concat", [](const Call& call) { return concat(call.in, call.axis()); }},
      {"reshape", [](const Call& call) { return reshape(call.in[0], Shape(call.list("shape"))); }},
      {"split",
       [](const Call& call) {
         return split(call.in[0], call.list("sizes"), call.axis())[static_cast<std::size_t>(call.integer("part"))];
       }},
  };
  return all;
}

/// The next values of the file as an array.
Array read_array(std::ifstream& file, const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(double)));
  if (dtype == DType::f64) return Array::from(values, shape);
  if (dtype == DType::f32) return Array::from(std::vector<float>(values.begin(), values.end()), shape);
  return Array::from(std::vector<std::int32_t>(values.begin(), values.end()), shape);
}

void write_array(std::ofstream& file, const Array& array) {
  std::vector<double> values;
  if (array.dtype() == DType::f64) values.assign(array.as<double>().begin(), array.as<double>().end());
  if (array.dtype() == DType::i32) values.assign(array.as<std::int32_t>().begin(), array.as<std::int32_t>().end());
  if (array.dtype() == DType::f32) values.assign(array.as<float>().begin(), array.as<float>().end());
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(double)));
}

Shape shape_of(const Json& extents) { return Shape(numbers(extents)); }

void compute(Session& session, const Json& described, DType dtype, std::ifstream& values, std::ofstream& found) {
  const std::string& name = described["function"].text();
  const bool parameters = name == "batch_norm";  // takes these, not tensors, for all but x and the residual
  Step step = session.step();
  Call call{described["options"], {}, dtype};
  std::vector<Tensor> wanted;
  OwnedTensors own(session);
  for (const Json& input : described["inputs"].elements()) {
    const Array array = read_array(values, shape_of(input["shape"]), input["integer"].as_bool() ? DType::i32 : dtype);
    const std::size_t i = call.in.size();
    if (parameters && i >= 1 && i <= 4) {
      const ValueKind kind = i <= 2 ? ValueKind::parameter : ValueKind::state;
      Parameter& tensor = own.add(message("input", i), {dtype, array.shape()}, kind);
      session.write(tensor, array);
      tensor.trainable = input["gradient"].as_bool();
      call.states.resize(i);
      call.states.push_back(&tensor);
      call.in.emplace_back(tensor);
    } else {
      call.in.emplace_back(array);
      if (input["gradient"].as_bool()) call.in.back().require_gradient();
    }
    if (input["gradient"].as_bool()) wanted.push_back(call.in.back());
  }
  const Tensor output = functions().at(name)(call).keep();
  const Array weights = read_array(values, shape_of(described["output"]), dtype);
  if (output.shape() != weights.shape()) {
    throw Error(message("expected an output ", weights.shape(), ", got ", output.shape()));
  }
  if (!wanted.empty()) backward(sum(output * weights));
  std::vector<Tensor> gradients;
  for (const Tensor& tensor : wanted) gradients.push_back(gradient(tensor).keep());
  step.run();
  write_array(found, output.array());
  for (const Tensor& tensor : gradients) write_array(found, tensor.array());
}

}  // namespace

}  // namespace braid

int main(int count, char** arguments) {
  using namespace braid;
  if (count != 3) {
    std::cerr << "usage: sweep_ops FOLDER f32|f64\n";
    return 2;
  }
  const std::string folder = arguments[1];
  const DType dtype = std::string(arguments[2]) == "f64" ? DType::f64 : DType::f32;
  const Json cases = parse_json(read_file(folder + "/cases.json", "the cases"));
  std::ifstream values(folder + "/values.bin", std::ios::binary);
  std::ofstream found(folder + "/found.bin", std::ios::binary);
  std::unique_ptr<Session> session;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (i % 100 == 0) session = std::make_unique<Session>(SessionOptions{.device = "cpu", .streams = 2});
    try {
      compute(*session, cases[i], dtype, values, found);
    } catch (const std::exception& error) {
      std::cerr << "case " << i << ", " << cases[i].dump() << ": " << error.what() << '\n';
      return 1;
    }
  }
}
