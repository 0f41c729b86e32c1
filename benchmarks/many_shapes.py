#!/usr/bin/env python3
"""Compares the memory that Braid and PyTorch keep after inference on batches of many shapes.

    benchmarks/many_shapes.py [NETWORK] [--size PIXELS ...] [--batches N] [--runs N] [--check]

For every image size, each program runs batches of 1 to N images in turn, and states its resident memory after the first and
the last. A further round over all batches shows what repetition adds. Installs PyTorch in build/pytorch.
"""
import contextlib
import os
import pathlib
import sys
import tempfile

from program import Program, python_with, report, running_programs, start


def serve(network):
    """PyTorch's side: the same requests and answers as bench_inference's."""
    import torch
    import torchvision
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    options = {"aux_logits": False, "init_weights": False} if network in ("googlenet", "inception_v3") else {}
    model = getattr(torchvision.models, network)(**options).eval().to(memory_format=torch.channels_last)
    images = torch.zeros(1, 3, 224, 224)
    print("{}", flush=True)
    for line in sys.stdin:
        word, *numbers = line.split()
        if word == "shape":
            batch, size = map(int, numbers)
            images = torch.zeros(batch, 3, size, size).to(memory_format=torch.channels_last)
        else:
            with torch.inference_mode():
                for _ in range(int(numbers[0])):
                    model(images)
        print("{}", flush=True)


def measure(name, command, size, given):
    """MiB after the first batch of the first round, after the last one, and after a second round."""
    memory = []
    with running_programs() as programs:
        program = start(programs, Program(name, command))
        for _ in range(2):
            for batch in range(1, given.batches + 1):
                program.ask(f"shape {batch} {size}")
                program.ask(f"run {given.runs}")
                if not memory:
                    memory.append(program.status_bytes("VmRSS"))
            memory.append(program.status_bytes("VmRSS"))
    return [round(each / 2**20) for each in memory]


def compared(given):
    braid = [given.braid.with_name("bench_inference").resolve(), given.network, 1, "plain"]
    pytorch = [python_with("torch", "torchvision"), pathlib.Path(__file__).resolve(), "--serve", given.network]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return [{"network": given.network, "size": size, "program": name, "batches": given.batches, "mib": measure(name, command, size, given)}
                for size in given.size for name, command in {"Braid": braid, "PyTorch": pytorch}.items()]


def table(rows):
    yield f"| {rows[0]['network']}, images | program | batch 1 | batches 1 to {rows[0]['batches']} | twice |\n" + "|---" * 5 + "|\n"
    for row in rows:
        yield f"| {row['size']}×{row['size']} | {row['program']} | " + " | ".join(map(str, row["mib"])) + " |\n"


def add_options(parser):
    parser.add_argument("network", nargs="?", default="resnet18")
    parser.add_argument("--size", type=int, nargs="+", default=[32, 224])
    parser.add_argument("--batches", type=int, default=24)
    parser.add_argument("--runs", type=int, default=3)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        report(__file__, __doc__, compared, table, add_options)
