#!/usr/bin/env python3
"""Times training steps of `streams: auto` with `policy: auto` against the serial plan, on the CPU.

    benchmarks/compare_streams.py [CONFIG ...] [--batch-size N] [--threads N] [--json FILE]

Two processes take turns, and one is stopped while the other computes. Without arguments, measures every network that configs/
trains on Fashion-MNIST. Ratios are taken within a turn, so that slow drifts of the machine affect both sides equally.
"""
import argparse
import json
import pathlib
import statistics
import sys

from program import ROOT, Program, ProgramFailed, bench, relative, running_programs, start, take_turns

NAME = "_fashion_mnist"


def compare(config, arguments):
    with running_programs() as programs:
        for streams, policy in (("1", "serial"), ("auto", "auto")):
            settings = {"streams": streams, "policy": policy, "device": "cpu", "threads": arguments.threads,
                        "train.batch_size": arguments.batch_size}
            start(programs, Program(policy, bench(arguments.braid, config, settings), stop=True))
        for _ in take_turns(programs, arguments.turns, arguments.seconds):
            pass
        serial, auto = programs
        return {"config": config.stem.removesuffix(NAME), "choice": auto.setting()["choice_report"],
                "serial_seconds": serial.step_seconds, "auto_seconds": auto.step_seconds}


def relative_time(result):
    lower, median, upper = relative(result["auto_seconds"], result["serial_seconds"])
    return f"{median:.3f} ({lower:.3f}–{upper:.3f})"


def table(results):
    lines = ["| network | serial, median | auto / serial, median (quartiles) | kept |", "|---|---|---|---|"]
    for result in results:
        kept = result["choice"].partition("; kept ")[2].partition(", ")[0] or "serial"
        lines.append(f"| {result['config']} | {1e3 * statistics.median(result['serial_seconds']):.1f} ms | "
                     f"{relative_time(result)} | {kept} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configs", nargs="*", type=pathlib.Path, metavar="CONFIG")
    parser.add_argument("--braid", default=ROOT / "build/release/bin/braid", help="the program to measure")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--threads", default="all")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every measurement")
    arguments = parser.parse_args()

    results, failed = [], False
    for config in arguments.configs or sorted((ROOT / "configs").glob(f"*{NAME}.yaml")):
        try:
            results.append(compare(config, arguments))
        except ProgramFailed as error:
            print(f"{config.stem}: {error}", file=sys.stderr)
            failed = True
            continue
        print(f"{results[-1]['config']}: auto / serial = {relative_time(results[-1])}  ({results[-1]['choice']})",
              file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))
    print(table(results))
    sys.exit(failed)


if __name__ == "__main__":
    main()
