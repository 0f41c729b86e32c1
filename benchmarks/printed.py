#!/usr/bin/env python3
"""Keeps what commands of the documents print: trainings of the quick start and of a user's images, and `braid bench` of several models at once,
and of loading, logging and saving.

    benchmarks/printed.py [--only PLACE …] [--check]

Needs Fashion-MNIST, and some minutes of a machine that runs nothing else. Installs Pillow in build/pytorch, to draw images. Writes
benchmarks/results/printed.json, and the output below the commands in the documents; `…` stands for lines left out. Places of one page need those
before them.
"""
import json
import pathlib
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time

from program import ROOT, python_with, report

# For each place in the documents the commands, the lines of each that are shown first and last, and the seconds until Ctrl-C.
LENET, SHAPES = "runs/lenet5_fashion_mnist", "runs/shapes-1"
TRANSCRIPTS = {
    "train": [("braid train configs/lenet5_fashion_mnist.yaml --set train.epochs=1", 3, 2)],
    "eval": [(f"braid eval {LENET}-1", 9, 0), (f"braid report {LENET}-1", 9, 0)],
    "resume": [("braid train configs/lenet5_fashion_mnist.yaml", 0, 3, 1.5), (f"braid train --resume {LENET}-2", 2, 2)],
    "init": [("braid init shapes", 9, 0)],
    "data": [("braid data shapes.yaml --sheet sheet.png", 17, 0)],
    "shapes": [("braid train shapes.yaml", 1, 2, 20)],
    "shapes, resumed": [(f"braid train --resume {SHAPES}", 2, 3)],
    "predict": [(f"braid eval {SHAPES}", 9, 0), (f"braid predict {SHAPES} shapes/star/007.png shapes/circle/010.png", 9, 0),
                (f"braid predict {SHAPES} shapes/star/007.png --top 2 --json", 9, 0)],
    "concurrent": [("braid bench configs/concurrent.yaml", 99, 0)],
    "io": [("braid bench configs/googlenet_fashion_mnist.yaml --io --steps 20 --set train.batch_size=32", 99, 0)]}


def draw_shapes(folder):
    """150 images of each of four shapes, and a damaged file."""
    from PIL import Image, ImageDraw
    draw = random.Random(1)
    star = [(0.5, 0), (0.62, 0.36), (1, 0.38), (0.7, 0.6), (0.8, 1), (0.5, 0.76), (0.2, 1), (0.3, 0.6), (0, 0.38), (0.38, 0.36)]
    corners = {"circle": None, "square": [(0, 0), (1, 0), (1, 1), (0, 1)], "triangle": [(0.5, 0), (1, 1), (0, 1)], "star": star}
    for name, points in corners.items():
        (folder / name).mkdir(parents=True)
        for i in range(150):
            size = (draw.randint(60, 100), draw.randint(60, 100))
            image = Image.new("RGB", size, tuple(draw.randrange(256) for _ in range(3)))
            side, color = draw.randint(40, 58), tuple(draw.randrange(256) for _ in range(3))
            x, y = (draw.randint(0, extent - side) for extent in size)
            if points:
                ImageDraw.Draw(image).polygon([(x + side * u, y + side * v) for u, v in points], fill=color)
            else:
                ImageDraw.Draw(image).ellipse([x, y, x + side, y + side], fill=color)
            image.save(folder / name / f"{i:03}.png")
    (folder / "star/broken.png").write_bytes(b"not an image")


def printed(braid, folder, command, first, last, seconds=None):
    """The lines of a terminal in which the command was typed."""
    words = [braid, *shlex.split(command)[1:]]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if seconds:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
    lines = process.communicate()[0].splitlines()
    if process.returncode not in (0, 128 + signal.SIGINT):
        sys.exit("\n".join([command, *lines]))
    if len(lines) > first + last:
        lines[first:len(lines) - last] = ["…"]
    return [f"$ {command}", *lines]


def measured(given):
    braid = given.braid.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "configs").symlink_to(ROOT / "configs")
        subprocess.run([python_with("Pillow"), __file__, "--draw", folder / "shapes"], check=True)
        rows = []
        for place, commands in TRANSCRIPTS.items():
            if place in given.only:
                rows.append({"place": place, "output": [line for command in commands for line in printed(braid, folder, *command)]})
                print(place, file=sys.stderr)
    results = ROOT / "benchmarks/results/printed.json"
    kept = [row for row in json.loads(results.read_text())["rows"] if row["place"] not in given.only]
    return sorted(rows + kept, key=lambda row: list(TRANSCRIPTS).index(row["place"]))


def block(place):
    return lambda rows: (f"    {line}".rstrip() + "\n" for row in rows if row["place"] == place for line in row["output"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--draw"]:
        sys.exit(draw_shapes(pathlib.Path(sys.argv[2])))
    report(__file__, __doc__, measured, {f"printed, {place}": block(place) for place in TRANSCRIPTS},
           lambda parser: parser.add_argument("--only", nargs="+", default=list(TRANSCRIPTS), metavar="PLACE"))
