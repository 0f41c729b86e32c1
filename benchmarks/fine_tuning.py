#!/usr/bin/env python3
"""Trains on a few images of numerals, from scratch and from a network that knows letters.

    benchmarks/fine_tuning.py [--fonts FOLDER] [--check]

Letters are the capitals of all fonts in a folder. Numerals to train on are those of every sixtieth font, and the others' are the validation set.
Takes some minutes. Installs Pillow in build/pytorch.
"""
import pathlib
import statistics
import string
import subprocess
import sys
import tempfile

import starter
from program import python_with, report

EVERY, SEEDS = 60, (1, 2, 3)
LETTERS = {"output.root": "runs", "train.epochs": 8}
NUMERALS = {"model.width": 0.25, "data.image_size": 32}  # as 'braid init' chooses for the letters
FINE_TUNED = {"model.weights": "runs/letters-1/best.safetensors"}


def make(folder, fonts):
    for i, font in enumerate(starter.fonts_in(fonts)):
        starter.write(string.ascii_uppercase, font, folder / "letters")
        starter.write(string.digits, font, folder / "numerals" / ("val" if i % EVERY else "train"))


def measured(given):
    given.braid = given.braid.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([python_with("pillow"), pathlib.Path(__file__).resolve(), "--make", folder, given.fonts], check=True)
        for images in ("letters", "numerals"):
            subprocess.run([given.braid, "init", images], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        letters = starter.train(given, folder, "letters", LETTERS)
        count = {part: len(list((folder / "numerals" / part).rglob("*.png"))) for part in ("train", "val")}

        def numerals(seed, settings={}):
            root = tempfile.mkdtemp(dir=folder)
            return starter.train(given, folder, "numerals", {**NUMERALS, **settings, "seed": seed, "output.root": root})

        return [{"seed": seed, "letters": letters, **count, "scratch": numerals(seed), "fine_tuned": numerals(seed, FINE_TUNED)} for seed in SEEDS]


def table(rows):
    yield "| images to train on | validated with | from scratch | from the network of letters |\n" + "|---" * 4 + "|\n"
    yield f"| {rows[0]['train']} numerals | {rows[0]['val']} of other fonts |"
    for way in ("scratch", "fine_tuned"):
        accuracies = [100 * row[way] for row in rows]
        yield f" {statistics.mean(accuracies):.1f} % ({min(accuracies):.1f}–{max(accuracies):.1f}) |"
    yield "\n"


def add_options(parser):
    parser.add_argument("--fonts", type=pathlib.Path, default="/usr/share/fonts")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make(*map(pathlib.Path, sys.argv[2:]))
    else:
        report(__file__, __doc__, measured, table, add_options)
