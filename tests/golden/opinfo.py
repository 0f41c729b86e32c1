"""PyTorch's own samples of its functions (torch.testing._internal.common_methods_invocations) as cases of sweep.py.

A reader of samples takes (sample, op) to a Case, or raises Unsupported with the option that Braid does not have. Images and filters
are brought to Braid's order of axes, and a single image becomes a batch of one.
"""

import torch
from torch.testing._internal.common_methods_invocations import op_db

MOST_SAMPLES = 250  # of a function; max_pool2d has 1440


class Unsupported(Exception):
    """The option, or kind of input, that Braid does not have."""


def require(condition, what):
    if not condition:
        raise Unsupported(what)


def leaf(x, grad=True):
    """The tensor in f64, with numbers that f32 has too; integers stay."""
    if not x.is_floating_point():
        return x.detach().to(torch.int32)
    return x.detach().float().double().contiguous().requires_grad_(grad and x.requires_grad)


def tensors(sample):
    values = [sample.input, *sample.args]
    require(all(isinstance(value, torch.Tensor) for value in values), "a number in place of a tensor")
    return values


def known(kwargs, *names):
    for name, value in kwargs.items():
        require(name in names or value is None or value is False, name if isinstance(value, torch.Tensor) else f"{name}={value}")


def axes_of(dim, x):
    require(x.dim() > 0 or dim is None or dim == (), "an axis of a scalar")
    if dim is None:
        return []
    return [dim] if isinstance(dim, int) else list(dim)


def pair(value):
    values = [value] if isinstance(value, int) else list(value)
    require(len(values) in (1, 2), "an option for each of three axes")
    return values * 2 if len(values) == 1 else values


def images(x, rank=4):
    """[C,H,W] or [N,C,H,W] → [N,H,W,C], a leaf."""
    require(x.dim() in (rank - 1, rank), "images that are not two-dimensional")
    x = x.detach() if x.dim() == rank else x.detach()[None]
    return leaf(x.movedim(1, -1).contiguous().requires_grad_())


def last(x):
    return x.movedim(1, -1)


def first(x):
    return x.movedim(-1, 1)


def unary(name, grad=True, **defaults):
    def read(sample, op):
        require(not sample.args, "positional options")
        known(sample.kwargs, *defaults)
        options = {defaults[key]: value for key, value in sample.kwargs.items() if key in defaults}
        return name, options, [leaf(sample.input, grad)], lambda x: op(x, **sample.kwargs)

    return read


def gelu(sample, op):
    name = "gelu_tanh" if sample.kwargs.get("approximate") == "tanh" else "gelu"
    return name, {}, [leaf(sample.input)], lambda x: op(x, **sample.kwargs)


def hardsigmoid(sample, op):
    # PyTorch's gradient in f64 is that of f32: a sixth with 24 bits.
    return "hardsigmoid", {}, [leaf(sample.input)], lambda x: torch.clamp(x + 3, 0, 6) / 6


def leaky_relu(sample, op):
    slope = sample.kwargs.get("negative_slope", 0.01)
    return "leaky_relu", {"number": slope}, [leaf(sample.input)], lambda x: op(x, slope)


def binary(name, grad=True):
    def read(sample, op):
        known(sample.kwargs)
        return name, {}, [leaf(x, grad) for x in tensors(sample)], lambda *all: op(*all) if grad else op(*all).double()

    return read


def where(sample, op):
    condition, other = sample.args
    inputs = [condition.double(), leaf(sample.input), leaf(other)]
    return "where", {}, inputs, lambda c, a, b: torch.where(c != 0, a, b)


def gather(sample, op):
    dim, index = sample.args[:2]
    require(sample.input.dim() > 0, "an axis of a scalar")
    require(index.dim() == sample.input.dim(), "an index of another rank")
    return "gather", {"axis": dim}, [leaf(sample.input), index.int()], lambda x, i: torch.gather(x, dim, i.long())


def index_select(sample, op):
    dim, index = sample.args
    require(sample.input.dim() > 0, "an axis of a scalar")
    return "index_select", {"axis": dim}, [leaf(sample.input), index.reshape(-1).int()], lambda x, i: op(x, dim, i.long())


def place(name):
    def read(sample, op):
        dim, keep = sample.kwargs.get("dim"), sample.kwargs.get("keepdim", False)
        x = leaf(sample.input, False)
        require(dim is not None or not keep, "keepdim without an axis")
        if dim is None:
            x, dim = x.reshape(-1), 0
        axes_of(dim, x)
        return name, {"axis": dim, "keep": keep}, [x], lambda x: op(x, dim=dim, keepdim=keep).double()

    return read


