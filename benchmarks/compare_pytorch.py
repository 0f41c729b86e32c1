#!/usr/bin/env python3
"""Times a full training step (forward, backward, SGD with momentum) of Braid against PyTorch.

    python3 -m venv .venv && .venv/bin/pip install torch torchvision onnx
    .venv/bin/python benchmarks/compare_pytorch.py [CONFIG ...] [--compile] [--fused] [--json FILE]
    .venv/bin/python benchmarks/compare_pytorch.py --all [--compile] [--only NETWORK:BATCH:SIZE …] [--budget SECONDS]
    .venv/bin/python benchmarks/compare_pytorch.py --device cuda [--only NETWORK:BATCH:PRECISION …] [--budget SECONDS] [--json FILE]

Each side is a process that runs steps on request. They take turns, so that slow drifts of the machine affect both. On CPU, a
signal stops one while the other computes, so that it cannot steal a core. docs/benchmarks/pytorch.md has the details.
"""
import argparse
import dataclasses
import functools
import importlib.util
import itertools
import json
import math
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

from program import (ANSWER_LIMIT, ROOT, Program, ProgramFailed, Variant, bench, is_same_program, overrides,
                     running_programs, save_results, settings_of, start, take_turns, worker_options)
from pytorch_networks import CIFAR_RESNETS, EXPORTED_MODELS, OWN_MODELS, packages
from pytorch_tables import ALL_RESULTS, BASELINE, check_document, cpu_table, fastest, gpu_tables
from roofline import floor, measured as measured_with_floor

WORKER = ROOT / "benchmarks/pytorch_worker.py"
CONFIGS = {
    "cpu": [ROOT / f"benchmarks/configs/{name}.yaml"
            for name in ("resnet20", "resnet18", "googlenet", "densenet121", "mobilenet_v2", "squeezenet1_0")],
    "cuda": [ROOT / f"benchmarks/configs/cuda/{name}.yaml"
             for name in ("googlenet", "inception_v3", "resnet50", "pathnet_conv")]}


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


def path_modules(braid, path):
    """The number of modules in each layer of a PathNet's path; Braid draws the path itself."""
    try:
        text = subprocess.check_output([braid, "summary", path], text=True, timeout=ANSWER_LIMIT)
    except subprocess.SubprocessError as error:
        raise ProgramFailed(str(error)) from error
    layers = [int(layer) for layer in re.findall(r"^layer(\d+)\.\d+\.conv ", text, re.MULTILINE)]
    return [layers.count(layer) for layer in range(max(layers) + 1)]


def pytorch_options(path, arguments):
    config = read_config(path)
    batch_size, image_size, classes, channels = (
        int(config[key]) for key in ("train.batch_size", "data.image_size", "data.classes", "data.channels"))
    options = worker_options(config["model.name"], batch_size, image_size, classes, arguments.threads, channels=channels,
                             stem=config.get("model.stem", "small_image"), lr=float(config["optimizer.lr"]),
                             momentum=float(config["optimizer.momentum"]))
    if options["model"] == "pathnet_conv":
        options["modules"] = path_modules(arguments.braid, path)
    return options


def worker(name, options, stop=False, limit=ANSWER_LIMIT, **changes):
    return Program(name, [sys.executable, WORKER, json.dumps({**options, **changes})], stop, begin=True, limit=limit)


def check_same_network(config, settings):
    """Treats networks with the same number of weights and statistics as equal. Settings by the program's name."""
    sizes = {name: setting["persistent_bytes"] for name, setting in settings.items() if setting}
    if len(set(sizes.values())) > 1:
        raise ProgramFailed(f"{config}: not the same network: weights, momentum and statistics in bytes: {sizes}")


# ---------------------------------------------------------------------------------------------------------------------
# On CPU: every config unchanged, one plan of Braid against PyTorch's execution modes.


