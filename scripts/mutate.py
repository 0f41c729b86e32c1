#!/usr/bin/env python3
"""Breaks random lines of the library, one at a time, and counts how many the tests notice.

    scripts/mutate.py [COUNT [SEED]] [--list]

Default: 200 lines, seed 0. A break turns a comparison, a sign, a logical operator or a constant into another one, or leaves out a
call that waits, records or synchronises. Builds a copy of the sources in build/mutation/source, without CUDA and sanitizers, and
runs the tests of the folder first, then the others until one fails. A break that does not compile does not count. Prints for each
what noticed it, which may be nothing, and finally how many were noticed. --list prints the breaks only.
"""
import argparse
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build/mutation"
FOLDERS = ["core", "ops", "autograd", "scheduler", "runtime", "models", "data", "train"]
LEFT_OUT = re.compile(r"/(cuda|nccl|mpi|show)/|unavailable|portable_only")
SECONDS = 900  # a test that takes longer hangs, which is noticed, too
SWAPS = [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
         (" && ", " || "), (" || ", " && "), (" + ", " - "), (" - ", " + "), ("true", "false"), ("false", "true")]
NO_CODE = re.compile(r"^\s*(//|#|\*|template|using|namespace|static_assert|case .*:$|friend|extern|BRAID_)|operator|message\(|\"")
CALL = re.compile(r"^\s+[\w.\->]*(wait|record|synchronize|notify_all|notify_one)\w*\([^;]*\);$")


def breaks_of(line):
    """All ways to break a line."""
    code = line.split("//")[0]
    if NO_CODE.search(code):
        return
    for old, new in SWAPS:
        for found in re.finditer(rf"\b{old}\b" if old.isalpha() else re.escape(old), code):
            yield line[:found.start()] + new + line[found.end():]
    for found in re.finditer(r"(?<![\w.])\d+(?![\w.'])", code):
        yield line[:found.start()] + str(int(found[0]) + 1) + line[found.end():]
    if CALL.match(code):
        yield ";"


def draw(count, seed):
    """[(path, line number, the broken line)]: lines are equally likely."""
    places = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.cpp")):
            if LEFT_OUT.search(str(path)):
                continue
            for number, line in enumerate(path.read_text().splitlines()):
                if broken := list(breaks_of(line)):
                    places.append((path.relative_to(ROOT), number, broken))
    choice = random.Random(seed)
    return [(path, number, choice.choice(broken)) for path, number, broken in choice.sample(places, count)]


def run(*command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def build():
    return run("cmake", "--build", WORK / "build")


def tests_pass(*selection):
    return run("ctest", "--test-dir", WORK / "build", "--stop-on-failure", "--timeout", str(SECONDS), "--parallel", "2", *selection)


def notice(path, number, broken):
    """What noticed a break: a folder's own tests, others, or nothing; "" if it does not compile."""
    source = WORK / "source" / path
    text = source.read_text()
    lines = text.splitlines(keepends=True)
    lines[number] = broken + "\n"
    source.write_text("".join(lines))
    try:
        if not build():
            return ""
        folder = f"^{path.parts[0]}(/|$)"
        if not tests_pass("--tests-regex", folder):
            return "its folder's tests"
        return "nothing" if tests_pass("--exclude-regex", folder) else "other tests"
    finally:
        source.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=200)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    drawn = draw(given.count, given.seed)
    if given.list:
        for path, number, broken in drawn:
            print(f"{path}:{number + 1}: {broken.strip()}")
        return
    source = WORK / "source"
    subprocess.run(["rm", "-rf", source], check=True)
    source.mkdir(parents=True)
    subprocess.run("git ls-files -z | xargs -0 cp --parents -t " + str(source), shell=True, check=True, cwd=ROOT)
    subprocess.run(["cmake", "-S", source, "-B", WORK / "build", "-G", "Ninja", "-DBRAID_CUDA=OFF", "-DBRAID_TESTS=ON"], check=True,
                   stdout=subprocess.DEVNULL)
    if not build() or not tests_pass():
        sys.exit("mutate: the tests fail without a break")
    results = []
    for path, number, broken in drawn:
        noticed = notice(path, number, broken)
        results.append(noticed)
        print(f"{noticed or 'does not compile'}: {path}:{number + 1}: {broken.strip()}", flush=True)
    compiled = [noticed for noticed in results if noticed]
    print(f"{sum(noticed != 'nothing' for noticed in compiled)} of {len(compiled)} breaks were noticed")


if __name__ == "__main__":
    main()
