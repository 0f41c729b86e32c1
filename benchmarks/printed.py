#!/usr/bin/env python3
"""Keeps what `braid bench` prints of several models at once, and of loading, logging and saving.

    benchmarks/printed.py [--check]

Needs Fashion-MNIST, and some minutes of a machine that runs nothing else. Writes benchmarks/results/printed.json, and the output below the
commands in docs/benchmarks/pytorch.md and inference-and-loading.md.
"""
import subprocess

from program import ROOT, report

ARGUMENTS = {"concurrent": ["configs/concurrent.yaml"],
             "io": ["configs/googlenet_fashion_mnist.yaml", "--io", "--steps", "20", "--set", "train.batch_size=32"]}


def measured(given):
    return [{"place": place, "output": subprocess.check_output([given.braid, "bench", *arguments], cwd=ROOT, text=True).splitlines()}
            for place, arguments in ARGUMENTS.items()]


def block(place):
    return lambda rows: (f"    {line}".rstrip() + "\n" for row in rows if row["place"] == place for line in row["output"])


if __name__ == "__main__":
    report(__file__, __doc__, measured, {f"printed, {place}": block(place) for place in ARGUMENTS})
