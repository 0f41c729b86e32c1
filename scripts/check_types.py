#!/usr/bin/env python3
"""Finds types of one qualified name in namespace braid that two files define: check_types.py [FOLDER].

Linked into one program, they break the one-definition rule, and no compiler or linker says so. File-local types belong in anonymous
namespaces. Separate programs (tests by folder, examples, benchmarks) may repeat each other's names, but not the library's."""
import collections
import pathlib
import re
import sys

LIBRARY = ("apps", "autograd", "braid", "core", "data", "models", "ops", "runtime", "scheduler", "train")
ENDINGS = (".h", ".cpp", ".cu", ".cuh")
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*',
                   re.DOTALL | re.MULTILINE)
# What opens a scope: a namespace, a type (its bases or underlying type may follow), or anything else.
SCOPE = re.compile(r"\bnamespace\s+(?P<space>[\w:]+\s*)?\{"
                   r"|\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?:\[\[.*?\]\]\s*|alignas\([^)]*\)\s*)?"
                   r"(?P<type>[\w:]+(?:<[^;{}()]*?>)?)(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?\{"
                   r"|(?P<open>\{)|(?P<close>\})")


def types(text):
    """The qualified names of the types that a source defines, but for those in functions and anonymous namespaces."""
    scopes, found = [], []
    for match in SCOPE.finditer(NOISE.sub(" ", text)):
        if match["close"]:
            scopes.pop()
        elif match["open"]:
            scopes.append(None)
        elif match["type"]:
            scopes.append(re.sub(r"\s+", " ", match["type"]))
            if None not in scopes:
                found.append("::".join(scopes))
        else:
            scopes.append(match["space"].strip() if match["space"] else None)
    if scopes:
        raise ValueError(f"{len(scopes)} scopes stay open")
    return found


def program(path):
    """The part of the repository whose files are linked together; the library's is empty."""
    return "" if path.parts[0] in LIBRARY else str(path if path.parts[0] in ("examples", "benchmarks") else path.parent)


def repeated(root):
    """(type, files) for every type of namespace braid that several files define."""
    files = collections.defaultdict(lambda: collections.defaultdict(list))  # by type, then by program
    for path in sorted(root.rglob("*")):
        path = path.relative_to(root)
        if path.suffix in ENDINGS and path.parts[0] in (*LIBRARY, "tests", "examples", "benchmarks"):
            for name in set(types((root / path).read_text())):
                if name.startswith("braid::"):
                    files[name][program(path)].append(str(path))
    for name, programs in sorted(files.items()):
        for where, own in programs.items():
            together = own if where == "" else programs.get("", []) + own
            if len(together) > 1:
                yield name, together


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/../..").resolve()
    found = list(repeated(root))
    for name, files in found:
        print(f"{name} is defined in {' and '.join(files)}")
    sys.exit(len(found) > 0)


if __name__ == "__main__":
    main()
