#!/usr/bin/env python3
"""Compares every function on tensors with PyTorch's, forward and gradients, in f64 and f32.

    tests/golden/sweep.py build/release/bin/sweep_ops [--cases N] [--only FUNCTION]
    tests/golden/sweep.py build/release/bin/sweep_ops --opinfo [--update]

Draws cases of all functions until there are N (3000), or takes PyTorch's own samples of them, whose numbers are in
docs/functions.md (--update writes them). Computes them with PyTorch in float64, and has sweep_ops compute them with Braid. The gradients are those of a random linear function of the outputs. An error is the largest difference
over the largest element; it must be at most 1e-12 in f64 and 1e-5 in f32. Prints the largest errors of each function.

What a norm divides by is the deviation of 8 elements or more: of two equal ones it is rounding alone.
Exits with 77, which CTest reports as skipped, where PyTorch is missing, also from .venv.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    venv = pathlib.Path(__file__).parents[2] / ".venv/bin/python"
    if venv.exists() and pathlib.Path(sys.prefix).name != ".venv":
        os.execv(venv, [str(venv), *sys.argv])
    print(f"skipped: {error}; this sweep needs PyTorch: python3 -m venv .venv && .venv/bin/pip install torch")
    sys.exit(77)

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/functions.md"
LIMITS = {"f64": 1e-12, "f32": 1e-5}


class Case:
    """A function's name and options as Braid reads them, its inputs, and the same in PyTorch.

    Images are [N,H,W,C] and filters [K,R,S,C] in both, so that gradients can be compared as they are. Gradients of inputs
    without requires_grad are not compared.
    """

    def __init__(self, name, options, inputs, function):
        self.name, self.options, self.inputs, self.function = name, options, inputs, function


def normal(r, *shape, grad=True, equal=True):
    values = torch.randn(shape, dtype=torch.float64, generator=r.torch)
    if equal and r.random() < 0.15:  # many equal elements, and zeros
        values = (values * 2).round() / 2
    # f32 sees the same numbers
    return values.float().double().requires_grad_(grad)


def positive(r, *shape):
    values = torch.rand(shape, dtype=torch.float64, generator=r.torch) + 0.5
    return values.float().double().requires_grad_()


def integers(r, high, *shape):
    return torch.randint(high, shape, dtype=torch.int32, generator=r.torch)


def shape_of(r, rank=None, most=7):
    return [r.randint(1, most) for _ in range(r.randint(0, 4) if rank is None else rank)]


def nchw(x):
    return x.permute(0, 3, 1, 2)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def broadcast_pair(r):
    shape = shape_of(r, r.randint(0, 4), 6)
    other = [1 if r.random() < 0.4 else extent for extent in shape][r.randint(0, len(shape)) if r.random() < 0.4 else 0 :]
    return (shape, other) if r.random() < 0.5 else (other, shape)


BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "minimum": torch.minimum, "maximum": torch.maximum}


def binary(r):
    name = r.choice(list(BINARY))
    a, b = broadcast_pair(r)
    return Case(name, {}, [normal(r, *a), positive(r, *b) if name == "div" else normal(r, *b)], BINARY[name])


COMPARISONS = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}


def condition(r):
    a, b = broadcast_pair(r)
    if r.random() < 0.5:
        name = r.choice(list(COMPARISONS))
        return Case(name, {}, [normal(r, *a, grad=False), normal(r, *b, grad=False)], lambda x, y: COMPARISONS[name](x, y).double())
    if r.random() < 0.5:
        return Case("pow", {}, [positive(r, *a), normal(r, *b)], torch.pow)
    mask = integers(r, 2, *b).double()
    return Case("where", {}, [mask, normal(r, *a), normal(r, *b)], lambda c, x, y: torch.where(c != 0, x, y))


UNARY = {
    "elu": F.elu, "hardswish": F.hardswish, "hardsigmoid": lambda x: torch.clamp(x + 3, 0, 6) / 6,  # F.hardsigmoid's gradient has 24 bits
   
    "exp": torch.exp, "abs": torch.abs, "square": torch.square, "neg": torch.neg, "relu": F.relu, "relu6": F.relu6,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "softplus": F.softplus, "silu": F.silu,
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}  # fmt: skip


def unary(r):
    name = r.choice([*UNARY, "log", "sqrt", "pow", "leaky_relu", "clamp", "scale", "plus", "from", "over"])
    shape = shape_of(r)
    if name in UNARY:
        return Case(name, {}, [normal(r, *shape)], UNARY[name])
    number = r.choice([-2.5, -1.0, -0.5, 0.25, 0.5, 1.5, 2.0, 3.0])
    if name in ("log", "sqrt", "pow", "over"):
        functions = {"log": torch.log, "sqrt": torch.sqrt, "pow": lambda x: torch.pow(x, number), "over": lambda x: number / x}
        return Case(name, {"number": number}, [positive(r, *shape)], functions[name])
    if name == "clamp":
        least = r.choice([-1.0, -0.5, 0.0])
        most = least + r.choice([0.5, 1.5])
        return Case(name, {"least": least, "most": most}, [normal(r, *shape)], lambda x: torch.clamp(x, least, most))
    if name == "leaky_relu":
        slope = r.choice([0.01, 0.2])
        return Case(name, {"number": slope}, [normal(r, *shape)], lambda x: F.leaky_relu(x, slope))
    functions = {"scale": lambda x: number * x, "plus": lambda x: x + number, "from": lambda x: number - x}
    return Case(name, {"number": number}, [normal(r, *shape)], functions[name])


def reduction(r):
    name = r.choice(["sum", "mean", "amax", "amin"])
    shape = shape_of(r, r.randint(1, 4))
    axes = sorted(r.sample(range(len(shape)), r.randint(1, len(shape))))
    keep = r.random() < 0.5
    function = getattr(torch, name)
    given = [axis - len(shape) if r.random() < 0.3 else axis for axis in axes]
    return Case(name, {"axes": given, "keep": keep}, [normal(r, *shape)], lambda x: function(x, dim=axes, keepdim=keep))


def statistic(r):
    name = r.choice(["var", "std", "norm", "logsumexp"])
    shape = shape_of(r, r.randint(1, 4))
    axis = r.randrange(len(shape))
    shape[axis] += 2  # a deviation of one element is none
    keep, x = r.random() < 0.5, normal(r, *shape, equal=False)
    options = {"axes": [axis], "keep": keep}
    if name in ("var", "std"):
        correction = r.choice([0, 1])
        return Case(name, options | {"correction": correction}, [x], lambda x: getattr(torch, name)(x, dim=axis, correction=correction, keepdim=keep))
    if name == "norm":
        p = r.choice([1, 2, 3, 2.5])
        return Case(name, options | {"p": p}, [x], lambda x: torch.linalg.vector_norm(x, p, dim=axis, keepdim=keep))
    return Case(name, options, [x], lambda x: torch.logsumexp(x, dim=axis, keepdim=keep))


def chosen(r):
    name = r.choice(["topk", "topk_indices", "sort", "argmax", "argmin", "gather", "index_select", "embedding", "one_hot", "flip"])
    shape = shape_of(r, r.randint(1, 4))
    axis = r.randrange(len(shape))
    x = normal(r, *shape, equal=False)
    if name.startswith("topk"):
        k, largest, part = r.randint(1, shape[axis]), r.random() < 0.5, int(name != "topk")
        x = x.detach() if part else x
        return Case(name, {"k": k, "axis": axis, "largest": largest}, [x], lambda x: torch.topk(x, k, axis, largest)[part].double())
    if name == "sort":
        descending = r.random() < 0.5
        return Case(name, {"axis": axis, "descending": descending}, [x], lambda x: torch.sort(x, dim=axis, descending=descending)[0])
    if name in ("argmax", "argmin"):
        keep = r.random() < 0.5
        return Case(name, {"axis": axis, "keep": keep}, [x.detach()], lambda x: getattr(torch, name)(x, axis, keep).double())
    if name == "gather":
        of_index = [r.randint(1, 6) if i == axis else r.randint(1, e) for i, e in enumerate(shape)]
        index = integers(r, shape[axis], *of_index)
        return Case(name, {"axis": axis}, [x, index], lambda x, i: torch.gather(x, axis, i.long()))
    if name == "index_select":
        return Case(name, {"axis": axis}, [x, integers(r, shape[axis], r.randint(1, 9))], lambda x, i: torch.index_select(x, axis, i.long()))
    if name == "embedding":
        weight = normal(r, r.randint(1, 9), r.randint(1, 70))
        return Case(name, {}, [weight, integers(r, weight.shape[0], *shape)], lambda w, i: F.embedding(i.long(), w))
    if name == "one_hot":
        classes = r.randint(1, 9)
        return Case(name, {"classes": classes}, [integers(r, classes, *shape)], lambda i: F.one_hot(i.long(), classes).double())
    axes = r.sample(range(len(shape)), r.randint(1, len(shape)))
    return Case(name, {"axes": axes}, [x], lambda x: torch.flip(x, axes))


def softmax(r):
    name = r.choice(["softmax", "log_softmax"])
    shape = shape_of(r, r.randint(1, 4), 12)
    axis = r.randrange(-len(shape), len(shape))
    return Case(name, {"axis": axis}, [normal(r, *shape)], lambda x: getattr(F, name)(x, dim=axis))


def loss(r):
    name = r.choice(["mse_loss", "l1_loss", "binary_cross_entropy_with_logits"])
    kind = r.choice(["mean", "sum", "none"])
    shape = shape_of(r)
    target = normal(r, *shape, grad=False)
    if name.startswith("binary"):
        target = torch.rand(shape, dtype=torch.float64, generator=r.torch).float().double()
    return Case(name, {"reduction": kind}, [normal(r, *shape), target], lambda x, y: getattr(F, name)(x, y, reduction=kind))


def cross_entropy(r):
    rows, classes = r.randint(1, 12), r.randint(1, 20)
    smoothing = r.choice([0.0, 0.0, 0.1, 0.3])
    labels = integers(r, classes, rows)
    return Case("cross_entropy", {"smoothing": smoothing}, [normal(r, rows, classes), labels],
                lambda x, y: F.cross_entropy(x, y.long(), label_smoothing=smoothing))  # fmt: skip


def general_cross_entropy(r):
    rows, classes, pixels = r.randint(1, 12), r.randint(2, 20), shape_of(r, r.randint(0, 2), 3)
    smoothing, kind = r.choice([0.0, 0.1, 0.3]), r.choice(["mean", "sum", "none"])
    options = {"smoothing": smoothing, "reduction": kind, "ignore_index": r.choice([-100, 0, 255])}
    x = normal(r, rows, *pixels, classes)
    weight = [positive(r, classes).detach()] if r.random() < 0.5 else []
    if r.random() < 0.3:
        options["ignore_index"] = -100
        target = torch.rand(x.shape, dtype=torch.float64, generator=r.torch).float().double().requires_grad_()
    else:
        target = integers(r, classes, rows, *pixels)
        if options["ignore_index"] == 0:
            target.view(-1)[0] = 1  # the mean of no element is a NaN
        elif rows > 1:
            target[0] = options["ignore_index"]

    def function(x, y, weight=None):
        y = y.movedim(-1, 1) if y.is_floating_point() else y.long()
        return F.cross_entropy(x.movedim(-1, 1), y, weight, ignore_index=options["ignore_index"], reduction=kind, label_smoothing=smoothing)

    return Case("cross_entropy", options, [x, target, *weight], function)


def robust_loss(r):
    kind, shape = r.choice(["mean", "sum", "none"]), shape_of(r)
    x, y = normal(r, *shape, equal=False), normal(r, *shape, equal=False)
    name, size = r.choice(["huber_loss", "smooth_l1_loss"]), r.choice([0.3, 1.0, 2.0])
    key = "delta" if name == "huber_loss" else "beta"
    return Case(name, {"reduction": kind, key: size}, [x, y], lambda x, y: getattr(F, name)(x, y, reduction=kind, **{key: size}))


def conv2d(r):
    groups = r.choice([1, 1, 1, 2, 3])
    c, k = groups * r.randint(1, 6), groups * r.randint(1, 6)
    kernel, stride, dilation = (
        [r.randint(1, 4), r.randint(1, 4)], [r.randint(1, 3), r.randint(1, 3)], [r.randint(1, 2), r.randint(1, 2)])  # fmt: skip
    if r.random() < 0.3:  # what Winograd's algorithm takes
        kernel, stride, dilation = [3, 3], [1, 1], [1, 1]
    padding = [r.randint(0, 2), r.randint(0, 2)]
    extent = [max(1, d * (s - 1) + 1 - 2 * p) + r.randint(0, 9) for s, p, d in zip(kernel, padding, dilation)]
    inputs = [normal(r, r.randint(1, 3), *extent, c), normal(r, k, *kernel, c // groups)]
    if r.random() < 0.5:
        inputs.append(normal(r, k))

    def function(x, w, bias=None):
        return nhwc(F.conv2d(nchw(x), nchw(w), bias, stride, padding, dilation, groups))

    return Case("conv2d", {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}, inputs, function)


def conv_transpose2d(r):
    groups = r.choice([1, 1, 2])
    c, k = groups * r.randint(1, 5), groups * r.randint(1, 5)
    kernel, stride, dilation = (
        [r.randint(1, 4), r.randint(1, 4)], [r.randint(1, 3), r.randint(1, 3)], [r.randint(1, 2), r.randint(1, 2)])  # fmt: skip
    padding = [r.randint(0, d * (s - 1) // 2) for s, d in zip(kernel, dilation)]
    output_padding = [r.randint(0, s - 1) for s in stride]
    inputs = [normal(r, r.randint(1, 3), r.randint(1, 6), r.randint(1, 6), c), normal(r, c, *kernel, k // groups)]

    def function(x, w):
        return nhwc(F.conv_transpose2d(nchw(x), nchw(w), None, stride, padding, output_padding, groups, dilation))

    options = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding, "groups": groups}
    return Case("conv_transpose2d", options, inputs, function)


def linear(r):
    n, c, k = r.randint(1, 9), r.randint(1, 40), r.randint(1, 20)
    inputs = [normal(r, n, c), normal(r, k, c)]
    if r.random() < 0.5:
        inputs.append(normal(r, k))
    return Case("linear", {}, inputs, F.linear)


def matmul(r):
    m, k, n = r.randint(1, 12), r.randint(1, 20), r.randint(1, 12)
    batch = shape_of(r, r.randint(0, 2), 4)
    other = [1 if r.random() < 0.2 else extent for extent in batch]
    ta, tb = r.random() < 0.5, r.random() < 0.5
    a = (batch if r.random() < 0.8 else []) + ([k, m] if ta else [m, k])
    b = (other if len(a) == 2 or r.random() < 0.8 else []) + ([n, k] if tb else [k, n])
    return Case("matmul", {"transpose_a": ta, "transpose_b": tb}, [normal(r, *a), normal(r, *b)],
                lambda a, b: torch.matmul(a.mT if ta else a, b.mT if tb else b))  # fmt: skip


def pool(r):
    name = r.choice(["max_pool2d", "avg_pool2d"])
    window = [r.randint(1, 4), r.randint(1, 4)]
    stride = [r.randint(1, 3), r.randint(1, 3)]
    padding = [r.randint(0, w // 2) for w in window]
    ceil, include = r.random() < 0.5, r.random() < 0.5
    extent = [max(1, w - 2 * p) + r.randint(0, 8) for w, p in zip(window, padding)]
    dilation = [r.randint(1, 3), r.randint(1, 3)] if name == "max_pool2d" and r.random() < 0.4 else [1, 1]
    extent = [e + (d - 1) * (w - 1) for e, d, w in zip(extent, dilation, window)]
    x = normal(r, r.randint(1, 2), *extent, r.randint(1, 5))
    options = {"window": window, "stride": stride, "padding": padding, "ceil_mode": ceil, "count_include_pad": include}
    if name == "max_pool2d":
        options["dilation"] = dilation
        return Case(name, options, [x], lambda x: nhwc(F.max_pool2d(nchw(x), window, stride, padding, dilation, ceil_mode=ceil)))
    if r.random() < 0.3:
        options["divisor"] = r.choice([1, 3, -2])
    divisor = options.get("divisor")
    return Case(name, options, [x], lambda x: nhwc(F.avg_pool2d(nchw(x), window, stride, padding, ceil, include, divisor)))


def adaptive_pool(r):
    size = [r.randint(1, 7), r.randint(1, 7)]
    x = normal(r, r.randint(1, 2), r.randint(1, 9), r.randint(1, 9), r.randint(1, 5))
    return Case("adaptive_avg_pool2d", {"size": size}, [x], lambda x: nhwc(F.adaptive_avg_pool2d(nchw(x), size)))


def interpolate(r):
    mode = r.choice(["nearest", "nearest-exact", "bilinear", "bicubic"])
    x = normal(r, r.randint(1, 2), r.randint(1, 8), r.randint(1, 8), r.randint(1, 4))
    aligned = {} if mode.startswith("nearest") else {"align_corners": r.random() < 0.5}
    options = {"mode": mode.replace("-", "_")} | aligned
    if r.random() < 0.5:
        size = [r.randint(1, 12), r.randint(1, 12)]
        return Case("interpolate", options | {"size": size}, [x], lambda x: nhwc(F.interpolate(nchw(x), size=size, mode=mode, **aligned)))
    scale = r.choice([0.5, 1.5, 2.0, 3.0]) if min(x.shape[1:3]) > 1 else r.choice([1.5, 2.0])
    return Case("interpolate", options | {"scale": scale}, [x], lambda x: nhwc(F.interpolate(nchw(x), scale_factor=scale, mode=mode, **aligned)))


def batch_norm(r):
    c = r.randint(1, 8)
    training, act = r.random() < 0.6, r.choice(["none", "relu"])
    shape = [r.randint(2, 4), r.randint(2, 5), r.randint(2, 5), c]
    inputs = [normal(r, *shape, equal=False), positive(r, c), normal(r, c), normal(r, c, grad=False), positive(r, c).detach()]
    residual = r.random() < 0.4
    if residual:
        inputs.append(normal(r, *shape))

    def function(x, scale, shift, mean, variance, residual=None):
        y = nhwc(F.batch_norm(nchw(x), mean.clone(), variance.clone(), scale, shift, training))
        y = y if residual is None else y + residual
        return F.relu(y) if act == "relu" else y

    return Case("batch_norm", {"training": training, "activation": act}, inputs, function)


def group_norm(r):
    groups = r.randint(1, 4)
    c = groups * r.randint(1, 5)
    shape = [r.randint(1, 4), r.randint(3, 5), r.randint(3, 5), c]
    inputs = [normal(r, *shape, equal=False), positive(r, c), normal(r, c)]
    return Case("group_norm", {"groups": groups}, inputs, lambda x, w, b: nhwc(F.group_norm(nchw(x), groups, w, b)))


def layer_norm(r):
    lead, trail = shape_of(r, r.randint(1, 2)), [r.randint(8, 20)] + shape_of(r, r.randint(0, 1))
    inputs = [normal(r, *lead, *trail, equal=False), positive(r, *trail), normal(r, *trail)]
    return Case("layer_norm", {}, inputs, lambda x, w, b: F.layer_norm(x, trail, w, b))


def layout(r):
    shape = shape_of(r, r.randint(1, 5), 5)
    rank = len(shape)
    axis = r.randrange(rank)
    given = axis - rank if r.random() < 0.3 else axis
    x = normal(r, *shape)
    name = r.choice(["permute", "transpose", "slice", "pad", "concat", "reshape", "split", "stack", "squeeze", "unsqueeze", "expand"])
    if name == "stack":
        at = r.randint(-rank - 1, rank)
        return Case(name, {"axis": at}, [x, *[normal(r, *shape) for _ in range(r.randint(0, 3))]], lambda *all: torch.stack(all, dim=at))
    if name == "squeeze":
        return Case(name, {"axis": given}, [x], lambda x: torch.squeeze(x, given))
    if name == "unsqueeze":
        return Case(name, {"axis": given}, [x], lambda x: torch.unsqueeze(x, given))
    if name == "expand":
        single = normal(r, *[1 if r.random() < 0.5 else e for e in shape])
        to = [r.randint(1, 3)] + [-1 if r.random() < 0.3 else e for e in shape] if r.random() < 0.5 else shape
        return Case(name, {"shape": to}, [single], lambda x: x.expand(to))
    if name == "permute":
        axes = r.sample(range(rank), rank)
        return Case(name, {"axes": axes}, [x], lambda x: x.permute(axes))
    if name == "transpose":
        b = r.randrange(rank)
        return Case(name, {"a": given, "b": b}, [x], lambda x: x.transpose(given, b))
    if name == "slice":
        begin = r.randint(-shape[axis], shape[axis] - 1)
        start = begin % shape[axis]
        end = r.randint(start + 1, shape[axis])
        return Case(name, {"axis": given, "begin": begin, "end": end}, [x], lambda x: x.narrow(axis, start, end - start))
    if name == "pad":
        mode = r.choice(["constant", "reflect", "replicate", "circular"])
        if mode != "constant" and rank > 2:  # PyTorch pads the last axes alone
            least = {"reflect": lambda e: min(2, e - 1), "circular": lambda e: min(2, e), "replicate": lambda e: 2}[mode]
            amounts = [[0, 0]] * 2 + [[r.randint(0, least(e)), r.randint(0, least(e))] for e in shape[2:]]
            flat = [amount for pair in reversed(amounts[2:]) for amount in pair]
            return Case(name, {"amounts": amounts, "mode": mode, "value": 0.0}, [x], lambda x: F.pad(x, flat, mode=mode))
        amounts = [[r.randint(0, 2), r.randint(0, 2)] for _ in shape]
        value = r.choice([0.0, 1.5])
        flat = [amount for pair in reversed(amounts) for amount in pair]
        return Case(name, {"amounts": amounts, "value": value}, [x], lambda x: F.pad(x, flat, value=value))
    if name == "concat":
        others = [normal(r, *[r.randint(1, 4) if i == axis else e for i, e in enumerate(shape)]) for _ in range(r.randint(0, 3))]
        return Case(name, {"axis": given}, [x, *others], lambda *all: torch.cat(all, dim=axis))
    if name == "reshape":
        to = [x.numel()] if r.random() < 0.5 else [shape[0], x.numel() // shape[0]]
        return Case(name, {"shape": to}, [x], lambda x: x.reshape(to))
    sizes = []
    while sum(sizes) < shape[axis]:
        sizes.append(r.randint(1, shape[axis] - sum(sizes)))
    part = r.randrange(len(sizes))
    return Case(name, {"axis": given, "sizes": sizes, "part": part}, [x], lambda x: torch.split(x, sizes, dim=axis)[part])


GENERATORS = [binary, binary, condition, unary, unary, reduction, statistic, chosen, chosen, softmax, loss, robust_loss, cross_entropy,
              general_cross_entropy, conv2d, conv2d, conv_transpose2d, linear,
              matmul, pool, adaptive_pool, interpolate, batch_norm, group_norm, layer_norm, layout, layout]  # fmt: skip


def draw(count, only):
    r = random.Random(1)
    r.torch = torch.Generator().manual_seed(1)
    cases = []
    while len(cases) < count:
        for generator in GENERATORS:
            case = generator(r)
            if only in (None, case.name):
                cases.append(case)
    return cases[:count]


def compute(case):
    """The output, the weights of the linear function of it, and the gradients."""
    for x in case.inputs:
        x.grad = None
    output = case.function(*case.inputs)
    weights = torch.randn(output.shape, dtype=torch.float64, generator=compute.random).float().double()
    if output.requires_grad:
        (output * weights).sum().backward()
    return output.detach(), weights, [torch.zeros_like(x) if x.grad is None else x.grad for x in case.inputs if x.requires_grad]


compute.random = torch.Generator().manual_seed(2)


def write(cases, folder):
    """cases.json, and values.bin: of each case the inputs and the weights as f64. Returns what PyTorch computed."""
    described, expected = [], []
    with open(folder / "values.bin", "wb") as values:
        for case in cases:
            output, weights, gradients = compute(case)
            tensors = [{"shape": list(x.shape), "gradient": x.requires_grad, "integer": not x.is_floating_point()} for x in case.inputs]
            described.append({"function": case.name, "options": case.options, "inputs": tensors, "output": list(output.shape)})
            for x in [*case.inputs, weights]:
                values.write(x.detach().double().contiguous().numpy().tobytes())
            expected.append([output, *gradients])
    (folder / "cases.json").write_text(json.dumps(described), encoding="utf-8")
    return expected


def error_of(found, wanted):
    if wanted.numel() == 0:
        return 0
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    largest = torch.where(wanted.isfinite(), wanted.abs(), 0).max().item()
    difference = torch.where(same, 0, (found - wanted).abs()).max().item()
    return difference / largest if largest > 0 else difference


def compare(program, cases):
    """The largest error of each function and type, and lines that tell which cases differ."""
    worst, failures = collections.defaultdict(float), []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        expected = write(cases, folder)
        for dtype, limit in LIMITS.items():
            subprocess.run([program, folder, dtype], check=True)
            found = torch.frombuffer(bytearray((folder / "found.bin").read_bytes()), dtype=torch.float64)
            place = 0
            for number, (case, tensors) in enumerate(zip(cases, expected)):
                for i, wanted in enumerate(tensors):
                    part = found[place : place + wanted.numel()].reshape(wanted.shape)
                    place += wanted.numel()
                    error = error_of(part, wanted)
                    worst[case.name, dtype] = max(worst[case.name, dtype], error)
                    if not error <= limit:
                        what = "output" if i == 0 else f"gradient {i - 1}"
                        shapes = [list(x.shape) for x in case.inputs]
                        failures.append(f"case {number}, {dtype}: {case.name} {case.options} of {shapes}: {what} differs by {error:.2g}")
            assert place == len(found)
    return worst, failures


def write_samples(counts, refused, update):
    """The table of PyTorch's samples in docs/functions.md."""
    rows = ["| function of PyTorch | samples | what others use |", "|---|---|---|"]
    for name, (run, all_samples) in sorted(counts.items()):
        rows.append(f"| `{name}` | {run} of {all_samples} | {'; '.join(sorted(refused.get(name, [])))} |")
    table = "<!-- samples -->\n" + "\n".join(rows) + "\n<!-- end of samples -->"
    text = DOCUMENT.read_text(encoding="utf-8")
    new = re.sub(r"<!-- samples -->.*<!-- end of samples -->", lambda _: table, text, flags=re.DOTALL)
    if update:
        DOCUMENT.write_text(new, encoding="utf-8")
    elif new != text:
        sys.exit(f"{DOCUMENT.name} has another table of samples: run with --update")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--only", metavar="FUNCTION", help="cases of this function only")
    parser.add_argument("--opinfo", action="store_true", help="PyTorch's samples instead of drawn cases")
    parser.add_argument("--update", action="store_true", help="write the table of samples")
    arguments = parser.parse_args()
    if arguments.opinfo:
        try:
            import opinfo  # imports PyTorch's tests, which takes seconds
        except ImportError as error:
            print(f"skipped: {error}; PyTorch's samples need expecttest")
            sys.exit(77)

        cases, tried, refused = opinfo.cases(Case)
        cases = [case for case in cases if arguments.only in (None, case.name)]
    else:
        cases = draw(arguments.cases, arguments.only)
    counts = collections.Counter(case.name for case in cases)
    worst, failures = compare(arguments.program, cases)
    print(f"{'function':34}{'cases':>6}  largest error in f64, f32")
    for function in sorted(counts):
        print(f"{function:34}{counts[function]:6}  {worst[function, 'f64']:.1e}  {worst[function, 'f32']:.1e}")
    print("\n".join(failures[:40]))
    print(f"{len(cases)} cases in f64 and f32, forward and gradients: {len(failures)} differ")
    if arguments.opinfo and not arguments.only:
        write_samples(tried, refused, arguments.update)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
