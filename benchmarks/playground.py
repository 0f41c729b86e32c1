#!/usr/bin/env python3
"""Times what a change of the playground's page takes: planning a step in WebAssembly, and the data of its charts, in Node.

    benchmarks/playground.py [--site build/site] [--check]

Needs the site that scripts/site.sh makes, and Node, whose engine is Chromium's. The first plans, while the engine compiles, do not count.
"""
import json
import pathlib
import statistics
import subprocess

from program import ROOT, report

GOALS = {"googlenet": 150, "resnet152": 1000}  # milliseconds
WARM_UP, TURNS = 6, 15
SCRIPT = """
const [site, model, turns] = process.argv.slice(1);
const {load_planner, packed} = require(`${site}/planner.js`);
const planner = load_planner(require('zlib').gunzipSync(Buffer.from(packed(), 'base64')));
const request = {models: [model], device: 'h200', streams: 4, policy: 'critical_path', batch_size: 32, memory_limit: 0, forward: false, files: {}};
const times = [];
for (let i = 0; i < +turns; ++i) {
  const begin = performance.now();
  planner.plan(request);
  planner.page_data();
  times.push(performance.now() - begin);
}
console.log(JSON.stringify(times));
"""


def measured(given):
    rows = []
    for network in GOALS:
        command = ["node", "-e", SCRIPT, given.site.resolve(), network, str(WARM_UP + TURNS)]
        rows.append({"network": network, "milliseconds": json.loads(subprocess.check_output(command))[WARM_UP:]})
    return rows


def table(rows):
    yield "| network | median, ms | slowest | goal |\n" + "|---" * 4 + "|\n"
    for row in rows:
        times = row["milliseconds"]
        yield f"| {row['network']} | {statistics.median(times):.0f} | {max(times):.0f} | {GOALS[row['network']]} |\n"


if __name__ == "__main__":
    report(__file__, __doc__, measured, table,
           lambda parser: parser.add_argument("--site", type=pathlib.Path, default=ROOT / "build/site", help="what scripts/site.sh made"))