def warm_up(program, arguments):
    """Braid settles on a plan meanwhile, which takes it less than `--warm-up` steps."""
    program.warm_up(1)
    begin = time.monotonic()
    for _ in range(1, arguments.warm_up):
        if time.monotonic() - begin > arguments.warm_up_seconds and (
                program.name != "Braid" or program.setting()["choice_report"]):
            break
        program.warm_up(1)


def compare_on_cpu(config, arguments, options=None, settings=None):
    """Measures one config, or a network with settings and PyTorch's options for it; returns its entry of the JSON file."""
    options, settings = options or pytorch_options(config, arguments), settings or {"threads": arguments.threads}
    variants = [(BASELINE, {})]
    if arguments.fused:
        variants.append(("PyTorch, fused SGD", {"fused": True}))
    if arguments.compile and options["model"] != "dcgan":  # whose two losses are no function to compile
        variants.append(("PyTorch, compiled", {"mode": "compiled", "fused": arguments.fused}))

    with running_programs() as programs:
        start(programs, Program("Braid", bench(arguments.braid, config, settings), stop=True))
        for name, changes in variants:
            start(programs, worker(name, options, stop=True, **changes))
        check_same_network(config, {program.name: program.setting() for program in programs})

        for program in programs:
            warm_up(program, arguments)
        name = pathlib.Path(config).stem
        handovers = take_turns(programs, arguments.turns, arguments.seconds, name,
                               lambda: round(programs[0].request("handover")["handover_ns"]))
        return {"config": name, "options": options, "setting": programs[0].setting(),
                "pytorch": programs[1].greeting["version"], "handover_ns": handovers,
                "programs": [{**program.result(), "peak_bytes": program.status_bytes("VmHWM")} for program in programs]}


@functools.cache
def imported_bytes(names):
    """Resident bytes of a process that has imported these, and done nothing else."""
    code = f"import {names}; print(open('/proc/self/statm').read().split()[1])"
    pages = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return int(pages) * resource.getpagesize()


# Networks of the zoo × batch sizes × image sizes. Those for small images are the ones that pytorch_networks.py has a stem for.
LARGE = ["resnet50", "googlenet", "densenet121", "mobilenet_v2", "inception_v3", "alexnet", "resnet18", "vgg16", "squeezenet1_1",
         "efficientnet_b0", "resnext50_32x4d", "resnet34", "resnet101", "squeezenet1_0", "vgg16_bn", "nasnet_a_mobile", "randwire",
         "vgg19", "resnet152", "vgg19_bn"]
SMALL = ["resnet20", "resnet18", "googlenet", "densenet121", "mobilenet_v2", "squeezenet1_0", "vgg16", "pathnet_conv", "unet", "dcgan", "siamese",
         "lenet5", "mlp", "pathnet_linear", *CIFAR_RESNETS[1:]]
OTHER_DATA = {"unet": {"classes": 5}, "siamese": {"channels": 1, "classes": 2}}  # that of these models, which is not set
STEPS = [(8, 224), (1, 224), (32, 32), (8, 32), (1, 32), (32, 224)]  # those that take longest last, as a run may be cut short


def export(braid, name, settings):
    """The file of a network, for PyTorch to train it."""
    file = f"build/{name}.onnx"
    subprocess.run([braid, "export", name, "--onnx", file, *overrides(settings)], cwd=ROOT, check=True, stdout=sys.stderr)
    return file


