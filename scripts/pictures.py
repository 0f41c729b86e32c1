#!/usr/bin/env python3
"""Draws the pictures of README.md, docs/scheduling.md, docs/parallel.md and docs/parallelism.md: pictures.py PROGRAM [PICTURE ...].

They are screenshots of the pages that 'braid plan', 'braid explain' and 'braid train' write with --html, and 'braid report', which need
Chromium; what 'braid plan' writes with --svg; or timelines of what it writes with --trace."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import parallelism

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
BLOCK = ["explain", DOCS.parent / "configs/googlenet_fashion_mnist.yaml", "--block", "inception4a", "--batch-size", "4", "--device",
         DOCS / "two-cores.json"]
NETWORK = ["plan", "pathnet_conv", "--device", "h200", "--set", "data.image_size=32", "--set", "data.classes=10"]
STEP = [DOCS.parent / "configs/lenet5_fashion_mnist.yaml", "--set", "streams=2", "--set", "intra_op_threads=1", "--set",
        "train.batch_size=256"]
PROFILE = ["profile", *STEP, "-o", "profile.json", "--runs", "20"]
TRAINING = ["train", *STEP, "-q", "--set", "profile=profile.json", "--set", "train.max_steps=40"]
TRAININGS = 10
EPOCHS = ["train", STEP[0], "-q", "--set", "train.epochs=3"]
RATES = ["0.05", "0.005"]
PICTURES = {  # file: page, the parts of it that are shown, width, height and scale
    "pathnet-plan.png": ("network", "gantt", 1320, 408, 1),
    "plan-page.png": ("block", "", 1320, 2915, 0.75),
    "inception-graph.png": ("block", "graph", 1320, 700, 1),
    "inception-gantt.png": ("block", "gantt", 1320, 408, 1),
    "inception-memory.png": ("block", "memory", 1320, 534, 1),
    "planned-and-measured.png": ("training", "gantt", 1320, 524, 1),
    "report.png": ("report", "", 1320, 2500, 0.75),
}
DRAWINGS = {  # file: what 'braid plan' draws it of
    "scaling.svg": ["vgg16", "--ranks", "512", "--cluster", "ethernet_25g", "--batch-size", "32"],
}


def main():
    known = [*PICTURES, *DRAWINGS, *parallelism.PICTURES]
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(known):
        sys.exit(f"usage: pictures.py PROGRAM [PICTURE ...], of {', '.join(known)}")
    chosen = sys.argv[2:] or known
    if BROWSER is None and set(chosen) & set(PICTURES):
        sys.exit("pictures: there is no Chromium")
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="braid-pictures-") as name:
        folder = pathlib.Path(name)

        def write(page, command):
            subprocess.run([program, *command, "--html", folder / f"{page}.html"], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)
            return (folder / f"{page}.html").read_text()

        for drawing in set(chosen) & set(DRAWINGS):
            subprocess.run([program, "plan", *DRAWINGS[drawing], "--svg", DOCS / drawing], check=True, stdout=subprocess.DEVNULL)
            print(f"docs/{drawing}")
        if timelines := set(chosen) & set(parallelism.PICTURES):
            made = parallelism.pictures(program)
            for timeline in timelines:
                (DOCS / timeline).write_text(made[timeline])
                print(f"docs/{timeline}")
        wanted = {picture: PICTURES[picture] for picture in PICTURES if picture in chosen}
        pages = {page for page, *_ in wanted.values()}
        if "network" in pages:
            write("network", NETWORK)
        if "block" in pages:
            write("block", BLOCK)
        if "training" in pages:
            subprocess.run([program, *PROFILE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            # Other programs disturb a step, so the least disturbed of several is shown.
            trainings = [write("training", TRAINING) for _ in range(TRAININGS)]
            fastest = min(trainings, key=lambda page: float(re.search(r'"measured_us":([0-9.e+]+)', page).group(1)))
            (folder / "training.html").write_text(fastest)
        if "report" in pages:
            for rate in RATES:
                subprocess.run([program, *EPOCHS, "--set", f"optimizer.lr={rate}", "--set", f"name=rate-{rate}"], cwd=folder, check=True)
            runs = [f"runs/rate-{rate}-1" for rate in RATES]
            subprocess.run([program, "report", *runs, "-o", "report.html"], cwd=folder, check=True)
        for picture, (page, parts, width, height, scale) in wanted.items():
            query = f"?show={parts}" if parts else ""
            subprocess.run([BROWSER, "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=10000",
                            f"--window-size={width},{height}", f"--force-device-scale-factor={scale}",
                            f"--screenshot={DOCS / picture}",
                            f"--user-data-dir={folder / 'browser'}", f"file://{folder / page}.html{query}"],
                           check=True, stderr=subprocess.DEVNULL)
            print(f"docs/{picture}: {(DOCS / picture).stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
