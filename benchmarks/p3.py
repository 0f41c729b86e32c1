#!/usr/bin/env python3
"""Simulates figure 7 of Jayarajan et al., "Priority-based Parameter Propagation for Distributed DNN Training" (P3, 2019).

    benchmarks/p3.py [--braid PROGRAM] [--check]

VGG-19, ResNet-50 and Inception-v3 on four hosts with a P4000 each, 32 images per GPU: images per second and worker over the bandwidth of
the network. One step alone stands for the paper's slicing (gradients in parts, first come first served), STEPS steps as one graph for
P3, which sends first what the next forward pass needs first. The rates of the simulated GPU are scaled until one trains as many images
per second as in the paper. Of the figure, only the numbers in its text are known. There, parameter servers add; here rings do, and
servers for comparison. Writes benchmarks/results/p3.json, the table in docs/benchmarks/simulator.md and docs/p3.svg. With --check, compares these
with the saved results, runs nothing, and fails if an image rate is more than 15 % off.
"""
import concurrent.futures
import json
import math
import os
import pathlib
import sys
import tempfile

import optcnn
from program import report

GOAL, STEPS = 0.15, 4
NETWORKS = {"vgg19": ("VGG-19", 55), "resnet50": ("ResNet-50", 100), "inception_v3": ("Inception-v3", 70)}  # images/s of one GPU
ANCHORS = {("vgg19", 15): (48.3, 54.3), ("vgg19", 30): (52.2, 55.1), ("resnet50", 4): (77.7, 96.6), ("inception_v3", 3): (60.5, 69.0)}
BANDWIDTHS = [1, 2, 3, 4, 6, 10, 15, 30]  # Gbit/s
ORDERS = {1: "slices", STEPS: "priorities"}


def simulated(braid):
    """Images per second and worker: a row for each network, bandwidth, way of adding and number of steps in a graph."""
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folder, made = pathlib.Path(name), []

        def row(network, path, device, bandwidth, by, steps):
            cables = folder / f"{network}-{bandwidth}-{by}-{steps}.yaml"
            cables.write_text(json.dumps({"device": str(device), "hosts": 4, "network": {"latency": 20, "bandwidth": bandwidth / 8},
                                          "parameter_servers": by == "servers"}))
            last = optcnn.plan(braid, path, "--ranks", "4", "--cluster", cables, "--steps", str(steps))["scaling"][-1]
            return {"network": network, "gigabits": bandwidth, "by": by, "steps": steps, "images_per_second": round(32e6 / last["makespan_us"], 1),
                    "step_ms": round(last["makespan_us"] / 1e3, 1), "communicating_ms": round(last["communicating_us"] / 1e3, 1)}

        for network, (_, alone) in NETWORKS.items():
            path = optcnn.config(network, folder)
            device, _ = optcnn.scaled_device(braid, path, alone, folder, "p4000")
            for bandwidth in BANDWIDTHS:
                for by in ("ring", "servers") if (network, bandwidth) in ANCHORS else ("ring",):
                    made += [pool.submit(row, network, path, device, bandwidth, by, steps) for steps in ORDERS]
        return [future.result() for future in made]


def rate(rows, *what):
    keys = ("network", "gigabits", "by", "steps")
    return next(row for row in rows if tuple(row[key] for key in keys) == what)["images_per_second"]


def anchors(rows):
    """Network, Gbit/s, steps, and images per second: the paper's, by rings and by servers."""
    for (network, bandwidth), paper in ANCHORS.items():
        for steps, published in zip(ORDERS, paper):
            yield network, bandwidth, steps, published, rate(rows, network, bandwidth, "ring", steps), rate(rows, network, bandwidth, "servers", steps)


def table(rows):
    yield "| network, Gbit/s | order | images/s and worker: paper | simulated, rings | off | simulated, servers | off |\n" + "|---" * 7 + "|\n"
    for network, bandwidth, steps, published, ring, servers in anchors(rows):
        off = [f"{image_rate} | {100 * (image_rate / published - 1):+.0f} %" for image_rate in (ring, servers)]
        yield f"| {NETWORKS[network][0]}, {bandwidth} | {ORDERS[steps]} | {published} | {off[0]} | {off[1]} |\n"