def topk(sample, op):
    k, dim, largest = [*sample.args, *[-1, True][len(sample.args) - 1:]][:3]
    axes_of(dim, sample.input)
    return "topk", {"k": k, "axis": dim, "largest": largest}, [leaf(sample.input)], lambda x: op(x, k, dim, largest)[0]


def sort(sample, op):
    dim = sample.kwargs.get("dim", sample.args[0] if sample.args else -1)
    descending = sample.kwargs.get("descending", sample.args[1] if len(sample.args) > 1 else False)
    axes_of(dim, sample.input)
    return "sort", {"axis": dim, "descending": descending}, [leaf(sample.input)], lambda x: torch.sort(x, dim=dim, descending=descending)[0]


def shaped(name, key):
    def read(sample, op):
        argument = sample.args[0]
        if name == "reshape":  # with what -1 stands for
            return name, {key: list(op(sample.input, argument).shape)}, [leaf(sample.input)], lambda x: op(x, argument)
        return name, {key: list(argument)}, [leaf(sample.input)], lambda x: op(x, argument)

    return read


def joined(name):
    def read(sample, op):
        dim = sample.kwargs.get("dim", sample.args[0] if sample.args else 0)
        inputs = [leaf(x) for x in sample.input]
        require(len({x.dim() for x in inputs}) == 1, "inputs of different ranks")
        return name, {"axis": dim}, inputs, lambda *all: op(all, dim=dim)

    return read


def squeeze(sample, op):
    if not sample.args:
        return "squeeze_all", {}, [leaf(sample.input)], torch.squeeze
    dim = sample.args[0]
    require(isinstance(dim, int), "several axes")
    axes_of(dim, sample.input)
    return "squeeze", {"axis": dim}, [leaf(sample.input)], lambda x: torch.squeeze(x, dim)


def unsqueeze(sample, op):
    dim = sample.args[0]
    return "unsqueeze", {"axis": dim}, [leaf(sample.input)], lambda x: torch.unsqueeze(x, dim)


def flip(sample, op):
    axes = sample.kwargs["dims"] if "dims" in sample.kwargs else sample.args[0]
    return "flip", {"axes": axes_of(axes, sample.input)}, [leaf(sample.input)], lambda x: torch.flip(x, tuple(axes))


def transpose(sample, op):
    a, b = sample.args
    axes_of(a, sample.input)
    return "transpose", {"a": a, "b": b}, [leaf(sample.input)], lambda x: torch.transpose(x, a, b)


def narrow(sample, op):
    dim, start, length = sample.args
    require(isinstance(start, int), "a tensor as a place")
    start %= max(1, sample.input.shape[dim])
    return "slice", {"axis": dim, "begin": start, "end": start + length}, [leaf(sample.input)], lambda x: torch.narrow(x, dim, start, length)


def reduction(name):
    def read(sample, op):
        known(sample.kwargs, "dim", "keepdim")
        dim = sample.kwargs.get("dim", sample.args[0] if sample.args else None)
        keep = sample.kwargs.get("keepdim", sample.args[1] if len(sample.args) > 1 else False)
        options = {"axes": axes_of(dim, sample.input), "keep": keep}
        call = {} if dim is None else {"dim": dim, "keepdim": keep}
        require(dim is not None or not keep, "keepdim without an axis")
        return name, options, [leaf(sample.input)], lambda x: op(x, **call)

    return read


def deviation(name):
    def read(sample, op):
        known(sample.kwargs, "dim", "keepdim", "correction", "unbiased")
        unbiased = sample.kwargs.get("unbiased", sample.args[0] if sample.args else True)
        correction = sample.kwargs.get("correction", 1 if unbiased else 0)
        dim, keep = sample.kwargs.get("dim"), sample.kwargs.get("keepdim", False)
        options = {"axes": axes_of(dim, sample.input), "keep": keep, "correction": 1 if correction is None else correction}
        return name, options, [leaf(sample.input)], lambda x: op(x, *sample.args, **sample.kwargs)

    return read


def vector_norm(sample, op):
    known(sample.kwargs, "ord", "dim", "keepdim")
    order, dim, keep = sample.kwargs.get("ord", 2), sample.kwargs.get("dim"), sample.kwargs.get("keepdim", False)
    require(order > 0, f"an order of {order}")
    axes = axes_of(dim, sample.input)
    options = {"p": -1 if order == float("inf") else order, "axes": axes, "keep": keep}
    return "norm", options, [leaf(sample.input)], lambda x: op(x, **sample.kwargs)


