#!/usr/bin/env python3
"""Trains on ranks of a core or less over a slow network: by data parallelism, by "one weird trick", by the layer-wise search, as the stages of a
pipeline, and with one in a hundred elements of each gradient.

    benchmarks/strategies.py [NETWORK ...] [--ranks N] [--braid PROGRAM] [--rate MB/s] [--turns N] [--json FILE]
    benchmarks/strategies.py --table FILE [--update]

Needs root: each rank has a network namespace, and virtual Ethernet links to a switch are their only ones. Counts the bytes that rank 0
sends, and compares them and the time with those of the plan: `braid plan --json`. The trainings take turns. With more ranks than cores,
each is planned on its share of a core.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from compare_ddp import LINK, Link
from program import ROOT, braid_plan, save_results, write_table

NETWORKS = {"alexnet": 64, "vgg16": 32, "resnet20": 32}  # sizes of images
VARIANTS = {"data": {}, "owt": {"strategy": "owt"}, "layerwise": {"strategy": "layerwise"}, "pipeline": {"strategy": "pipeline", "virtual_ranks": 8},
            "top_k": {"compression": "top_k", "compression_ratio": 0.01}}
BATCH, CLASSES = 32, 10
STEPS = (2, 8)  # what both trainings do cancels out


def config(network, variant, steps, folder):
    settings = {"name": "run", "model": {"name": network}, "output": {"root": str(folder)},
                "data": {"name": "synthetic", "size": BATCH * steps, "val_size": 2, "image_size": NETWORKS[network], "classes": CLASSES},
                "train": {"epochs": 1, "batch_size": BATCH, "log_interval": 1}, "optimizer": {"name": "sgd", "lr": 0.001},
                "parallel": dict(VARIANTS[variant])}
    found = folder / f"{network}-{variant}-strategy.json"  # for this link, of which a training without `profile` does not know
    if found.exists():
        settings["parallel"]["strategy"] = str(found)
    path = folder / f"{network}-{variant}-{steps}.yaml"
    path.write_text(json.dumps(settings))
    return path


def train(braid, link, path):
    """Trains on all ranks: bytes that rank 0 sent, and seconds of each step but the first."""
    sent = pathlib.Path(f"/sys/class/net/{LINK}/statistics/tx_bytes")
    before = int(sent.read_text())
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PMIX_MCA_ptl_tcp_if_include": LINK}
    command = ["mpirun", "-n", str(len(link.inside)), "--oversubscribe", "--bind-to", "none", "--mca", "btl", "tcp,self", "--mca", "pml", "ob1", "--mca", "btl_tcp_if_include",
               LINK, "sh", "-c", link.wrapper(), "sh", braid, "train", path]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout)
    run = re.search(r"results are in (\S+)", done.stdout)[1]
    rows = [json.loads(line) for line in (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()]
    seconds = [BATCH / row["images_per_second"] for row in rows if "images_per_second" in row]
    return int(sent.read_text()) - before, seconds[1:]


def device(folder, ranks):
    """A file that describes what a rank has of the two cores."""
    known = json.loads((ROOT / "docs/two-cores.json").read_text())
    share = min(1, known["capacity"] / ranks)
    for rate in ("flops_per_unit", "bytes_per_second", "bytes_per_second_unit"):
        known[rate] *= share
    path = folder / "device.json"
    path.write_text(json.dumps(known))
    return str(path)


def planned(braid, path, rate, ranks):
    """Bytes that a rank sends in a step, and the seconds of the step. Writes the strategy that was found."""
    link = {"latency": 50, "bandwidth": rate / 1e3}
    cluster = path.with_suffix(".cluster.yaml")
    cluster.write_text(json.dumps({"device": device(path.parent, ranks), "hosts": ranks, "devices": 1, "inside": link, "network": link}))
    network, variant, _ = path.stem.split("-")
    file = ["--write-strategy", path.parent / f"{network}-{variant}-strategy.json"] if variant in ("layerwise", "pipeline") else []
    row = braid_plan(braid, path, "--ranks", ranks, "--cluster", cluster, "--batch-size", BATCH // ranks, "--policy", "serial", "--set",
                     "intra_op_threads=1", *file)["strategies"][0]
    return {"planned_bytes": row["sent_bytes"], "planned_seconds": row["step_us"] / 1e6}


def gain(result, variant, key="seconds"):
    """Relative to data parallelism."""
    return result["data"][key] / result[variant][key]


def compare(network, arguments, link, folder):
    result = {"network": network, "ranks": arguments.ranks, "link_bytes_per_second": arguments.rate * 1e6}
    for variant in VARIANTS:
        result[variant] = {**planned(arguments.braid, config(network, variant, 1, folder), arguments.rate, arguments.ranks), "seconds": []}
    for _ in range(arguments.turns):
        for variant in VARIANTS:
            few, many = (train(arguments.braid, link, config(network, variant, steps, folder)) for steps in STEPS)
            result[variant]["sent_bytes"] = (many[0] - few[0]) / (STEPS[1] - STEPS[0])
            result[variant]["seconds"] += many[1]
    for variant in VARIANTS:
        result[variant]["seconds"] = statistics.median(result[variant]["seconds"])
    data = result["data"]
    print(f"{network}, {arguments.ranks} ranks: {data['sent_bytes'] / 1e6:.2f} MB and {data['seconds']:.3f} s per step by data parallelism")
    for variant in list(VARIANTS)[1:]:
        its = result[variant]
        factors = {key: gain(result, variant, key) for key in ("planned_bytes", "sent_bytes", "planned_seconds", "seconds")}
        print(f"  {variant}: {its['sent_bytes'] / 1e6:.2f} MB, {factors['sent_bytes']:.2f} times fewer, {factors['planned_bytes']:.2f} as planned; "
              f"{its['seconds']:.3f} s, {factors['seconds']:.2f} times as fast, {factors['planned_seconds']:.2f} as planned")
    return result


def table(results):
    """Bytes and speeds relative to data parallelism, as measured and, in parentheses, as planned."""
    yield "| network | ranks | | by data parallelism | one weird trick | layer-wise search | pipeline | `compression: top_k` |\n" + "|---" * 8 + "|\n"
    for result in results:
        data = result["data"]
        for name, key, planned, unit in (("fewer bytes", "sent_bytes", "planned_bytes", f"{data['sent_bytes'] / 1e6:.2f} MB"),
                                         ("speed", "seconds", "planned_seconds", f"{data['seconds']:.2f} s")):
            cells = " | ".join(f"{gain(result, variant, key):.2f} ({gain(result, variant, planned):.2f})" for variant in list(VARIANTS)[1:])
            yield f"| {result['network']} | {result['ranks']} | {name} | {unit} | {cells} |\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), metavar="NETWORK")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--braid", default=str(ROOT / "build/release/bin/braid"))
    parser.add_argument("--rate", type=float, default=25, metavar="MB/s", help="of the link, in each direction (default: 25)")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--table", metavar="FILE", type=pathlib.Path, help="run nothing: compare the table in docs/benchmarks/ranks.md with saved results")
    parser.add_argument("--update", action="store_true", help="with --table: write it")
    arguments = parser.parse_args()
    if arguments.table:
        return write_table(arguments.table, table(json.loads(arguments.table.read_text())["networks"]), check=not arguments.update)
    link = Link(arguments.ranks)
    try:
        link.shape(arguments.rate * 1e6)
        with tempfile.TemporaryDirectory() as folder:
            results = [compare(network, arguments, link, pathlib.Path(folder)) for network in arguments.networks]
    finally:
        link.close()
    if arguments.json:
        save_results(arguments.json, " ".join(sys.argv), networks=results)


if __name__ == "__main__":
    main()
