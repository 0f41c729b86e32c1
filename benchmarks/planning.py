#!/usr/bin/env python3
"""Measures how fast steps are recorded and planned, and how good the plans are.

    benchmarks/planning.py [SECTION ...] [--check]

A section of the program bench_planning that is left out keeps its saved results. Only the times depend on the machine.
"""
import json
import subprocess

from program import ROOT, report

SECTIONS = ["recording", "step", "dispatch", "random", "quality", "nets", "strategies"]
SHOWN = ["resnet50", "googlenet", "inception_v3", "densenet121", "mobilenet_v2", "nasnet_a_mobile", "randwire", "pathnet_conv"]
POLICIES = ["serial", "critical_path", "stages", "matching", "resource_order", "round_robin"]


def measured(given):
    saved = ROOT / "benchmarks/results/planning.json"
    before = json.loads(saved.read_text())["rows"] if saved.exists() else {}
    text = subprocess.check_output([given.braid.with_name("bench_planning"), *given.sections], text=True)
    made = json.loads(text, parse_float=lambda number: float(f"{float(number):.6g}"))
    return {"rows": {**before, **made}}


def times(rows):
    first, *others = rows["recording"]
    step, dispatch, random = rows["step"], rows["dispatch"], rows["random"]

    def each(row):
        return f"{1e6 * row['seconds'] / row['nodes']:.2f}"

    names = ", ".join(f"{row['network']} ({row['nodes']})" for row in others)
    yield "| | measured | goal |\n|---|---|---|\n"
    yield (f"| record and hash a step of {first['network']} ({first['nodes']} nodes) | {1e3 * first['seconds']:.2f} ms, {each(first)} µs per node | "
           "1 µs per node |\n")
    yield f"| … of {names} | {', '.join(map(each, others))} µs per node | 1 µs per node |\n"
    yield (f"| plan it on 4 streams: policy, waits, memory, verification | {1e3 * step['h200']:.0f} ms for the H200, {1e3 * step['cpu']:.0f} ms "
           "for this CPU | 50 ms |\n")
    yield f"| find a known plan | {1e6 * step['cache_hit']:.2f} µs | 20 µs |\n"
    yield (f"| run {dispatch['nodes']} nodes of 8 elements on one stream, on two (one core each) | {1e6 * dispatch['streams_1']:.2f}, "
           f"{1e6 * dispatch['streams_2']:.2f} µs per node | 1 µs per node |\n")
    yield ("| forward pass of layers of 16, 32 and 4 units on one sample, from `session.step()` to the elements of the output | "
           f"{1e6 * dispatch['forward']:.1f} µs | 10 µs |\n")
    for row, goal in zip(random, ("", "", "5 s, 2 GiB"), strict=True):
        yield f"| plan a random graph of {row['nodes']} nodes | {row['seconds']:.2g} s, {row['peak_mib']:.0f} MiB at most | {goal} |\n"


def quality(rows):
    yield "| policy | mean | worst | optimal |\n|---|---|---|---|\n"
    for row in sorted(rows["quality"], key=lambda row: row["mean"]):
        yield f"| `{row['policy']}` | {row['mean']:.3f} | {row['worst']:.3f} | {100 * row['optimal']:.1f} % |\n"


def planned(rows, device):
    return [row for row in rows["nets"] if row["device"] == device and row["policy"] == "critical_path"]


def on_h200(rows, network, policy):
    return next(row for row in rows["nets"] if (row["network"], row["device"], row["policy"]) == (network, "h200", policy))


def nets(rows):
    yield "| network | " + " | ".join(f"`{policy}`" for policy in POLICIES) + " |\n" + "|---" * (1 + len(POLICIES)) + "|\n"
    for network in SHOWN:
        cells = (on_h200(rows, network, policy) for policy in POLICIES)
        yield f"| {network} | " + " | ".join(f"{row['makespan_us'] / row['bound_us']:.3f}, {row['waits']}" for row in cells) + " |\n"

    def worst(rows, key, over):
        row = max(rows, key=lambda row: row[key] / row[over])
        return f"{row[key] / row[over]:.2f} ({row['network']})"

    yield "\n| `critical_path`, the largest of all networks | on an H200 | on this CPU |\n|---|---|---|\n"
    for what, *ratio in (("makespan over bound", "makespan_us", "bound_us"), ("arena over the serial plan's arena", "arena_bytes", "serial_arena_bytes"),
                         ("arena over live bytes", "arena_bytes", "live_bytes"),
                         ("the serial plan's arena over its live bytes", "serial_arena_bytes", "serial_live_bytes")):
        yield f"| {what} | " + " | ".join(worst(planned(rows, device), *ratio) for device in ("h200", "cpu")) + " |\n"


def strategies(rows):
    yield "| network | layers that the best strategy divides otherwise than by samples | devices | search, s |\n|---|---|---|---|\n"
    for row in rows["strategies"]:
        yield f"| {row['network']} | {row['layers']} | {row['devices']} | {row['seconds']:.2f} |\n"


if __name__ == "__main__":
    report(__file__, __doc__, measured, {"planning": times, "planning, quality": quality, "planning, nets": nets, "planning, strategies": strategies},
           lambda parser: parser.add_argument("sections", nargs="*", default=SECTIONS, metavar="SECTION"))