def softmax(name):
    def read(sample, op):
        dim = sample.args[0]
        axes_of(dim, sample.input)
        return name, {"axis": dim}, [leaf(sample.input)], lambda x: op(x, dim)

    return read


def one_hot(sample, op):
    classes = sample.kwargs["num_classes"]
    require(classes > 0, "classes counted from the data")
    return "one_hot", {"classes": classes}, [leaf(sample.input)], lambda i: op(i.long(), classes).double()


def embedding(sample, op):
    known(sample.kwargs, "padding_idx")
    require("padding_idx" not in sample.kwargs, "padding_idx")
    return "embedding", {}, [leaf(sample.input), leaf(sample.args[0])], lambda w, i: torch.nn.functional.embedding(i.long(), w)


def loss(name, **defaults):
    def read(sample, op):
        known(sample.kwargs, "reduction", *defaults)
        options = {"reduction": sample.kwargs.get("reduction", "mean")}
        options |= {key: sample.kwargs.get(key, value) for key, value in defaults.items()}
        x, target = leaf(sample.input), leaf(sample.args[0])
        require(x.shape == target.shape, "a target that broadcasts")
        return name, options, [x, target], lambda x, y: op(x, y, **sample.kwargs)

    return read


def bce(sample, op):
    known(sample.kwargs, "reduction", "pos_weight")
    inputs = [leaf(sample.input), leaf(sample.args[0], False)]
    keys = [key for key in ("pos_weight",) if sample.kwargs.get(key) is not None]
    inputs += [leaf(sample.kwargs[key]).detach() for key in keys]
    options = {"reduction": sample.kwargs.get("reduction", "mean")}
    return "binary_cross_entropy_with_logits", options, inputs, lambda x, y, *w: op(x, y, reduction=options["reduction"], **dict(zip(keys, w)))


def cross_entropy(sample, op):
    kwargs = {key: value for key, value in sample.kwargs.items() if key != "weight"}
    known(kwargs, "reduction", "ignore_index", "label_smoothing")
    logits, labels = sample.input, sample.args[0]
    require(logits.dim() > 1, "logits without a batch")
    inputs = [leaf(last(logits.detach()).contiguous().requires_grad_())]
    targets = labels.is_floating_point()
    inputs.append(leaf(last(labels.detach()).contiguous().requires_grad_(labels.requires_grad)) if targets else labels.int())
    if sample.kwargs.get("weight") is not None:
        inputs.append(leaf(sample.kwargs["weight"]).detach())
    options = {"reduction": kwargs.get("reduction", "mean"), "ignore_index": kwargs.get("ignore_index", -100),
               "smoothing": kwargs.get("label_smoothing", 0.0)}  # fmt: skip

    def function(x, y, weight=None):
        return op(first(x), first(y) if targets else y.long(), weight=weight, **kwargs)

    return "cross_entropy", options, inputs, function


def max_pool2d(sample, op):
    known(sample.kwargs, "kernel_size", "stride", "padding", "dilation", "ceil_mode")
    window = pair(sample.kwargs["kernel_size"])
    stride = sample.kwargs.get("stride")
    options = {"window": window, "stride": window if stride is None else pair(stride), "padding": pair(sample.kwargs.get("padding", 0)),
               "ceil_mode": sample.kwargs.get("ceil_mode", False), "count_include_pad": True,
               "dilation": pair(sample.kwargs.get("dilation", 1))}  # fmt: skip
    return "max_pool2d", options, [images(sample.input)], lambda x: last(op(first(x), **sample.kwargs))


def avg_pool2d(sample, op):
    given = dict(zip(["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"], sample.args)) | sample.kwargs
    window = pair(given["kernel_size"])
    options = {"window": window, "stride": pair(given["stride"]) if given.get("stride") else window, "padding": pair(given.get("padding", 0)),
               "ceil_mode": given.get("ceil_mode", False), "count_include_pad": given.get("count_include_pad", True)}  # fmt: skip
    if given.get("divisor_override") is not None:
        options["divisor"] = given["divisor_override"]
    return "avg_pool2d", options, [images(sample.input)], lambda x: last(op(first(x), *sample.args, **sample.kwargs))


def adaptive_avg_pool2d(sample, op):
    x, size = images(sample.input), sample.args[0]
    size = [size, size] if isinstance(size, int) else [s if s is not None else e for s, e in zip(size, x.shape[1:3])]
    return "adaptive_avg_pool2d", {"size": size}, [x], lambda x: last(op(first(x), size))


