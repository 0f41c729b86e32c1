#!/usr/bin/env python3
"""Compares the step times that the simulator predicts with those measured, for every network.

    benchmarks/simulator_error.py [MODEL ...] [--braid build/release/bin/braid] [--check]

For each network, profiles the step (braid profile), starts one process that runs the serial plan and one that runs
critical_path on several streams, both planned with these costs, and lets them take turns. Run nothing else on the machine.
Images are small, so that the script takes minutes; --set changes the settings of both sides.
"""
import statistics
import subprocess
import tempfile

from program import Program, bench, overrides, report, running_programs, start

MODELS = ["mlp", "lenet5", "alexnet", "vgg16", "vgg16_bn", "resnet18", "resnet20", "resnet50", "resnext50_32x4d",
          "googlenet", "inception_v3", "squeezenet1_0", "squeezenet1_1", "densenet121", "mobilenet_v2", "randwire",
          "nasnet_a_mobile", "pathnet_linear", "pathnet_conv"]


def measure(model, arguments):
    settings = {"data.image_size": arguments.image_size, "data.classes": 10, "data.size": arguments.batch_size,
                "train.batch_size": arguments.batch_size}
    own = [word for setting in arguments.set for word in ("--set", setting)]
    plans = {"serial": {"streams": 1, "policy": "serial"},
             f"critical_path, {arguments.streams} streams": {"streams": arguments.streams, "policy": "critical_path"}}
    with tempfile.TemporaryDirectory() as folder:
        costs = f"{folder}/costs.json"
        subprocess.run([arguments.braid, "profile", model, "-o", costs, "--streams", str(arguments.streams),
                        "--pairs", str(arguments.pairs), "--runs", str(arguments.runs), *overrides(settings), *own],
                       check=True, stdout=subprocess.DEVNULL)
        results = []
        with running_programs() as programs:
            for name, plan in plans.items():
                start(programs, Program(name, bench(arguments.braid, model, {**settings, "profile": costs, **plan}) + own))
            seconds = {program.name: [] for program in programs}
            for _ in range(arguments.turns):
                for program in programs:
                    seconds[program.name].append(program.ask(f"run {arguments.steps}")["run_seconds"])
            for program in programs:
                setting = program.setting()
                predicted, measured = setting["simulated_makespan_us"] * 1e-6, statistics.median(seconds[program.name])
                results.append({"model": model, "plan": program.name, "used_streams": setting["streams"],
                                "predicted_seconds": predicted, "measured_seconds": measured,
                                "turns": seconds[program.name], "error": predicted / measured - 1})
        return results


def table(rows):
    yield "| network | serial: predicted, ms | measured | error | two streams: predicted, ms | measured | error |\n" + "|---" * 7 + "|\n"
    for model in dict.fromkeys(row["model"] for row in rows):
        cells = [f"{1e3 * row['predicted_seconds']:.3g} | {1e3 * row['measured_seconds']:.3g} | {100 * row['error']:+.0f} %"
                 for row in rows if row["model"] == model]
        yield f"| {model} | {' | '.join(cells)} |\n"
    by_plan = [[100 * abs(row["error"]) for row in rows[first::2]] for first in (0, 1)]
    median = [statistics.median(errors) for errors in (sum(by_plan, []), *by_plan)]
    yield (f"\nThe median error is {median[0]:.0f} % (goal: 10 %): {median[1]:.0f} % for serial plans, {median[2]:.0f} % for two streams; "
           f"the largest {max(sum(by_plan, [])):.0f} %.\n")


def add_options(parser):
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--streams", type=int, default=2, help="streams of the concurrent plan")
    parser.add_argument("--pairs", type=int, default=100, help="limit of the pairs of nodes to measure")
    parser.add_argument("--runs", type=int, default=9, help="steps that the profile measures")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5, help="steps of a turn")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as for braid")


if __name__ == "__main__":
    report(__file__, __doc__, lambda given: [row for model in given.models for row in measure(model, given)], table, add_options)
