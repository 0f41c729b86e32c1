#!/usr/bin/env python3
"""Times several models that train in the same steps against training them one after another, by batch size, on two cores.

    benchmarks/several_models.py [--braid FILE] [--check | --dry-run]

Each time is that of `braid bench`, in which both take turns; the table has the median of three processes. Needs Fashion-MNIST.
"""
import json
import statistics
import subprocess

from program import ROOT, overrides, report

CONFIGS = ["configs/concurrent.yaml", "benchmarks/configs/jobs/three_resnet20.yaml"]
BATCHES = [4, 8, 16, 32, 64]
PROCESSES = 3


def measured(config, batch, given):
    command = [given.braid, "bench", ROOT / config, "--json", *overrides({"train.batch_size": batch})]
    runs = [json.loads(subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL)) for _ in range(PROCESSES)]
    return {"config": config, "batch": batch, "runs": [{key: run[key] for key in ("plan", "together_seconds", "speedup")} for run in runs]}


def speedup(row):
    return statistics.median(run["speedup"] for run in row["runs"])


def table(rows):
    yield "| config | batch | together, ms per round | plan that was kept | one after another takes |\n" + "|---" * 5 + "|\n"
    for row in rows:
        plans = [run["plan"] for run in row["runs"]]
        milliseconds = 1e3 * statistics.median(run["together_seconds"] for run in row["runs"])
        yield f"| {row['config']} | {row['batch']} | {milliseconds:.1f} | {max(plans, key=plans.count)} | {speedup(row):.2f}× as long |\n"


if __name__ == "__main__":
    report(__file__, __doc__, lambda given: [measured(config, batch, given) for config in CONFIGS for batch in BATCHES], table)
