#!/usr/bin/env python3
"""Simulates the experiments of Jia et al., "Exploring Hidden Dimensions in Parallelizing Convolutional Neural Networks" (2018).

    benchmarks/optcnn.py [--braid PROGRAM] [--check]

Figures 7 and 8: images per second and bytes per step of AlexNet, VGG-16 and Inception-v3 by data parallelism, "one weird trick" and
the layer-wise search, on 2 to 16 P100 in hosts of four with NVLink inside and 12.5 GB/s between them; 32 images per device. Gradients
are added by parameter servers, as there, and by rings. The device is as fast as theirs: its rates are scaled until one device
trains as many images per second as in the paper. The paper's numbers are read off its figures. Writes benchmarks/results/optcnn.json and
the table in docs/benchmarks/simulator.md.
"""
import json
import pathlib
import subprocess
import tempfile

from program import braid_plan, report

BATCH = 32
STRATEGIES = ("data", "owt", "layerwise")
SHOWN = (4, 16)  # devices, in the table
# Images per second on one device, and per strategy on 2, 4, 8 and 16; GiB that all devices move in a step.
PAPER = {
    "alexnet": (745, {"data": [1181, 1760, 2484, 3230], "owt": [1400, 2029, 3043, 4260], "layerwise": [1492, 2741, 4934, 9045]},
                {"data": [1.113, 2.227, 4.454, 8.907], "owt": [0.049, 0.121, 0.339, 1.060], "layerwise": [0.049, 0.098, 0.195, 0.390]}),
    "vgg16": (184, {"data": [343, 632, 1080, 1660], "owt": [360, 700, 1216, 1990], "layerwise": [364, 727, 1417, 2715]},
              {"data": [2.056, 4.113, 8.225, 16.45], "owt": [0.239, 0.541, 1.336, 3.688], "layerwise": [0.208, 0.336, 0.687, 1.628]}),
    "inception_v3": (157, {"data": [305, 503, 966, 1690], "owt": [310, 522, 992, 1745], "layerwise": [316, 632, 1248, 2430]},
                     {"data": [0.355, 0.709, 1.419, 2.837], "owt": [0.326, 0.656, 1.328, 2.718], "layerwise": [0.281, 0.563, 1.126, 2.251]}),
}
COLUMN = {2: 0, 4: 1, 8: 2, 16: 3}
CONVOLUTIONS = [(64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False), (256, 3, 1, 1, True)]


def alexnet():
    """The paper's AlexNet has 74.73 M parameters: its last pooling leaves 7×7×256."""
    layers = []
    for channels, kernel, stride, padding, pools in CONVOLUTIONS:
        layers.append({"type": "conv", "channels": channels, "kernel": kernel, "stride": stride, "padding": padding, "activation": "relu"})
        layers += [{"type": "max_pool", "kernel": 3, "stride": 2, "padding": 1}] if pools else []
    layers.append({"type": "flatten"})
    for units in (4096, 4096):
        layers += [{"type": "dropout"}, {"type": "linear", "size": units, "activation": "relu"}]
    return {"layers": [*layers, {"type": "linear"}]}


def config(network, folder):
    model = alexnet() if network == "alexnet" else {"name": network}
    size = 299 if network == "inception_v3" else 224
    path = folder / f"{network}.json"
    path.write_text(json.dumps({"name": "run", "model": model, "optimizer": {"name": "sgd", "lr": 0.01},
                                "data": {"name": "synthetic", "image_size": size, "channels": 3, "classes": 1000},
                                "train": {"batch_size": BATCH, "epochs": 1}}))
    return path


def plan(braid, *options):
    return braid_plan(braid, *options, "--batch-size", BATCH, "--streams", "4", "--policy", "critical_path")


