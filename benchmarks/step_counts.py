#!/usr/bin/env python3
"""Counts what training steps ask of an H200, and predicts how long they must take at least. Nothing runs on a GPU.

    benchmarks/step_counts.py [BUILD] [--update] [--pytorch]

Fails if the table in docs/benchmarks/gpu.md differs from what the program step_counts of the build folder (build/release) counts;
--update writes it. Another release of cuDNN than the table's, which may have other plans, is no reason to fail. PyTorch's columns stay
as they are: --pytorch installs PyTorch in build/pytorch and counts again.
"""
import argparse
import concurrent.futures
import difflib
import itertools
import json
import pathlib
import re
import subprocess
import sys
import types

from compare_pytorch import CONFIGS, pytorch_options
from program import ROOT, python_with

DOCUMENT = ROOT / "docs/benchmarks/gpu.md"
TABLE = r"(?<=<!-- step counts -->\n).*?(?=<!-- end of step counts -->\n)"
ROWS = list(itertools.product(("bf16", "tf32"), CONFIGS["cuda"], (1, 8, 32)))
STREAMS = 4
# The data sheet of the H200 SXM, without sparsity. A launch is assumed, as in scheduler/costs/known_devices.cpp.
BYTES_PER_SECOND, FLOPS = 4.8e12, {"bf16": 989e12, "tf32": 494.5e12}
LAUNCH_SECONDS = 2e-6


def floor(precision, megabytes, gigaflops, chain):
    """The least time of a step in microseconds, and what it is due to."""
    return max((1e12 * megabytes / BYTES_PER_SECOND, "memory"), (1e15 * gigaflops / FLOPS[precision], "arithmetic"),
               (1e6 * LAUNCH_SECONDS * chain, "launches"))


def rounded(number):
    """To three digits."""
    return float(f"{number:.3g}")


def text(number):
    return f"{rounded(number):g}"


def count_braid(build, precision, config, batch):
    settings = [f"{key}={value}" for key, value in {"device": "cuda", "streams": STREAMS, "precision": precision,
                                                    "train.batch_size": batch, "data.size": batch}.items()]
    counts = json.loads(subprocess.check_output([build / "bin/step_counts", config, *settings], text=True))
    if counts["graph_nodes"] != counts["kernels"]:
        sys.exit(f"{config.stem}: {counts['kernels']} kernels became {counts['graph_nodes']} nodes of a CUDA graph")
    return counts


def count_pytorch(build, own):
    """Kernels and megabytes by row, and PyTorch's version. Fails if its matrix products are not those of Braid's steps."""
    python = python_with("torch", "torchvision")
    arguments = types.SimpleNamespace(braid=build / "bin/braid", threads=1)
    options = [{**pytorch_options(config, arguments), "precision": precision, "batch_size": batch}
               for precision, config, batch in ROWS]
    lines = subprocess.check_output([python, ROOT / "benchmarks/pytorch_counts.py", json.dumps(options)], text=True).splitlines()
    counts = [json.loads(line) for line in lines]
    for row, count, braids in zip(ROWS, counts, own, strict=True):
        if not 0.95 < count["flops"] / braids["flops"] < 1:  # Braid counts all arithmetic
            sys.exit(f"{row[1].stem}: not the same network: {braids['flops']:.4g} FLOP in Braid, {count['flops']:.4g} in PyTorch")
    return [(count["kernels"], rounded(count["bytes"] / 1e6)) for count in counts], counts[0]["version"]


def written_pytorch(table):
    """The same from the table."""
    version = re.search(r"PyTorch (\d\S*\d)", table)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if re.match(r"\| (bf16|tf32) ", line)]
    if version is None or [row[:3] for row in rows] != [[precision, config.stem, str(batch)] for precision, config, batch in ROWS]:
        sys.exit(f"step_counts: the table in {DOCUMENT.name} has other rows: write it with --update --pytorch")
    return [(int(row[10]), float(row[11])) for row in rows], version[1]


def make_table(counts, pytorch, version):
    def time(*limits):
        microseconds, reason = floor(*limits)
        return f"{text(microseconds)} ({reason})"

    yield f"Braid with {STREAMS} streams and cuDNN {counts[0]['cudnn']}; PyTorch {version}; times are predicted, in µs.\n\n"
    yield ("| precision | network | batch | GFLOP | kernels | longest chain | waits | MB | least time on one stream | on several | "
           "PyTorch: kernels | MB | least time |\n")
    yield "|---" * 13 + "|\n"
    for (precision, config, batch), own, (kernels, megabytes) in zip(ROWS, counts, pytorch, strict=True):
        work = rounded(own["bytes"] / 1e6), rounded(own["flops"] / 1e9)
        cells = [precision, config.stem, batch, text(work[1]), own["kernels"], own["chain"], own["waits"], text(work[0]),
                 time(precision, *work, own["kernels"]), time(precision, *work, own["chain"]), kernels, text(megabytes),
                 time(precision, megabytes, work[1], kernels)]
        yield f"| {' | '.join(map(str, cells))} |\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build/release", help="folder of a build with CUDA")
    parser.add_argument("--update", action="store_true", help="write the table")
    parser.add_argument("--pytorch", action="store_true", help="install PyTorch and count its kernels again")
    arguments = parser.parse_args()
    if not (arguments.build / "bin/step_counts").exists():
        print("step counts: skipped (there is no CUDA build with BRAID_BENCHMARKS=ON)")
        return
    document = DOCUMENT.read_text()
    found = re.search(TABLE, document, re.DOTALL)
    if found is None:
        sys.exit(f"step_counts: {DOCUMENT.name} has no place for its table")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(lambda row: count_braid(arguments.build, *row), ROWS))
    pytorch = count_pytorch(arguments.build, counts) if arguments.pytorch else written_pytorch(found[0])
    table = "".join(make_table(counts, *pytorch))
    if arguments.update:
        DOCUMENT.write_text(document[:found.start()] + table + document[found.end():])
    elif (release := f"cuDNN {counts[0]['cudnn']};") not in found[0]:
        print(f"step counts: skipped (the table in {DOCUMENT.name} is not of {release[:-1]})")
    elif table != found[0]:
        sys.stdout.writelines(difflib.unified_diff(found[0].splitlines(True), table.splitlines(True), "written", "counted"))
        sys.exit(f"step_counts: the table in {DOCUMENT.name} is out of date: run benchmarks/step_counts.py --update")


if __name__ == "__main__":
    main()
