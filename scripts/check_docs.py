#!/usr/bin/env python3
"""Checks that the documents agree with the program and the files: check_docs.py [PROGRAM] [--update].

Relative links in Markdown files lead to files and headings; docs/README.md and the indexes of its folders list all documents; a page with
commands first puts the program on the path; the program accepts the options, values and keys of all commands on the pages, which do not
run; a config contains the YAML in README.md; the example in docs/configuration.md runs; its tables of keys equal those that the program
prints, which --update writes; the commands in docs/scheduling.md print the output quoted there; the example that docs/custom-ops.md walks
through contains the code quoted there; the table in docs/models.md has the numbers of `braid summary`; the program accepts all YAML in
docs/parallelism.md, whose numbers are those of `braid plan`; each network and policy is described; the files that CONTRIBUTING.md,
docs/references.md and examples/braid_in_one_file.cpp name, and the tests of docs/testing.md, exist; no folder holds more than eighteen
sources. PROGRAM is build/release/bin/braid by default.
"""
import argparse
import collections
import functools
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import parallelism

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIGURATION = ROOT / "docs/configuration.md"
SCHEDULING = ROOT / "docs/scheduling.md"
TESTING = ROOT / "docs/testing.md"
TABLE = r"<!-- keys: .*?<!-- end of keys -->\n"
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENDS = ["--first-end", "--second-end"]  # no options: after them, no command runs


def own_files(pattern):
    for path in sorted(ROOT.rglob(pattern)):
        if not any(part in ("build", "runs") or part.startswith(".") for part in path.relative_to(ROOT).parts):
            yield path


def documents():
    return own_files("*.md")