STYLE = """
    text { font: 12px system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif; fill: #1d2430; }
    .name { font-size: 13px; font-weight: 600; } .note { fill: #667085; } .end { text-anchor: end; } .middle { text-anchor: middle; }
    .paper { fill: #f6f7f9; stroke: #d5d9e0; } .line { stroke: #d5d9e0; } .alone { stroke: #667085; stroke-dasharray: 5 4; }
    .curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
    .slices { stroke: #d9822b; } .priorities { stroke: #3073b5; } circle.slices { fill: #d9822b; } circle.priorities { fill: #3073b5; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e8ecf2; } .note { fill: #9aa6b6; } .paper { fill: #1c222b; stroke: #39424f; } .line { stroke: #39424f; }
    }
"""
LEFT, TOP, WIDTH, HEIGHT, PANEL = 58, 92, 238, 210, 304


def panel(rows, network, left):
    """A network: images per second over Gbit/s, which have a logarithmic axis."""
    name, alone = NETWORKS[network]
    most, bottom = 20 * math.ceil(1.1 * alone / 20), TOP + HEIGHT

    def x(bandwidth):
        return round(left + WIDTH * math.log(bandwidth) / math.log(BANDWIDTHS[-1]), 1)

    def y(images):
        return round(bottom - HEIGHT * images / most, 1)

    yield f'<text class="name" x="{left}" y="{TOP - 14}">{name}: images/s and worker</text>'
    for images in range(0, most + 1, 20):
        yield f'<line class="line" x1="{left}" y1="{y(images)}" x2="{left + WIDTH}" y2="{y(images)}"/>'
        yield f'<text class="note end" x="{left - 8}" y="{y(images) + 4}">{images}</text>'
    for bandwidth in BANDWIDTHS:
        yield f'<text class="note middle" x="{x(bandwidth)}" y="{bottom + 18}">{bandwidth}</text>'
    yield f'<text class="note middle" x="{left + WIDTH / 2}" y="{bottom + 38}">Gbit/s</text>'
    yield f'<line class="alone" x1="{left}" y1="{y(alone)}" x2="{left + WIDTH}" y2="{y(alone)}"/>'
    for steps, order in ORDERS.items():
        points = " ".join(f"{x(bandwidth)},{y(rate(rows, network, bandwidth, 'ring', steps))}" for bandwidth in BANDWIDTHS)
        yield f'<polyline class="curve {order}" points="{points}"/>'
    for its, bandwidth, steps, published, *_ in anchors(rows):
        if its == network:
            yield f'<circle class="{ORDERS[steps]}" r="4.5" cx="{x(bandwidth)}" cy="{y(published)}"><title>paper: {published}</title></circle>'


def picture(rows):
    yield '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 364" role="img">'
    yield f"<title>Images per second and worker of three networks on four hosts with 1 to 30 Gbit/s, simulated, and as published</title><style>{STYLE}</style>"
    yield '<rect class="paper" x="0.5" y="0.5" width="959" height="363" rx="8"/>'
    legend = [("slices", "one step alone, simulated"), ("priorities", f"{STEPS} steps as one graph, simulated")]
    for place, (order, words) in zip((LEFT, LEFT + 218), legend):
        yield f'<line class="curve {order}" x1="{place}" y1="34" x2="{place + 26}" y2="34"/><text x="{place + 34}" y="38">{words}</text>'
    for place, (order, words) in zip((LEFT + 476, LEFT + 626), (("slices", "paper: slicing"), ("priorities", "paper: P3"))):
        yield f'<circle class="{order}" r="4.5" cx="{place}" cy="34"/><text x="{place + 12}" y="38">{words}</text>'
    yield f'<line class="alone" x1="{LEFT + 734}" y1="34" x2="{LEFT + 760}" y2="34"/><text x="{LEFT + 768}" y="38">one GPU alone</text>'
    for number, network in enumerate(NETWORKS):
        yield from panel(rows, network, LEFT + PANEL * number)
    yield "</svg>\n"


def main():
    rows = report(__file__, __doc__, lambda given: simulated(given.braid), table, picture=picture)
    wrong = [what for what in anchors(rows) if abs(what[4] / what[3] - 1) > GOAL]
    for what in wrong:
        print(f"p3: more than {100 * GOAL:.0f} % off: {what}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
