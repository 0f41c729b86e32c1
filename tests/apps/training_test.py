#!/usr/bin/env python3
"""braid train and eval from end to end: what they print, what they leave behind, how they exit.

Usage: training_test.py PATH_OF_BRAID"""

import fcntl
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import termios
import unittest
import xml.etree.ElementTree

from command import BRAID, LIMIT, CommandTest, png, wait_until


def limit_file_size(size):
    """The closest thing to a full disk that needs no privileges."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


class Training(CommandTest):
    def test_train_then_eval_agree(self):
        text = self.succeeds("train", self.config)
        self.assertIn("step 6/6", text)
        self.assertNotIn("\r", text)  # redrawing is for terminals
        self.assertRegex(text, r"\A(.*, )?lenet5, [\d,]+ parameters, f32 on cpu, synthetic: 96 images in 6 steps; results in runs/tiny-1\n")
        self.assertRegex(text, r"(?m)^epoch 2/2  train loss [\d.]+ acc [\d.]+ %  val loss [\d.]+ acc [\d.]+ %( \(best\))?  [\d.]+ s$")
        self.assertNotIn("top5", text.replace("-", ""))  # it says nothing about four classes
        self.assertTrue(text.endswith("results are in runs/tiny-1\n"), text)
        records = self.metrics("tiny-1")
        self.assertEqual([r["event"] for r in records], ["step"] * 3 + ["epoch"] + ["step"] * 3 + ["epoch"])
        self.assertEqual(sorted(p.name.split(".tfevents.")[0] for p in (self.runs / "tiny-1").iterdir()),
                         ["best.safetensors", "checkpoints", "config.yaml", "events.out", "metrics.csv", "metrics.jsonl", "model.safetensors",
                          "report.json"])
        expected = f"val loss {records[-1]['val_loss']:.4f}, accuracy {100 * records[-1]['val_accuracy']:.2f} %"
        checkpoint = "runs/tiny-1/model.safetensors"
        for arguments in (["runs/tiny-1"], [self.config, "--checkpoint", checkpoint]):
            self.assertIn(expected, self.succeeds("eval", *arguments))
        self.assertIn("model.safetensors for this config: expected the folder of a run, or --checkpoint FILE",
                      self.fails("eval", self.config))
        best = max(records[3], records[-1], key=lambda record: record["val_accuracy"])
        report = json.loads((self.runs / "tiny-1" / "report.json").read_text())
        self.assertEqual(report["best"], {"model": "best.safetensors", "step": best["step"]})
        self.assertEqual(report["val"]["loss"], records[-1]["val_loss"])
        expected = f"val loss {best['val_loss']:.4f}, accuracy {100 * best['val_accuracy']:.2f} %"
        self.assertIn(expected, self.braid("eval", "runs/tiny-1", "--checkpoint", "best").stdout)
        tested = {key: value for key, value in records[-1].items() if key.startswith("val_")}
        self.assertEqual(json.loads(self.braid("eval", "runs/tiny-1", "--json").stdout), {"name": "tiny", "images": 40, **tested})

    def test_many_classes_have_a_top5_accuracy(self):
        self.assertRegex(self.succeeds("train", self.config, "--set", "data.classes=11", "--set", "train.epochs=1"), r"val loss .* top-?5 ")

    def test_mixed_precision_trains_and_evaluates(self):
        quiet = self.braid("train", self.config, "-q")
        self.assertEqual((quiet.returncode, quiet.stdout, quiet.stderr), (0, "", ""))
        f32 = self.metrics("tiny-1")[-1]["val_loss"]
        for number, precision in enumerate(("f16", "tf32"), start=2):
            setting = f"precision={precision}"
            self.succeeds("train", self.config, "--set", setting, "--set", "streams=2", "--set", "intra_op_threads=1")
            run = f"tiny-{number}"
            self.assertIn(f"\nprecision: {precision}\n", (self.runs / run / "config.yaml").read_text())
            last = self.metrics(run)[-1]
            self.assertLess(abs(last["val_loss"] - f32), 0.1 * f32)
            self.assertIn(f"val loss {last['val_loss']:.4f}, ", self.braid("eval", f"runs/{run}").stdout)
            report = json.loads(self.braid("bench", self.config, "--set", setting, "--steps", 2, "--json").stdout)
            self.assertEqual(report["precision"], "f32" if precision == "tf32" else precision)  # a CPU has no tf32

    def test_a_generative_network_draws_samples_without_its_data(self):
        gan = self.folder / "gan.yaml"
        gan.write_text("name: gan\ndevice: cpu\nmodel: {name: dcgan, width: 0.125}\n"
                       "data: {name: synthetic, size: 32, val_size: 8, image_size: 8, channels: 3, classes: 1}\n"
                       "train: {epochs: 1, batch_size: 16}\noptimizer: {name: adam}\n")
        self.assertEqual(self.braid("train", gan, "-q").returncode, 0)
        pictures = []
        for seed, count in ((0, 9), (0, 9), (1, 9), (0, 8)):
            text = self.succeeds("sample", "runs/gan-1", "-o", "some.png", "--seed", seed, "--count", count)
            self.assertEqual(text, f"wrote some.png: {count} images by dcgan\n")
            pictures.append((self.folder / "some.png").read_bytes())
        self.assertEqual(pictures[0], pictures[1])
        self.assertEqual(len(set(pictures)), 3)
        self.assertEqual(self.braid("train", self.config, "-q").returncode, 0)
        self.assertEqual(self.fails("sample", "runs/tiny-1"),
                         "runs/tiny-1: the network 'lenet5' makes no images: expected a run of 'dcgan'")

    def test_closed_standard_output_does_not_reach_the_metrics(self):
        shell = ["sh", "-c", '"$0" train "$1" 1>&-', BRAID, str(self.config)]
        self.assertEqual(subprocess.run(shell, cwd=self.folder, timeout=LIMIT).returncode, 0)
        self.assertEqual(self.metrics("tiny-1")[0]["event"], "step")

    def test_a_lost_terminal_is_told_by_the_exit_status(self):
        master, terminal = os.openpty()
        process = subprocess.Popen([BRAID, "train", self.config, "--set", "train.epochs=1000000"], cwd=self.folder,
                                   stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(terminal, termios.TIOCSCTTY, 0))
        self.addCleanup(process.kill)
        os.close(terminal)
        text = b""
        while b"  step " not in text:
            text += os.read(master, 4096)
        os.close(master)  # the system sends SIGHUP, and nothing can be printed any more
        self.assertEqual(process.wait(timeout=LIMIT), 129)
        self.assertEqual(self.metrics("tiny-1")[-1]["event"], "interrupted")

    def test_a_picture_that_cannot_be_written_does_not_end_the_training(self):
        gone = self.folder / "gone"
        arguments = ["train", self.config, "--set", "train.epochs=20", "--set", "streams=2"]
        for option in ("--html", "--trace"):
            result = self.braid(*arguments, option, "/dev/full")
            self.assertEqual(result.returncode, 0, result)
            self.assertEqual(result.stderr, "braid: warning: /dev/full: cannot write: No space left on device; "
                                            "training continues\n")
            self.assertIn("step 60/60", result.stdout)
            gone.mkdir()
            runs = set(self.runs.iterdir())
            process, output = self.start_with_one_line("train", self.config, "--set", "train.epochs=1000000", "--set", "streams=2",
                                                       option, gone / "picture", stderr=subprocess.PIPE, text=True)
            wait_until(lambda: set(self.runs.iterdir()) != runs)  # it waits to print the first step
            gone.rmdir()
            for line in output:
                if "step 100/" in line:
                    break
            process.send_signal(signal.SIGINT)
            output.read()
            _, err = process.communicate(timeout=LIMIT)
            self.assertEqual((process.returncode, err), (130, f"braid: warning: {gone}/picture: cannot open: No such file "
                                                              "or directory; training continues\n"))
        result = self.braid("train", self.config, "--set", "train.epochs=1", "--html", "picture")
        self.assertIn("no step is shown", result.stderr)
        self.assertFalse((self.folder / "picture").exists())

    def test_a_full_disk_is_an_error(self):
        message = self.fails("train", self.config, "-q", preexec_fn=lambda: limit_file_size(4096))
        self.assertIn("runs/tiny-1/model.safetensors", message)
        self.assertIn("cannot write: File too large", message)
        self.assertEqual(sorted(p.name.split(".tfevents.")[0] for p in (self.runs / "tiny-1").iterdir()),
                         ["checkpoints", "config.yaml", "events.out", "metrics.csv", "metrics.jsonl"])
        self.assertEqual(list((self.runs / "tiny-1/checkpoints").iterdir()), [])

    def test_jobs_train_together_and_are_evaluated_each(self):
        result = self.jobs()
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("wide: epoch 1/1  train loss ", result.stdout)
        for job in ("small", "wide"):
            files = {file.name for file in (self.runs / "jobs-1" / job).iterdir()}
            self.assertLessEqual({"config.yaml", "metrics.jsonl", "model.safetensors"}, files)
        both = self.braid("eval", "runs/jobs-1").stdout.splitlines()
        self.assertEqual([line.split(": ")[0] for line in both], ["small", "wide"])
        lines = [json.loads(line) for line in self.braid("eval", "runs/jobs-1", "--json").stdout.splitlines()]
        self.assertEqual([line["name"] for line in lines], ["small", "wide"])
        alone = self.braid("eval", "runs/jobs-1/wide").stdout.strip()
        self.assertEqual(both[1], "wide: " + alone)

    def test_one_failed_job_fails_the_run_and_no_other_job(self):
        result = self.jobs("jobs.wide.optimizer.lr=1e30", "jobs.wide.train.epochs=2")
        self.assertEqual(result.returncode, 1, result)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("braid: error: job wide: [train] the loss is "), result.stderr)
        self.assertIn("small: epoch 2/2  train loss ", result.stdout)

    def test_a_network_of_layers_trains_predicts_and_is_exported(self):
        config = pathlib.Path(__file__).resolve().parents[2] / "configs/own_network.yaml"
        small = ("--set", "data.image_size=8", "--set", "data.size=12", "--set", "data.val_size=4", "--set", "train.batch_size=4")
        self.assertEqual(self.braid("train", config, *small, "--quiet").returncode, 0)
        (self.folder / "black.png").write_bytes(png(8, 8, (0, 0, 0)))
        for command in (("predict", "runs/own_network-1", "black.png"), ("export", "runs/own_network-1", "--onnx", "net.onnx"),
                        ("plan", config), ("bench", config, "--steps", "1"), ("summary", config)):
            with self.subTest(command):
                self.succeeds(*command)
        self.assertGreater((self.folder / "net.onnx").stat().st_size, 4 * 22970)

    def test_pathnet_runs_like_any_config(self):
        self.assertIn("speed-up by task A: ", self.succeeds("train", "paths.yaml"))
        run = self.runs / "paths-1"
        self.assertEqual(sorted(p.name for p in run.iterdir()),
                         ["checkpoints", "config.yaml", "genotypes.json", "metrics.jsonl", "paths.svg", "report.json", "winner"])
        self.assertRegex(self.succeeds("eval", "runs/paths-1"), r"^val loss .*, accuracy .* %, \d+ images\n$")
        self.assertIn("wrote winner.onnx: own network with the weights of runs/paths-1/winner/model.safetensors",
                      self.succeeds("export", "runs/paths-1", "--onnx", "winner.onnx"))
        self.write_images("images", 1, lambda _: png(16, 16, (200, 200, 200)))
        self.assertRegex(self.succeeds("predict", "runs/paths-1", "images/0.png"), r"^images/0.png: .* %, .* %\n$")
        self.assertEqual(self.succeeds("report", "runs/paths-1"), "wrote runs/paths-1/report.html\n")
        self.assertEqual(len(json.loads((run / "report.json").read_text())["seeds"]), 2)
        drawing = xml.etree.ElementTree.parse(run / "paths.svg").getroot()
        self.assertEqual(drawing.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertIn("seed 2", [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")])
        self.assertEqual(self.braid("train", "paths.yaml", "-q", "--set", "precision=f16").returncode, 0)
        self.assertIn("for 'braid train'; other", self.fails("bench", "paths.yaml"))

    def test_a_traced_training_gives_the_same_bits(self):
        for number, streams in enumerate(("auto", "2")):
            settings = ["-q", "--set", f"streams={streams}", "--set", "train.epochs=20", "--set", "intra_op_threads=1"]
            self.assertEqual(self.braid("train", self.config, *settings).returncode, 0)
            self.succeeds("train", self.config, *settings, "--trace", "run.trace")
            first, second = (self.runs / f"tiny-{2 * number + i}/model.safetensors" for i in (1, 2))
            self.assertEqual(first.read_bytes(), second.read_bytes())
            slices = self.trace("run.trace")
            self.assertEqual(list(slices), ["planned", "measured"])
            planned, measured = ({event["args"]["node"] for event in run} for run in slices.values())
            self.assertEqual(planned, measured)
            self.assertGreater(sum(event["dur"] for event in slices["measured"]), 0)

    def test_jobs_are_traced_together(self):
        both = ["train.epochs=10", "jobs.wide.train.epochs=10", "streams=2", "intra_op_threads=1", "jobs.small.steps_per_round=1",
                "jobs.wide.steps_per_round=1"]
        self.assertEqual(self.jobs(*both).returncode, 0)
        (self.runs / "jobs-1").rename(self.runs / "untraced")
        settings = [word for setting in both for word in ("--set", setting)]
        self.succeeds("train", "jobs.yaml", *settings, "--trace", "run.trace")
        convolutions = [event for event in self.trace("run.trace")["measured"] if event["args"]["layer"] == "conv1" and
                        event["args"]["phase"] == "forward" and event["name"].startswith("conv2d")]
        self.assertGreaterEqual(len(convolutions), 2)
        for job in ("small", "wide"):
            self.assertEqual((self.runs / "jobs-1" / job / "model.safetensors").read_bytes(),
                             (self.runs / "untraced" / job / "model.safetensors").read_bytes())

    def test_a_trace_that_cannot_be_is_said_to_be_none(self):
        result = self.braid("train", self.config, "-q", "--set", "train.epochs=1", "--trace", "run.trace")
        self.assertEqual(result.returncode, 0)
        self.assertIn("braid: warning: training finished before a plan was chosen", result.stderr)
        shutil.rmtree(self.runs)
        self.assertEqual(self.fails("train", self.config, "--trace", "no/such/file"),
                         "no/such/file: cannot open: No such file or directory")
        self.assertIn("--trace and --html expect", self.fails("train", "paths.yaml", "--trace", "run.trace"))
        self.assertFalse(self.runs.exists())

    def test_too_little_memory_is_an_error_wherever_it_runs_out(self):
        def limited(mib):
            return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))}

        needed = next((mib for mib in range(50, 2000, 50)
                       if self.braid("--version", **limited(mib)).returncode == 0), None)
        if needed is None:
            self.skipTest("a sanitizer maps more memory than a limit would leave")
        failures = 0
        for mib in range(needed, needed + 400, 20):
            with self.subTest(mib=mib):
                result = self.braid("train", self.config, "--quiet", "--set", "train.max_steps=1", **limited(mib))
                self.assertIn(result.returncode, (0, 1), result)
                if result.returncode == 1:
                    failures += 1
                    self.assertRegex(result.stderr, "^braid: error: [^\n]*(needs [0-9]+ MiB more|cannot start a thread)[^\n]*\n$")
        self.assertGreater(failures, 0)


if __name__ == "__main__":
    unittest.main()