def compare_all(arguments):
    """Adds to the results the steps that they lack, one by one, until the time is up. Starts anew if the program has changed."""
    todo = [(name, batch, size) for batch, size in STEPS for name in (LARGE if size == 224 else SMALL)]
    if arguments.only:
        todo = [(name, int(batch), int(size)) for name, batch, size in (step.split(":") for step in arguments.only)]
    saved = json.loads(arguments.json.read_text()) if arguments.json.exists() else None
    results = [result for result in saved["results"] if not result["failed"]] if saved and is_same_program(saved["commit"]) else []
    begin, longest = time.monotonic(), 0
    for name, batch, size in todo:
        step = {"config": name, "batch_size": batch, "image_size": size}
        if any(step.items() <= result.items() and result["options"]["threads"] == arguments.threads and
               len(result["programs"]) >= 3 + (arguments.compile and name != "dcgan") for result in results):
            continue
        results = [result for result in results if not step.items() <= result.items()]
        start = time.monotonic()
        if start - begin + longest > arguments.budget:
            break
        options = worker_options(name, batch, size, 1000 if size == 224 else 10, arguments.threads)
        settings = settings_of(options)
        if name in OTHER_DATA:
            options |= OTHER_DATA[name]
            del settings["data.classes"]
        try:
            if name in EXPORTED_MODELS:
                options["onnx"] = export(arguments.braid, name, settings)
            least = floor(measured_with_floor(arguments.braid, name, 1, {**settings, "streams": 1, "policy": "serial"}))
            results.append({**compare_on_cpu(name, arguments, options, settings), **step, "floor_ms": least,
                            "imported_bytes": imported_bytes(packages(options)), "failed": ""})
        except (ProgramFailed, subprocess.SubprocessError) as error:
            results.append({**step, "failed": " ".join(str(error).replace("|", "/").split())})
        longest = max(longest, time.monotonic() - start)
        save_results(arguments.json, "benchmarks/compare_pytorch.py --all", results=results)


# ---------------------------------------------------------------------------------------------------------------------
# On a GPU: networks × batch sizes × precisions, and for each PyTorch's execution modes against plans of Braid.


@dataclasses.dataclass
class Suite:
    """The scope of a comparison. Precisions and batch sizes in order of importance: if time is short, the last ones are left
    out first."""
    device: str
    precisions: list
    batches: list
    modes: dict  # PyTorch's execution modes, by name
    image_size: int = 0  # 0: the config's


SUITES = {
    "cuda": Suite("cuda", ["bf16", "tf32"], [32, 8, 1, 256], {"eager": "eager", "CUDA graph": "graph"}),
    "rehearsal": Suite("cpu", ["bf16", "f32"], [2, 1], {"eager": "eager", "eager again": "eager"}, image_size=96)}


# From this batch size on, the programs of a combination run one after another: they might not fit into the GPU together.
ALONE = 256

# The order of importance, for runs that are cut short: a chain, then networks with many branches.
FIRST = [("resnet50", 32), ("googlenet", 8), ("pathnet_conv", 8), ("inception_v3", 8)]


def combinations(configs, suite, only):
    """The selected ones, in their order, or all, most important first."""
    if only:
        by_name = {config.stem: config for config in configs}
        return [(by_name[name], int(batch), precision) for name, batch, precision in (each.split(":") for each in only)]

    def place(combination):
        config, batch, precision = combination
        step = (config.stem, batch)
        return suite.precisions.index(precision), FIRST.index(step) if step in FIRST else len(FIRST)

    return sorted(((config, batch, precision)
                   for precision, batch, config in itertools.product(suite.precisions, suite.batches, configs)), key=place)


class Field:
    """The programs of one combination. One that fails leaves it; the others continue."""

    def __init__(self):
        self.programs, self.failed = [], []

    def attempt(self, program, action):
        try:
            return action()
        except ProgramFailed as error:
            self.failed.append(str(error))
            if program in self.programs:
                self.programs.remove(program)

    def enter(self, program, warm_up, limit=None):
        def start():
            if program.greeting is None:
                program.wait_until_ready(limit)
            program.warm_up(warm_up, limit)
            self.programs.append(program)
        self.attempt(program, start)

    def take_turns(self, turns, seconds):
        for turn in range(turns):
            for program in self.programs[::-1 if turn % 2 else 1]:
                self.attempt(program, lambda: program.take_turn(seconds, unread=True))

    def of(self, side):
        return [program for program in self.programs if program.name.startswith(side)]


