"""The part of PyTorch that benchmarks/pytorch_worker.py calls. A step takes no time: the clock jumps when it is read."""
import contextlib
import itertools
import time
from types import SimpleNamespace

from trouble import trouble

from . import nn, optim  # noqa: F401

__version__ = "fake"
bfloat16 = "bfloat16"
ticks = itertools.count()
time.perf_counter = lambda: 0.001 * next(ticks)


class device:
    def __init__(self, name):
        self.type = name.split(":")[0]


def tensor(*_, **__):
    return nn.Tensor()


randn = randint = tensor


def ignore(*_, **__):
    pass


set_float32_matmul_precision = set_num_threads = manual_seed = ignore


@contextlib.contextmanager
def context(*_, **__):
    yield


autocast = context


def graph(_):
    trouble("torch.cuda.graph")
    return context()


class CUDAGraph:
    def replay(self):
        pass


cuda = SimpleNamespace(synchronize=ignore, stream=context, graph=graph, CUDAGraph=CUDAGraph, max_memory_allocated=lambda: 1 << 20,
                       Stream=lambda: SimpleNamespace(wait_stream=ignore),
                       current_stream=lambda: SimpleNamespace(wait_stream=ignore))
backends = SimpleNamespace(cudnn=SimpleNamespace())
autograd = SimpleNamespace(DeviceType=SimpleNamespace(CPU=0, CUDA=1))
channels_last = "channels_last"
