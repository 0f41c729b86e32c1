#!/usr/bin/env python3
"""Lists the registers and shared memory of every CUDA kernel, largest first.

    scripts/check_kernels.py build/cuda

Compiles the .cu files again with the commands of the build folder, and fails if a kernel spills registers or uses local memory:
both go through device memory, which costs more than our kernels' arithmetic.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from typing import NamedTuple


class Kernel(NamedTuple):
    registers: int
    shared_bytes: int
    local_bytes: int  # stack frame and spills
    file: str
    symbol: str


def compile_verbosely(entry, folder):
    """ptxas's report on one file."""
    command = shlex.split(entry["command"]) if "command" in entry else list(entry["arguments"])
    command[command.index("-o") + 1] = str(pathlib.Path(folder, pathlib.Path(entry["file"]).name + ".o"))
    # Count spills instead of failing on them.
    command = [word for word in command if "warn-on" not in word and "warning-as-error" not in word]
    result = subprocess.run(command + ["-Xptxas", "-v"], cwd=entry["directory"], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    return result.stderr + result.stdout


def kernels_in(report, file):
    for part in re.split(r"Compiling entry function '", report)[1:]:
        local = sum(int(n) for n in re.findall(r"(\d+) bytes (?:stack frame|spill)", part.split("Used")[0]))
        shared = re.search(r"(\d+) bytes smem", part)
        yield Kernel(
            registers=int(re.search(r"Used (\d+) registers", part)[1]),
            shared_bytes=int(shared[1]) if shared else 0,
            local_bytes=local,
            file=file,
            symbol=part.split("'")[0],
        )


def readable(symbols):
    text = subprocess.run(["c++filt", "-p"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout
    text = re.sub(r"braid::(cuda::|arithmetic::)?|\(anonymous namespace\)::", "", text)
    return [re.sub(r"^void |\(.*\)$", "", line).replace("> >", ">>") for line in text.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_folder", type=pathlib.Path)
    folder = parser.parse_args().build_folder
    try:
        commands = json.loads((folder / "compile_commands.json").read_text())
    except OSError as error:
        sys.exit(f"check_kernels: {error}: configure with CMake first, for example cmake --preset cuda")
    # The tests compile the same files for the CPU.
    entries = [entry for entry in commands if entry["file"].endswith(".cu") and "nvcc" in entry.get("command", "nvcc")]
    if not entries:
        sys.exit(f"check_kernels: no CUDA kernels in {folder}: configure with the preset cuda")

    kernels = set()
    with tempfile.TemporaryDirectory() as objects, concurrent.futures.ThreadPoolExecutor(2) as pool:
        reports = pool.map(lambda entry: compile_verbosely(entry, objects), entries)
        for entry, report in zip(entries, reports):
            kernels.update(kernels_in(report, pathlib.Path(entry["file"]).name))
    kernels = sorted(kernels, key=lambda kernel: (-kernel.registers, -kernel.shared_bytes, kernel.file, kernel.symbol))

    print("registers  shared  local  kernel")
    for kernel, name in zip(kernels, readable([kernel.symbol for kernel in kernels])):
        print(f"{kernel.registers:9} {kernel.shared_bytes:7} {kernel.local_bytes:6}  {kernel.file}: {name}")
    spilling = sum(kernel.local_bytes > 0 for kernel in kernels)
    print(f"{len(kernels)} kernels, {spilling} of them with local memory")
    return 1 if spilling else 0


if __name__ == "__main__":
    sys.exit(main())
