#!/usr/bin/env python3
"""Counts the kernels and bytes of PyTorch's training steps, without a GPU: pytorch_counts.py OPTIONS, a JSON list of the options
of pytorch_worker.py. Prints a line of JSON for each of them.

Every op that PyTorch dispatches in one step, forward, backward and update, is at least one kernel, unless it only makes a view or
allocates. The tensors have shapes and no data, and are on the CPU: the autograd engine asks a GPU for its streams. Autocast for
CUDA casts the logits as well, which is not counted. foreach=True is PyTorch's default on CUDA; its kernels for many tensors count
as one.
"""
import json
import sys

import torch
from pytorch_worker import Training
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

NO_KERNEL = {"aten.empty", "aten.empty_like", "aten.empty_strided", "aten.new_empty", "aten.as_strided_", "aten._unsafe_view"}
# Arguments that kernels must read a second time: for statistics, then for what depends on them.
READ_TWICE = {"aten.native_batch_norm": (0,), "aten.native_batch_norm_backward": (0, 1)}


def bytes_of(values):
    """A view, as of a broadcast tensor, moves no more than there is."""
    return sum(min(tensor.numel() * tensor.itemsize, tensor.untyped_storage().nbytes())
               for tensor in tree_leaves(values) if isinstance(tensor, torch.Tensor))


class Counts(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.kernels = self.bytes = 0

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        name = str(function.overloadpacket)
        if not function.is_view and function.namespace == "aten" and name not in NO_KERNEL:
            self.count(name, function._schema, arguments, named, result)
        return result

    def count(self, name, schema, arguments, named, result):
        in_place = [value for value, described in zip(arguments, schema.arguments) if described.is_write]
        self.kernels += 1
        self.bytes += bytes_of((arguments, named, in_place)) + (0 if in_place else bytes_of(result))
        self.bytes += bytes_of([arguments[i] for i in READ_TWICE.get(name, ())])
        if name == "aten.convolution_backward":  # a kernel for each gradient, which all read dy
            gradients = sum(arguments[-1])
            self.kernels += gradients - 1
            self.bytes += (gradients - 1) * bytes_of(arguments[0])


def count_step(options):
    training = Training({**options, "device": "cpu", "mode": "eager"})
    with FakeTensorMode():
        def without_data(tensor):
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        for module in training.model.modules():
            for name, weight in module.named_parameters(recurse=False):
                module._parameters[name] = torch.nn.Parameter(without_data(weight))
            for name, statistic in module.named_buffers(recurse=False):
                module._buffers[name] = without_data(statistic)
        training.images, training.labels = without_data(training.images), without_data(training.labels)
        training.sgd = torch.optim.SGD(training.model.parameters(), lr=options["lr"], momentum=options["momentum"], foreach=True)
        training.step()  # the first one makes the momentum
        with FlopCounterMode(display=False) as arithmetic, Counts() as counts:
            training.step()
    return {"kernels": counts.kernels, "bytes": counts.bytes, "flops": arithmetic.get_total_flops(),
            "version": torch.__version__.split("+")[0]}


if __name__ == "__main__":
    for each in json.loads(sys.argv[1]):
        print(json.dumps(count_step(each)), flush=True)
