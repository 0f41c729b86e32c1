#!/usr/bin/env python3
"""Simulates training steps on CPUs of more cores than this machine's.

    benchmarks/many_cores.py [--check]

Profiles the nodes of each step here, and lets `braid plan` plan it for CPUS: kernels take as much longer or shorter as the analytic model
says, in which arithmetic scales with the cores of a node, and all cores share the memory's bandwidth. Kernels on many cores do worse in
practice, so serial times are optimistic. Writes benchmarks/results/many_cores.json and the table in docs/benchmarks/simulator.md. With
--check, compares these, and runs nothing.
"""
import statistics
import subprocess
import tempfile

from program import braid_plan, overrides, report

CPUS = {2: 1, 8: 2, 16: 3, 64: 6}  # cores: bandwidth of the memory, relative to this machine's
STEPS = [(network, batch, 32 if network == "pathnet_conv" else 299 if network == "inception_v3" else 224)
         for network in ("googlenet", "inception_v3", "nasnet_a_mobile", "randwire", "pathnet_conv", "squeezenet1_0") for batch in (1, 8)]


def simulated(braid, network, batch, size):
    """Microseconds of the serial plan and of the fastest for each CPU."""
    settings = overrides({"device": "cpu", "train.batch_size": batch, "data.image_size": size})
    with tempfile.TemporaryDirectory() as folder:
        profile = f"{folder}/profile.json"
        subprocess.run([braid, "profile", network, *settings, "--pairs", "0", "-o", profile], check=True, stdout=subprocess.DEVNULL)
        plans = {}
        for cores, bandwidth in CPUS.items():
            found = braid_plan(braid, network, *settings, "--profile", profile, "--sms", cores, "--scale-bandwidth", bandwidth,
                               "--streams", "2..8", "--policy", "critical_path")["plans"]
            plans[cores] = {"serial": found[0]["makespan_us"], "concurrent": min(plan["makespan_us"] for plan in found[1:])}
    return {"network": network, "batch": batch, "size": size, "cpus": plans}


def table(rows):
    yield "| network | images | batch | " + " | ".join(f"{cores} cores: serial, ms | concurrent" for cores in CPUS) + " |\n"
    yield "|---" * (3 + 2 * len(CPUS)) + "|\n"
    gains = {cores: [] for cores in CPUS}
    for row in rows:
        yield f"| {row['network']} | {row['size']}×{row['size']} | {row['batch']} |"
        for cores in CPUS:
            plan = row["cpus"][str(cores)]
            gains[cores].append(plan["serial"] / plan["concurrent"])
            yield f" {plan['serial'] / 1e3:.1f} | {gains[cores][-1]:.2f}× |"
        yield "\n"
    yield "| geometric mean | | |" + "".join(f" | {statistics.geometric_mean(gains[cores]):.2f}× |" for cores in CPUS) + "\n"


if __name__ == "__main__":
    report(__file__, __doc__, lambda given: [simulated(given.braid, *step) for step in STEPS], table)