def start_all(config, batch, precision, suite, arguments, sides):
    """Starts Braid's plans and PyTorch's programs, those of `sides`, one after another, because they measure algorithms and plans as
    they start."""
    size = suite.image_size if suite.image_size and "pathnet" not in config.stem else 0
    changes = {"batch_size": batch, "device": suite.device, "precision": precision, **({"image_size": size} if size else {})}
    # Like PyTorch here: not deterministic, and with measured algorithms.
    settings = {"device": suite.device, "precision": precision, "deterministic": "false", "autotune": "true",
                "threads": arguments.threads, "train.batch_size": batch, "data.size": batch,
                **({"data.image_size": size, "model.stem": "image"} if size else {})}
    options = {**pytorch_options(config, arguments), **changes, "fused": suite.device == "cuda"}

    field = Field()
    workers = [worker(f"{BASELINE}, {name}", options, limit=arguments.limit, mode=mode) for name, mode in suite.modes.items()
               if name in sides]
    # All plans of Braid in one process, whose device memory and clocks they share.
    plans = {f"Braid, {streams}" if streams == "auto" else f"Braid, {streams} stream{'s' if streams != '1' else ''}":
             {"streams": streams, "policy": "serial" if streams == "1" else "critical_path"} for streams in arguments.streams}
    started = workers[:]
    if "Braid" in sides:
        braid = Program("Braid", bench(arguments.braid, config, settings, plans.values()), limit=arguments.limit)
        started.append(braid)
        field.attempt(braid, braid.wait_until_ready)
        for index, name in enumerate(plans if braid.greeting is not None else []):
            field.enter(Variant(name, index, braid), arguments.warm_up)
    for program in workers:
        field.enter(program, arguments.warm_up)
    if "compiled" in sides:
        field.enter(worker(f"{BASELINE}, compiled", options, mode="compiled"), arguments.warm_up, arguments.compile_limit)
    return options, field, started


def measure_on_gpu(config, batch, precision, suite, arguments, sides):
    options, field, started = start_all(config, batch, precision, suite, arguments, sides)
    try:
        field.take_turns(arguments.turns, arguments.seconds)
        settings = {program.name: field.attempt(program, program.setting) for program in list(field.programs)}
        field.failed += [f"{name}: {setting['capture_report']}" for name, setting in settings.items()
                         if setting and setting.get("capture_report")]
        # Last, because profilers leave traces. The plan on several streams, and PyTorch's ops, which a graph does not have.
        ops = {program.name: field.attempt(None, lambda: program.ask("ops"))
               for program in (field.of("Braid")[-1:] + field.of(f"{BASELINE}, eager")[:1]) if not arguments.no_ops}
    finally:
        for program in {*started, *field.programs}:
            program.close()
    return {"config": config.stem, "batch_size": batch, "precision": precision, "options": options, "failed": field.failed,
            "pytorch": next((program.greeting["version"] for program in field.of(BASELINE)), ""),
            "programs": [{**program.result(), **settings[program.name]} for program in field.programs],
            "ops": {name: answer for name, answer in ops.items() if answer}}


def compare_on_gpu(config, batch, precision, suite, arguments):
    sides = ["Braid", *(name for name, mode in suite.modes.items() if mode in (arguments.modes or suite.modes.values())),
             *(["compiled"] if arguments.compile else [])]
    parts = [measure_on_gpu(config, batch, precision, suite, arguments, together)
             for together in ([[side] for side in sides] if batch >= ALONE else [sides])]
    result = parts[0]
    for part in parts[1:]:
        result = {**result, "pytorch": result["pytorch"] or part["pytorch"], "failed": result["failed"] + part["failed"],
                  "programs": result["programs"] + part["programs"], "ops": {**result["ops"], **part["ops"]}}
    try:
        check_same_network(config, {program["name"]: program for program in result["programs"]})
    except ProgramFailed as error:  # the times are kept
        result["failed"].append(str(error))
    return result


