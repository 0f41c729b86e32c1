#!/usr/bin/env python3
"""Compares Braid's images per second in inference with onnxruntime's, both on all cores of the CPU.

    benchmarks/inference.py [NETWORK ...] [--batch N ...] [--turns N] [--seconds S] [--plain] [--check]

Networks are those of the zoo, with 224x224 images and 1000 classes. onnxruntime runs what Braid exported, with all its graph
optimisations. The programs take turns in one run; a ratio is the median over the turns. --plain also times Braid's networks
without the preparation for inference. Installs onnxruntime in build/pytorch.
"""
import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile

from program import Program, python_with, ratio_text, relative, report, running_programs, start, take_turns

NETWORKS = ["alexnet", "densenet121", "googlenet", "mobilenet_v2", "resnet18", "resnet50", "squeezenet1_1", "vgg16"]


def serve(path, batch):
    """onnxruntime's side: the same requests and answers as bench_inference's."""
    import time

    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    images = numpy.zeros((batch, *session.get_inputs()[0].shape[1:]), "f4")
    for _ in range(3):
        session.run(None, {"images": images})
    print("{}", flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        for _ in range(int(line.split()[1])):
            session.run(None, {"images": images})
        print(json.dumps({"seconds": time.perf_counter() - begin, "host_seconds": 0}), flush=True)


def compare(network, batch, given, python, folder):
    braid = [given.braid.with_name("bench_inference").resolve(), network, batch]
    with running_programs() as programs:
        commands = {"braid": braid} | ({"plain": [*braid, "plain"]} if given.plain else {})
        commands["onnxruntime"] = [python, pathlib.Path(__file__).resolve(), "--serve", folder / f"{network}.onnx", batch]
        for name, command in commands.items():
            start(programs, Program(name, command, stop=True, limit=1800))
        take_turns(programs, given.turns, given.seconds)
        return {"network": network, "batch": batch, "seconds": {program.name: program.step_seconds for program in programs}}


def measured(given):
    python = python_with("numpy", "onnxruntime")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return [compare(network, batch, given, python, pathlib.Path(folder)) for network in given.networks for batch in given.batch]


def gain(row):
    return relative(row["seconds"]["onnxruntime"], row["seconds"]["braid"])[1]


def table(rows):
    batches = sorted({row["batch"] for row in rows})
    yield "| network |" + "".join(f" Braid, batch {batch} | onnxruntime | ratio (quartiles) |" for batch in batches) + "\n"
    yield "|---" * (1 + 3 * len(batches)) + "|\n"
    for network in dict.fromkeys(row["network"] for row in rows):
        yield f"| {network} |"
        for row in (row for row in rows if row["network"] == network):
            seconds = row["seconds"]
            yield "".join(f" {row['batch'] / statistics.median(seconds[name]):.1f} |" for name in ("braid", "onnxruntime"))
            yield f" {ratio_text(seconds['onnxruntime'], seconds['braid'])} |"
        yield "\n"
    means = (statistics.geometric_mean(gain(row) for row in rows if row["batch"] == batch) for batch in batches)
    yield "| geometric mean |" + "".join(f" | | {mean:.2f} |" for mean in means) + "\n"


def add_options(parser):
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--plain", action="store_true")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        report(__file__, __doc__, measured, table, add_options)
