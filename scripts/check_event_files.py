#!/usr/bin/env python3
"""Compares what TensorBoard reads in the folder of a run with the metrics there: check_event_files.py [PROGRAM]

The run is killed in the middle and resumed. Installs tensorboard in build/tensorboard; exits with 77 if PyPI cannot be reached.
"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

from check_exports import ROOT, enter_environment

CONFIG = """\
name: tiny
device: cpu
threads: 1
model: {name: mlp}
data: {name: synthetic, size: 64, val_size: 16, image_size: 8, channels: 1, classes: 4}
train: {epochs: 100, batch_size: 8, log_interval: 1}
checkpoint: {every_n_steps: 5}
"""
TAGS = {  # TensorBoard's tags, and the metrics' names
    "train/loss": "loss", "train/accuracy": "accuracy", "train/learning_rate": "lr",
    "train/images_per_second": "images_per_second", "epoch/loss": "loss", "epoch/accuracy": "accuracy", "val/loss": "val_loss", "val/accuracy": "val_accuracy",
    "val/top5_accuracy": "val_top5"}


def killed_and_resumed(program, folder):
    """The folder of the run."""
    (folder / "tiny.yaml").write_text(CONFIG)
    run = folder / "runs/tiny-1"
    # A pipe holds one page of lines and no more, so that the training cannot end before it is read.
    training = subprocess.Popen([program, "train", "tiny.yaml"], cwd=folder, stdout=subprocess.PIPE, pipesize=4096)
    for _ in range(150):
        assert training.stdout.readline(), "the training ended early"
    training.kill()
    training.communicate()
    subprocess.run([program, "train", "--resume", run, "-q"], cwd=folder, check=True)
    return run


def check(program):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    with tempfile.TemporaryDirectory() as folder:
        run = killed_and_resumed(program, pathlib.Path(folder))
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        rows = list(csv.DictReader((run / "metrics.csv").open()))
        files = sorted(run.glob("events.out.tfevents.*"))
        events = EventAccumulator(str(run), size_guidance={"scalars": 0}).Reload()
    assert len(files) == 2, files
    assert set(events.Tags()["scalars"]) == set(TAGS), events.Tags()
    assert [(int(row["step"]), row["event"]) for row in rows] == [(r["step"], r["event"]) for r in records]
    assert len(records) == 900, len(records)  # 100 epochs of 8 steps
    for tag, key in TAGS.items():
        wanted = [(r["step"], r[key]) for r in records if key in r and (r["event"] == "step") == tag.startswith("train")]
        found = [(event.step, event.value) for event in events.Scalars(tag)]
        assert [step for step, _ in found] == [step for step, _ in wanted], (tag, found, wanted)
        for (step, value), (_, expected) in zip(found, wanted):
            assert abs(value - expected) <= 1e-6 * abs(expected), (tag, step, value, expected)
        print(f"ok     tensorboard  {tag:24} {len(found)} values")


def main():
    enter_environment(ROOT / "build/tensorboard", ["tensorboard", "setuptools<81"])
    check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/bin/braid").resolve())


if __name__ == "__main__":
    main()
