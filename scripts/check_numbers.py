#!/usr/bin/env python3
"""Checks that numbers in the documents are what the program and the files of results say: check_numbers.py PROGRAM [--update], which writes them.

    1.24<!-- braid plan googlenet --device a100: serial.makespan_us / makespan_us -->
A number has the value of the expression, over what the command prints with --json, rounded to the decimals that it has.
    3.7<!-- memory_limit: 100 * row(network="densenet121").slowdown -->
The same over benchmarks/results/memory_limit.json.
    3756<!-- …: row(network="densenet121").mib -->
The same over what the number before comes from.
    1.55<!-- docs/benchmarks.md: least 1.37×, mean 1.55× -->
A number is quoted from a document, which says these words; bars of its tables and comments do not count.
    <!-- table: braid plan NAME --device a100: depth_us / 1000, waits -->
The first cell of each row of the table that follows is NAME; the next cells are such numbers.
    <!-- braid summary lenet5 -->
The block after it, ```text, is what the command prints; a line … stands for lines left out.

On the pages of CHECKED, a number with a unit or decimals needs a source, unless it is in a table that a script writes, in code, or in GIVEN.

An expression is Python; `rows.0` is the first row, and fields are attributes. After 'plan', names are the keys of the configured row of plans;
`serial` is the serial row, `report` everything. Over results, names are their keys and those of the script that made them and of
pytorch_tables.py; `row(LIST, network="vgg16")` is the only one of a list, or of `rows`, with these values, and `said("takes # s")` the number in the file that stands
for #. Plans for an H100 or H200 are those of a build with cuDNN, so other builds do not compare them.

Chapters of the course must not depend on how the program was built, and plan for no device that cuDNN is asked about. In their blocks predict and
exercise, an answer comes from `command` and `value` in the same way, and is the nearest where there are `choices`; ops in a block sm need what
core/device/block_needs.h says.
"""
import argparse
import functools
import importlib
import itertools
import json
import pathlib
import re
import shlex
import statistics
import subprocess
import sys

