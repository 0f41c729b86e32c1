#!/usr/bin/env python3
"""Plans training steps under ever lower memory limits, and prints the least memory that each can run with.

    benchmarks/memory_limit.py [MODEL ...] [--braid FILE] [--device DEVICE] [--batch-size N]

Plans are for one stream. Nothing runs: arenas and times come from the plans, so they are the same on every machine.
"""
import argparse
import json
import subprocess
import sys

from program import ROOT

MODELS = ["resnet20", "resnet50", "densenet121", "googlenet", "inception_v3", "mobilenet_v2", "randwire", "vgg16"]
IMAGES = {"resnet20": (128, 32), "inception_v3": (32, 299)}  # batch and size; otherwise --batch-size and the model's default
MIB = 1 << 20


def plan(model, arguments, limit=None):
    """The plan for one stream; `limit` in MiB. A plan that does not fit is the smallest one found."""
    batch, size = IMAGES.get(model, (arguments.batch_size, None))
    command = [arguments.braid, "plan", model, "--device", arguments.device, "--streams", "1", "--policy", "serial",
               "--batch-size", batch, "--json"]
    command += ["--set", f"data.image_size={size}"] if size else []
    command += ["--memory-limit", limit] if limit else []
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if not run.stdout:
        sys.exit(run.stderr)
    return json.loads(run.stdout)["plans"][0]


def recomputes(planned):
    return not planned["fits"] or any(trade.startswith("recomputation") for trade in planned["traded"])


def row(model, arguments):
    unlimited = plan(model, arguments)
    least = plan(model, arguments, 1)
    too_little, enough = 1, -(-unlimited["arena_bytes"] // MIB)
    while enough - too_little > 1:
        middle = (too_little + enough) // 2
        if recomputes(plan(model, arguments, middle)):
            too_little = middle
        else:
            enough = middle
    slower = least["makespan_us"] / unlimited["makespan_us"] - 1
    return (f"| {model} | {unlimited['arena_bytes'] / MIB:.0f} | {enough} | {least['arena_bytes'] / MIB:.0f} "
            f"| {100 * slower:.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--braid", default=ROOT / "build/release/bin/braid", help="the program that plans")
    parser.add_argument("--device", default=ROOT / "docs/two-cores.json", help="as for braid plan")
    parser.add_argument("--batch-size", type=int, default=32)
    arguments = parser.parse_args()
    print("| network | no limit, MiB | least without recomputation | least with recomputation | predicted slowdown |\n|---|---|---|---|---|",
          flush=True)
    for model in arguments.models:
        print(row(model, arguments), flush=True)


if __name__ == "__main__":
    main()
