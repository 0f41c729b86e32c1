#!/usr/bin/env python3
"""Runs that are interrupted, killed and resumed through the command line, against runs that are not.

Usage: resume_test.py PATH_OF_BRAID"""

import signal
import subprocess
import unittest

from command import BRAID, LIMIT, CommandTest

STEPS = 120  # more lines than a small pipe holds, so that a run cannot end before it gets its signal
# Settings of a training of so many steps, three in an epoch.
FIXED = tuple(word for setting in ("intra_op_threads=1", "streams=2", f"train.epochs={STEPS // 3}", f"eval.every_n_epochs={STEPS // 3}",
                                   "train.log_interval=1") for word in ("--set", setting))


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

    def test_gradients_that_shards_keep_are_in_checkpoints(self):
        kept = (*FIXED, "--set", "checkpoint.every_n_steps=1", "--set", "parallel.virtual_ranks=2", "--set", "parallel.compression=top_k",
                "--set", "parallel.compression_ratio=0.1", "--set", "parallel.staleness=2")
        self.assertEqual(self.braid("train", "tiny.yaml", *kept).returncode, 0)
        status, _ = self.train_until(f"step 8/{STEPS}", signal.SIGKILL, "tiny.yaml", *kept)
        self.assertEqual(status, -signal.SIGKILL)
        for setting in ("virtual_ranks=4", "staleness=1", "compression=int8"):
            self.assertIn("holds gradients that shards kept by 'compression top_k, staleness 2, 2 shards'",
                          self.fails("train", "--resume", "runs/tiny-2", "--set", f"parallel.{setting}"))
        self.succeeds("train", "--resume", "runs/tiny-2")
        self.check_equal("tiny-2", "tiny-1")

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
