#!/usr/bin/env python3
"""Checks what nvcc made of Braid's CUDA kernels.

    scripts/check_kernels.py build/cuda [--update]

Compiles the .cu files again with the commands of the build folder, for sm_90, and lists registers, shared memory, the blocks that
an SM holds at once, and how many loads and stores of global memory move 16 bytes, the widest access, or less. Fails if a kernel

- spills registers or uses local memory: both go through device memory, which costs more than our kernels' arithmetic;
- moves most of its data in narrow pieces, although it has 16-byte accesses;
- leaves an SM with fewer than three blocks: too few reads in flight for the memory's bandwidth.

Fails also if the tables that summarise the list differ from it, in docs/gpu.md and in core/device/block_needs.h, which is what the
scheduler knows of the kernels; --update writes them. Another release of nvcc than the tables' is no reason to fail.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/gpu.md"
HEADER = ROOT / "core/device/block_needs.h"
TABLE = r"<!-- kernels -->\n.*?<!-- end of kernels -->\n"
ROWS = r"(?<=// clang-format off\n).*?(?=    // clang-format on)"
LEAST_BLOCKS = 3
# The rest of a tensor's vectors is a loop, of which nvcc makes several copies; inputs of an expression may be
# broadcast.
NARROW_LOADS = r"(sgd|adam|blend)_kernel<|for_each_kernel<\d, Interpreter<"

# The ops and the kernels in which they spend their time, in the types of training.
ELEMENTWISE = r"for_each_kernel<\d, "
OPS = {
    "relu relu6 scale": ELEMENTWISE + "Unary<",
    "relu_backward relu6_backward": ELEMENTWISE + "Activated<",
    "scale_by": ELEMENTWISE + "ScaleBy<",
    "cast": ELEMENTWISE + "Convert<",
    "fill": ELEMENTWISE + "Constant<",
    "sum": ELEMENTWISE + "Sum<",
    "dropout": ELEMENTWISE + "Dropout<",
    "elementwise": ELEMENTWISE + "Interpreter<",
    "reduce": "reduce_kernel<",
    "softmax": r"(?<!\w)softmax_kernel<\d+, ",
    "softmax_backward": "softmax_backward_kernel<",
    "weighted_sum": "weighted_sum_kernel<",
    "weighted_sum_backward": "weighted_sum_backward_kernel<",
    "concat channel_slice": "copy_columns_kernel<",
    "assign all_gather all_reduce from_neighbour gather_pieces own_piece reduce_scatter": "copy_kernel<",
    "all_to_all": ELEMENTWISE + "Exchanged<",
    "shard_rows": ELEMENTWISE + "Rows<",
    "shard_number": ELEMENTWISE + "Number",
    "slice_sum": "slice_sum_kernel<",
    "gather": r"(?<!\w)gather_kernel<",
    "scatter_sum": "scatter_sum_kernel<",
    "top_k": "top_k_kernel<",
    "random": ELEMENTWISE + "RandomNumbers<",
    "permute window": "strided_copy_kernel<",
    "interpolate": r"interpolate_kernel<false, ",
    "interpolate_backward": r"interpolate_kernel<true, ",
    "group_norm": "group_norm_kernel<",
    "group_norm_backward": r"group_norm_backward_kernel<|column_sums_kernel<2, .*NormTerms<",
    "channel_sum": r"column_sums_kernel<1, ",
    "batch_norm shard_batch_norm": r"element_kernel<\d, Normalization<|column_sums_kernel<2, .*Deviations<",
    "batch_norm_statistics": r"column_sums_kernel<2, .*Deviations<",
    "batch_norm_inference batch_norm_apply": r"element_kernel<\d, Normalization<",
    "batch_norm_backward": r"element_kernel<\d, GradientPass<|column_sums_kernel<2, .*Gradient<",
    "max_pool2d": "max_pool_kernel<",
    "max_pool2d_backward": "max_pool_backward_kernel<",
    "avg_pool2d": r"average_kernel<false, \d, \w+, WindowAxis",
    "avg_pool2d_backward": r"average_kernel<true, \d, \w+, WindowAxis",
    "adaptive_avg_pool2d": r"average_kernel<false, \d, \w+, AdaptiveAxis",
    "adaptive_avg_pool2d_backward": r"average_kernel<true, \d, \w+, AdaptiveAxis",
    "global_avg_pool": "global_average_kernel<",
    "global_avg_pool_backward": "global_average_backward_kernel<",
    "cross_entropy": r"softmax_kernel<\w+, int>",  # kernels for labels; targets are for mixed images
    "cross_entropy_backward": r"cross_entropy_backward_kernel<\w+, int>",
    "accuracy": "hits_kernel<",
    "loss_scale_update": "is_finite_kernel<",
    "clip_factor": "squared_norm_kernel<",
    "blend": "blend_kernel<",
    "sgd_update": "sgd_kernel<",
    "adam_update": "adam_kernel<",
    "compress": "compress_kernel<",
    "decompress": "decompress_kernel<",
}


class Kernel(NamedTuple):
    registers: int
    shared_bytes: int
    local_bytes: int  # stack frame and spills
    threads: int
    accesses: collections.Counter  # accesses to global memory, by ("ld" or "st", bytes)
    file: str
    name: str

    def blocks(self):
        """The blocks that an SM of sm_90 holds at once: the scarcest of warps, block slots, registers and shared memory decides."""
        warps = -(-self.threads // 32)
        registers = -(-self.registers * 32 // 256) * 256  # registers of a warp; each quarter of an SM has its own
        shared = -(-self.shared_bytes // 128) * 128 + 1024
        return min(64 // warps, 32, 65536 // 4 // registers * 4 // warps, 228 * 1024 // shared)

    def wide(self, kind):
        return self.accesses[kind, 16]

    def narrow(self, kind):
        return sum(count for (of, size), count in self.accesses.items() if of == kind and size < 16)

    def faults(self):
        if self.local_bytes > 0:
            yield f"uses {self.local_bytes} bytes of local memory"
        if "double" in self.name:  # for tests
            return
        for kind, what in (("ld", "loads"), ("st", "stores")):
            # The rest of a vector takes some, and so do scalar arguments.
            most = 2 * self.wide(kind) + 4
            if self.wide(kind) > 0 and self.narrow(kind) > most and not re.match(NARROW_LOADS, self.name):
                yield f"has {self.narrow(kind)} {what} of less than 16 bytes beside {self.wide(kind)}"
        if self.blocks() < LEAST_BLOCKS:
            yield f"leaves room for {self.blocks()} blocks on an SM"


def compiled(entry):
    """ptxas's report on one file, and its PTX."""
    with tempfile.TemporaryDirectory() as folder:
        command = shlex.split(entry["command"]) if "command" in entry else list(entry["arguments"])
        command[command.index("-o") + 1] = str(pathlib.Path(folder, "kernels.o"))
        command[command.index("-c")] = "-cubin"  # without the code of the host
        # Count spills instead of failing on them.
        command = [word for word in command if not re.search(r"warn-on|warning-as-error|generate-code|gencode|^-?arch", word)]
        command += ["-gencode", "arch=compute_80,code=sm_90", "-Xptxas", "-v", "--keep", "--keep-dir", folder]
        result = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(result.stdout + result.stderr)
        return result.stderr + result.stdout, "".join(path.read_text() for path in pathlib.Path(folder).glob("*.ptx"))