import check_docs

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benchmarks"))
import pytorch_tables  # noqa: E402
COURSE, RESULTS = ROOT / "docs/course", ROOT / "benchmarks/results"
DIGITS = r"[\d,]*\d(?:\.\d+)?"
NUMBER = re.compile(rf"({DIGITS})<!-- (.+?) -->", re.DOTALL)
TABLE = re.compile(r"(<!-- table: braid ([^>]*?): ([^>:]*) -->\n\n?)((?:\|.*\n)+)")
QUOTE = re.compile(rf"({DIGITS})<!-- (docs/[\w/.-]+): (.+?) -->", re.DOTALL)
OUTPUT = re.compile(r"(<!-- braid ([^>]*?) -->\n```text\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```(live|predict|exercise|sm)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

# Numbers that nothing measures: what the program does, settings, goals and what others published.
GIVEN = {
    "README.md": ["saves at least 2 %"],
    "docs/architecture.md": ["up to 1 GiB of host memory, for which a node counts 40 KiB on CPU and 80 KiB on CUDA", "at most 50 µs", "by a factor of 1.25",
                             "saves 2 %, a narrow one if it saves 10 %", "(5 seconds to 5 minutes). That loses at most 5 %", "at most about 2 %"],
    "docs/concurrent-training.md": ["at least 2 %"],
    "docs/custom-ops.md": ["at most 50 µs"],
    "docs/gpu.md": ["in bursts of 50 µs or more", "at most 56 MiB"],
    "docs/benchmarks/gpu.md": ["bytes over 4.8 TB/s, arithmetic over 989 TFLOP/s (tf32: 494.5), and 2 µs", "The 2 µs are assumed", "than at 4.8 TB/s"],
    "docs/benchmarks/inference-and-loading.md": ["up to 32 MiB each"],
    "docs/benchmarks/planner.md": ["The goal is 1.05", "at most 0.1 % are ties", "at most 10 % more waits", "the goal is an arena of 1.05 times",
                                   "the arena more than 1.05 times"],
    "docs/benchmarks/pytorch.md": ["a mean of 2.0, no step below 1.4", "are below 1.4", "a mean of 1.10", "The goal is 1.15", "the goals, 1.15 for this config and 1.3 for three ResNet-20",
                                   "less than 1 s, and 2 s for VGG"],
    "docs/benchmarks/ranks.md": ["the goal is 1.2"],
    "docs/cpp/from-pytorch.md": ["| 0.001 | 0.1 |"],
    "docs/cpp/wgan-gp.md": ["with 0.1 in its experiments"],
    "docs/models.md": ["or 7 times a power of two", "report 91.25 %"],
    "docs/parallel.md": ["300 s by default", "elsewhere (25 MiB)", "at 1 % from about 130", "the paper takes 0.9", "20 µs and 1 GB/s within a host",
                         "50 µs and 10 Gbit/s between hosts", "5 µs, 200 GB/s and 8 SMs within a host, and 10 µs, 25 GB/s", "to 32 MiB", "on 25 Gbit/s Ethernet",
                         "compute 1.2 times as long"],
    "docs/parallelism.md": ["PCIe at 12.6 GB/s", "a relative standard deviation of 0.1", "1.5·k·(P−1)·W/β"],
    "docs/pathnet.md": ["classifies 94 %", "of 94 % instead of 99.8 %"],
    "docs/quick-start.md": ["saves 2 % (10 % if"],
    "docs/scheduling.md": ["takes 4 µs"],
    "docs/testing.md": ["about 2 %"],
    "docs/troubleshooting.md": ["saves 2 %"],
    "docs/benchmarks/simulator.md": ["2–3 %", "25 Gbit/s each", "154 images/s", "12.5 GB/s"],
}
CHECKED = ["README.md", "docs/*.md", "docs/benchmarks/*.md", "docs/cpp/*.md"]
# Tables that scripts write, code, pictures, links and numbers with a source, of which # stays.
NOT_PROSE = re.compile(r"^<!-- ([^>:]*?)(?:: [^>]*)? -->\n.*?^<!-- end of \1 -->$|^Simulated: .*?$|^```.*?^```$|^    .*?$|`[^`]*`|!\[[^]]*\]|\]\([^)]*\)|"
                       rf"{DIGITS}(<!-- .+? -->)", re.DOTALL | re.MULTILINE)
VERSION = re.compile(r"(?:PyTorch|GCC|CMake|Toolkit|CUDA|cuDNN|NCCL|oneDNN|onnxruntime|Version) [\d.]*\d|arXiv:[\d.]*\d")
UNIT = r"(?:[mnµ]?s|[KMGT]i?B|[GT]FLOP/s|Gbit/s|images/s|seconds|minutes|hours|times|points|%|×)(?![\w×])|(?:to|and|or) #"
MEASURED = re.compile(rf"(?<![\w.-])(?:\d+\.\d+(?![\w.])|{DIGITS} ?(?:{UNIT}))")


class Fields(dict):
    """An object of JSON, whose fields are attributes too."""
    __getattr__ = dict.__getitem__


def read_json(text):
    return json.loads(text, object_hook=Fields)


def depends_on_build(source):
    return source.startswith("braid ") and bool({"h100", "h200"} & set(source.split()))


@functools.cache
def names_of_results(name):
    text = (RESULTS / f"{name}.json").read_text()
    results = read_json(text)
    script = results.get("command") or results.commands[0]
    module = importlib.import_module(pathlib.Path(script.split()[0]).stem)

    def row(among=results.get("rows"), /, **values):
        found, = (row for row in among if all(row[key] == value for key, value in values.items()))
        return found

    def said(words):
        before, after = map(re.escape, words.split("#"))
        found = re.search(f"{before}({DIGITS}){after}", " ".join(text.split()))
        if not found:
            raise ValueError(f"{name}.json does not say: {words}")
        return float(found[1].replace(",", ""))

    return {"median": statistics.median, **vars(pytorch_tables), **vars(module), "row": row, "said": said, **results}


class Numbers:
    def __init__(self, program):
        self.program = program

    @functools.cache
    def output(self, command, *options):
        run = subprocess.run([self.program, *shlex.split(command), *options], cwd=ROOT, capture_output=True, text=True)
        if "--json" in options and not run.stdout:
            raise ValueError(f"braid {command}: {run.stderr.strip()}")
        return run.stdout or run.stderr

    @functools.cache
    def names(self, source):
        """What an expression over a source may name."""
        if not source.startswith("braid "):
            return names_of_results(source)
        report = read_json(self.output(source.removeprefix("braid "), "--json"))
        if not source.startswith("braid plan "):
            return {**report, "report": report}
        return {**report.plans[report.configured], "serial": report.plans[0], "report": report}

    def value(self, source, expression):
        return eval(re.sub(r"(?<=[a-z])\.(\d+)", r"[\1]", " ".join(expression.split())), dict(self.names(source)))

    def is_of_other_build(self, source):
        return depends_on_build(source) and not self.names(source)["report"].has_kernels

    def number(self, shown, source, expression):
        """The value, written as what is shown."""
        if self.is_of_other_build(source):
            return shown
        decimals = len(shown.partition(".")[2])
        return f"{self.value(source, expression):{',' if ',' in shown else ''}.{decimals}f}"

    def row(self, line, command, expressions):
        cells = [cell.strip() for cell in line.strip("|\n").split("|")]
        if cells[0].startswith("---") or "`" not in cells[0]:
            return line
        command = re.sub(r"\bNAME\b", re.search(r"`(\w+)`", cells[0])[1], command)
        for i, expression in enumerate(expressions.split(","), 1):
            cells[i] = self.number(cells[i], f"braid {command}", expression.strip())
        return f"| {' | '.join(cells)} |\n"

    def written(self, text):
        """The text as the program would have it."""
        source = ""

        def number(match):
            nonlocal source
            its, expression = " ".join(match[2].split()).split(": ", 1)
            if its.startswith("docs/"):
                return match[0]
            source = source if its == "…" else its
            return match[0].replace(match[1], self.number(match[1], source, expression), 1)

        text = NUMBER.sub(number, text)
        text = TABLE.sub(lambda m: m[1] + "".join(self.row(line, m[2], m[3]) for line in m[4].splitlines(keepends=True)), text)
        return OUTPUT.sub(lambda m: m[0] if self.is_of_other_build(f"braid {m[2]}") else m[1] + self.shortened(m[3], self.output(m[2])) + m[4], text)

    @staticmethod
    def shortened(shown, output):
        """The output, without the lines for which what is shown has …."""
        parts = [re.escape(part) for part in shown.split("…\n")]
        return shown if len(parts) > 1 and re.fullmatch(r"(?:.*\n)*?".join(parts), output) else output

    @staticmethod
    def mistakes_in_quotes(text):
        for number, document, words in QUOTE.findall(text):
            said = re.sub(r"<!--.*?-->", "", (ROOT / document).read_text(), flags=re.DOTALL)
            if number not in words or " ".join(words.split()) not in " ".join(said.replace("|", " ").split()):
                yield f"{document} does not say {number} in: {words}"

    def mistakes_in_chapter(self, text):
        for command in filter(depends_on_build, re.findall(r"<!-- (?:table: )?(braid [^>]*?)(?:: | -->)", text)):
            yield f"{command}: what it prints depends on the build"
        needs = dict(re.findall(r'\{"(\w+)", \{([\d, ]+)\}\}', (ROOT / "core/device/block_needs.h").read_text()))
        for kind, body in BLOCK.findall(text):
            spec = parse_block(body)
            if kind == "live" and spec.get("device") in ("h100", "h200"):
                yield "a live block plans for a device whose plans depend on the build"
            if "value" in spec:
                value = self.value(f"braid {spec['command']}", spec["value"])
                if "choices" in spec:
                    choices = [float(re.search(r"\d+(\.\d+)?", choice)[0]) for choice in re.split(r"[|\n]", spec["choices"])]
                    nearest = min(range(len(choices)), key=lambda i: abs(choices[i] - value)) + 1
                    if nearest != int(spec["correct"]):
                        yield f"choice {nearest} is right, as it is {value:.4g}: {spec['question']}"
            for op, resources in re.findall(r"^(\w+): ([\d ]+)$", spec.get("kernels", ""), re.MULTILINE):
                if op in needs and needs[op].replace(",", "") != resources:
                    yield f"a block of {op} needs {needs[op]}"

    @staticmethod
    def numbers_without_source(page, text):
        """What prose says with a unit or decimals, and neither a comment nor GIVEN explains."""
        prose = " ".join(NOT_PROSE.sub(lambda found: "#" if found[2] else "", text).split())
        for given in GIVEN.get(page, []):
            if given not in prose:
                yield f"it does not say what it is allowed to: {given}"
            prose = prose.replace(given, "")
        prose = VERSION.sub("", prose)
        for found in MEASURED.finditer(prose):
            yield f"a number has no source: {prose[max(0, found.start() - 40):found.end()]}"


def parse_block(body):
    """As parse_block in docs/site/site.js: lines `key: value`, each continued by lines that start with two spaces."""
    spec, key = {}, None
    for line in body.splitlines():
        if line.startswith("  ") and key:
            spec[key] += "\n" + line.strip()
        elif ":" in line:
            key, value = (part.strip() for part in line.split(":", 1))
            spec[key] = value
    return spec


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    numbers, mistakes = Numbers(options.program.resolve()), []
    checked = {page for pattern in CHECKED for page in ROOT.glob(pattern)}
    for document in check_docs.documents():
        name, text = document.relative_to(ROOT), document.read_text()
        try:
            written = numbers.written(text)
            found = [*numbers.mistakes_in_quotes(text), *(numbers.mistakes_in_chapter(text) if document.parent == COURSE else []),
                     *(numbers.numbers_without_source(str(name), text) if document in checked else [])]
        except Exception as error:  # of any expression
            mistakes.append(f"{name}: {type(error).__name__}: {error}")
            continue
        if options.update:
            document.write_text(written)
        else:
            for before, after in itertools.zip_longest(text.splitlines(), written.splitlines()):
                if before != after:
                    found.append(f"it should say\n  {after}\nnot\n  {before}")
                    break
        mistakes += [f"{name}: {mistake}" for mistake in found]
    print("\n".join(mistakes) or "the numbers are those of the program and of the results")
    sys.exit(bool(mistakes))


if __name__ == "__main__":
    main()
