#!/usr/bin/env python3
"""Compares two builds of Braid in one run: the plans of all networks, and the step times of the benchmark networks.

    benchmarks/before_after.py BEFORE AFTER [--turns N] [--seconds S] [--skip plans|steps]

BEFORE and AFTER are build folders with bin/braid and bin/bench_planning. Builds take turns. A ratio is AFTER over BEFORE; below 1,
AFTER is better.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from program import ROOT, Program, bench, relative, running_programs, start, take_turns

COLUMNS = ["makespan_us", "waits", "arena_bytes", "plan_seconds"]  # of `bench_planning nets`


def plans(build):
    """The rows of `bench_planning nets` by network, device and policy."""
    rows = json.loads(subprocess.check_output([build / "bin/bench_planning", "nets"], text=True))["nets"]
    return {(row["network"], row["device"], row["policy"]): row for row in rows}


def compare_plans(builds, turns):
    runs = [[], []]
    for turn in range(turns):
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            runs[i].append(plans(builds[i]))
    before, after = ({key: {name: statistics.median(run[key][name] for run in of_build) for name in COLUMNS}
                      for key in of_build[0]} for of_build in runs)
    assert before.keys() == after.keys(), "the builds know different networks or policies"
    print(f"{len({key[0] for key in before})} networks on {len({key[1] for key in before})} devices, {len(before)} plans\n")
    print("| | total | mean ratio | best | worst | at |\n|---|---|---|---|---|---|")
    for name in COLUMNS:
        ratios = {key: after[key][name] / before[key][name] for key in before if before[key][name] > 0}
        total = sum(row[name] for row in after.values()) / sum(row[name] for row in before.values())
        worst = max(ratios, key=ratios.get)
        print(f"| {name} | {total:.3f} | {statistics.mean(ratios.values()):.3f} | {min(ratios.values()):.3f} | "
              f"{ratios[worst]:.3f} | {' '.join(worst)} |")


def compare_steps(builds, turns, seconds):
    print("\n| network | before, median | after / before, median (quartiles) |\n|---|---|---|")
    for config in sorted((ROOT / "benchmarks/configs").glob("*.yaml")):
        with running_programs() as programs:
            for build in builds:
                start(programs, Program(str(build), bench(build / "bin/braid", config), stop=True))  # alone: it chooses a plan
            take_turns(programs, turns, seconds)
            before, after = (program.step_seconds for program in programs)
        lower, median, upper = relative(after, before)
        print(f"| {config.stem} | {1e3 * statistics.median(before):.1f} ms | {median:.3f} ({lower:.3f}–{upper:.3f}) |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", nargs=2, type=pathlib.Path, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn of steps")
    parser.add_argument("--skip", choices=("plans", "steps"))
    arguments = parser.parse_args()
    builds = [build.resolve() for build in arguments.builds]
    if arguments.skip != "plans":
        compare_plans(builds, min(arguments.turns, 3))
    if arguments.skip != "steps":
        compare_steps(builds, arguments.turns, arguments.seconds)


if __name__ == "__main__":
    sys.exit(main())
