#!/usr/bin/env python3
"""Measures what it gains to communicate while gradients are computed: two ranks, which are threads of one core each.

    benchmarks/overlap.py [--turns N] [--check]

The link is so slow that communication takes as long as computing. The plan that overlaps both and the serial plan train in alternation.
"""
import json
import statistics
import subprocess

from program import ratio_text, report


def measured(given):
    return json.loads(subprocess.check_output([given.braid.with_name("bench_overlap"), str(given.turns)], text=True))


def table(rows):
    yield "| network | computing, ms | serial, ms | overlapped, ms | gain (quartiles) | predicted / measured: serial | overlapped |\n"
    yield "|---" * 7 + "|\n"
    for row in rows:
        serial, overlapped = (statistics.median(row[f"{plan}_seconds"]) for plan in ("serial", "overlapped"))
        yield (f"| {row['network']} | {1e3 * row['computing_seconds']:.1f} | {1e3 * serial:.1f} | {1e3 * overlapped:.1f} | "
               f"{ratio_text(row['serial_seconds'], row['overlapped_seconds'])} | {row['serial_predicted'] / serial:.2f} | "
               f"{row['overlapped_predicted'] / overlapped:.2f} |\n")


if __name__ == "__main__":
    report(__file__, __doc__, measured, table, lambda parser: parser.add_argument("--turns", type=int, default=9))
