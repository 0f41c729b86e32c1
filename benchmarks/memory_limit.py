#!/usr/bin/env python3
"""Plans training steps under ever lower memory limits, and prints the least memory that each can run with.

    benchmarks/memory_limit.py [MODEL ...] [--braid FILE] [--check]

Plans are for one stream of two cores, and for several streams of an H200. Nothing runs: arenas and times come from the plans, so they are
the same on every machine.
"""
from program import ROOT, braid_plan, overrides, report

MODELS = ["resnet20", "resnet50", "densenet121", "googlenet", "inception_v3", "mobilenet_v2", "randwire", "vgg16"]
IMAGES = {"resnet20": (128, 32), "inception_v3": (32, 299)}  # batch and size; otherwise 32 and the model's default
ONE_STREAM = ["--device", ROOT / "docs/two-cores.json", "--streams", "1", "--policy", "serial"]
H200 = ["--device", "h200", "--streams", "4", "--policy", "critical_path"]
SHARES = (0.95, 0.9, 0.8)  # of the arena without a limit
MIB = 1 << 20


def plan(model, given, limit=None, where=ONE_STREAM):
    """`limit` in MiB. A plan that does not fit is the smallest one found."""
    batch, size = IMAGES.get(model, (32, None))
    options = [*overrides({"data.image_size": size} if size else {}), *(["--memory-limit", limit] if limit else [])]
    return braid_plan(given.braid, model, *where, "--batch-size", batch, *options)["plans"][-1]


def planned(model, given):
    unlimited, least = plan(model, given), plan(model, given, 1)
    return {"network": model, "mib": unlimited["arena_bytes"] / MIB, "recomputed_mib": least["arena_bytes"] / MIB,
            "slowdown": least["makespan_us"] / unlimited["makespan_us"] - 1, "concurrent": concurrent(model, given)}


def concurrent(model, given):
    """Predicted makespans on the H200: on one stream, and within shares of the arena, over that on four streams without a limit."""
    serial, free = plan(model, given, where=H200[:2] + ["--streams", "1", "--policy", "serial"]), plan(model, given, where=H200)
    limited = [plan(model, given, int(share * free["arena_bytes"]) // MIB, H200) for share in SHARES]
    return [row["makespan_us"] / free["makespan_us"] if row["fits"] else None for row in (serial, *limited)]


def table(rows):
    yield "| network | no limit, MiB | least, with recomputation | predicted slowdown |\n" + "|---" * 4 + "|\n"
    for row in rows:
        yield (f"| {row['network']} | {row['mib']:.0f} | {row['recomputed_mib']:.0f} | {100 * row['slowdown']:.1f} % |\n")


def concurrent_table(rows):
    yield "| network | one stream | " + " | ".join(f"{100 * share:.0f} % of the arena" for share in SHARES) + " |\n" + "|---" * 5 + "|\n"
    for row in rows:
        yield f"| {row['network']} | " + " | ".join(f"{time:.3f}" if time else "does not fit" for time in row["concurrent"]) + " |\n"


if __name__ == "__main__":
    report(__file__, __doc__, lambda given: [planned(model, given) for model in given.models],
           {"memory_limit": table, "memory_limit, concurrent": concurrent_table},
           lambda parser: parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL"))