def accesses_in(ptx):
    # Loads past L1 are of what other blocks wrote: partial results, which are few.
    words = re.findall(r"\b(ld|st)\.global((?!\.cg)[.\w]*?)(\.v[24])?\.[busf](\d+)", ptx)
    return collections.Counter((kind, int(bits) // 8 * int(vector[2:] or 1)) for kind, _, vector, bits in words)


def kernels_in(report, ptx, file):
    code = dict(re.findall(r"\.entry (\w+)\((.*?)(?=\.entry |\Z)", ptx, re.DOTALL))
    for part in re.split(r"Compiling entry function '", report)[1:]:
        symbol = part.split("'")[0]
        shared = re.search(r"(\d+) bytes smem", part)
        threads = re.search(r"\.maxntid (\d+)", code[symbol])
        yield Kernel(
            registers=int(re.search(r"Used (\d+) registers", part)[1]),
            shared_bytes=int(shared[1]) if shared else 0,
            local_bytes=sum(int(n) for n in re.findall(r"(\d+) bytes (?:stack frame|spill)", part.split("Used")[0])),
            threads=int(threads[1]) if threads else 256,
            accesses=accesses_in(code[symbol]),
            file=file,
            name=symbol,
        )


def with_readable_names(kernels):
    symbols = "\n".join(kernel.name for kernel in kernels)
    text = subprocess.run(["c++filt", "-p"], input=symbols, capture_output=True, text=True, check=True).stdout
    text = re.sub(r"braid::(cuda::|arithmetic::)?|\(anonymous namespace\)::", "", text)
    names = [re.sub(r"^void |\(.*\)$", "", line).replace("> >", ">>") for line in text.splitlines()]
    return [kernel._replace(name=name) for kernel, name in zip(kernels, names)]


class Row(NamedTuple):
    """The most that a kernel of the ops needs, and the fewest blocks on an SM."""
    ops: str
    loads: str  # the widest in bytes, of each kernel
    stores: str
    threads: int
    registers: int
    shared_bytes: int
    blocks: int


def widest(kernels):
    """The kernels with the widest accesses; others are for odd sizes."""
    most = max(size for kernel in kernels for _, size in kernel.accesses)
    return [kernel for kernel in kernels if max(size for _, size in kernel.accesses) == most]


def max_bytes(kernels, of):
    most = max((size for kernel in kernels for kind, size in kernel.accesses if kind == of), default=0)
    return f"{most} B" if most > 0 else "none"


def rows_of(kernels):
    for ops, pattern in OPS.items():
        found = [kernel for kernel in kernels if re.match(pattern, kernel.name) and not re.search("double|Half", kernel.name)]
        if not found:
            sys.exit(f"check_kernels: no kernel of {ops} matches {pattern}")
        kinds = [widest([kernel for kernel in found if re.match(kind, kernel.name)]) for kind in pattern.split("|")]
        loads, stores = (" and ".join(dict.fromkeys(max_bytes(kernels, of) for kernels in kinds)) for of in ("ld", "st"))
        found = widest(found)
        threads, registers, shared = (max(values) for values in zip(*[(k.threads, k.registers, k.shared_bytes) for k in found]))
        yield Row(ops, loads, stores, threads, registers, shared, min(kernel.blocks() for kernel in found))


def table(rows, compiler):
    lines = [f"{compiler}, `sm_90`, kernels for f32 and bf16:", "",
             "| ops | widest load | widest store | registers | shared memory | blocks on an SM |", "|---|---|---|---|---|---|"]
    for row in rows:
        ops = ", ".join(f"`{op}`" for op in row.ops.split())
        lines.append(f"| {ops} | {row.loads} | {row.stores} | {row.registers} | {row.shared_bytes} B | {row.blocks} |")
    return "\n".join(["<!-- kernels -->", *lines, "<!-- end of kernels -->", ""])


def header_rows(rows):
    lines = [(op, f'    {{"{op}", {{{row.threads}, {row.registers}, {row.shared_bytes}}}}},\n')
             for row in rows for op in row.ops.split()]
    return "".join(line for _, line in sorted(lines))


def outdated_files(rows, compiler, update):
    for path, pattern, text in ((DOCUMENT, TABLE, table(rows, compiler)), (HEADER, ROWS, header_rows(rows))):
        before = path.read_text()
        after, count = re.subn(pattern, lambda _: text, before, flags=re.DOTALL)
        if count != 1:
            sys.exit(f"check_kernels: {path} has no place for its table")
        if update:
            path.write_text(after)
        elif after != before:
            yield f"{path.relative_to(ROOT)} differs from what was compiled: run scripts/check_kernels.py BUILD --update"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_folder", type=pathlib.Path)
    parser.add_argument("--update", action="store_true", help="write the tables")
    arguments = parser.parse_args()
    try:
        commands = json.loads((arguments.build_folder / "compile_commands.json").read_text())
    except OSError as error:
        sys.exit(f"check_kernels: {error}: configure with CMake first, for example cmake --preset cuda")
    # The tests compile the same files for the CPU.
    entries = [entry for entry in commands if entry["file"].endswith(".cu") and "nvcc" in entry.get("command", "nvcc")]
    if not entries:
        sys.exit(f"check_kernels: no CUDA kernels in {arguments.build_folder}: configure with the preset cuda")
    nvcc = next(word for word in shlex.split(entries[0]["command"]) if word.endswith("nvcc"))
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    compiler = f"nvcc {re.search(r'release ([0-9.]+)', version)[1]}"

    kernels = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for entry, (report, ptx) in zip(entries, pool.map(compiled, entries)):
            kernels += kernels_in(report, ptx, pathlib.Path(entry["file"]).name)
    kernels = sorted(with_readable_names(kernels), key=lambda k: (-k.registers, -k.shared_bytes, k.file, k.name))

    print("registers  shared  local  blocks  loads 16 B/less  stores 16 B/less  kernel")
    for k in kernels:
        print(f"{k.registers:9} {k.shared_bytes:7} {k.local_bytes:6} {k.blocks():7}  {k.wide('ld'):10}/{k.narrow('ld'):<4} "
              f"{k.wide('st'):11}/{k.narrow('st'):<4}  {k.file}: {k.name}")
    faults = [f"{kernel.file}: {kernel.name} {fault}" for kernel in kernels for fault in kernel.faults()]
    if arguments.update or f"{compiler}, `sm_90`" in DOCUMENT.read_text():
        faults += outdated_files(list(rows_of(kernels)), compiler, arguments.update)
    else:
        print(f"the tables are of another compiler than {compiler}")
    for fault in faults:
        print(fault)
    print(f"{len(kernels)} kernels, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