def gpu_report(arguments, results, dropped=()):
    version = next((result["pytorch"] for result in results if result["pytorch"]), "did not run")
    lines = [f"{machine(arguments.braid)}; PyTorch {version}", "", gpu_tables(results)]
    if arguments.device == "cuda":
        lines += ["", f"Ceilings: {ceilings()['ceilings']}."]
    if dropped:
        lines += ["", "Left out for lack of time: " + "; ".join(
            f"{config.stem}, batch {batch}, {precision}" for config, batch, precision in dropped) + "."]
    for result in results:
        for failure in result["failed"]:
            lines += ["", f"Failed: {result['config']}, batch {result['batch_size']}, {result['precision']}: {failure}."]
    return "\n".join(lines)


def run_suite(suite, arguments):
    """Returns the results, and the combinations skipped for lack of time."""
    begin, longest, results = time.monotonic(), 0, []
    todo = combinations(arguments.configs, suite, arguments.only)
    for index, (config, batch, precision) in enumerate(todo):
        start = time.monotonic()
        if start - begin + longest > arguments.budget:
            return results, todo[index:]
        try:
            results.append(compare_on_gpu(config, batch, precision, suite, arguments))
        except ProgramFailed as error:
            results.append({"config": config.stem, "batch_size": batch, "precision": precision, "failed": [str(error)],
                            "pytorch": "", "programs": [], "ops": {}})
        longest = max(longest, time.monotonic() - start)
        braid, pytorch = fastest(results[-1], "Braid"), fastest(results[-1], BASELINE)
        print(f"{config.stem}, batch {batch}, {precision}: " + ", ".join(
            [f"{name} {1e3 * seconds:.3f} ms" for seconds, name in filter(None, (braid, pytorch))] + results[-1]["failed"]),
              file=sys.stderr, flush=True)
        save(arguments, results)
        if arguments.markdown:
            arguments.markdown.write_text(gpu_report(arguments, results, todo[index + 1:]) + "\n")
    return results, []


# ---------------------------------------------------------------------------------------------------------------------


def save(arguments, results):
    """Writes after every combination, so that an interrupted run keeps its results."""
    if arguments.json:
        limits = ceilings() if arguments.device == "cuda" else {}
        arguments.json.write_text(json.dumps({"machine": machine(arguments.braid), **limits, "results": results}, indent=1) + "\n")


def check_packages(arguments):
    names = {read_config(config)["model.name"] for config in arguments.configs}
    needed = ["torch", "torchvision", "onnx"] if arguments.all else ["torch"] if names <= set(OWN_MODELS) else ["torch", "torchvision"]
    missing = [package for package in needed if importlib.util.find_spec(package) is None]
    if missing:
        sys.exit(f"{' and '.join(missing)} must be installed: {sys.executable} -m pip install {' '.join(missing)}")


@functools.cache
def ceilings():
    """What the GPU does at most: a large copy, and large matrix products."""
    run = subprocess.run([sys.executable, ROOT / "benchmarks/gpu_ceilings.py"], capture_output=True, text=True)
    return {"ceilings": json.loads(run.stdout) if run.returncode == 0 else run.stderr}