def interpolate(sample, op):
    kwargs = sample.kwargs
    known(kwargs, "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor")
    mode = kwargs["mode"]
    require(mode in ("nearest", "nearest-exact", "bilinear", "bicubic"), f"mode={mode}")
    require(sample.input.dim() == 4, "images that are not two-dimensional")
    options = {"mode": mode.replace("-", "_"), "align_corners": bool(kwargs.get("align_corners"))}
    x = images(sample.input)
    size = sample.args[0] if sample.args else kwargs.get("size")
    scale = kwargs.get("scale_factor")
    if size is None and kwargs.get("recompute_scale_factor"):
        size = [int(extent * scale) for extent in x.shape[1:3]]
    if size is not None:
        options["size"] = pair(size)
    else:
        require(isinstance(scale, (int, float)), "a scale for each axis")
        options["scale"] = scale
    return "interpolate", options, [x], lambda x: last(op(first(x), *sample.args, **kwargs))


def pad(sample, op):
    amounts, mode = sample.args[0], sample.args[1] if len(sample.args) > 1 else "constant"
    value = sample.args[2] if len(sample.args) > 2 else sample.kwargs.get("value", 0.0)
    require(mode == "constant" or min(amounts) >= 0, "a border that is cut")
    pairs = [[0, 0]] * (sample.input.dim() - len(amounts) // 2) + [list(amounts[i : i + 2]) for i in range(len(amounts) - 2, -1, -2)]
    return "pad", {"amounts": pairs, "mode": mode, "value": value or 0.0}, [leaf(sample.input)], lambda x: op(x, *sample.args, **sample.kwargs)


def linear(sample, op):
    inputs = [leaf(x) for x in tensors(sample)]
    require(inputs[1].dim() == 2, "a weight that is a vector")
    return "linear", {}, inputs, op


def conv2d(sample, op):
    weight, *bias = [value for value in sample.args if value is not None]
    known(sample.kwargs, "stride", "padding", "dilation", "groups")
    require(not isinstance(sample.kwargs.get("padding"), str), "padding by name")
    options = {key: pair(sample.kwargs.get(key, default)) for key, default in (("stride", 1), ("padding", 0), ("dilation", 1))}
    inputs = [images(sample.input), images(weight), *[leaf(b) for b in bias]]
    return "conv2d", options | {"groups": sample.kwargs.get("groups", 1)}, inputs, lambda x, w, *b: last(op(first(x), first(w), *b, **sample.kwargs))


def conv_transpose2d(sample, op):
    weight, *bias = [value for value in sample.args if value is not None]
    known(sample.kwargs, "stride", "padding", "output_padding", "dilation", "groups")
    names = (("stride", 1), ("padding", 0), ("output_padding", 0), ("dilation", 1))
    options = {key: pair(sample.kwargs.get(key, default)) for key, default in names}
    require(all(p < s for p, s in zip(options["output_padding"], options["stride"])), "output_padding of the stride or more")
    inputs = [images(sample.input), images(weight), *[leaf(b) for b in bias]]
    options["groups"] = sample.kwargs.get("groups", 1)
    return "conv_transpose2d", options, inputs, lambda x, w, *b: last(op(first(x), first(w), *b, **sample.kwargs))


def batch_norm(sample, op):
    mean, variance, *affine = sample.args
    known(sample.kwargs, "training", "momentum", "eps", "weight", "bias")
    require(mean is not None and len(affine) == 2 and all(x is not None for x in affine), "no statistics, scale or shift")
    training, epsilon = sample.kwargs.get("training", False), sample.kwargs.get("eps", 1e-5)
    x = leaf(last(sample.input.detach()).contiguous().requires_grad_())
    inputs = [x, leaf(affine[0]), leaf(affine[1]), leaf(mean).detach(), leaf(variance).detach()]
    require(not training or x.numel() // max(1, x.shape[-1]) > 2, "one or two elements per channel in training")

    def function(x, scale, shift, mean, variance):
        return last(op(first(x), mean.clone(), variance.clone(), scale, shift, training=training, eps=epsilon))

    return "batch_norm", {"training": training, "activation": "none", "epsilon": epsilon}, inputs, function


def group_norm(sample, op):
    weight, bias = sample.kwargs.get("weight"), sample.kwargs.get("bias")
    require(weight is not None and bias is not None, "no scale or shift")
    groups, epsilon = sample.args[0], sample.kwargs.get("eps", 1e-5)
    require(epsilon >= 0, "a negative eps")
    inputs = [leaf(last(sample.input.detach()).contiguous().requires_grad_()), leaf(weight), leaf(bias)]
    return "group_norm", {"groups": groups, "epsilon": epsilon}, inputs, lambda x, w, b: last(op(first(x), groups, w, b, epsilon))


def layer_norm(sample, op):
    extents, *affine = sample.args
    require(len(affine) == 2 and all(x is not None for x in affine), "no scale or shift")
    epsilon = sample.kwargs.get("eps", 1e-5)
    require(epsilon >= 0, "a negative eps")
    require(affine[0].numel() > 2, "norms of one or two elements")
    return "layer_norm", {"epsilon": epsilon}, [leaf(sample.input), *[leaf(x) for x in affine]], lambda x, w, b: op(x, extents, w, b, epsilon)


NN = "nn.functional."
READERS = {
    **{name: unary(name) for name in ("abs", "exp", "log", "sqrt", "square", "sigmoid", "tanh", "neg")},
    **{NN + name: unary(name) for name in ("relu", "relu6", "elu", "silu", "softplus", "hardswish")},
    "sign": unary("sign", grad=False), NN + "gelu": gelu, NN + "leaky_relu": leaky_relu, NN + "hardsigmoid": hardsigmoid,
    **{name: binary(name) for name in ("add", "sub", "mul", "div", "maximum", "minimum", "pow")},
    **{name: binary(name, grad=False) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "where": where, "gather": gather, "index_select": index_select, NN + "one_hot": one_hot, NN + "embedding": embedding,
    "argmax": place("argmax"), "argmin": place("argmin"), "topk": topk, "sort": sort,
    "expand": shaped("expand", "shape"), "reshape": shaped("reshape", "shape"), "permute": shaped("permute", "axes"),
    "stack": joined("stack"), "cat": joined("concat"), "squeeze": squeeze, "unsqueeze": unsqueeze, "flip": flip,
    "transpose": transpose, "narrow": narrow,
    **{name: reduction(name) for name in ("sum", "mean", "amax", "amin", "logsumexp")},
    "var": deviation("var"), "std": deviation("std"), "linalg.vector_norm": vector_norm,
    "softmax": softmax("softmax"), "log_softmax": softmax("log_softmax"),
    "matmul": lambda sample, op: ("matmul", {"transpose_a": False, "transpose_b": False}, [leaf(x) for x in tensors(sample)], op),
    NN + "linear": linear, NN + "conv2d": conv2d, NN + "conv_transpose2d": conv_transpose2d,
    NN + "max_pool2d": max_pool2d, NN + "avg_pool2d": avg_pool2d, NN + "adaptive_avg_pool2d": adaptive_avg_pool2d,
    NN + "interpolate": interpolate, NN + "pad": pad,
    NN + "batch_norm": batch_norm, NN + "group_norm": group_norm, NN + "layer_norm": layer_norm,
    NN + "mse_loss": loss("mse_loss"), NN + "l1_loss": loss("l1_loss"), NN + "huber_loss": loss("huber_loss", delta=1.0),
    NN + "smooth_l1_loss": loss("smooth_l1_loss", beta=1.0), NN + "kl_div": loss("kl_div", log_target=False),
    NN + "binary_cross_entropy_with_logits": bce, NN + "cross_entropy": cross_entropy,
}  # fmt: skip


def samples():
    """(function, its samples) of all functions that Braid has."""
    for name in READERS:
        for op in [op for op in op_db if op.name == name and "complex" not in op.variant_test_name]:
            dtype = torch.int64 if name.endswith("one_hot") else torch.float64
            torch.manual_seed(1)
            yield name, op, list(op.sample_inputs("cpu", dtype, requires_grad=dtype == torch.float64))


def cases(make_case):
    """The cases, how many samples of each function they are of, and why other samples are none."""
    found, counts, refused = [], {}, {}
    for name, op, all_samples in samples():
        of_function = counts.setdefault(name, [0, 0])
        step = max(1, len(all_samples) // MOST_SAMPLES)
        for sample in all_samples[::step]:
            of_function[1] += 1
            try:
                function, options, inputs, reference = READERS[name](sample, op)
            except Unsupported as reason:
                refused.setdefault(name, set()).add(str(reason))
                continue
            of_function[0] += 1
            found.append(make_case(function, options, inputs, reference))
    return found, counts, refused
