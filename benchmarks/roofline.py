#!/usr/bin/env python3
"""Compares steps with their floor: what their arithmetic and their bytes take at least on this machine.

    benchmarks/roofline.py [--braid PROGRAM] [--steps N] [--check]

Runs `braid bench NETWORK --roofline` and adds up ops by family. Writes benchmarks/results/roofline.json, the table in docs/benchmarks/pytorch.md and
docs/roofline.svg. With --check, compares these with the saved results, and runs nothing.
"""
import json
import math
import statistics
import subprocess

from program import overrides, report

CELLS = [("resnet50", "ResNet-50", 1), ("resnet50", "ResNet-50", 8), ("googlenet", "GoogLeNet", 1), ("googlenet", "GoogLeNet", 8),
         ("inception_v3", "Inception-v3", 4), ("densenet121", "DenseNet-121", 4), ("mobilenet_v2", "MobileNetV2", 8),
         ("alexnet", "AlexNet", 32)]
FAMILIES = {"convolutions": ("conv2d",), "matrix products": ("linear", "matmul"), "norms": ("batch_norm",), "pools": ("max_pool", "avg_pool", "global_avg_pool"),
            "optimizer": ("sgd", "adam")}
PARTS = [*FAMILIES, "other ops", "idle"]


def family(op):
    return next((name for name, prefixes in FAMILIES.items() if op.startswith(prefixes)), "other ops")


def measured(braid, network, steps, settings):
    command = [braid, "bench", network, "--roofline", "--json", "--steps", str(steps), *overrides(settings)]
    bench = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    roofline = {key: value for key, value in bench["roofline"].items() if key != "nodes"}
    return {"network": network, "batch": settings["train.batch_size"], "policy": bench["policy"], "streams": bench["streams"], **roofline}


def parts(row):
    """Milliseconds above the floor, by family."""
    above = dict.fromkeys(PARTS, 0.0)
    for op in row["ops"]:
        above[family(op["op"])] += (op["measured_us"] - op["floor_us"]) / 1e3
    above["idle"] = (row["step_us"] - sum(op["measured_us"] for op in row["ops"])) / 1e3
    return above


def floor(row):
    return sum(op["floor_us"] for op in row["ops"]) / 1e3


def over_floor(row):
    return row["step_us"] / 1e3 / floor(row)


def named(rows):
    return [(f"{name}, {batch}", row) for row, (_, name, batch) in zip(rows, CELLS)]


def table(rows):
    yield "| network, batch | floor, ms | of it arithmetic | step, ms | times its floor | " + "".join(f"{part} | " for part in PARTS).rstrip() + "\n"
    yield "|---" * (5 + len(PARTS)) + "|\n"
    for name, row in named(rows):
        least, above = floor(row), parts(row)
        arithmetic = sum(op["arithmetic_floor_us"] for op in row["ops"]) / 1e3
        cells = "".join(f" {100 * above[part] / least:+.0f} % |" for part in PARTS)
        yield f"| {name} | {least:.1f} | {100 * arithmetic / least:.0f} % | {row['step_us'] / 1e3:.1f} | {over_floor(row):.2f} |{cells}\n"
    yield f"| geometric mean | | | | {statistics.geometric_mean(map(over_floor, rows)):.2f} |" + " |" * len(PARTS) + "\n"


COLOURS = ["#3073b5", "#7a9cc6", "#d9822b", "#5b9a68", "#a87bc0", "#b0a88f", "#c9ced6"]
STYLE = """
    text { font: 12px system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif; fill: #1d2430; }
    .note { fill: #667085; } .end { text-anchor: end; } .middle { text-anchor: middle; }
    .paper { fill: #f6f7f9; stroke: #d5d9e0; } .line { stroke: #d5d9e0; } .floor { fill: #1d2430; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e8ecf2; } .note { fill: #9aa6b6; } .paper { fill: #1c222b; stroke: #39424f; } .line { stroke: #39424f; } .floor { fill: #e8ecf2; }
    }
"""
LEFT, TOP, WIDTH, ROW = 130, 84, 790, 28


def picture(rows):
    """A bar for each network, about as long as its step; the floor is 1."""
    most = math.ceil(4 * max(map(over_floor, rows))) / 4
    height, scale = TOP + ROW * len(rows) + 48, WIDTH / most
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {height}" role="img">'
    yield f"<title>Steps of networks as multiples of their floor</title><style>{STYLE}</style>"
    yield f'<rect class="paper" x="0.5" y="0.5" width="959" height="{height - 1}" rx="8"/>'
    place = LEFT
    for name, colour in zip(("floor", *PARTS), ("", *COLOURS)):
        fill = f'fill="{colour}"' if colour else 'class="floor"'
        yield f'<rect {fill} x="{place}" y="26" width="12" height="12"/><text x="{place + 17}" y="36">{name}</text>'
        place += 40 + 7 * len(name)
    yield f'<text class="note" x="{LEFT}" y="60">step as a multiple of its floor; above it by ops, negative parts left out</text>'
    for mark in range(int(2 * most) + 1):
        x = LEFT + scale * mark / 2
        yield f'<line class="line" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 36}"/><text class="note middle" x="{x:.1f}" y="{height - 18}">{mark / 2:g}</text>'
    for number, (name, row) in enumerate(named(rows)):
        least, y, x = floor(row), TOP + ROW * number, LEFT + scale
        yield f'<text class="end" x="{LEFT - 10}" y="{y + 13}">{name}</text><rect class="floor" x="{LEFT}" y="{y}" width="{scale:.1f}" height="18"/>'
        for (part, above), colour in zip(parts(row).items(), COLOURS):
            width = max(0, scale * above / least)
            yield f'<rect fill="{colour}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="18"><title>{part}: {above:.1f} ms</title></rect>'
            x += width
    yield "</svg>\n"


if __name__ == "__main__":
    report(__file__, __doc__, lambda given: [measured(given.braid, network, given.steps, {"train.batch_size": batch}) for network, _, batch in CELLS], table,
           lambda parser: parser.add_argument("--steps", type=int, default=10), picture)
