#!/usr/bin/env python3
"""Times the loader next to torchvision's: images per second from JPEG files of 256×256 to batches of 224×224.

    benchmarks/loading.py [--images N] [--workers N ...] [--turns N] [--check]

Makes the images: smooth colours, texture and noise, about 25 KB each. Both sides shuffle, take random resized crops, flip,
normalise and make batches of 64, with the same number of workers: threads here, processes there. They take turns; the ratio is
the median over the turns, and the goal is 1. Nothing trains meanwhile: a device that is fast enough would see this rate.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from program import python_with, ratio_text, report


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


def measured(given):
    python = python_with("torch", "torchvision")  # runs this script again, with what makes images
    if sys.executable != str(python):
        os.execv(python, [python, *sys.argv])
    rows = []
    with tempfile.TemporaryDirectory(prefix="braid-loading-") as name:
        folder = pathlib.Path(name)
        make_images(folder, given.images)
        for workers in given.workers:
            rates = {"braid": [], "torchvision": []}
            for _ in range(given.turns):
                rates["braid"].append(braid_rate(given.braid.with_name("bench_loading"), folder, workers, given.images))
                rates["torchvision"].append(torchvision_rate(folder, workers, given.images))
            rows.append({"workers": workers, **rates})
    return rows


def table(rows):
    yield "| workers | Braid, images/s | torchvision, images/s | ratio (quartiles) |\n" + "|---" * 4 + "|\n"
    for row in rows:
        yield (f"| {row['workers']} | {statistics.median(row['braid']):.0f} | {statistics.median(row['torchvision']):.0f} | "
               f"{ratio_text(row['braid'], row['torchvision'])} |\n")


def add_options(parser):
    parser.add_argument("--images", type=int, default=6000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=3)


if __name__ == "__main__":
    report(__file__, __doc__, measured, table, add_options)