def scaled_device(braid, path, images_per_second, folder, name="p100"):
    """A description of a device that trains as many images per second, and its factor."""
    known = json.loads(subprocess.run([braid, "devices", name, "--json"], capture_output=True, text=True, check=True).stdout)
    file, factor = folder / f"{path.stem}-device.json", 1.0
    for _ in range(4):
        rates = ("flops_per_unit", "matrix_flops_per_unit", "bytes_per_second", "bytes_per_second_unit")
        file.write_text(json.dumps({**known, **{rate: known[rate] * factor for rate in rates}}))
        step = plan(braid, path, "--device", file)["plans"][-1]["makespan_us"]
        factor *= step * 1e-6 * images_per_second / BATCH
    return file, factor


def cluster(device, has_servers, folder):
    path = folder / f"cluster-{has_servers}.yaml"
    path.write_text(json.dumps({"device": str(device), "hosts": 4, "devices": 4, "inside": {"latency": 3, "bandwidth": 64},
                                "network": {"latency": 6, "bandwidth": 12.5}, "parameter_servers": has_servers}))
    return path


def printed_strategy(layers):
    """The one strategy that the paper prints: of VGG-16 on four devices."""
    parts = dict.fromkeys(layers, {"n": 4})
    parts |= dict.fromkeys(["features.24", "features.26", "features.28"], {"h": 2, "w": 2})
    return {**parts, "classifier.0": {"c": 4}, "classifier.3": {"c": 4}, "classifier.6": {"c": 2}}


def compare_printed(braid, path, devices, folder):
    """Milliseconds and MiB that a device sends in a step, by the layer-wise search and by the printed strategy."""
    found, printed, cables = folder / "found.json", folder / "printed.json", cluster(devices, True, folder)
    options = ("--ranks", "4", "--cluster", cables, "--strategy")
    rows = plan(braid, path, *options, "layerwise", "--write-strategy", found)["strategies"]
    strategy = json.loads(found.read_text())["layers"]
    printed.write_text(json.dumps({"layers": printed_strategy(strategy)}))
    rows += plan(braid, path, *options, printed)["strategies"]
    return {"layerwise": {name: parts for name, parts in strategy.items() if parts != {"n": 4}},
            "milliseconds": [round(row["step_us"] / 1e3, 1) for row in rows], "MiB": [round(row["sent_bytes"] / 2**20) for row in rows]}


def simulated(braid, notes):
    """A row for each network, number of devices and strategy."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for network, (alone, images, gibibytes) in PAPER.items():
            path = config(network, folder)
            device, factor = scaled_device(braid, path, alone, folder)
            notes[network] = {"rates": round(factor, 2)}
            if network == "vgg16":
                notes[network] |= compare_printed(braid, path, device, folder)
            for devices, column in COLUMN.items():
                by = {}
                for has_servers in (True, False):
                    made = plan(braid, path, "--ranks", str(devices), "--cluster", cluster(device, has_servers, folder), "--strategy", "all")
                    by[has_servers] = {row["strategy"]: row for row in made["strategies"]}
                for strategy in STRATEGIES:
                    its, ring = by[True][strategy], by[False][strategy]
                    yield {"network": network, "devices": devices, "strategy": strategy,
                           "images_per_second": round(devices * BATCH / (its["step_us"] * 1e-6)), "paper": images[strategy][column],
                           "by_rings": round(devices * BATCH / (ring["step_us"] * 1e-6)),
                           "gibibytes": round(devices * its["sent_bytes"] / 2**30, 3), "paper_gibibytes": gibibytes[strategy][column]}


def off(row):
    return row["images_per_second"] / row["paper"] - 1


def table(rows):
    yield "| network, devices | strategy | images/s: paper | simulated | off | with all-reduces by rings | GiB per step: paper | simulated |\n"
    yield "|---" * 8 + "|\n"
    for row in (row for row in rows if row["devices"] in SHOWN):
        yield (f"| {row['network']}, {row['devices']} | {row['strategy']} | {row['paper']} | {row['images_per_second']} | {100 * off(row):+.0f} % | "
               f"{row['by_rings']} | {row['paper_gibibytes']} | {row['gibibytes']} |\n")


def measured(given):
    notes = {}
    rows = list(simulated(given.braid, notes))
    return {"notes": notes, "rows": rows}


if __name__ == "__main__":
    report(__file__, __doc__, measured, table)
