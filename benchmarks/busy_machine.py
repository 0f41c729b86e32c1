#!/usr/bin/env python3
"""Times training steps on the CPU while other programs compete for it.

    benchmarks/busy_machine.py [CONFIG ...] [--braid FILE ...] [--batch-size N] [--turns N] [--settle SECONDS] [--json FILE]

The script makes the load itself: none, one loop that never sleeps, a second training with the same settings, and none again,
while the processes of all settings live on. Under each load, the default first runs for --settle seconds, in which it may
compare its plans again. Then the settings take turns, and all but one of their processes are stopped. The last row of each
build compares the default with the best fixed setting; the goal is 1.15. Several --braid compare builds.
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys

from program import ROOT, Program, ProgramFailed, bench, running_programs, start

SETTINGS = {
    "default": {},
    "one core": {"threads": 1},
    "one stream, two cores": {"streams": 1, "intra_op_threads": 2, "threads": 2},
    "two streams, a core each": {"streams": 2, "intra_op_threads": 1, "threads": 2},
}
LOADS = ("quiet", "busy loop", "second training", "quiet again")


@contextlib.contextmanager
def load(kind, words):
    """Keeps the machine busy while the block runs."""
    if kind.startswith("quiet"):
        yield
        return
    busy = words if kind == "second training" else [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen([str(word) for word in busy], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        if kind == "second training":
            process.stdin.write(b"run 1000000\n")
            process.stdin.flush()
        try:
            yield
        finally:
            process.kill()


def measure(config, arguments):
    results = []
    programs = {}
    with running_programs() as running:
        for braid in arguments.braid:
            for name, settings in SETTINGS.items():
                words = bench(braid, config, {"device": "cpu", "train.batch_size": arguments.batch_size, **settings})
                programs[braid, name] = (start(running, Program(name, words, stop=True)), words)
        for kind in LOADS:
            for (_, name), (program, words) in programs.items():
                with load(kind, words):
                    program.take_turn(arguments.settle if name == "default" else 0)
                program.step_seconds.clear()
            for _ in range(arguments.turns):
                for program, words in programs.values():
                    with load(kind, words):
                        program.take_turn(arguments.seconds)
            for (braid, name), (program, _) in programs.items():
                results.append({"config": config.stem, "braid": str(braid), "setting": name, "load": kind,
                                "seconds": list(program.step_seconds), "choice": program.setting()["choice_report"]})
    return results


def table(results):
    medians = {}
    for result in results:
        build = medians.setdefault((result["config"], pathlib.Path(result["braid"]).name), {})
        build.setdefault(result["setting"], {})[result["load"]] = 1e3 * statistics.median(result["seconds"])
    lines = ["| network | build | setting | " + " | ".join(f"{kind}, ms" for kind in LOADS) + " |", "|---" * 7 + "|"]
    for (config, braid), settings in medians.items():
        rows = {setting: [f"{times[kind]:.1f}" for kind in LOADS] for setting, times in settings.items()}
        best = {kind: min(times[kind] for setting, times in settings.items() if setting != "default") for kind in LOADS}
        rows["default / best other"] = [f"{settings['default'][kind] / best[kind]:.2f}" for kind in LOADS]
        lines += [f"| {config} | {braid} | {setting} | {' | '.join(cells)} |" for setting, cells in rows.items()]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", type=pathlib.Path, default=[ROOT / "benchmarks/configs/resnet20.yaml"])
    parser.add_argument("--braid", nargs="+", type=pathlib.Path, default=[ROOT / "build/release/bin/braid"])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn")
    parser.add_argument("--settle", type=float, default=30.0, help="seconds for the default to notice another load")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        results = [result for config in arguments.configs for result in measure(config, arguments)]
    except ProgramFailed as failure:
        sys.exit(str(failure))
    print(table(results))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
