#!/usr/bin/env python3
"""Runs that are interrupted, killed and resumed through the command line, against runs that are not.

Usage: resume_test.py PATH_OF_BRAID"""

import json
import pathlib
import random
import signal
import subprocess
import unittest

from command import BRAID, LIMIT, CommandTest, png

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 120  # more lines than a small pipe holds, so that a run cannot end before it gets its signal


def for_steps(in_epoch):
    """Settings of a training of STEPS steps or a few more, with so many in an epoch."""
    epochs = -(-STEPS // in_epoch)
    settings = ("width=1", "streams=2", f"train.epochs={epochs}", f"eval.every_n_epochs={epochs}", "train.log_interval=1")
    return tuple(word for setting in settings for word in ("--set", setting))


FIXED = for_steps(3)


class Resume(CommandTest):
    def train_until(self, text, sent, *arguments):
        """Trains, and sends a signal once a line contains the text. Returns the exit status and the rest of the output."""
        process = subprocess.Popen([BRAID, "train", *map(str, arguments)], cwd=self.folder, bufsize=0,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pipesize=4096)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if text.encode() in line:
                process.send_signal(sent)
                break
        else:
            self.fail(f"no line contains '{text}'")
        output = process.stdout.read().decode()
        process.stdout.close()
        return process.wait(LIMIT), output

    def check_equal(self, resumed, whole):
        """Everything but times: the models, the metrics, and what `braid eval` says."""
        read = lambda run: (self.runs / run / "model.safetensors").read_bytes()
        self.assertEqual(read(resumed), read(whole))

        times = ("seconds", "images_per_second", "waiting_seconds")
        timeless = lambda run: [{key: value for key, value in record.items() if key not in times} for record in self.metrics(run)]
        self.assertEqual(timeless(resumed), timeless(whole))
        self.assertEqual(*(self.braid("eval", f"runs/{run}").stdout for run in (resumed, whole)))

    def test_an_interrupted_run_goes_on_where_it_was(self):
        self.assertEqual(self.braid("train", "tiny.yaml", *FIXED).returncode, 0)
        for number, (sent, step) in enumerate(((signal.SIGINT, 2), (signal.SIGHUP, 7)), start=2):
            status, output = self.train_until(f"step {step}/{STEPS}", sent, "tiny.yaml", *FIXED)
            self.assertEqual(status, 128 + sent, output)
            self.assertIn("the model is saved", output)
            self.assertIn("resumed after step ", self.succeeds("train", "--resume", f"runs/tiny-{number}"))
            self.check_equal(f"tiny-{number}", "tiny-1")
        self.succeeds("train", "--resume", "runs/tiny-2")  # finished: tests the model again and ends
        self.check_equal("tiny-2", "tiny-1")

    def test_a_network_of_layers_trains_goes_on_predicts_and_is_exported(self):
        config = ROOT / "configs/own_network.yaml"
        small = ("--set", "data.image_size=8", "--set", "data.size=12", "--set", "data.val_size=4", "--set", "train.batch_size=4", *FIXED)
        self.assertEqual(self.braid("train", config, *small, "--quiet").returncode, 0)
        status, output = self.train_until("epoch 3/", signal.SIGINT, config, *small)
        self.assertEqual(status, 128 + signal.SIGINT, output)
        self.assertEqual(self.braid("train", "--resume", "runs/own_network-2").returncode, 0)
        self.check_equal("own_network-2", "own_network-1")
        (self.folder / "black.png").write_bytes(png(8, 8, (0, 0, 0)))
        for command in (("predict", "runs/own_network-1", "black.png"), ("export", "runs/own_network-1", "--onnx", "net.onnx"),
                        ("plan", config), ("bench", config, "--steps", "1"), ("summary", config)):
            with self.subTest(command):
                self.succeeds(*command)
        self.assertGreater((self.folder / "net.onnx").stat().st_size, 4 * 22970)

    def test_a_killed_run_goes_on_from_its_last_checkpoint(self):
        often = (*FIXED, "--set", "checkpoint.every_n_steps=1")
        self.assertEqual(self.braid("train", "tiny.yaml", *often).returncode, 0)
        status, _ = self.train_until(f"step 8/{STEPS}", signal.SIGKILL, "tiny.yaml", *often)
        self.assertEqual(status, -signal.SIGKILL)
        self.succeeds("train", "--resume", "runs/tiny-2")
        self.check_equal("tiny-2", "tiny-1")

    def test_gradients_that_shards_keep_are_in_checkpoints(self):
        kept = (*FIXED, "--set", "checkpoint.every_n_steps=1", "--set", "parallel.shards=2", "--set", "parallel.compression=top_k",
                "--set", "parallel.compression_ratio=0.1", "--set", "parallel.staleness=2")
        self.assertEqual(self.braid("train", "tiny.yaml", *kept).returncode, 0)
        status, _ = self.train_until(f"step 8/{STEPS}", signal.SIGKILL, "tiny.yaml", *kept)
        self.assertEqual(status, -signal.SIGKILL)
        for setting in ("shards=4", "staleness=1", "compression=int8"):
            self.assertIn("holds gradients that shards kept by 'compression top_k, staleness 2, 2 shards'",
                          self.fails("train", "--resume", "runs/tiny-2", "--set", f"parallel.{setting}"))
        self.succeeds("train", "--resume", "runs/tiny-2")
        self.check_equal("tiny-2", "tiny-1")

    def own_data(self):
        """Images in folders, and the files of CIFAR-10: two classes, which differ in one colour."""
        draw = random.Random(1)
        for label, name in enumerate(("ja", "nein")):
            folder = self.folder / "photos" / name
            folder.mkdir(parents=True)
            for i in range(20):
                colour = [200 * label, draw.randrange(256), draw.randrange(256)]
                (folder / f"{i}.png").write_bytes(png(draw.randrange(14, 24), draw.randrange(14, 24), colour))
        archive = self.folder / "cifar"
        archive.mkdir()
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            images = [(i % 10, draw.randbytes(3072)) for i in range(10)]
            (archive / name).write_bytes(b"".join(bytes([label]) + pixels for label, pixels in images))
        return ("{name: image_folder, root: photos, image_size: 16, workers: 2, normalize: {compute: true}, "
                "augment: {random_resized_crop: true, flip: true, brightness: 0.2, random_erasing: 0.5, mixup: 0.2}}",
                "{name: cifar10, root: cifar, augment: {crop_padding: 4, flip: true, cutmix: 1}}")

    def test_own_images_from_files_to_predictions(self):
        for number, data in enumerate(self.own_data()):
            name = f"own{number}"
            (self.folder / f"{name}.yaml").write_text(
                f"name: {name}\ndevice: cpu\nmodel: {{name: lenet5}}\ndata: {data}\n"
                "optimizer: {lr: 0.03}\ntrain: {batch_size: 8, drop_last: true, log_interval: 1, ema_decay: 0.9, accumulate: 2}\n")
            in_epoch, steps = ((4, 120), (6, 120))[number]
            settings = for_steps(in_epoch)
            self.assertEqual(self.braid("train", f"{name}.yaml", "-q", *settings).returncode, 0)
            status, output = self.train_until(f"step 6/{steps}", signal.SIGTERM, f"{name}.yaml", *settings)
            self.assertEqual(status, 128 + signal.SIGTERM, output)
            self.succeeds("train", "--resume", f"runs/{name}-2", "-q")
            self.check_equal(f"{name}-2", f"{name}-1")
            image = "photos/ja/1.png"  # not CIFAR's size either
            for arguments in (("predict", f"runs/{name}-2", image, "--json"),
                              ("export", f"runs/{name}-2", "--onnx", f"{name}.onnx"),
                              ("report", f"runs/{name}-1", f"runs/{name}-2")):
                self.succeeds(*arguments)
        prediction, = json.loads(self.braid("predict", "runs/own0-2", "photos/nein/3.png", "--json").stdout)
        self.assertEqual(prediction["classes"][0]["class"], "nein")

    def test_a_start_that_is_refused_changes_nothing(self):
        for config in ("tiny.yaml", "jobs.yaml", "paths.yaml"):
            self.assertEqual(self.braid("train", config, "-q").returncode, 0)
        files = lambda: {path: path.read_bytes() for path in self.runs.rglob("*") if path.is_file()}
        before = files()
        for arguments in (("--resume", "runs/tiny-1", "--set", "train.batch_size=5"),
                          ("--resume", "runs/jobs-1", "--set", "train.batch_size=5"),
                          ("--resume", "runs/paths-1", "--set", "evolution.population=3"),
                          ("tiny.yaml", "--set", "model.weights=none.safetensors")):
            with self.subTest(arguments):
                result = self.braid("train", *arguments)
                self.assertNotEqual(result.returncode, 0)
                self.assertEqual(files(), before)
        for run in ("tiny-1", "jobs-1", "paths-1"):
            self.assertEqual(self.braid("train", "-q", "--resume", f"runs/{run}").returncode, 0)

    def test_an_evolution_goes_on_after_a_signal_or_a_kill(self):
        settings = ("--set", "evolution.threshold=1", "--set", "optimizer.lr=0.000001", "--set", "evolution.max_generations=100")
        self.assertEqual(self.braid("train", "paths.yaml", "-q", *settings).returncode, 0)
        for run, sent, expected in (("paths-2", signal.SIGKILL, -signal.SIGKILL), ("paths-3", signal.SIGTERM, 128 + signal.SIGTERM)):
            status, output = self.train_until("task B: generation 20", sent, "paths.yaml", *settings)
            self.assertEqual(status, expected, output)
            self.assertIn("resumed after generation ", self.succeeds("train", "--resume", f"runs/{run}"))
            for name in ("metrics.jsonl", "genotypes.json"):
                self.assertEqual((self.runs / "paths-1" / name).read_text(), (self.runs / run / name).read_text())

    def test_mistakes_are_explained(self):
        for arguments, message in (
                (("--resume", "runs/none"), "runs/none: there is no config.yaml: expected the folder of a run"),
                (("tiny.yaml", "--resume", "runs/tiny-1"), "expected only one of CONFIG or --resume RUN")):
            result = self.braid("train", *arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertTrue(result.stderr.startswith(f"braid: error: {message}\n"), result.stderr)


if __name__ == "__main__":
    unittest.main()
