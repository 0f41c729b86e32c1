#!/usr/bin/env python3
"""Checks that the chapters in docs/course say what the program says: course.py PROGRAM [--update], which writes it instead.

    1.24<!-- braid plan googlenet --device a100: serial.makespan_us / makespan_us -->
A number has the value of the expression, over what the command prints with --json, rounded to the decimals that it has.
    1.55<!-- docs/benchmarks.md: least 1.37×, mean 1.55× -->
A number is quoted from a document, which says these words.
    <!-- table: braid plan NAME --device a100: depth_us / 1000, waits -->
The first cell of each row of the table that follows is NAME; the next cells are such numbers.
    <!-- braid summary lenet5 -->
The block after it, ```text, is what the command prints; a line … stands for lines left out.

An expression has names, dots, + - * / ( ) and numbers, and `rows.0` is the first row. After 'plan', names are the keys of the configured row of plans; `serial` is the
serial row, `report` everything. In the blocks predict and exercise, an answer comes from `command` and `value` in the same way, and is the
nearest where there are `choices`; ops in a block sm need what core/device/block_needs.h says. The program must not depend on how it was
built, so no command plans for a device that cuDNN is asked about.
"""
import argparse
import functools
import itertools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
COURSE = ROOT / "docs/course"
NUMBER = re.compile(r"([\d,]*\d(?:\.\d+)?)<!-- braid ([^>]*?): ([^>:]*) -->")
TABLE = re.compile(r"(<!-- table: braid ([^>]*?): ([^>:]*) -->\n\n?)((?:\|.*\n)+)")
QUOTE = re.compile(r"([\d,]*\d(?:\.\d+)?)<!-- (docs/[\w/.-]+): (.*?) -->")
OUTPUT = re.compile(r"(<!-- braid ([^>]*?) -->\n```text\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```(live|predict|exercise|sm)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Course:
    def __init__(self, program):
        self.program = program

    @functools.cache
    def output(self, command, *options):
        words = [*shlex.split(command), *options]
        if {"h100", "h200"} & set(words):
            raise ValueError(f"braid {command}: what it prints depends on the build")
        run = subprocess.run([self.program, *words], cwd=ROOT, capture_output=True, text=True)
        if run.returncode != 0 and not run.stdout:
            raise ValueError(f"braid {command}: {run.stderr.strip()}")
        return run.stdout

    def value(self, command, expression):
        if not re.fullmatch(r"[\w.+\-*/() ]+", expression):
            raise ValueError(f"not an expression: {expression}")
        report = json.loads(self.output(command, "--json"), object_hook=lambda fields: types.SimpleNamespace(**fields))
        names = {**vars(report), "report": report}
        if command.startswith("plan "):
            names = {**vars(report.plans[report.configured]), "serial": report.plans[0], "report": report}
        return eval(re.sub(r"(?<=[a-z])\.(\d+)", r"[\1]", expression), {"__builtins__": {}}, names)

    def number(self, shown, command, expression):
        """The value, written as what is shown."""
        decimals = len(shown.partition(".")[2])
        return f"{self.value(command, expression):{',' if ',' in shown else ''}.{decimals}f}"

    def row(self, line, command, expressions):
        cells = [cell.strip() for cell in line.strip("|\n").split("|")]
        if cells[0].startswith("---") or "`" not in cells[0]:
            return line
        command = re.sub(r"\bNAME\b", re.search(r"`(\w+)`", cells[0])[1], command)
        for i, expression in enumerate(expressions.split(","), 1):
            cells[i] = self.number(cells[i], command, expression.strip())
        return f"| {' | '.join(cells)} |\n"

    def written(self, text):
        """The text as the program would have it."""
        text = NUMBER.sub(lambda m: f"{self.number(m[1], m[2], m[3])}<!-- braid {m[2]}: {m[3]} -->", text)
        text = TABLE.sub(lambda m: m[1] + "".join(self.row(line, m[2], m[3]) for line in m[4].splitlines(keepends=True)), text)
        return OUTPUT.sub(lambda m: m[1] + self.shortened(m[3], self.output(m[2])) + m[4], text)

    @staticmethod
    def shortened(shown, output):
        """The output, without the lines for which what is shown has …."""
        parts = [re.escape(part) for part in shown.split("…\n")]
        return shown if len(parts) > 1 and re.fullmatch(r"(?:.*\n)*?".join(parts), output) else output

    @staticmethod
    def mistakes_in_quotes(text):
        for number, document, words in QUOTE.findall(text):
            if number not in words or words not in " ".join((ROOT / document).read_text().split()):
                yield f"{document} does not say {number} in: {words}"

    def mistakes_in_blocks(self, text):
        needs = dict(re.findall(r'\{"(\w+)", \{([\d, ]+)\}\}', (ROOT / "core/device/block_needs.h").read_text()))
        for kind, body in BLOCK.findall(text):
            spec = parse_block(body)
            if kind == "live" and spec.get("device") in ("h100", "h200"):
                yield "a live block plans for a device whose plans depend on the build"
            if "value" in spec:
                value = self.value(spec["command"], spec["value"])
                if "choices" in spec:
                    choices = [float(re.search(r"\d+(\.\d+)?", choice)[0]) for choice in re.split(r"[|\n]", spec["choices"])]
                    nearest = min(range(len(choices)), key=lambda i: abs(choices[i] - value)) + 1
                    if nearest != int(spec["correct"]):
                        yield f"choice {nearest} is right, as it is {value:.4g}: {spec['question']}"
            for op, resources in re.findall(r"^(\w+): ([\d ]+)$", spec.get("kernels", ""), re.MULTILINE):
                if op in needs and needs[op].replace(",", "") != resources:
                    yield f"a block of {op} needs {needs[op]}"


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
    course, mistakes = Course(options.program.resolve()), []
    for chapter in sorted(COURSE.glob("*.md")):
        text = chapter.read_text()
        try:
            written = course.written(text)
            found = [*course.mistakes_in_quotes(text), *course.mistakes_in_blocks(text)]
        except (ValueError, NameError, AttributeError, KeyError, IndexError) as error:
            mistakes.append(f"{chapter.name}: {error}")
            continue
        if options.update:
            chapter.write_text(written)
        else:
            for before, after in itertools.zip_longest(text.splitlines(), written.splitlines()):
                if before != after:
                    found.append(f"the program says\n  {after}\nnot\n  {before}")
                    break
        mistakes += [f"{chapter.name}: {mistake}" for mistake in found]
    print("\n".join(mistakes) or "docs/course agrees with the program")
    sys.exit(bool(mistakes))


if __name__ == "__main__":
    main()
