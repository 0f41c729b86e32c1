#!/usr/bin/env python3
"""Writes the tables of what was tried once, what it gained, and whether Braid does it.

    benchmarks/trials.py [--check]

benchmarks/results/trials.json is written by hand. Each trial has the section whose table shows it, the idea, what was measured, how (turns, statistic,
command), the date, the commit that was measured or recorded the trial, the machine if it is another, and the result: one of those in TITLES. A section
is a table between the marks <!-- trials, SECTION --> and <!-- end of trials, SECTION -->. With --check, compares the tables.
"""
import json
import sys

from program import ROOT, write_table

RESULTS = ROOT / "benchmarks/results/trials.json"
TITLES = {"adopted": "helped", "not adopted": "did not help", "not built": "did not help", "reference": "for comparison"}


def table(trials):
    """A table for each title; what a trial has in common with the one above it is not repeated."""
    groups = {title: [] for title in TITLES.values()}
    for trial in trials:
        groups[TITLES[trial["result"]]].append(trial)
    tables = []
    for title, group in groups.items():
        lines, above = [f"| {title} | measured | how |\n|---|---|---|\n"], None
        for trial in group:
            idea = trial["idea"] + " (not built)" * (trial["result"] == "not built")
            how = ": ".join(filter(None, (trial["date"], trial["how"])))
            lines.append(f"| {idea} | {trial['measured']} | {'as above' if how == above and trial['how'] else how} |\n")
            above = how
        tables += ["".join(lines)] if group else []
    return "\n".join(tables)


if __name__ == "__main__":
    rows = json.loads(RESULTS.read_text())["rows"]
    for section in dict.fromkeys(trial["section"] for trial in rows):
        write_table(RESULTS, table(trial for trial in rows if trial["section"] == section), "--check" in sys.argv, name=f"trials, {section}")
