#!/usr/bin/env python3
"""Writes what torchvision's networks compute, for tests/models/golden_test.cpp to compare Braid with.

    python3 -m venv .venv && .venv/bin/pip install torch torchvision safetensors
    .venv/bin/python tests/golden/export.py [NETWORK ...]

A network is made narrow enough for a small file, gets random weights, and is trained for two steps on one batch. The
arithmetic is in double precision, so the files do not depend on the machine they were made on, and a comparison sees
the errors of one side only. As a yardstick for the tolerances of the test, the same is computed in single precision
and the difference printed.

Where the input of a ReLU is all but zero, rounding decides whether a gradient passes: both sides are right and differ
by far more than rounding. Likewise in a max pool with two almost equal values. So the biases of batch norms are such
that most inputs of ReLUs are well above zero, and of many seeds the one is taken with which the network stays farthest
away from such decisions.

A file is a Braid checkpoint (train/checkpoint.h) of

    images, labels        the batch, [N,H,W,C] and [N]; the pixels are (images - 128) / 64
    before.NAME           every parameter and running statistic
    logits.I, loss        in the first step; logits.0 are the network's, the others those of auxiliary classifiers
    gradient.NAME         of every parameter, in the first step
    after.NAME            every parameter and running statistic after the second step
    evaluation            the logits in evaluation mode then
"""
import argparse
import dataclasses
import math
import pathlib
import sys
import typing

try:
    import torch
    from safetensors.torch import save_file
    from torch import nn
    from torch.utils._python_dispatch import TorchDispatchMode
    from torchvision import models
    from torchvision.ops import StochasticDepth
except ImportError as error:
    sys.exit(f"{error}: this script needs PyTorch and torchvision: pip install torch torchvision safetensors")

FOLDER = pathlib.Path(__file__).resolve().parent
CLASSES = 10
LR, MOMENTUM = 0.01, 0.9
SEEDS = 50


@dataclasses.dataclass
class Case:
    make: typing.Callable[[tuple[int, int, int]], nn.Module]
    images: tuple[int, int, int]  # how many, height, width
    auxiliary: dict[str, float] = dataclasses.field(default_factory=dict)  # output: its share of the loss
    # Linear layers that read a flattened map of these rows and columns. Flattened, PyTorch's [C,H,W] has another
    # order than Braid's [H,W,C].
    flattened: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)


def shrink(model, width, images):
    """Scales the channels of all layers but the image and the logits. Inputs fit what comes in."""
    def channels(count):
        return count if count == CLASSES else max(1, math.floor(count * width + 0.5))

    def narrow(layer):
        if isinstance(layer, nn.Conv2d):
            return nn.LazyConv2d(channels(layer.out_channels), layer.kernel_size, layer.stride, layer.padding,
                                 bias=layer.bias is not None)
        if isinstance(layer, nn.BatchNorm2d):
            return nn.LazyBatchNorm2d(layer.eps, layer.momentum)
        if isinstance(layer, nn.Linear):
            return nn.LazyLinear(channels(layer.out_features), layer.bias is not None)
        return None

    for module in list(model.modules()):
        for name, child in module.named_children():
            layer = narrow(child)
            if layer is not None:
                setattr(module, name, layer)
    model(torch.zeros(images[0], 3, *images[1:]))
    return model