def anchor(heading):
    """What a heading is called in links."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def anchors(text):
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.MULTILINE)}


def broken_links():
    for document in documents():
        for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
            path, _, section = target.partition("#")
            file = document.parent / path if path else document
            if ":" not in path and (not file.exists() or section and file.suffix == ".md" and section not in anchors(file.read_text())):
                yield f"{document.relative_to(ROOT)}: the link to {target} is broken"


def commands_of(text):
    """(command, whether it is complete) of a page: lines of indented and fenced blocks, and what stands between backticks in its prose.
    Leaves out a command whose output is an error."""
    fenced = "".join(body for language, body in FENCED.findall(text) if language in ("", "sh", "bash"))
    lines = FENCED.sub("", text).splitlines()
    quoted = [line for line in lines if line.startswith("    ")] + fenced.splitlines()
    for line, following in zip(quoted, [*quoted[1:], ""]):
        if not following.strip().startswith("braid: error:"):
            yield line, True
    for words in re.findall(r"`([^`]+)`", "\n".join(line for line in lines if not line.startswith("    "))):
        yield words, False


@functools.cache
def mistake_in(program, *words):
    """What is wrong with a command line, which does not run. An option that lacks its value takes the first end for it."""
    if words[0] == "launch" and "train" in words:  # launch hands on what follows its own options
        train = words.index("train")
        return mistake_in(program, *words[train:]) or mistake_in(program, *words[:train])
    run = subprocess.run([program, *words, *ENDS], capture_output=True, text=True)
    mistake = run.stderr.split("\n")[0].removeprefix("braid: error: ")
    return {f"there is no option '{ENDS[0]}'": "", f"there is no option '{ENDS[1]}'": f"expected a value of {words[-1]}"}.get(mistake, mistake)


def rejected_in(program, keys, text):
    """Commands on a page that the program does not parse, and why: unknown options and commands, values of another type, keys of configs
    that do not exist."""
    for line, complete in commands_of(text):
        found = re.search(r"(?:^|[\s/])braid ([a-z]+ ?.*)", " ".join(line.split()))
        if not found:
            continue
        command = re.split(r" [|>&;]", re.sub(r"[\[\]]|…", "", found[1]).replace("<folder>", "RUN"))[0]
        words = ["1" if word in ("N", "PORT") else word for word in shlex.split(command, comments=True)]
        mistake = mistake_in(program, *words)
        if not complete and (re.match(r"expected |--?[\w-]+ expects a value", mistake) or ENDS[0] in mistake):
            mistake = ""  # a mention leaves out arguments
        keys_given = [word.partition("=")[0] for option, word in zip(words, words[1:]) if option == "--set"]
        unknown = [f"there is no key '{key}'" for key in keys_given if key not in keys]
        for why in filter(None, [mistake, *unknown]):
            yield f"{found[0].strip()}: {why}"


def rejected_commands(program):
    table = subprocess.run([program, "config", "table"], capture_output=True, text=True, check=True).stdout
    keys = {"KEY", *re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE)}
    for document in documents():
        for mistake in rejected_in(program, keys, document.read_text()):
            yield f"{document.relative_to(ROOT)}: {mistake}"


def unlisted_documents():
    for index, folder in (("docs/README.md", "docs"), ("docs/benchmarks.md", "docs/benchmarks"), ("docs/cpp/README.md", "docs/cpp"),
                          ("docs/course/README.md", "docs/course")):
        text = (ROOT / index).read_text()
        for document in sorted((ROOT / folder).glob("*.md")):
            if document.name != "README.md" and f"{document.name})" not in text:
                yield f"{index} does not list {document.name}"


def commands_without_a_path():
    for document in [ROOT / "README.md", *ROOT.glob("docs/*.md")]:
        text = document.read_text()
        command = re.search(r"^(?:    )?(?:\$ )?braid [a-z]+ .*", text, re.MULTILINE)
        if command and "bin:$PATH" not in text[:command.start()]:
            yield f"{document.relative_to(ROOT)} does not put the program on the path before: {command[0].strip()}"


def outdated_code(document, language, folder):
    files = [path.read_text() for path in (ROOT / folder).iterdir()]
    for code in re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.DOTALL):
        if not any(code in file for file in files):
            yield f"{document}: no file of {folder}/ contains this any more:\n{code}"


def broken_example(program):
    example = re.search(r"```yaml\n(.*?)```", CONFIGURATION.read_text(), re.DOTALL).group(1)
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "example.yaml"
        config.write_text(example)
        run = subprocess.run([program, "bench", config, "--steps", "1", "--set", "streams=1"], cwd=folder, capture_output=True,
                             text=True)
        if run.returncode != 0:
            yield f"the example in docs/configuration.md does not run: {run.stderr.strip()}"


def with_new_keys(program, text):
    """The text with the tables of keys as the program prints them; each stands between two lines that name it."""
    printed = subprocess.run([program, "config", "table"], capture_output=True, text=True, check=True).stdout
    tables = {table.split("\n")[0]: table for table in re.findall(TABLE, printed, re.DOTALL)}
    missing = set(tables) - set(re.findall(r"<!-- keys: .* -->", text))
    if missing:
        sys.exit(f"docs/configuration.md has no place for a table: add the lines {' and '.join(missing)} and "
                 "<!-- end of keys -->")
    return re.sub(TABLE, lambda table: tables.get(table[0].split("\n")[0], ""), text, flags=re.DOTALL)


def outdated_quotations(program):
    """Indented lines are commands or, line by line, what the commands after dollar signs print."""
    quoted = [line.strip() for line in SCHEDULING.read_text().splitlines() if line.startswith("    ")]
    printed = set()
    for command in (line for line in quoted if line.startswith("$ braid ")):
        run = subprocess.run([program, *command.split()[2:]], cwd=ROOT, capture_output=True, text=True)
        if run.returncode != 0:
            yield f"docs/scheduling.md: {command} fails: {run.stderr.strip()}"
        printed |= {line.strip() for line in run.stdout.splitlines()}
    for line in quoted:
        if line not in printed and line != "…" and not line.startswith(("$ braid", "braid ")):
            yield f"docs/scheduling.md quotes a line that is no longer printed: {line}"


def with_new_models(program, text):
    """The text with numbers as `braid summary` prints them, in rows such as
    | `lenet5`, 28×28×1, 10 classes | parameters | MACs | nodes of a step | W/D | paper |"""
    settings = {"data.image_size": r"(\d+)×", "data.channels": r"×(\d)\b", "data.classes": r"(\d+) classes",
                "model.width": r"width ([\d.]+)"}

    def new_row(row):
        name, details, parameters, others, macs, of, nodes, parallelism, rest = row.groups()
        found = [(key, re.search(pattern, details)) for key, pattern in settings.items()]
        options = [option for key, value in found if value for option in ("--set", f"{key}={value[1]}")]
        printed = subprocess.run([program, "summary", name, *options], capture_output=True, text=True, check=True).stdout
        parameters, macs, nodes, parallelism = [re.search(pattern, printed, re.MULTILINE)[1] for pattern in (
            r"^parameters +([\d,]+)", r"^MACs +([\d,]+)", r"^step +(\d+) nodes", r"^W/D +([\d.]+)")]
        millions = int(macs.replace(",", "")) / 1e6
        macs = f"{millions:,.{0 if millions >= 100 else 1 if millions >= 10 else 2}f}"
        return f"| `{name}`{details}| {parameters}{others}| {macs} M{of}| {nodes} | {parallelism} |{rest}"

    return re.sub(r"^\| `(\w+)`([^|]*)\| ([\d,]+)([^|]*)\| ([\d.,]+) M([^|]*)\| (\d+) \| ([\d.]+) \|(.*)", new_row, text,
                  flags=re.MULTILINE)


# Numbers that --update writes.
TABLES = {ROOT / "docs/configuration.md": with_new_keys, ROOT / "docs/models.md": with_new_models,
          parallelism.PAGE: parallelism.with_new_plans}


def outdated_tables(program):
    for path, with_new in TABLES.items():
        if with_new(program, path.read_text()) != path.read_text():
            yield f"the tables in {path.relative_to(ROOT)} differ from what the program prints: run scripts/check_docs.py --update"


def undescribed(program):
    text = (ROOT / "docs/models.md").read_text()
    for name in re.findall(r"^(\w+) ", subprocess.run([program, "models"], capture_output=True, text=True).stdout, re.MULTILINE):
        if f"`{name}`" not in text:
            yield f"docs/models.md does not name the network {name}"
    text = CONFIGURATION.read_text()
    for name in re.findall(r"`(\w+)`", re.search(r"^\| `policy` \|([^|]+)", text, re.MULTILINE)[1]):
        if f"\n- `{name}`:" not in text:
            yield f"docs/configuration.md does not describe the policy {name}"


def missing_files():
    """The files that these pages and comments name, except patterns such as NAME.cpp."""
    example = "examples/braid_in_one_file.cpp"
    for path in re.findall(r"\b(?:\w+/)+\w+\.(?:h|cpp)\b", (ROOT / example).read_text()):
        if not (ROOT / path).exists():
            yield f"{example} names {path}, which does not exist"
    for page in ("CONTRIBUTING.md", "docs/references.md"):
        for path in re.findall(r"`([\w./]+/[\w.]+\.\w+)`", (ROOT / page).read_text()):
            if not re.search(r"[A-Z]{3}", path) and not (ROOT / path).exists() and not path.startswith("build/"):
                yield f"{page} names {path}, which does not exist"


def crowded_folders():
    sources = collections.Counter(path.parent for path in own_files("*") if path.suffix in (".h", ".cpp", ".cu", ".cuh"))
    for folder, count in sources.items():
        if count > 18:
            yield f"docs/architecture.md promises at most 18 sources in a folder, and {folder.relative_to(ROOT)} holds {count}"


def unknown_tests():
    """Tests are named as `FILE`: the beginning of a name, or some of it, up to a semicolon or the end of the cell."""
    for file, name in re.findall(r"`(tests/\S+_test\.\w+)`: ([^;|]+)", TESTING.read_text()):
        path = ROOT / file
        if not path.exists() or name.strip() not in path.read_text():
            yield f"docs/testing.md: {file} has no test '{name.strip()}'"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default=ROOT / "build/release/bin/braid", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    given = parser.parse_args()
    program = given.program.resolve()
    if given.update:
        for path, with_new in TABLES.items():
            path.write_text(with_new(program, path.read_text()))
    mistakes = [*broken_links(), *unlisted_documents(), *commands_without_a_path(), *rejected_commands(program),
                *outdated_code("README.md", "yaml", "configs"), *outdated_code("docs/custom-ops.md", "cpp", "examples/custom_op"),
                *broken_example(program), *outdated_tables(program), *outdated_quotations(program), *undescribed(program),
                *missing_files(), *crowded_folders(), *unknown_tests()]
    print("\n".join(mistakes) or "the documents agree with the program")
    sys.exit(bool(mistakes))


if __name__ == "__main__":
    main()
