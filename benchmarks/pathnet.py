#!/usr/bin/env python3
"""Counts the generations in which PathNets learn, with the ways to train them that docs/pathnet.md compares.

    benchmarks/pathnet.py [--check]

Needs Fashion-MNIST, and some minutes. Generations are the same on every CPU of one kind.
"""
import json
import pathlib
import subprocess
import tempfile

from program import ROOT, overrides, report

UNRELATED = {"evolution.task_b": "[2, 8]"}
SELECTABLE = {"evolution.frozen_path": "selectable"}
SEQUENTIAL = {"evolution.tournament": "sequential"}
SETTINGS = {"unchanged (`always_active`)": {}, "`frozen_path: selectable`": SELECTABLE, "unrelated task B, `[2, 8]`": UNRELATED,
            "unrelated task B, `selectable`": {**UNRELATED, **SELECTABLE}, "`tournament: sequential`": SEQUENTIAL,
            "`sequential` and `selectable`": {**SEQUENTIAL, **SELECTABLE}, "`candidates: 4`": {"evolution.candidates": 4},
            "`candidates: 8`": {"evolution.candidates": 8}}
PHASES = ("a", "b", "control", "untrained")


def run(given, setting, changes):
    with tempfile.TemporaryDirectory() as folder:
        command = [given.braid, "train", "configs/pathnet_transfer.yaml", *overrides({"output.root": folder, **changes})]
        said = subprocess.check_output(command, cwd=ROOT, text=True).replace(folder, "runs").splitlines()
        learned = json.loads(next(pathlib.Path(folder).glob("*/report.json")).read_text())
    totals = {key: sum(seed[phase][key] for seed in learned["seeds"] for phase in PHASES if phase in seed)
              for key in ("generations", "steps", "plans", "seconds")}
    return {"setting": setting, "mean": learned["mean_generations"], "speed_up": learned["speed_up_over"], **totals,
            "output": [line for line in said if "accuracy" not in line]}  # but for progress


def measured(given):
    return [run(given, setting, changes) for setting, changes in SETTINGS.items()]


def output(rows):
    return (f"    {line}".rstrip() + "\n" for line in rows[0]["output"])


def table(rows):
    yield "| | A | B after A | B from scratch | B, path untrained |\n" + "|---" * 5 + "|\n"
    for row in rows:
        yield f"| {row['setting']} |" + "".join(f" {row['mean'][phase]:.1f} |" if phase in row["mean"] else " |" for phase in PHASES) + "\n"


if __name__ == "__main__":
    report(__file__, __doc__, measured, {"pathnet": table, "pathnet, output": output})
