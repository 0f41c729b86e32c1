#!/usr/bin/env python3
"""Times training steps on the CPU while other programs compete for it.

    benchmarks/busy_machine.py [CONFIG ...] [--batch-size N] [--turns N] [--settle SECONDS] [--check]

The script makes the load itself: none, one loop that never sleeps, a second training with the same settings, and none again,
while the processes of all settings live on. Under each load, the default first runs for --settle seconds, in which it may
compare its plans again. Then the settings take turns, and all but one of their processes are stopped. The last row compares the
default with the best fixed setting; the goal is 1.15.
"""
import contextlib
import pathlib
import statistics
import subprocess
import sys

from program import ROOT, Program, bench, report, running_programs, start

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


def measure(config, given):
    results, programs = [], []
    with running_programs() as running:
        for name, settings in SETTINGS.items():
            words = bench(given.braid, config, {"device": "cpu", "train.batch_size": given.batch_size, **settings})
            programs.append((start(running, Program(name, words, stop=True)), words))
        for kind in LOADS:
            for program, words in programs:
                with load(kind, words):
                    program.take_turn(given.settle if program.name == "default" else 0)
                program.step_seconds.clear()
            for _ in range(given.turns):
                for program, words in programs:
                    with load(kind, words):
                        program.take_turn(given.seconds)
            for program, _ in programs:
                results.append({"config": config.stem, "setting": program.name, "load": kind, "seconds": list(program.step_seconds),
                                "choice": program.setting()["choice_report"]})
    return results


def medians(rows):
    """Milliseconds by config, setting and load."""
    configs = {}
    for row in rows:
        settings = configs.setdefault(row["config"], {})
        settings.setdefault(row["setting"], {})[row["load"]] = 1e3 * statistics.median(row["seconds"])
    return configs


def over_best(settings):
    """By load: how many times as long as the best other setting the default takes."""
    return {kind: settings["default"][kind] / min(times[kind] for setting, times in settings.items() if setting != "default") for kind in LOADS}


def table(rows):
    yield "| network | setting | " + " | ".join(f"{kind}, ms" for kind in LOADS) + " |\n" + "|---" * 6 + "|\n"
    for config, settings in medians(rows).items():
        lines = {setting: [f"{times[kind]:.1f}" for kind in LOADS] for setting, times in settings.items()}
        lines["default / best other"] = [f"{ratio:.2f}" for ratio in over_best(settings).values()]
        yield from (f"| {config} | {setting} | {' | '.join(cells)} |\n" for setting, cells in lines.items())


def add_options(parser):
    parser.add_argument("configs", nargs="*", type=pathlib.Path, default=[ROOT / "benchmarks/configs/resnet20.yaml"])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn")
    parser.add_argument("--settle", type=float, default=30.0, help="seconds for the default to notice another load")


if __name__ == "__main__":
    report(__file__, __doc__, lambda given: [row for config in given.configs for row in measure(config, given)], table, add_options)
