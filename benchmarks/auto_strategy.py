#!/usr/bin/env python3
"""Checks that the strategy `auto` is never slower in simulation than the best of those with names.

    benchmarks/auto_strategy.py [NETWORK ...] [--braid PROGRAM] [--jobs N] [--check]

Each network of NETWORKS on 2, 4, 16 and 64 devices of two clusters, with 32 images per device: `braid plan --strategy` with data, owt,
layerwise, pipeline (of up to 16 stages, if there are as many layers) and auto. NETWORKS has one of each family of the zoo that classifies
images, because each takes minutes. Writes benchmarks/results/auto_strategy.json and the table in docs/benchmarks/ranks.md; fails if `auto` is
slower anywhere.
"""
import concurrent.futures
import json
import os
import subprocess
import sys

from program import report

NETWORKS = ["lenet5", "alexnet", "squeezenet1_1", "resnet20", "vgg16", "resnet18", "googlenet", "mobilenet_v2", "resnet50", "resnext50_32x4d",
            "efficientnet_b0", "inception_v3", "densenet121"]
CLUSTERS = ["ethernet_25g", "dgx_h100"]
SIZES = {"lenet5": 28, "resnet20": 32, "inception_v3": 299}  # of images; others have 224
STRATEGIES = ["data", "owt", "layerwise", "pipeline", "auto"]
DEVICES = [2, 4, 16, 64]
MOST_STAGES = 16  # of the pipelines that are planned by name: 64 take minutes for each network
BATCH = 32
SLACK = 1e-6  # relative: rounding
SHOWN = 0.99  # of the time of data parallelism: rows of the table in which auto takes less, on some number of devices


def plan(braid, network, cluster, strategy, devices):
    """Microseconds of a step by number of devices: this one and those that the command also plans for; none if there is no such pipeline."""
    size = SIZES.get(network, 224)
    command = [braid, "plan", network, "--set", f"data.image_size={size}", "--set", f"data.classes={10 if size < 224 else 1000}", "--batch-size",
               str(BATCH), "--cluster", cluster, "--ranks", str(devices), "--strategy", strategy, "--policy", "critical_path", "--json"]
    run = subprocess.run(command, capture_output=True, text=True)
    if strategy == "pipeline" and "as many stages as the model has layers" in " ".join(run.stderr.split()):
        return {}
    if not run.stdout:
        sys.exit(run.stderr)
    return {row["ranks"]: row["makespan_us"] for row in json.loads(run.stdout)["scaling"]}


def rows_of(braid, network, cluster):
    """A row for each number of devices, with the milliseconds of a step by strategy."""
    times = {strategy: plan(braid, network, cluster, strategy, 2) for strategy in STRATEGIES}
    for strategy in STRATEGIES:
        most = (plan(braid, network, cluster, strategy, devices) for devices in (64, 16, 4) if strategy != "pipeline" or devices <= MOST_STAGES)
        times[strategy] |= next(filter(None, most), {})
    for devices in DEVICES:
        yield {"network": network, "cluster": cluster, "devices": devices} | {
            strategy: round(times[strategy][devices] / 1e3, 4) for strategy in STRATEGIES if devices in times[strategy]}


def gain(row):
    return row["data"] / row["auto"]


def best_named(row):
    return min((strategy for strategy in STRATEGIES[:-1] if strategy in row), key=row.get)


def table(rows):
    yield "| network, cluster | " + " | ".join(f"{devices} devices" for devices in DEVICES) + " |\n"
    yield "|---" * (1 + len(DEVICES)) + "|\n"
    by_name = {}
    for row in rows:
        by_name.setdefault(f"{row['network']}, {row['cluster']}", []).append(row)
    for name, its in by_name.items():
        if any(row["auto"] < SHOWN * row["data"] for row in its):
            cells = (f"{row['auto']:.1f}, {gain(row):.2f}×" for row in its)
            yield f"| {name} | {' | '.join(cells)} |\n"


def slower(rows):
    """Rows in which a strategy with a name is faster than auto."""
    return [row for row in rows if row["auto"] > row[best_named(row)] * (1 + SLACK)]


def measured(given):
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        made = [pool.submit(lambda *what: list(rows_of(given.braid, *what)), network, cluster)
                for network in given.networks for cluster in CLUSTERS]
        return [row for future in made for row in future.result()]


def add_options(parser):
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="plans at once (default: one per core)")


def main():
    rows = report(__file__, __doc__, measured, table, add_options)
    for row in slower(rows):
        print(f"auto is slower than {best_named(row)}: {row}")
    sys.exit(bool(slower(rows)))


if __name__ == "__main__":
    main()
