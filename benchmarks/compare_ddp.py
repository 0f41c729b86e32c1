#!/usr/bin/env python3
"""Compares training on two ranks of one core each with PyTorch's DistributedDataParallel (gloo), over the same slow link.

    benchmarks/compare_ddp.py [NETWORK ...] [--quick] [--check]

Needs root: each rank has a network namespace, and a virtual Ethernet link between both is their only one. `tc tbf` slows it down, in
both directions, until communication takes as long as Braid's computing. All programs start from equal weights and see equal batches of
32x32 images. The script first compares the losses of 50 steps, without dropout, and exits with 1 if Braid's and PyTorch's differ by
more than 1e-4. Then the programs take turns; ranks that have no turn are stopped. docs/benchmarks/ranks.md has the details.
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from program import ROOT, Program, python_with, ratio_text, relative, report, running_programs, start, take_turns, worker_options

# Learning rates: the losses change by far more than the tolerance, and rounding errors do not grow beyond it.
NETWORKS = {"resnet20": 5e-4, "googlenet": 1e-5, "vgg16": 2e-2}
RANKS, SIZE, CHANNELS, CLASSES, BATCHES = 2, 32, 3, 10, 8
TOLERANCE = 1e-4
LINK = "link0"
PORTS = itertools.count(29500)


def address(rank):
    return f"10.77.0.{rank + 1}"


class Link:
    """A switch in this network namespace, rank 0's, and cables to new ones, those of the other ranks, which last as long as a process in
    them: until this script closes its input or ends."""

    def __init__(self, ranks=RANKS):
        subprocess.run(["ip", "link", "add", LINK, "type", "bridge"], check=True)
        self.others = [subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE) for _ in range(1, ranks)]
        self.inside = [[], *(["nsenter", "-t", str(other.pid), "-n"] for other in self.others)]
        for rank, other in enumerate(self.others, 1):
            while os.readlink(f"/proc/{other.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
                pass
            cable = f"cable{rank}"
            subprocess.run(["ip", "link", "add", cable, "type", "veth", "peer", "name", LINK, "netns", str(other.pid)], check=True)
            subprocess.run(["ip", "link", "set", cable, "master", LINK, "up"], check=True)
        for rank, inside in enumerate(self.inside):
            for words in (["link", "set", "lo", "up"], ["addr", "add", f"{address(rank)}/24", "dev", LINK], ["link", "set", LINK, "up"]):
                subprocess.run([*inside, "ip", *words], check=True)

    def shape(self, bytes_per_second):
        # The burst after a pause: at least TCP's largest packet, and what a late timer would lose.
        burst = max(70_000, round(8e-3 * bytes_per_second))
        for inside in self.inside:
            subprocess.run([*inside, "tc", "qdisc", "replace", "dev", LINK, "root", "tbf", "rate", f"{round(8 * bytes_per_second)}bit",
                            "burst", str(burst), "limit", "16mb"], check=True)

    def wrapper(self):
        """A command of the shell that starts its arguments as a rank: in its network namespace, on one core."""
        cases = " ".join(f"{rank}) set -- {' '.join(inside)} \"$@\";;" for rank, inside in enumerate(self.inside) if inside)
        return f'rank=$OMPI_COMM_WORLD_RANK; case $rank in {cases} esac; exec taskset -c $((rank % {os.cpu_count()})) "$@"'

    def close(self):
        for other in self.others:
            other.communicate()
        subprocess.run(["ip", "link", "del", LINK], check=True)


class Ranks(Program):
    """A program on two ranks, started by mpirun, that runs steps on request; its ranks are stopped in between."""

    def __init__(self, name, link, command):
        # mpirun hands its own input to one rank only.
        self.folder = tempfile.TemporaryDirectory()
        pipes = [pathlib.Path(self.folder.name) / str(rank) for rank in range(RANKS)]
        for pipe in pipes:
            os.mkfifo(pipe)
        self.requests = [os.open(pipe, os.O_RDWR) for pipe in pipes]
        wrapper = f"exec <{self.folder.name}/$OMPI_COMM_WORLD_RANK; {link.wrapper()}"
        os.environ.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                           "PMIX_MCA_ptl_tcp_if_include": LINK,  # through which rank 1 reaches mpirun
                           "MASTER_ADDR": address(0), "MASTER_PORT": str(next(PORTS)), "GLOO_SOCKET_IFNAME": LINK})
        super().__init__(name, ["mpirun", "-n", RANKS, "--bind-to", "none", "--mca", "btl", "tcp,self", "--mca", "pml", "ob1", "--mca",
                                "btl_tcp_if_include", LINK, "sh", "-c", wrapper, "sh", *command], stop=True)

    def ask(self, request, limit=None):
        for pipe in self.requests:
            os.write(pipe, f"{request}\n".encode())
        return self.read(limit)

    def close(self):
        self.resume()
        for pipe in self.requests:
            os.close(pipe)
        super().close()
        self.folder.cleanup()

    def signal(self, number):
        for children in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            for rank in children.read_text().split():
                os.kill(int(rank), number)


def make_data(path, batch):
    generator = random.Random(1)
    samples = BATCHES * batch
    labels = bytes(generator.randrange(CLASSES) for _ in range(samples))
    path.write_bytes(generator.randbytes(samples * SIZE * SIZE * CHANNELS) + labels)


def compare(network, link, given, folder):
    batch = RANKS * given.batch_size
    data, weights, costs = folder / "data", folder / "weights", folder / "costs"
    make_data(data, batch)
    link.shape(10e9)

    def braid(name, *how):
        return start(programs, Ranks(name, link, [given.braid.with_name("bench_ddp"), network, batch, NETWORKS[network], data, *how]))

    def pytorch(name, **changes):
        options = worker_options(network, given.batch_size, SIZE, CLASSES, threads=1, channels=CHANNELS, lr=NETWORKS[network],
                                 **{"data": str(data), "weights": str(weights), "data_parallel": {}, **changes})
        return start(programs, Ranks(name, link, [given.python, ROOT / "benchmarks/ddp_worker.py", json.dumps(options)]))

    with running_programs() as programs:
        alone = braid("computing alone", "alone")
        alone.warm_up(3)
        alone.request(f"profile {costs}")
        computing = statistics.median(alone.request("run 5")["seconds"] / 5 for _ in range(5))
        size = alone.request("setting")["bytes"]
        link.shape(size / computing)
        measuring = Ranks("link", link, [given.braid.with_name("bench_ddp"), "link", size])
        programs.append(measuring)
        measured = measuring.read()
        programs.remove(measuring)
        measuring.close()

        how = (costs, measured["latency"], measured["bandwidth"])
        serial, overlapped = braid("Braid, serial", "serial", *how, 1), braid("Braid, overlapped", "critical_path", *how, 1)
        together = braid(f"Braid, {given.together} steps as one", "critical_path", *how, given.together)
        overlapped.request(f"weights {weights}")
        ddp = pytorch("PyTorch DDP")
        losses = [program.request(f"losses {given.loss_steps}") for program in (overlapped, ddp)]
        difference = max(abs(ours - theirs) for ours, theirs in zip(*losses, strict=True))
        print(f"{network}: losses {losses[0][0]:.4f} to {losses[0][-1]:.4f}; largest difference {difference:.1e}", file=sys.stderr)
        pytorch("PyTorch DDP, tuned", fused=True,
                data_parallel={"bucket_cap_mb": size / 8 / 2**20, "gradient_as_bucket_view": True})

        for program in programs:
            program.warm_up(3)
        take_turns(programs, given.turns, given.seconds, network)
        return {"network": network, "batch": batch, "bytes": size, "link": measured, "losses": losses, "difference": difference,
                "load": os.getloadavg()[0], "pytorch": ddp.greeting["version"],
                "settings": {program.name: program.request("setting") for program in (serial, overlapped, together)},
                "programs": [program.result() for program in programs]}


def times(row):
    return {program["name"]: program["step_seconds"] for program in row["programs"]}


def speedups(rows, name, over):
    """How many times as fast a program is as another, as the median of a network's turns, for each network."""
    return [relative(times(row)[over], times(row)[name])[1] for row in rows]


