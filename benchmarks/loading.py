#!/usr/bin/env python3
"""Times the loader next to torchvision's: images per second from JPEG files of 256×256 to batches of 224×224.

    python3 -m venv .venv && .venv/bin/pip install torch torchvision
    .venv/bin/python benchmarks/loading.py [--images N] [--workers N ...] [--turns N] [--json FILE]

Makes the images: smooth colours, texture and noise, about 25 KB each. Both sides shuffle, take random resized crops, flip,
normalise and make batches of 64, with the same number of workers: threads here, processes there. They take turns; the ratio is
the median over the turns, and the goal is 1. Nothing trains meanwhile: a device that is fast enough would see this rate.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from program import ROOT


def make_images(folder, count):
    import numpy
    from PIL import Image
    random = numpy.random.default_rng(1)

    def noise(size):
        return numpy.asarray(Image.fromarray(random.integers(0, 256, (size, size, 3), dtype=numpy.uint8)).resize((256, 256)),
                             dtype=numpy.float32)
    for i in range(count):
        path = folder / "ab"[i % 2] / f"{i}.jpg"
        path.parent.mkdir(exist_ok=True)
        pixels = 0.8 * noise(12) + 0.2 * noise(96) + random.normal(0, 4, (256, 256, 3))
        Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)).save(path, quality=90)


def torchvision_rate(folder, workers, images):
    import torch
    from torchvision import datasets, transforms
    torch.set_num_threads(1)
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
             transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    loader = torch.utils.data.DataLoader(datasets.ImageFolder(folder, transforms.Compose(steps)), batch_size=64, shuffle=True,
                                         num_workers=workers)
    done, start = 0, time.perf_counter()
    while done < images:
        for batch, _ in loader:
            done += len(batch)
            if done >= images:
                break
    return done / (time.perf_counter() - start)


def braid_rate(program, folder, workers, images):
    run = subprocess.run([program, folder, str(workers), str(images)], capture_output=True, text=True, check=True)
    result = json.loads(run.stdout)
    return result["images"] / result["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/bench_loading")
    parser.add_argument("--json", type=pathlib.Path, help="write the rates to this file")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="braid-loading-") as name:
        folder = pathlib.Path(name)
        make_images(folder, arguments.images)
        for workers in arguments.workers:
            rates = {"braid": [], "torchvision": []}
            for _ in range(arguments.turns):
                rates["braid"].append(braid_rate(arguments.program, folder, workers, arguments.images))
                rates["torchvision"].append(torchvision_rate(folder, workers, arguments.images))
            ratio = statistics.median(a / b for a, b in zip(rates["braid"], rates["torchvision"], strict=True))
            medians = {side: statistics.median(values) for side, values in rates.items()}
            print(f"{workers} workers: {medians['braid']:.0f} images/s, torchvision {medians['torchvision']:.0f}: {ratio:.2f}x",
                  flush=True)
            results.append({"workers": workers, "ratio": ratio, **rates})
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
