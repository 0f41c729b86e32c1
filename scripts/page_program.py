#!/usr/bin/env python3
"""Makes a C++ program of a page: all its ```cpp blocks, in their order.

  scripts/page_program.py docs/cpp/first-model.md first-model.cpp

The compiler names the lines of the page.
"""

import pathlib
import sys


def program(page: pathlib.Path) -> str:
    lines, inside = [], False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            inside = line == "```cpp"
            if inside:
                lines.append(f'#line {number + 1} "{page.name}"')
        elif inside:
            lines.append(line)
    if not lines:
        sys.exit(f"{page}: has no ```cpp block")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    pathlib.Path(sys.argv[2]).write_text(program(pathlib.Path(sys.argv[1])), encoding="utf-8")
