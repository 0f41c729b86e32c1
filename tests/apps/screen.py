"""A small model of a terminal: what a person sees of the bytes that a program writes."""

import re

TOKEN = re.compile(r"\x1b\[(\??)(\d*)([A-Za-z])|(.)", re.DOTALL)


class Row:
    def __init__(self, text="", continues=False):
        self.text = text
        self.continues = continues  # the line above, which was too long


class Screen:
    """Supports what Braid uses, and raises at anything else. `reflows` says whether lines are wrapped again when the width
    changes, as most terminals do; else they are cut off, as xterm does. `on_frame` is called after each drawing."""

    def __init__(self, columns, height, reflows=True, on_frame=lambda: None):
        self.columns, self.height, self.reflows, self.on_frame = columns, height, reflows, on_frame
        self.rows = [Row()]  # those that have scrolled away, too
        self.x = self.y = self.top = 0
        self.wraps, self.pending = True, ""

    def lines(self):
        """Texts as they were written, however many rows they take."""
        lines = []
        for row in self.rows:
            if row.continues:
                lines[-1] += row.text
            else:
                lines.append(row.text)
        return lines

    def resize(self, columns):
        self.columns = columns
        if not self.reflows:
            for row in self.rows:
                row.text = row.text[:columns]
            self.x = min(self.x, columns - 1)
            return
        first = self.y  # row of the cursor's line
        while self.rows[first].continues:
            first -= 1
        place = sum(not row.continues for row in self.rows[:first])
        offset = sum(len(row.text) for row in self.rows[first : self.y]) + self.x
        lines, self.rows = self.lines(), []
        for number, line in enumerate(lines):
            if number == place:
                self.y, self.x = len(self.rows) + offset // columns, offset % columns
            for start in range(0, max(len(line), 1), columns):
                self.rows.append(Row(line[start : start + columns], continues=start > 0))
        while len(self.rows) <= self.y:
            self.rows.append(Row(continues=True))
        self.top = max(0, len(self.rows) - self.height)

    def feed(self, text):
        text = self.pending + text
        cut = re.search(r"\x1b(\[[?\d]*)?$", text)  # an escape sequence of which only the beginning has come
        self.pending = cut.group() if cut else ""
        for private, number, command, character in TOKEN.findall(text[: len(text) - len(self.pending)]):
            if character:
                self.put(character)
            else:
                self.obey(private + command, number)

    def put(self, character):
        if character == "\r":
            self.x = 0
        elif character == "\n":
            self.down(continues=False)
        elif character.isprintable():
            if self.x == self.columns:
                self.x = self.columns - 1
                if self.wraps:
                    self.down(continues=True)
                    self.x = 0
            row = self.rows[self.y]
            row.text = row.text.ljust(self.x)[: self.x] + character + row.text[self.x + 1 :]
            self.x += 1
        else:
            raise ValueError(f"unexpected character {character!r}")

    def down(self, continues):
        self.y += 1
        if self.y == len(self.rows):
            self.rows.append(Row())
        self.rows[self.y].continues = continues
        self.top = max(self.top, self.y - self.height + 1)

    def obey(self, command, number):
        if command == "A":
            self.y = max(self.top, self.y - int(number or 1))
        elif command in "JK" and not number:
            if command == "J":
                del self.rows[self.y + 1 :]
            self.rows[self.y].text = self.rows[self.y].text[: self.x]
        elif command in ("?l", "?h") and number == "7":
            self.wraps = command == "?h"
            if self.wraps:
                self.on_frame()
        else:
            raise ValueError(f"unexpected escape sequence {command!r} {number!r}")
