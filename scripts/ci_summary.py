#!/usr/bin/env python3
"""Prints the stages of .ci/run as a table, and writes them next to it as JSON.

    scripts/ci_summary.py build/ci/summary.tsv SECONDS
"""
import json
import pathlib
import sys

path, seconds = pathlib.Path(sys.argv[1]), int(sys.argv[2])
NAMES = ("result", "stage", "seconds", "cpu_seconds", "compiled", "cached")
stages = []
for line in path.read_text().splitlines():
    result, name, *numbers = line.split("\t")
    stages.append(dict(zip(NAMES, (result, name, *map(int, numbers)))))
total = {"result": "", "stage": "all", "seconds": seconds}
total |= {key: sum(stage[key] for stage in stages) for key in NAMES[3:]}
print(f"{'':7} {'stage':28} {'seconds':>8} {'CPU-s':>8} {'compiled':>9} {'cached':>7}")
for row in (*stages, total):
    print(f"{row['result']:7} {row['stage']:28} {row['seconds']:8} {row['cpu_seconds']:8} {row['compiled']:9} {row['cached']:7}")
path.with_suffix(".json").write_text(json.dumps({"seconds": seconds, "stages": stages}, indent=1) + "\n")