def table(rows):
    yield "| network | program | step, ms: median (quartiles) | images/s | speedup of Braid, overlapped | predicted, ms | predicted / measured |\n"
    yield "|---" * 7 + "|\n"
    for row in rows:
        overlapped = times(row)["Braid, overlapped"]
        for name, own in times(row).items():
            lower, middle, upper = (1e3 * time for time in relative(own, [1] * len(own)))
            setting = row["settings"].get(name)
            predicted = f"{1e3 * setting['makespan']:.1f} | {1e3 * setting['makespan'] / middle:.2f} |" if setting and setting["makespan"] else "| |"
            yield (f"| {row['network']} | {name} | {middle:.1f} ({lower:.1f}–{upper:.1f}) | {1e3 * row['batch'] / middle:.0f} | "
                   f"{ratio_text(own, overlapped)} | {predicted}\n")


def links(rows):
    yield "| network | parameters | link: latency, µs | MB/s | buckets | largest difference of losses |\n" + "|---" * 6 + "|\n"
    for row in rows:
        yield (f"| {row['network']} | {row['bytes'] / 1e6:.1f} MB | {1e6 * row['link']['latency']:.0f} | {row['link']['bandwidth'] / 1e6:.1f} | "
               f"{row['settings']['Braid, overlapped']['buckets']} | {row['difference']:.1e} |\n")


def measured(given):
    if given.python is None:  # outside the namespace, which has no network to download from
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv, "--python", str(python_with("torch", "torchvision"))])
    if given.quick:
        given.turns, given.seconds = 3, 1
    link, rows = Link(), []
    try:
        for network in given.networks:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(compare(network, link, given, pathlib.Path(folder)))
    finally:
        link.close()
    if any(row["difference"] > TOLERANCE for row in rows):
        sys.exit("compare_ddp: both sides do not train alike")
    return rows


def add_options(parser):
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=list(NETWORKS))
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--loss-steps", type=int, default=50, help="steps whose losses are compared")
    parser.add_argument("--together", type=int, default=4, metavar="N", help="steps that one of Braid's programs plans as one")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=4, help="length of a turn")
    parser.add_argument("--quick", action="store_true", help="three short turns")
    parser.add_argument("--python", help=argparse.SUPPRESS)


if __name__ == "__main__":
    report(__file__, __doc__, measured, {"compare_ddp": table, "compare_ddp, links": links}, add_options)