@functools.cache
def machine(braid):
    names = [line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    text = f"{names[0] if names else 'unknown CPU'}, {len(os.sched_getaffinity(0))} cores"
    devices = subprocess.run([braid, "devices"], capture_output=True, text=True).stdout
    gpus = [line for line in devices.splitlines() if line.startswith("cuda:") and "not available" not in line]
    return "; ".join([text, *gpus])


def parse_arguments():
    parser = argparse.ArgumentParser(description="Times a training step of Braid against PyTorch.")
    parser.add_argument("configs", nargs="*", type=pathlib.Path, metavar="CONFIG")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--braid", type=pathlib.Path, help="the program (default: build/release/bin/braid, on cuda build/cuda/…)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="cores to use (default: all)")
    parser.add_argument("--turns", type=int, help="turns of each program (default: 9, with --all 7, on cuda 5)")
    parser.add_argument("--seconds", type=float, help="length of a turn (default: 2, with --all 1, on cuda 0.2)")
    parser.add_argument("--warm-up", type=int, default=40, help="steps before the first turn (default: 40)")
    parser.add_argument("--compile", action="store_true", help="also time PyTorch with torch.compile")
    parser.add_argument("--compile-limit", type=float, default=180, metavar="SECONDS",
                        help="on cuda: time limit for compiling a network (default: 180)")
    parser.add_argument("--warm-up-seconds", type=float, metavar="SECONDS",
                        help="on cpu: fewer steps before the first turn if they take longer (default with --all: 5)")
    parser.add_argument("--all", action="store_true",
                        help="on cpu: time many networks, batches and images; add to FILE of --json (default: benchmarks/results/"
                             "pytorch-cpu.json) and its tables")
    parser.add_argument("--fused", action="store_true", help="on cpu: also time PyTorch with SGD(fused=True)")
    parser.add_argument("--budget", type=float, default=math.inf, metavar="SECONDS",
                        help="with --all and on cuda: time limit; leaves out the least important combinations")
    parser.add_argument("--only", nargs="+", default=[], metavar="NETWORK:BATCH:PRECISION",
                        help="on cuda: these combinations, as googlenet:8:bf16, in this order; with --all, as googlenet:8:224")
    parser.add_argument("--modes", nargs="+", choices=("eager", "graph"),
                        help="on cuda: PyTorch's execution modes (default: both)")
    parser.add_argument("--no-ops", action="store_true", help="on cuda: do not time every op")
    parser.add_argument("--streams", nargs="+", default=["1", "auto"], metavar="N",
                        help="on cuda: Braid's plans, 'auto' or a number of streams (default: 1 auto)")
    parser.add_argument("--limit", type=float, default=ANSWER_LIMIT, metavar="SECONDS",
                        help=f"on cuda: time limit for every answer of a program (default: {ANSWER_LIMIT})")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every measurement to a file")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE",
                        help="on cuda: write the tables to a file, after every combination")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE",
                        help="measure nothing: check the tables of the documents against a file of results")
    parser.add_argument("--update", action="store_true", help="with --table: write it")
    parser.add_argument("--rehearse", action="store_true",
                        help="run what --device cuda runs on the CPU, with tiny images: tests this script")
    arguments = parser.parse_args()
    gpu = arguments.device == "cuda" or arguments.rehearse
    arguments.configs = arguments.configs or CONFIGS["cuda" if gpu else "cpu"]
    arguments.braid = arguments.braid or ROOT / f"build/{'cuda' if arguments.device == 'cuda' else 'release'}/bin/braid"
    arguments.turns = arguments.turns or (5 if gpu else 7 if arguments.all else 9)
    arguments.seconds = arguments.seconds or (0.2 if gpu else 1 if arguments.all else 2)
    if arguments.all:
        arguments.fused, arguments.json = True, arguments.json or ALL_RESULTS
    if arguments.warm_up_seconds is None:
        arguments.warm_up_seconds = 5 if arguments.all else math.inf
    return arguments, SUITES["rehearsal" if arguments.rehearse else "cuda"] if gpu else None


def main():
    arguments, suite = parse_arguments()
    if arguments.table:
        return check_document(arguments.table, arguments.update)
    check_packages(arguments)
    if suite is not None:
        results, dropped = run_suite(suite, arguments)
        print(gpu_report(arguments, results, dropped))
        sys.exit(any(result["failed"] for result in results) or not results)
    if os.getloadavg()[0] > 0.5:
        print(f"the machine is busy (load {os.getloadavg()[0]:.1f}): the numbers are unreliable", file=sys.stderr)
    if arguments.all:
        compare_all(arguments)
        return check_document(arguments.json, update=True)
    try:
        results = [compare_on_cpu(config, arguments) for config in arguments.configs]
    except ProgramFailed as error:
        sys.exit(str(error))
    save(arguments, results)
    print(f"{machine(arguments.braid)}; PyTorch {results[0]['pytorch']}\n\n{cpu_table(results)}")


if __name__ == "__main__":
    main()
