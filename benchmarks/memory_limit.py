#!/usr/bin/env python3
"""Plans training steps under ever lower memory limits, and prints the least memory that each can run with.

    benchmarks/memory_limit.py [MODEL ...] [--braid FILE] [--check]

Plans are for one stream of two cores. Nothing runs: arenas and times come from the plans, so they are the same on every machine.
"""
import json
import subprocess
import sys

from program import ROOT, overrides, report

MODELS = ["resnet20", "resnet50", "densenet121", "googlenet", "inception_v3", "mobilenet_v2", "randwire", "vgg16"]
IMAGES = {"resnet20": (128, 32), "inception_v3": (32, 299)}  # batch and size; otherwise 32 and the model's default
MIB = 1 << 20


def plan(model, given, limit=None):
    """The plan for one stream; `limit` in MiB. A plan that does not fit is the smallest one found."""
    batch, size = IMAGES.get(model, (32, None))
    command = [given.braid, "plan", model, "--device", ROOT / "docs/two-cores.json", "--streams", "1", "--policy", "serial",
               "--batch-size", batch, "--json", *overrides({"data.image_size": size} if size else {})]
    command += ["--memory-limit", limit] if limit else []
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    return json.loads(run.stdout)["plans"][0] if run.stdout else sys.exit(run.stderr)


def recomputes(planned):
    return not planned["fits"] or any(trade.startswith("recomputation") for trade in planned["traded"])


def planned(model, given):
    unlimited, least = plan(model, given), plan(model, given, 1)
    too_little, enough = 1, -(-unlimited["arena_bytes"] // MIB)
    while enough - too_little > 1:
        middle = (too_little + enough) // 2
        if recomputes(plan(model, given, middle)):
            too_little = middle
        else:
            enough = middle
    return {"network": model, "mib": unlimited["arena_bytes"] / MIB, "kept_mib": enough, "recomputed_mib": least["arena_bytes"] / MIB,
            "slowdown": least["makespan_us"] / unlimited["makespan_us"] - 1}


def table(rows):
    yield "| network | no limit, MiB | least without recomputation | least with recomputation | predicted slowdown |\n" + "|---" * 5 + "|\n"
    for row in rows:
        yield (f"| {row['network']} | {row['mib']:.0f} | {row['kept_mib']} | {row['recomputed_mib']:.0f} | {100 * row['slowdown']:.1f} % |\n")


if __name__ == "__main__":
    report(__file__, __doc__, lambda given: [planned(model, given) for model in given.models], table,
           lambda parser: parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL"))
