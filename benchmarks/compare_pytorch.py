#!/usr/bin/env python3
"""Times a full training step (forward, backward, SGD with momentum) of Braid against PyTorch on CPU.

    python3 -m venv .venv && .venv/bin/pip install torch torchvision
    .venv/bin/python benchmarks/compare_pytorch.py [CONFIG ...] [--compile] [--fused] [--json FILE]

Both sides are processes of their own that run steps when asked to, and take turns: while one computes the other is stopped
by a signal, so it cannot steal a core, and slow drifts of the machine hit both. docs/benchmarks.md says more.
"""
import argparse
import importlib.util
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIGS = [ROOT / f"benchmarks/configs/{name}.yaml"
           for name in ("resnet20", "resnet18", "googlenet", "densenet121", "mobilenet_v2", "squeezenet1_0")]
BASELINE = "PyTorch"
OWN_MODELS = ("resnet18", "resnet20")  # written out below; the others are torchvision's


# ---------------------------------------------------------------------------------------------------------------------
# PyTorch's side. Runs in a process of its own, so that its peak memory is its own.


def pytorch_resnet(name, classes, channels):
    """The same networks as models/resnet.cpp, in plain PyTorch."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or inputs != width:
                self.downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

        def forward(self, x):
            shortcut = x if self.downsample is None else self.downsample(x)
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            y += shortcut
            return self.relu(y)

    blocks, width = {"resnet20": ([3, 3, 3], 16), "resnet18": ([2, 2, 2, 2], 64)}[name]
    layers = [nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    inputs = width
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Block(inputs, width << stage, 2 if stage > 0 and block == 0 else 1))
            inputs = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def torchvision_model(name, classes, channels):
    """torchvision's networks, with the stem for small images that Braid's have."""
    from torch import nn
    from torchvision import models

    def stem(width):
        return nn.Conv2d(channels, width, 3, 1, 1, bias=name == "squeezenet1_0")

    options = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    model = getattr(models, name)(num_classes=classes, **options)
    if name == "googlenet":
        model.conv1.conv = stem(64)
        model.maxpool1 = nn.Identity()
    elif name == "densenet121":
        model.features.conv0 = stem(64)
        model.features.pool0 = nn.Identity()
    elif name == "mobilenet_v2":
        model.features[0][0] = stem(32)
        model.features[2].conv[1][0].stride = (1, 1)
    elif name == "squeezenet1_0":
        model.features[0] = stem(96)
        model.features[2] = nn.Identity()
    return model


def pytorch_model(name, classes, channels):
    make = pytorch_resnet if name in OWN_MODELS else torchvision_model
    return make(name, classes, channels)


def serve_pytorch(options):
    """Answers "run N" with the seconds that N steps took, as `braid bench --serve` does."""
    import torch
    torch.set_num_threads(options["threads"])
    torch.manual_seed(1)
    batch, size, channels, classes = (options[key] for key in ("batch_size", "image_size", "channels", "classes"))
    model = pytorch_model(options["model"], classes, channels).to(memory_format=torch.channels_last)
    images = torch.randn(batch, channels, size, size).to(memory_format=torch.channels_last)
    labels = torch.randint(classes, (batch,))
    sgd = torch.optim.SGD(model.parameters(), lr=options["lr"], momentum=options["momentum"],
                          fused=True if options["fused"] else None)
    # Weights, their momentum, and the running statistics of batch norm: what Braid calls persistent.
    persistent = sum(2 * weight.nbytes for weight in model.parameters())
    persistent += sum(buffer.nbytes for buffer in model.buffers() if buffer.is_floating_point())

    def loss_of(x, y):
        return torch.nn.functional.cross_entropy(model(x), y)

    if options["compile"]:
        loss_of = torch.compile(loss_of)
    print(json.dumps({"ready": True, "version": torch.__version__, "persistent_bytes": persistent}), flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        for _ in range(int(line.split()[1])):
            sgd.zero_grad(set_to_none=True)
            loss = loss_of(images, labels)
            loss.backward()
            sgd.step()
            loss.item()
        print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)


# ---------------------------------------------------------------------------------------------------------------------
# The comparison.


class Program:
    """A process that runs training steps when asked to, and is stopped in between."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)
        self.greeting = self.read()
        self.step_seconds = []
        self.pause()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended with exit status {self.process.wait()}")
        return json.loads(line)

    def pause(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def run(self, steps):
        """Seconds per step."""
        self.process.stdin.write(f"run {steps}\n")
        return self.read()["seconds"] / steps

    def take_turn(self, seconds):
        """Runs for about so long; the first step, which finds cold caches, is not counted."""
        self.resume()
        estimate = self.run(1)
        self.step_seconds.append(self.run(max(3, math.ceil(seconds / estimate))))
        self.pause()

    def warm_up(self, steps):
        self.resume()
        self.run(steps)
        self.pause()

    def peak_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

    def close(self):
        self.resume()
        self.process.stdin.close()
        self.process.wait()


def read_config(path):
    """The values of a config by their path, as {"data.channels": "1"}. Enough YAML for benchmarks/configs."""
    values, section = {}, ""
    for line in path.read_text().splitlines():
        key, _, value = (part.strip() for part in line.split("#")[0].partition(":"))
        if value:
            values[section + key if line.startswith(" ") else key] = value
        elif key:
            section = key + "."
    return values


def pytorch_options(path):
    config = read_config(path)
    return {"model": config["model.name"], "batch_size": int(config["train.batch_size"]),
            "image_size": int(config["data.image_size"]), "channels": int(config["data.channels"]),
            "classes": int(config["data.classes"]), "lr": float(config["optimizer.lr"]),
            "momentum": float(config["optimizer.momentum"])}


def compare(config, arguments):
    """Measures one config; the result is what ends up in the JSON file."""
    command = [str(part) for part in (arguments.braid, "bench", config, "--set", f"threads={arguments.threads}")]
    options = {**pytorch_options(config), "threads": arguments.threads}
    setting = json.loads(subprocess.check_output([*command, "--steps", "1", "--json"], text=True))
    variants = [(BASELINE, False, False)]
    if arguments.fused:
        variants.append(("PyTorch, fused SGD", False, True))
    if arguments.compile:
        variants.append(("PyTorch, compiled", True, arguments.fused))

    programs = [Program("Braid", [*command, "--serve"])]
    for name, compiled, fused in variants:
        worker = json.dumps({**options, "compile": compiled, "fused": fused})
        programs.append(Program(name, [sys.executable, __file__, "--serve", worker]))
        persistent = programs[-1].greeting["persistent_bytes"]
        if persistent != setting["persistent_bytes"]:
            sys.exit(f"{config}: not the same network: weights, momentum and statistics are "
                     f"{setting['persistent_bytes']} bytes in Braid and {persistent} in {name}")

    for program in programs:
        program.warm_up(arguments.warm_up)
    for turn in range(arguments.turns):
        for program in programs if turn % 2 == 0 else reversed(programs):
            program.take_turn(arguments.seconds)
        print(f"{config.name}: turn {turn + 1} of {arguments.turns}: " +
              ", ".join(f"{program.name} {1e3 * program.step_seconds[-1]:.2f} ms" for program in programs),
              file=sys.stderr)
    result = {"config": config.stem, "options": options, "setting": setting, "pytorch": programs[1].greeting["version"],
              "programs": [{"name": program.name, "step_seconds": program.step_seconds,
                            "peak_bytes": program.peak_bytes()} for program in programs]}
    for program in programs:
        program.close()
    return result


def table(results):
    lines = ["| config | batch | threads | program | step, median (min–max) | images/s | Braid is faster by | peak memory |",
             "|---|---|---|---|---|---|---|---|"]
    for result in results:
        options, programs = result["options"], result["programs"]
        braid = programs[0]["step_seconds"]
        for program in programs:
            times = program["step_seconds"]
            median = statistics.median(times)
            ratios = [other / own for own, other in zip(braid, times)]
            ratio = "" if program is programs[0] else (
                f"{statistics.median(ratios):.2f}× ({min(ratios):.2f}–{max(ratios):.2f})")
            lines.append(f"| {result['config']} | {options['batch_size']} | {options['threads']} | {program['name']} | "
                         f"{1e3 * median:.2f} ms ({1e3 * min(times):.2f}–{1e3 * max(times):.2f}) | "
                         f"{options['batch_size'] / median:.0f} | {ratio} | {program['peak_bytes'] / 2**20:.0f} MiB |")
    return "\n".join(lines)


def check_packages(configs):
    names = {read_config(config)["model.name"] for config in configs}
    needed = ["torch"] if names <= set(OWN_MODELS) else ["torch", "torchvision"]
    missing = [package for package in needed if importlib.util.find_spec(package) is None]
    if missing:
        sys.exit(f"{' and '.join(missing)} must be installed: {sys.executable} -m pip install {' '.join(missing)}")


def machine():
    names = [line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    return f"{names[0] if names else 'unknown CPU'}, {len(os.sched_getaffinity(0))} cores"


def main():
    parser = argparse.ArgumentParser(description="Times a training step of Braid against PyTorch on CPU.")
    parser.add_argument("configs", nargs="*", type=pathlib.Path, default=CONFIGS, metavar="CONFIG")
    parser.add_argument("--braid", type=pathlib.Path, default=ROOT / "build/release/bin/braid", help="the program")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="cores to use (default: all)")
    parser.add_argument("--turns", type=int, default=9, help="turns of each program (default: 9)")
    parser.add_argument("--seconds", type=float, default=2, help="length of a turn (default: 2)")
    parser.add_argument("--warm-up", type=int, default=40, help="steps before the first turn (default: 40)")
    parser.add_argument("--compile", action="store_true", help="also time PyTorch with torch.compile")
    parser.add_argument("--fused", action="store_true", help="also time PyTorch with SGD(fused=True)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every measurement to a file")
    parser.add_argument("--serve", metavar="JSON", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve_pytorch(json.loads(arguments.serve))

    check_packages(arguments.configs)
    if os.getloadavg()[0] > 0.5:
        print(f"the machine is busy (load {os.getloadavg()[0]:.1f}): the numbers will mean little", file=sys.stderr)
    results = [compare(config, arguments) for config in arguments.configs]
    print(f"{machine()}; PyTorch {results[0]['pytorch']}\n\n{table(results)}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
