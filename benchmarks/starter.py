#!/usr/bin/env python3
"""Trains on three sets of images with the configs that 'braid init' writes, and nothing edited.

    benchmarks/starter.py [--fonts FOLDER] [--icons FOLDER] [--check]

Handwritten digits are scikit-learn's, letters are the capitals of all fonts in a folder, and icons are a theme's, by category. Takes about
ten minutes on two cores. Installs scikit-learn and Pillow in build/pytorch. On Debian, fonts and icons are for example those of
oxygen-icon-theme, fonts-dejavu, fonts-freefont-ttf, fonts-lato, fonts-liberation, fonts-roboto-unhinted, fonts-texgyre and fonts-urw-base35.
"""
import json
import pathlib
import re
import string
import subprocess
import sys
import tempfile
import time

from program import overrides, python_with, report

FEWEST = 30  # icons of a category


def save(image, *path):
    file = pathlib.Path(*path).with_suffix(".png")
    file.parent.mkdir(parents=True, exist_ok=True)
    image.save(file)


def write(characters, font, folder):
    """A PNG file of each character that the font has, in a folder per character."""
    from PIL import Image, ImageDraw, ImageFont
    drawn = ImageFont.truetype(font, 40)
    for character in characters:
        if drawn.getmask(character).getbbox() is None:
            continue
        image = Image.new("L", (64, 64), 255)
        ImageDraw.Draw(image).text((32, 32), character, font=drawn, fill=0, anchor="mm")
        save(image, folder, character, font.stem)


def fonts_in(folder):
    return sorted(path for path in folder.rglob("*.*") if path.suffix in (".ttf", ".otf"))


def make(folder, fonts, icons):
    """Writes PNG files into digits/, letters/ and icons/, in a folder per class."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    for i, (pixels, digit) in enumerate(zip(digits.images, digits.target)):
        save(Image.fromarray((pixels * 15.9).astype("uint8")), folder, "digits", str(digit), f"{i:04}")
    for font in fonts_in(fonts):
        write(string.ascii_uppercase, font, folder / "letters")
    for category in sorted(path for path in icons.iterdir() if path.is_dir()):
        files = [path for path in sorted(category.glob("*.png")) if not path.is_symlink()]
        for path in files if len(files) >= FEWEST else []:
            save(Image.open(path), folder, "icons", category.name, path.stem)


def train(given, folder, name, settings={"output.root": "runs"}):
    """The accuracy of the first run in that root, on the validation set."""
    subprocess.run([given.braid, "train", f"{name}.yaml", "--quiet", *overrides(settings)], cwd=folder, check=True)
    return json.loads((folder / settings["output.root"] / f"{name}-1/report.json").read_text())["val"]["accuracy"]


def train_as_told(given, folder, name):
    said = subprocess.check_output([given.braid, "init", name], cwd=folder, text=True)
    config, promised = re.search(r": (.*), (about .*) on cpu", said).groups()
    begin = time.monotonic()
    accuracy = train(given, folder, name)
    seconds, classes = time.monotonic() - begin, [len(list(path.iterdir())) for path in (folder / name).iterdir()]
    return {"images": name, "count": sum(classes), "classes": len(classes), "largest": max(classes) / sum(classes), "config": config,
            "promised": promised, "seconds": seconds, "accuracy": accuracy}


def measured(given):
    given.braid = given.braid.resolve()
    with tempfile.TemporaryDirectory() as folder:
        python = python_with("scikit-learn", "pillow")
        subprocess.run([python, pathlib.Path(__file__).resolve(), "--make", folder, given.fonts, given.icons], check=True)
        return [train_as_told(given, pathlib.Path(folder), name) for name in ("digits", "letters", "icons")]


def table(rows):
    yield "| images | classes | `braid init` chose | and said | trained in | accuracy | always the largest class |\n" + "|---" * 7 + "|\n"
    for row in rows:
        yield (f"| {row['count']} {row['images']} | {row['classes']} | {row['config']} | {row['promised']} | {row['seconds'] / 60:.1f} minutes | "
               f"{100 * row['accuracy']:.1f} % | {100 * row['largest']:.1f} % |\n")


def add_options(parser):
    parser.add_argument("--fonts", type=pathlib.Path, default="/usr/share/fonts")
    parser.add_argument("--icons", type=pathlib.Path, default="/usr/share/icons/oxygen/base/64x64")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make(*map(pathlib.Path, sys.argv[2:]))
    else:
        report(__file__, __doc__, measured, table, add_options)
