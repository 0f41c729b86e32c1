#!/usr/bin/env python3
"""Measures how long `braid train` takes to its first line and through its first step, for networks of the zoo.

    benchmarks/startup.py [--braid PROGRAM] [--only NETWORK …] [--check]

Random images as large as in the paper, 8 a batch. The first line comes when the model has its weights and the data are open. Of the first
step counts what it takes longer than the fastest of the next ones: planning, kernels, and the first touch of memory. Another process touches
and frees MEMORY bytes right before: a virtual machine may have given free pages back to its host, and the next touch of these takes 20 times
as long as that of others. Medians of RUNS runs.
Writes benchmarks/results/startup.json and the table in docs/benchmarks/pytorch.md. With --check, compares these, and runs nothing.
"""
import statistics
import subprocess
import sys
import tempfile
import time

from program import overrides, report

RUNS, STEPS, MEMORY = 3, 4, 6 << 30
TOUCH = f"""
import mmap
memory = mmap.mmap(-1, {MEMORY}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_HUGEPAGE)
for page in range(0, {MEMORY}, 4096):
    memory[page] = 1
"""
NETWORKS = ["alexnet", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "mobilenet_v2", "nasnet_a_mobile", "randwire",
            "resnet18", "resnet50", "resnet152", "squeezenet1_0", "vgg16"]
CONFIG = """
name: startup
model: {{name: {network}}}
data: {{name: synthetic, size: 64, val_size: 8, image_size: {size}, channels: 3, classes: 1000}}
train: {{batch_size: 8, epochs: 1, log_interval: 1}}
"""


def measured(braid, network):
    """Seconds until the first line, and those of the steps."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/startup.yaml", "w") as config:
            config.write(CONFIG.format(network=network, size=299 if network == "inception_v3" else 224))
        subprocess.run([sys.executable, "-c", TOUCH], check=True)
        begin, lines = time.monotonic(), []
        process = subprocess.Popen([braid, "train", config.name, *overrides({"output.root": f"{folder}/runs"})], stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            lines.append(time.monotonic() - begin)
            if len(lines) > STEPS:
                break
        process.kill()
        process.wait()
    return {"first_line": lines[0], "steps": [after - before for before, after in zip(lines, lines[1:])]}


def table(rows):
    yield "| network | first line, s | more than later steps, s | later steps, s |\n|---|---|---|---|\n"
    for row in rows:
        steps = [run["steps"] for run in row["runs"]]
        median = [statistics.median(values) for values in ([run["first_line"] for run in row["runs"]],
                                                           [first - min(others) for first, *others in steps],
                                                           [min(others) for _, *others in steps])]
        yield f"| {row['network']} | " + " | ".join(f"{value:.2f}" for value in median) + " |\n"


if __name__ == "__main__":
    report(__file__, __doc__,
           lambda given: [{"network": network, "runs": [measured(given.braid, network) for _ in range(RUNS)]} for network in given.only], table,
           lambda parser: parser.add_argument("--only", nargs="+", default=NETWORKS, metavar="NETWORK"))
