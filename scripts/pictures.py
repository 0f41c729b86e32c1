#!/usr/bin/env python3
"""Draws the pictures of README.md and docs/scheduling.md anew: pictures.py PROGRAM. Needs Chromium.

They are photographs of the pages that 'braid plan', 'braid explain' and 'braid train' write with --html."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
BLOCK = ["explain", "googlenet", "--block", "inception3a", "--batch-size", "8", "--device", DOCS / "two-cores.json"]
NETWORK = ["plan", "googlenet", "--device", "h200"]
STEP = [DOCS.parent / "configs/lenet5_fashion_mnist.yaml", "--set", "streams=2", "--set", "width=1", "--set",
        "train.batch_size=256"]
PROFILE = ["profile", *STEP, "-o", "costs.json", "--runs", "20"]
TRAINING = ["train", *STEP, "-q", "--set", "costs=costs.json", "--set", "train.max_steps=40"]
TRAININGS = 10
PICTURES = {  # file: page, the parts of it that are shown, width, height and scale
    "googlenet-plan.png": ("network", "numbers,gantt", 1320, 690, 1),
    "plan-page.png": ("block", "", 1320, 2915, 0.75),
    "inception-graph.png": ("block", "graph", 1320, 700, 1),
    "inception-gantt.png": ("block", "gantt", 1320, 408, 1),
    "inception-memory.png": ("block", "memory", 1320, 534, 1),
    "planned-and-measured.png": ("training", "gantt", 1320, 524, 1),
}


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: pictures.py PROGRAM")
    if BROWSER is None:
        sys.exit("pictures: there is no Chromium")
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="braid-pictures-") as name:
        folder = pathlib.Path(name)

        def write(page, command):
            subprocess.run([program, *command, "--html", folder / f"{page}.html"], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)
            return (folder / f"{page}.html").read_text()

        write("network", NETWORK)
        write("block", BLOCK)
        subprocess.run([program, *PROFILE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        # Whatever else the machine does disturbs a step, so the least disturbed of several is shown.
        pages = [write("training", TRAINING) for _ in range(TRAININGS)]
        fastest = min(pages, key=lambda page: float(re.search(r'"measured_us":([0-9.e+]+)', page).group(1)))
        (folder / "training.html").write_text(fastest)
        for picture, (page, parts, width, height, scale) in PICTURES.items():
            query = f"?show={parts}" if parts else ""
            subprocess.run([BROWSER, "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=10000",
                            f"--window-size={width},{height}", f"--force-device-scale-factor={scale}",
                            f"--screenshot={DOCS / picture}",
                            f"--user-data-dir={folder / 'browser'}", f"file://{folder / page}.html{query}"],
                           check=True, stderr=subprocess.DEVNULL)
            print(f"docs/{picture}: {(DOCS / picture).stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