def inception_with_small_stem():
    """The stem as Braid has it for small images: nothing in the stem reduces height and width."""
    model = models.inception_v3(num_classes=CLASSES, init_weights=False)
    for name, layer in model.named_children():
        if name.startswith("Conv2d"):
            layer.conv.stride, layer.conv.padding = (1, 1), tuple(extent // 2 for extent in layer.conv.kernel_size)
    model.maxpool1 = model.maxpool2 = nn.Identity()
    return model


def efficientnet(width):
    stages, last = models.efficientnet._efficientnet_conf("efficientnet_b0", width_mult=width, depth_mult=1)
    return models.EfficientNet(stages, 0.2, last_channel=last, num_classes=CLASSES)


# Heights and widths are such that pools meet odd extents and windows that stick out, and that maps are not square.
CASES = {
    "densenet121": Case(lambda _: models.DenseNet(2, (6, 12, 24, 16), 4, num_classes=CLASSES), (6, 65, 75)),
    "efficientnet_b0": Case(lambda _: efficientnet(1 / 16), (6, 49, 57)),
    "googlenet": Case(
        lambda images: shrink(models.googlenet(num_classes=CLASSES, init_weights=False), 1 / 16, images), (6, 79, 67),
        auxiliary={"aux_logits1": 0.3, "aux_logits2": 0.3}, flattened={"aux1.fc1": (4, 4), "aux2.fc1": (4, 4)}),
    "inception_v3": Case(
        lambda images: shrink(models.inception_v3(num_classes=CLASSES, aux_logits=False, init_weights=False), 1 / 32,
                              images), (6, 107, 123)),
    "inception_v3_small_image": Case(lambda images: shrink(inception_with_small_stem(), 1 / 24, images), (8, 35, 37),
                                     auxiliary={"aux_logits": 0.4}),
    "mobilenet_v2": Case(lambda _: models.mobilenet_v2(num_classes=CLASSES, width_mult=1 / 16), (6, 49, 57)),
    "resnet18": Case(lambda images: shrink(models.resnet18(num_classes=CLASSES), 1 / 16, images), (6, 51, 59)),
    "squeezenet1_0": Case(lambda images: shrink(models.squeezenet1_0(num_classes=CLASSES), 1 / 8, images),
                          (6, 61, 67)),
}


def randomise(model):
    """Values that no layer starts with, so that none can be mistaken for another: scales are not 1, biases not 0."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight)
            if module.bias is not None:
                nn.init.normal_(module.bias, 0, 0.1)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, 1.5, 3)
            nn.init.normal_(module.running_mean, 0, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
        elif isinstance(module, (nn.Dropout, StochasticDepth)):
            module.p = 0  # nothing random


class Decisions(TorchDispatchMode):
    """Notes how close the closest decision of a ReLU, ReLU6 or max pool is, relative to the standard deviation of the
    values it decides about."""
    closest = math.inf

    def __torch_dispatch__(self, op, types, arguments=(), options=None):
        name = op.__name__.split(".")[0].rstrip("_")
        if name == "relu":
            self.note(arguments[0], arguments[0].abs())
        elif name == "hardtanh":
            self.note(arguments[0], torch.minimum(arguments[0].abs(), (arguments[0] - 6).abs()))
        elif name == "max_pool2d_with_indices":
            self.note(arguments[0], self.lead(*arguments))
        return op(*arguments, **(options or {}))

    def note(self, x, distances):
        # Nothing is left to rounding where values are equal, as copies of one value are, and zeros after a ReLU.
        self.closest = min(self.closest, (distances[distances > 0].min() / x.std()).item())

    @staticmethod
    def lead(x, window, stride, padding=(0, 0), dilation=1, ceil_mode=False):
        """The distance of the largest value of each window from the second largest."""
        (rows, columns), (top, left) = window, padding * 2 if len(padding) == 1 else padding
        padded = nn.functional.pad(x, (left, left + stride[1], top, top + stride[0]), value=-math.inf)
        windows = padded.unfold(2, rows, stride[0]).unfold(3, columns, stride[1]).flatten(4)
        first, second = windows.topk(2).values.unbind(-1)
        return first - second


def pixels(images):
    return (images.float() - 128) / 64


def run(case, model, images, labels):
    """Everything in the file but the batch, in PyTorch's layouts."""
    arrays = {}

    def note(prefix, tensors):
        for name, tensor in tensors:
            arrays[prefix + name] = tensor.detach().clone()

    def note_state(prefix):
        note(prefix, [(name, tensor) for name, tensor in model.state_dict().items() if tensor.is_floating_point()])

    sgd = torch.optim.SGD(model.parameters(), LR, MOMENTUM)
    note_state("before.")
    for step in range(2):
        output = model(images)
        heads, shares = [output], [1.0]
        if case.auxiliary:
            heads = [output.logits] + [getattr(output, name) for name in case.auxiliary]
            shares += case.auxiliary.values()
        loss = sum(share * nn.functional.cross_entropy(logits, labels) for share, logits in zip(shares, heads))
        sgd.zero_grad()
        loss.backward()
        if step == 0:
            note("logits.", [(str(i), logits) for i, logits in enumerate(heads)])
            note("", [("loss", loss)])
            note("gradient.", [(name, weight.grad) for name, weight in model.named_parameters()])
        sgd.step()
    note_state("after.")
    model.eval()
    note("", [("evaluation", model(images))])
    return arrays


def in_braids_layout(case, name, tensor):
    layer = name.removesuffix(".weight").partition(".")[2]
    if tensor.dim() == 2 and layer in case.flattened:
        outputs, (rows, columns) = tensor.shape[0], case.flattened[layer]
        return tensor.reshape(outputs, -1, rows, columns).permute(0, 2, 3, 1).reshape(outputs, -1)
    return tensor.permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor


DTYPES = {torch.uint8: torch.uint8, torch.int64: torch.int32, torch.float32: torch.float32, torch.float64: torch.float32}


def write_checkpoint(path, arrays):
    """The arrays in the layouts that train/checkpoint/checkpoint.h describes."""
    tensors = {name: tensor.to(DTYPES[tensor.dtype]).contiguous() for name, tensor in arrays.items()}
    save_file(tensors, path, {"layout": "activations NHWC, filters KRSC"})


def report(double, single):
    """Deviations as the test has them."""
    gradients = [tensor.abs().max() for key, tensor in double.items() if key.startswith("gradient.")]
    largest = {}
    for key, expected in double.items():
        group, _, name = key.partition(".")
        found, floor = single[key].double(), 0
        if group == "before":
            continue
        if group == "gradient":
            floor = max(gradients) / 1000
        elif group == "after":
            group = "statistic" if "running" in name else "update"
            before = double["before." + name]
            if group == "update":
                found, expected, floor = found - before, expected - before, before.abs().max() / 1000
        off = (found - expected).abs().max() / max(expected.abs().max(), floor)
        largest[group] = max(largest.get(group, 0), off.item())
    print("  single precision is off by " + ", ".join(f"{value:.1e} ({group})" for group, value in largest.items()))


def start(case, seed):
    """A network, images and labels."""
    torch.manual_seed(seed)
    count, *size = case.images
    model = case.make(case.images)
    randomise(model)
    images = torch.randint(256, (count, 3, *size), dtype=torch.uint8)
    return model, images, torch.randint(CLASSES, (count,))


def export(name):
    case, chosen, farthest = CASES[name], 0, 0
    for seed in range(SEEDS):
        model, images, labels = start(case, seed)
        with Decisions() as decisions:
            arrays = run(case, model.double(), pixels(images).double(), labels)
        if decisions.closest > farthest:
            chosen, farthest, expected = seed, decisions.closest, arrays
    model, images, labels = start(case, chosen)
    arrays = {"images": images, "labels": labels, **expected}
    path = FOLDER / f"{name}.safetensors"
    write_checkpoint(path, {key: in_braids_layout(case, key, tensor) for key, tensor in arrays.items()})
    print(f"{name}: {path.stat().st_size / 1e3:.0f} kB, seed {chosen}, closest decision {farthest:.1e}")
    report(expected, run(case, model, pixels(images), labels))


def main():
    parser = argparse.ArgumentParser(description="Writes what torchvision's networks compute into golden files.")
    parser.add_argument("networks", nargs="*", default=list(CASES), metavar="NETWORK", help=", ".join(CASES))
    for name in parser.parse_args().networks:
        if name not in CASES:
            sys.exit(f"there is no network '{name}'; there are {', '.join(CASES)}")
        export(name)


if __name__ == "__main__":
    main()
