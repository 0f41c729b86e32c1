#!/usr/bin/env python3
"""Times training steps of Braid, PyTorch (eager and compiled), TensorFlow and PaddlePaddle, on the CPU.

    benchmarks/frameworks.py [--only NETWORK …] [--check]

The programs take turns, and are stopped while another one computes. Networks are those of torchvision, Keras and paddle.vision; the script ends if
they differ from Braid's by more than 0.2 % of their weights. Writes benchmarks/results/frameworks.json and the table in docs/benchmarks/pytorch.md.
With --check, compares these, and runs nothing.
"""
import json
import os
import statistics
import sys

from program import (ROOT, Program, bench, python_with, relative, report, running_programs, settings_of, start, take_turns,
                     worker_options)

NETWORKS = ["resnet50", "mobilenet_v2", "densenet121", "vgg16"]
BATCH, SIZE, TURNS, SECONDS = 8, 224, 5, 1.0
# Packages, the environment in build that has them, the worker, and its options.
FRAMEWORKS = {"PyTorch": (["torch", "torchvision"], "pytorch", "pytorch_worker", {"mode": "eager", "fused": True}),
              "PyTorch, compiled": (["torch", "torchvision"], "pytorch", "pytorch_worker", {"mode": "compiled", "fused": True}),
              "TensorFlow": (["tensorflow-cpu==2.21.0"], "tensorflow", "frameworks_worker", {"framework": "tensorflow"}),
              "PaddlePaddle": (["paddlepaddle==3.3.1"], "paddle", "frameworks_worker", {"framework": "paddle"})}


def measured(braid, network):
    options = worker_options(network, BATCH, SIZE, 1000, len(os.sched_getaffinity(0)))
    with running_programs() as programs:
        start(programs, Program("Braid", bench(braid, network, settings_of(options)), stop=True))
        for name, (packages, folder, worker, changes) in FRAMEWORKS.items():
            command = [python_with(*packages, folder=folder), ROOT / f"benchmarks/{worker}.py", json.dumps({**options, **changes})]
            start(programs, Program(name, command, stop=True, begin=worker == "pytorch_worker"))
        sizes = {program.name: program.setting()["persistent_bytes"] for program in programs}
        if max(sizes.values()) > 1.002 * min(sizes.values()):
            sys.exit(f"{network}: not the same network: weights, momentum and statistics in bytes: {sizes}")
        for program in programs:
            program.warm_up(20 if program.name == "Braid" else 3)
        take_turns(programs, TURNS, SECONDS)
        return {"network": network, "versions": {program.name: program.greeting.get("version", "") for program in programs},
                "seconds": {program.name: program.step_seconds for program in programs}}


def table(rows):
    versions = rows[0]["versions"]
    yield ", ".join(f"{name} {versions[name].partition('+')[0]}" for name in FRAMEWORKS if "," not in name) + ":\n\n"
    yield "| network | Braid, ms | " + " | ".join(FRAMEWORKS) + " |\n"
    yield "|---" * (2 + len(FRAMEWORKS)) + "|\n"
    for row in rows:
        seconds = row["seconds"]
        times = (f"{1e3 * statistics.median(seconds[name]):.0f} ms, {relative(seconds[name], seconds['Braid'])[1]:.2f}×" for name in FRAMEWORKS)
        yield f"| {row['network']} | {1e3 * statistics.median(seconds['Braid']):.0f} | " + " | ".join(times) + " |\n"


if __name__ == "__main__":
    report(__file__, __doc__, lambda given: [measured(given.braid, network) for network in given.only], table,
           lambda parser: parser.add_argument("--only", nargs="+", default=NETWORKS, metavar="NETWORK"))
