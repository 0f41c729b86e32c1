#!/usr/bin/env python3
"""Times training steps of `streams: auto` against the serial plan, on the CPU.

    benchmarks/compare_streams.py [--only NETWORK:BATCH:SIZE …] [--check]

Two processes take turns, and one is stopped while the other computes. Ratios are taken within a turn, so that slow drifts of the machine
affect both sides equally. Writes benchmarks/results/compare_streams.json and the table in docs/benchmarks/pytorch.md. With --check, compares
these, and runs nothing.
"""
import re
import statistics

from program import Program, bench, ratio_text, relative, report, running_programs, start, take_turns

STEPS = ["googlenet:1:224", "googlenet:8:224", "inception_v3:1:299", "inception_v3:4:299", "nasnet_a_mobile:1:224", "nasnet_a_mobile:4:224",
         "randwire:1:224", "randwire:8:224", "pathnet_conv:1:32", "pathnet_conv:8:32", "squeezenet1_0:1:224", "squeezenet1_0:8:224"]
TURNS, SECONDS = 9, 1.0


def measured(braid, step):
    network, batch, size = step.split(":")
    with running_programs() as programs:
        for streams in ("1", "auto"):
            settings = {"streams": streams, "device": "cpu", "train.batch_size": batch, "data.image_size": size}
            start(programs, Program(streams, bench(braid, network, settings), stop=True))
        take_turns(programs, TURNS, SECONDS)
        serial, auto = programs
        return {"network": network, "batch": int(batch), "size": int(size), "choice": auto.setting()["choice_report"],
                "serial_seconds": serial.step_seconds, "auto_seconds": auto.step_seconds}


def gain(row):
    return relative(row["serial_seconds"], row["auto_seconds"])[1]


def table(rows):
    yield "| network | images | batch | serial, ms | serial / `auto`: median (quartiles) | kept |\n|---|---|---|---|---|---|\n"
    gains = []
    for row in rows:
        kept = re.search("; kept ([^,]*),", row["choice"])[1]
        gains.append(1 if kept == "serial" else gain(row))
        yield (f"| {row['network']} | {row['size']}×{row['size']} | {row['batch']} | {1e3 * statistics.median(row['serial_seconds']):.1f} | "
               f"{ratio_text(row['serial_seconds'], row['auto_seconds'])} | {kept} |\n")
    yield f"\nGeometric mean {statistics.geometric_mean(gains):.2f}, with 1 where serial was kept: there, both processes run the same plan.\n"


if __name__ == "__main__":
    report(__file__, __doc__, lambda given: [measured(given.braid, step) for step in given.only], table,
           lambda parser: parser.add_argument("--only", nargs="+", default=STEPS, metavar="NETWORK:BATCH:SIZE"))
