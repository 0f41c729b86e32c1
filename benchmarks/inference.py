#!/usr/bin/env python3
"""Compares Braid's images per second in inference with onnxruntime's, both on all cores of the CPU.

    benchmarks/inference.py [NETWORK ...] [--batch N ...] [--turns N] [--seconds S] [--plain] [--json FILE]

Networks are those of the zoo, with 224x224 images and 1000 classes. onnxruntime runs what Braid exported, with all its graph
optimisations. The programs take turns in one run; a ratio is the median over the turns. --plain also times Braid's networks
without the preparation for inference. Installs onnxruntime in build/pytorch.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

from program import ROOT, Program, python_with, relative, running_programs, start, take_turns

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


def compare(network, batch, arguments, folder):
    braid = [arguments.build / "bin/bench_inference", network, batch]
    with running_programs() as programs:
        commands = {"braid": braid} | ({"plain": [*braid, "plain"]} if arguments.plain else {})
        commands["onnxruntime"] = [arguments.python, __file__, "--serve", folder / f"{network}.onnx", batch]
        for name, command in commands.items():
            start(programs, Program(name, command, stop=True, limit=1800))
        for _ in take_turns(programs, arguments.turns, arguments.seconds):
            pass
        seconds = {program.name: program.step_seconds for program in programs}
    result = {"network": network, "batch": batch, "seconds": seconds,
              "ratio": relative(seconds["onnxruntime"], seconds["braid"])}
    rates = "  ".join(f"{name} {batch / statistics.median(values):8.1f}" for name, values in seconds.items())
    low, middle, high = result["ratio"]
    print(f"{network:16} batch {batch:3}  images/s: {rates}  ratio {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)
    return result


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    arguments.python = python_with("numpy", "onnxruntime")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        results = [compare(network, batch, arguments, pathlib.Path(folder)) for network in arguments.networks
                   for batch in arguments.batch]
    for batch in arguments.batch:
        ratios = [result["ratio"][1] for result in results if result["batch"] == batch]
        print(f"geometric mean at batch {batch}: {statistics.geometric_mean(ratios):.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
