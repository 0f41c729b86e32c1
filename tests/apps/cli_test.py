#!/usr/bin/env python3
"""The braid command from end to end: what it prints, what it leaves behind, and how it exits.

Usage: cli_test.py PATH_OF_BRAID"""

import fcntl
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
import xml.etree.ElementTree
import zlib

BRAID = sys.argv.pop(1) if len(sys.argv) > 1 else "braid"
CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"
LIMIT = 300  # seconds for a command that hangs, not for one that is slow

TINY = f"""\
name: tiny
device: cpu
threads: {min(2, len(os.sched_getaffinity(0)))}
model: {{name: lenet5}}
data:
  name: synthetic
  size: 96
  test_size: 40
  image_size: 16
  channels: 1
  classes: 4
train:
  epochs: 2
  batch_size: 32
  log_interval: 1
eval: {{batch_size: 16}}
optimizer: {{lr: 0.05}}
"""

JOBS = TINY.replace("model: {name: lenet5}\n", "").replace("name: tiny", "name: jobs") + """\
jobs:
  - {name: small, model: {name: lenet5}}
  - {name: wide, seed: 2, model: {name: lenet5, width: 2}, train: {epochs: 1}}
"""


PATHNET = """\
name: paths
model: {name: pathnet_linear, layers: 2, modules: 4, active: 2, units: 6}
data: {name: synthetic, size: 80, image_size: 8, channels: 1, classes: 4}
train: {batch_size: 8}
optimizer: {lr: 0.02}
evolution: {task_a: [0, 1], task_b: [2, 3], seeds: 2, population: 8, batches: 5, max_generations: 30}
"""


def png(height, width, colour, bits=8):
    """A PNG file of one colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = b"\0" + b"".join(value.to_bytes(bits // 8, "big") for value in colour) * width
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(row * height)) + chunk(b"IEND", b""))


class CommandLine(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="braid-cli-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.config = self.folder / "tiny.yaml"
        self.config.write_text(TINY)
        self.runs = self.folder / "runs"

    def braid(self, *arguments, **options):
        return subprocess.run([BRAID, *map(str, arguments)], cwd=self.folder, text=True, timeout=LIMIT,
                              capture_output=True, **options)

    def fails(self, *arguments, **options):
        """Runs a command that must fail with one line on standard error; returns what it says."""
        result = self.braid(*arguments, **options)
        self.assertEqual(result.returncode, 1, result)
        self.assertTrue(result.stderr.startswith("braid: error: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr.removeprefix("braid: error: ").rstrip("\n")

    def narrow(self, text):
        self.assertLessEqual(max(map(len, text.splitlines())), 80, text)

    def metrics(self, run):
        return [json.loads(line) for line in (self.runs / run / "metrics.jsonl").read_text().splitlines()]

    def test_train_then_eval_agree(self):
        result = self.braid("train", self.config)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("step 6/6", result.stdout)
        self.assertNotIn("\r", result.stdout)  # redrawing is for terminals
        self.assertTrue(result.stdout.endswith("results are in runs/tiny-1\n"), result.stdout)
        records = self.metrics("tiny-1")
        self.assertEqual([r["event"] for r in records], ["step"] * 3 + ["epoch"] + ["step"] * 3 + ["epoch"])
        self.assertEqual(sorted(p.name.split(".tfevents.")[0] for p in (self.runs / "tiny-1").iterdir()),
                         ["checkpoints", "config.yaml", "events.out", "metrics.csv", "metrics.jsonl", "model.safetensors"])
        expected = f"test loss {records[-1]['test_loss']:.4f}, accuracy {100 * records[-1]['test_accuracy']:.2f} %"
        checkpoint = "runs/tiny-1/model.safetensors"
        for arguments in (["runs/tiny-1"], [self.config, "--checkpoint", checkpoint]):
            result = self.braid("eval", *arguments)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn(expected, result.stdout)
        tested = {key: value for key, value in records[-1].items() if key.startswith("test_")}
        self.assertEqual(json.loads(self.braid("eval", "runs/tiny-1", "--json").stdout), {"name": "tiny", "images": 40, **tested})

    def test_mixed_precision_trains_and_evaluates(self):
        self.assertEqual(self.braid("train", self.config, "-q").returncode, 0)
        f32 = self.metrics("tiny-1")[-1]["test_loss"]
        for number, precision in enumerate(("bf16", "f16", "tf32"), start=2):
            setting = f"precision={precision}"
            result = self.braid("train", self.config, "--set", setting, "--set", "streams=2", "--set", "width=1")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            run = f"tiny-{number}"
            self.assertIn(f"\nprecision: {precision}\n", (self.runs / run / "config.yaml").read_text())
            last = self.metrics(run)[-1]
            self.assertLess(abs(last["test_loss"] - f32), 0.1 * f32)
            self.assertIn(f"test loss {last['test_loss']:.4f}, ", self.braid("eval", f"runs/{run}").stdout)
            report = json.loads(self.braid("bench", self.config, "--set", setting, "--steps", 2, "--json").stdout)
            self.assertEqual(report["precision"], "f32" if precision == "tf32" else precision)  # a CPU has no tf32
        self.assertEqual(self.fails("train", self.config, "--set", "precision=fp8").split(" (")[0],
                         "--set precision=fp8: expected one of auto, f32, tf32, bf16, f16, got 'fp8'")

    def test_two_runs_with_one_seed_are_equal(self):
        for _ in range(2):
            self.assertEqual(self.braid("train", self.config, "--set", "streams=2", "--set", "width=1").returncode, 0)
        self.assertEqual((self.runs / "tiny-1/model.safetensors").read_bytes(), (self.runs / "tiny-2/model.safetensors").read_bytes())

    def test_quiet_prints_nothing(self):
        result = self.braid("train", self.config, "--quiet")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assertEqual(self.metrics("tiny-1")[-1]["step"], 6)

    def test_overrides(self):
        result = self.braid("train", self.config, "--set", "train.epochs=1", "--set", "name=other")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(self.metrics("other-1")[-1]["step"], 3)
        self.assertEqual(self.fails("train", self.config, "--set", "train.lr=1"),
                         "--set train.lr=1: unknown key (did you mean 'optimizer.lr'?)")

    def test_the_config_that_is_printed_is_that_of_the_run(self):
        for name, text in (("tiny", TINY), ("jobs", JOBS), ("paths", PATHNET)):
            self.config.write_text(text)
            printed = self.braid("train", self.config, "--print-config", "--set", "seed=3").stdout
            self.assertIn("\nseed: 3\n", printed)
            self.assertFalse(self.runs.exists())
            self.config.write_text(printed)
            self.assertEqual(self.braid("train", self.config, "--print-config").stdout, printed)
        self.config.write_text(TINY)
        printed = self.braid("train", self.config, "--print-config").stdout
        self.assertEqual(self.braid("train", self.config, "-q").returncode, 0)
        self.assertEqual((self.runs / "tiny-1" / "config.yaml").read_text(), printed)

    def test_what_configs_may_say_is_a_schema_or_tables(self):
        self.assertEqual(json.loads(self.braid("config", "schema").stdout)["title"], "Braid config")
        self.assertIn("| `train.batch_size` | integer ≥ 1 | 64 | images in a step |\n", self.braid("config", "table").stdout)
        self.assertEqual(self.misused("config", "x"), "what: expected schema or table, got 'x'")

    def test_config_mistakes_name_file_line_and_column(self):
        self.config.write_text(TINY.replace("batch_size: 32", "batch_sze: 32"))
        for command in ("train", "bench", "eval"):
            self.assertEqual(self.fails(command, "tiny.yaml"),
                             "tiny.yaml:14:3: train.batch_sze: unknown key (did you mean 'batch_size'?)")
        self.assertEqual(self.fails("train", "none.yaml"),
                         "none.yaml: cannot read the config: No such file or directory")
        self.assertFalse(self.runs.exists())

    def misused(self, *arguments, command=None):
        """Runs an invalid command line; returns its message, without the pointer to the help."""
        result = self.braid(*arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
        error, help = result.stderr.splitlines()
        self.assertTrue(error.startswith("braid: error: "), error)
        self.assertEqual(help, f"See 'braid {command or arguments[0]} --help'." if command != "" else "See 'braid --help'.")
        return error.removeprefix("braid: error: ")

    def test_a_command_that_is_missing_or_wrong_is_named_with_the_nearest(self):
        self.assertTrue(self.misused(command="").startswith("expected a command: init, train, eval, "))
        self.assertTrue(self.misused("trian", "c.yaml", "--set", "a=1", command="").startswith(
            "there is no command 'trian' (did you mean 'train'?); there are init, train, eval, "))
        self.assertIn("(did you mean 'train'?)", self.misused("TRAIN", command=""))
        self.assertTrue(self.misused("fly", command="").startswith("there is no command 'fly'; there are "))
        self.assertEqual(self.misused("--versoin", command=""),
                         "there is no option '--versoin' (did you mean '--version'?)")
        self.assertEqual(self.misused("--quiet", "train", "tiny.yaml", command=""),
                         "there is no option '--quiet' before the command; options come after it")

    def test_an_argument_without_a_place_is_named(self):
        self.assertEqual(self.misused("train", "tiny.yaml", "--set", "seed=1", "a=2", "b=3"),
                         "unexpected arguments 'a=2' 'b=3'; repeat --set for each override: --set a=2")
        self.assertEqual(self.misused("eval", "tiny.yaml", "one", "two"), "unexpected arguments 'one' 'two'")
        self.assertEqual(self.misused("devices", "cuda"), "unexpected argument 'cuda'")
        self.assertEqual(self.misused("train", "tiny.yaml", "--quite"),
                         "there is no option '--quite' (did you mean '--quiet'?)")
        self.assertEqual(self.misused("train", "tiny.yaml", "---"), "there is no option '---'")
        self.assertEqual(self.misused("train", "tiny.yaml", "--steps", "3"),
                         "there is no option '--steps' here, only for 'braid bench'")
        self.assertFalse(self.runs.exists())

    def test_an_option_that_is_a_key_of_the_config_is_translated(self):
        for option, override in (("--learning-rate", "optimizer.lr"), ("--epochs=3", "train.epochs"),
                                 ("--optimizer", "optimizer.name"), ("--device", "device"),
                                 ("--seed", "seed")):
            self.assertEqual(self.misused("train", "tiny.yaml", option),
                             f"there is no option '{option.split('=')[0]}'; to change the config: --set {override}=VALUE")

    def test_options_say_what_they_expect(self):
        self.assertEqual(self.misused("train"), "expected a CONFIG or --resume RUN")
        self.assertTrue(self.misused("profile", "tiny.yaml").startswith("expected --output FILE: "))
        self.assertEqual(self.misused("train", "tiny.yaml", "--set"), "--set expects a value: --set KEY=VALUE")
        self.assertEqual(self.misused("train", "tiny.yaml", "--quiet=1"), "--quiet takes no value")
        self.assertEqual(self.misused("plan", "tiny.yaml", "--html", ""), "--html: expected a value, got ''")
        self.assertEqual(self.misused("bench", "tiny.yaml", "--steps", "1", "--steps", "2"),
                         "--steps was given 2 times; expected it once")
        for wrong in ("0", "-1", "x", "1.5", "0x10", "010", "1000001"):
            self.assertEqual(self.misused("bench", "tiny.yaml", "--steps", wrong),
                             f"--steps: expected an integer from 1 to 1000000, got '{wrong}'")
        self.assertEqual(self.misused("plan", "tiny.yaml", "--scale-launch", "nan"),
                         "--scale-launch: expected a number from 0 to 1000, got 'nan'")
        self.assertEqual(self.misused("bench", "tiny.yaml", "--json", "--serve"), "--json excludes --serve")

    def test_version_and_help(self):
        self.assertRegex(self.braid("--version").stdout, r"^braid \d+\.\d+\.\d+\n$")
        overview = self.braid("--help").stdout
        commands = re.findall(r"(?m)^  (\w+)  ", overview.split("\nCommands:\n")[1].split("\n\n")[0])
        self.assertGreater(len(commands), 5)
        for arguments in [[]] + [[command] for command in commands]:
            result = self.braid(*arguments, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn(" ".join(["Usage: braid", *arguments]), result.stdout)
            self.assertRegex(result.stdout, r"\n\nExample:\n(  braid ([^\n]+ \\\n    )?[^\n]+\n)+$")
            self.narrow(result.stdout)

    def test_exit_statuses_are_documented(self):
        text = self.braid("--help").stdout.split("\nExit status:\n")[1].split("\n\n")[0]
        documented = {status: " ".join(meaning.split()) for status, meaning in
                      re.findall(r"^  (\S.*?)  +((?:.|\n   )+)$", text, re.MULTILINE)}
        self.assertEqual(list(documented), ["0", "1", "2", "128 + N"])
        self.assertEqual(self.braid("--version").returncode, 0)
        self.assertEqual(self.braid("train", "none.yaml").returncode, 1)
        self.assertEqual(self.braid("trian").returncode, 2)
        process = self.train_for_ever(self.config)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT)
        self.assertIn(f": {process.returncode} after Ctrl-C", documented["128 + N"])
        man = self.braid("completion", "man").stdout.split(".SH EXIT STATUS\n")[1].replace("\\-", "-")
        self.assertEqual(man, "".join(f".TP\n.B {status}\n{meaning}.\n" for status, meaning in documented.items()))

    def test_models_and_datasets_are_listed(self):
        for kind, some in (("models", "resnet18"), ("datasets", "synthetic")):
            listed = json.loads(self.braid(kind, "--json").stdout)
            self.assertIn(some, [item["name"] for item in listed])
            text = self.braid(kind).stdout
            self.narrow(text)
            for item, line in zip(listed, text.splitlines(), strict=True):
                self.assertEqual(line.split(maxsplit=1), [item["name"], item["description"]])
        models = [item["name"] for item in json.loads(self.braid("models", "--json").stdout)]
        self.assertIn("expected one of " + ", ".join(models), self.fails("train", self.config, "--set", "model.name=x"))

    def own_images(self):
        """A config of two classes of plain images in different sizes, one of which is damaged."""
        for number, name in enumerate(("été", "winter")):
            folder = self.folder / "images" / name
            folder.mkdir(parents=True)
            for i in range(10):
                (folder / f"{i}.png").write_bytes(png(12 + i, 20, [0, 51, 255 * number]))
        (folder / "3.png").write_bytes(png(13, 13, [0, 13107, 65535], bits=16))
        (folder / "damaged.jpg").write_bytes(b"nothing")
        config = self.folder / "own.yaml"
        config.write_text("""\
name: own
device: cpu
model: {name: lenet5}
data:
  {name: image_folder, root: images, image_size: 16, max_bad: 1, normalize: {compute: true},
   augment: {random_resized_crop: true, brightness: 0.2, random_erasing: 0.2, mixup: 0.2, cutmix: 1}}
train: {epochs: 2, batch_size: 8}
""")
        return config

    def test_own_images_are_described_and_shown(self):
        config = self.own_images()
        result = self.braid("data", config, "--sheet", "sheet.png")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("image_folder, 2 classes, batches of images [16,16,3]", result.stdout)
        self.assertRegex(result.stdout, r"\nwinter +9 +2\nété +8 +2\nall +17 +4\n")
        self.assertRegex(result.stdout, "1 image cannot be read:\n    images/winter/damaged.jpg: not a PNG or JPEG image")
        self.assertIn("1 image of 16 bits per channel: the upper 8 are used", result.stdout)
        sheet = (self.folder / "sheet.png").read_bytes()
        self.assertTrue(sheet.startswith(b"\x89PNG\r\n"))
        width, height = struct.unpack(">II", sheet[16:24])
        self.assertEqual((width, height), (8 + 8 * (112 + 8), 8 + 3 * (112 + 14 + 8)))  # 17 images in rows of eight
        report = json.loads(self.braid("data", config, "--json").stdout)
        self.assertEqual((report["name"], report["classes"]), ("own", ["winter", "été"]))
        for part in (report["training"], report["test"]):
            read = part["images"] - len(part["unreadable"])
            self.assertEqual(sum(part["sizes"].values()), read)
            self.assertEqual(part["mean"][:2], [0, 0.2])
            self.assertEqual(part["std"][:2], [0, 0])
            self.assertAlmostEqual(part["mean"][2], part["std"][2] ** 2 + part["mean"][2] ** 2)  # all 0 or 1
        self.assertEqual(report["training"]["sixteen_bits"] + report["test"]["sixteen_bits"], 1)

    def test_own_images_train_with_computed_normalisation(self):
        config = self.own_images()
        result = self.braid("train", config)
        self.assertEqual((result.returncode, result.stderr), (0, "braid: warning: 1 image of image_folder cannot be read, and others "
                         "took its place; the first: images/winter/damaged.jpg: not a PNG or JPEG image\n"))
        used = (self.runs / "own-1" / "config.yaml").read_text()
        report = json.loads(self.braid("data", config, "--json").stdout)["training"]
        mean = [float(x) for x in re.search(r"mean: \[(.*)\]", used)[1].split(", ")]
        self.assertEqual(mean, report["mean"])
        self.assertIn("compute: false", used)
        for run in (["runs/own-1"], [config, "--checkpoint", "runs/own-1/model.safetensors"]):
            self.assertIn(f"{self.metrics('own-1')[-1]['test_loss']:.4f}", self.braid("eval", *run).stdout)
        self.assertIn("cannot be read, more than data.max_bad = 0: images/winter/damaged.jpg",
                      self.fails("train", config, "--set", "data.max_bad=0"))

    def test_init_writes_a_config_that_trains(self):
        self.own_images()
        result = self.braid("init", "images/")
        self.assertEqual((result.returncode, result.stdout), (0, "wrote images.yaml: train with braid train images.yaml\n"))
        text = (self.folder / "images.yaml").read_text()
        self.assertIn("# 17 training images and 4 test images of 2 classes: winter, été\n", text)
        self.assertIn("image_size: 32", text)
        result = self.braid("train", "images.yaml", "-q", "--set", "train.epochs=1", "--set", "model.width=0.125")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.runs / "images-1/model.safetensors").exists())
        self.assertEqual(self.fails("init", "images"), "images.yaml: exists already: choose another name with -o")
        self.assertEqual(self.fails("init", "none"), "none: cannot read the folder: No such file or directory")
        (self.folder / "my: photos #1").mkdir()
        shutil.copytree(self.folder / "images", self.folder / "my: photos #1", dirs_exist_ok=True)
        self.assertEqual(self.braid("init", "my: photos #1", "-o", "odd.yaml").returncode, 0)
        self.assertIn('name: "my__photos__1"', self.braid("train", "odd.yaml", "--print-config").stdout)

    def test_predictions_are_those_of_the_test(self):
        for part in ("train", "test"):
            for number, name in enumerate(("été", "winter")):
                folder = self.folder / "images" / part / name
                folder.mkdir(parents=True)
                for i in range(12):  # half of the images say nothing about their class
                    colour = [255 * number if i % 2 else 128, 20 * i, 255 - 20 * i]
                    (folder / f"{i}.png").write_bytes(png(12 + i, 20, colour))
        config = self.folder / "own.yaml"
        config.write_text("name: own\ndevice: cpu\nmodel: {name: lenet5}\ntrain: {epochs: 3, batch_size: 8}\n"
                          "data: {name: image_folder, root: images, image_size: 16}\n")
        self.assertEqual(self.braid("train", config, "-q").returncode, 0)
        accuracy = float(re.search(r"accuracy ([\d.]+) %", self.braid("eval", "runs/own-1").stdout)[1])
        (self.folder / "images").rename(self.folder / "moved")  # the data set is not needed
        files = sorted(str(path.relative_to(self.folder)) for path in (self.folder / "moved/test").rglob("*.png"))
        result = self.braid("predict", "runs/own-1", *files, "--json", "--top", 2)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        predictions = json.loads(result.stdout)
        self.assertEqual([entry["image"] for entry in predictions], files)
        right = sum(entry["classes"][0]["class"] == entry["image"].split("/")[2] for entry in predictions)
        self.assertAlmostEqual(100 * right / len(files), accuracy, places=2)
        for entry in predictions:
            first, second = entry["classes"]
            self.assertEqual({first["class"], second["class"]}, {"winter", "été"})
            self.assertGreaterEqual(first["probability"], second["probability"])
            self.assertAlmostEqual(first["probability"] + second["probability"], 1)
        top = predictions[0]["classes"][0]
        self.assertEqual(self.braid("predict", "runs/own-1", files[0], "--top", 1).stdout,
                         f"{files[0]}: {top['class']} {100 * top['probability']:.2f} %\n")

        (self.folder / "damaged.jpg").write_bytes(b"nothing")
        result = self.braid("predict", "runs/own-1", files[0], "damaged.jpg", "none.png")
        self.assertEqual((result.returncode, len(result.stdout.splitlines())), (1, 1))
        self.assertEqual(result.stderr.splitlines(),
                         ["braid: error: damaged.jpg: not a PNG or JPEG image",
                          "braid: error: none.png: cannot read the image: No such file or directory"])

    def test_a_folder_of_one_class_is_an_error(self):
        config = self.own_images()
        shutil.rmtree(self.folder / "images" / "winter")
        for command in ("data", "train"):
            self.assertEqual(self.fails(command, config), "images: expected at least two classes, got only 'été'; each "
                             "class has a folder, or a label in a list")

    def test_lost_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([BRAID, "devices"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
        self.assertEqual((result.returncode, result.stderr), (1, "braid: error: cannot write to standard output\n"))

    def test_closed_standard_output_does_not_reach_the_metrics(self):
        shell = ["sh", "-c", '"$0" train "$1" 1>&-', BRAID, str(self.config)]
        self.assertEqual(subprocess.run(shell, cwd=self.folder, timeout=LIMIT).returncode, 0)
        self.assertEqual(self.metrics("tiny-1")[0]["event"], "step")

    def test_bash_completes_commands_and_options(self):
        script = self.folder / "completion"
        script.write_text(self.braid("completion", "bash").stdout)

        def complete(*words):
            line = " ".join(f"'{word}'" for word in words)
            return subprocess.run(["bash", "-c", f". {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _braid; "
                                   'printf "%s\\n" "${COMPREPLY[@]}"'], stdout=subprocess.PIPE, text=True,
                                  check=True).stdout.split()

        self.assertEqual(complete("braid", "pre"), ["predict"])
        self.assertLessEqual({"train", "eval", "export", "report"}, set(complete("braid", "")))
        self.assertEqual(complete("braid", "train", "--res"), ["--resume"])
        self.assertEqual(complete("braid", "train", "config"), [])  # files, by default

    def test_zsh_and_man_know_every_option(self):
        zsh, man = (self.braid("completion", kind).stdout for kind in ("zsh", "man"))
        for command in re.findall(r"^  (\w+) ", self.braid("--help").stdout.partition("Commands:\n")[2].partition("\n\n")[0],
                                  re.MULTILINE):
            options = re.findall(r"^  (?:-\w, )?(--[\w-]+)", self.braid(command, "--help").stdout, re.MULTILINE)
            self.assertIn("--help", options)
            self.assertIn(f"    '{command}:", zsh)
            section = man.partition(f'.SS "braid {command}')[2].partition(".SS ")[0]
            for option in options:
                self.assertIn(f"'{option}[", zsh)
                self.assertIn(option.replace("-", "\\-"), section)
        if shutil.which("zsh"):
            subprocess.run(["zsh", "-n"], input=zsh, text=True, check=True)
        if shutil.which("groff"):
            result = subprocess.run(["groff", "-Kutf8", "-man", "-Tutf8", "-ww"], input=man, text=True, capture_output=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.misused("completion", "fish").split(": ", 1)[1], "expected bash, zsh or man, got 'fish'")

    def test_devices(self):
        result = self.braid("devices")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"(?m)^cpu: .+, (1 core|\d+ cores), \d+ MiB memory, ")
        self.assertRegex(result.stdout, r"(?m)^cuda")
        self.assertIn("known to 'braid plan --device': p100, v100, rtx2080ti, a100, h100, h200", result.stdout)
        self.assertEqual(json.loads(self.braid("devices", "--json", "h200").stdout)["name"], "NVIDIA H200")

    def test_an_unusable_device_says_why(self):
        devices = self.braid("devices").stdout
        if "cuda: not available" not in devices:
            self.skipTest("this machine has a CUDA device")
        self.assertIn("[cuda:3]", self.fails("train", self.config, "--set", "device=cuda:3"))

    def train_for_ever(self, *arguments, until="step 5/", **options):
        """A training that is under way."""
        process = subprocess.Popen([BRAID, "train", *map(str, arguments), "--set", "train.epochs=1000000"],
                                   cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if until in line:
                return process
        self.fail(process.communicate()[1])

    def test_interrupt_saves_what_there_is(self):
        for number, sent in enumerate((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), start=1):
            process = self.train_for_ever(self.config)
            process.send_signal(sent)
            out, err = process.communicate(timeout=LIMIT)
            self.assertEqual((process.returncode, err), (128 + sent, ""))
            self.assertEqual(out.count("interrupted after step"), 1)
            records = self.metrics(f"tiny-{number}")
            self.assertEqual(records[-1]["event"], "interrupted")
            self.assertGreaterEqual(records[-1]["step"], 5)
            self.assertEqual(self.braid("eval", f"runs/tiny-{number}").returncode, 0)

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

    def test_interrupted_jobs_say_so_once(self):
        config = self.folder / "jobs.yaml"
        config.write_text(JOBS.replace(", train: {epochs: 1}", ""))
        process = self.train_for_ever(config, until="wide: epoch 1/1000000: ")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual((process.returncode, err), (143, ""))
        for job in ("small", "wide"):
            self.assertEqual(out.count(f"{job}: interrupted after step "), 1, out)
            last = (self.runs / "jobs-1" / job / "metrics.jsonl").read_text().splitlines()[-1]
            self.assertEqual(json.loads(last)["event"], "interrupted")
        self.assertEqual(self.braid("eval", "runs/jobs-1").returncode, 0)

    def test_pathnet_is_interrupted_by_a_signal(self):
        config = self.folder / "paths.yaml"
        config.write_text(PATHNET)
        process = subprocess.Popen([BRAID, "train", config, "--set", "evolution.seeds=1000", "--set",
                                    "evolution.threshold=1"], cwd=self.folder, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 143)
        self.assertIn("seeds finished: ", out)
        self.assertEqual(self.metrics("paths-1")[-1]["event"], "interrupted")

    def test_under_nohup_a_closed_terminal_does_not_end_the_training(self):
        process = self.train_for_ever(self.config, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        for line in process.stdout:  # it goes on
            if "step 50/" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 143)

    def test_what_a_kill_leaves_goes_at_the_next_start(self):
        # Saving all the time: many kills come in the middle of it.
        settings = ["--set", "data.size=8", "--set", "data.test_size=1", "--set", "train.batch_size=8"]
        for number in range(6):
            process = self.train_for_ever(self.config, *settings, until=f"epoch {5 + number}/")
            process.kill()
            process.communicate()
            run = self.runs / f"tiny-{number + 1}"
            self.assertLessEqual({path.parent for path in self.runs.glob("*/*.tmp*")}, {run})
            (run / "model.safetensors.tmp1").write_text("half")
        stranger = self.runs / "tiny-1" / "notes.tmp"
        stranger.write_text("mine")
        self.assertEqual(self.braid("train", self.config, "-q").returncode, 0)
        self.assertEqual(list(self.runs.glob("*/*.tmp*")), [stranger])
        self.assertEqual(self.braid("eval", "runs/tiny-1").returncode, 0)

    def test_a_picture_that_cannot_be_written_does_not_end_the_training(self):
        gone = self.folder / "gone"
        arguments = ["train", self.config, "--set", "train.epochs=20", "--set", "streams=2"]
        for option in ("--html", "--trace"):
            result = self.braid(*arguments, option, "/dev/full")
            self.assertEqual(result.returncode, 0, result)
            self.assertEqual(result.stderr, "braid: warning: /dev/full: cannot write: No space left on device; "
                                            "training continues\n")
            self.assertIn("step 60/60", result.stdout)

            def limit_file_size():  # a full disk: the trained model fits, the picture does not
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, 1 << 15))

            small = ["--set", "model.width=0.1"]
            result = self.braid(*arguments, *small, option, "picture", preexec_fn=limit_file_size)
            self.assertEqual(result.returncode, 0, result)
            self.assertEqual(result.stderr, "braid: warning: picture: cannot write: File too large; training continues\n")
            self.assertFalse((self.folder / "picture").exists())

            gone.mkdir()
            process = self.train_for_ever(self.config, "--set", "streams=2", option, gone / "picture", until="results in")
            gone.rmdir()
            for line in process.stdout:
                if "step 100/" in line:
                    break
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=LIMIT)
            self.assertEqual((process.returncode, err), (130, f"braid: warning: {gone}/picture: cannot open: No such file "
                                                              "or directory; training continues\n"))
        result = self.braid("train", self.config, "--set", "train.epochs=1", "--html", "picture")
        self.assertIn("no step is shown", result.stderr)
        self.assertFalse((self.folder / "picture").exists())

    def test_a_config_may_come_through_a_pipe_of_the_shell_only(self):
        shell = ["bash", "-c", 'cat "$1" | "$0" train /dev/stdin -q && "$0" train <(cat "$1") -q', BRAID, self.config]
        self.assertEqual(subprocess.run(shell, cwd=self.folder, timeout=LIMIT).returncode, 0)
        self.assertEqual(len(list(self.runs.iterdir())), 2)
        os.mkfifo(self.folder / "pipe")
        for command in (["train", "pipe"], ["train", self.config, "--set", "costs=pipe"],
                        ["plan", self.config, "--costs", "pipe"], ["eval", self.config, "--checkpoint", "pipe"]):
            self.assertRegex(self.fails(*command), "^pipe: cannot read the [a-z]+: expected a file, this is a named pipe$")

    def test_the_folder_of_a_run_is_no_config(self):
        self.assertEqual(self.braid("train", self.config, "-q").returncode, 0)
        self.assertEqual(self.fails("train", "runs/tiny-1"),
                         "runs/tiny-1: expected a config file, this is the folder of a run: its config is "
                         "runs/tiny-1/config.yaml, and 'braid eval runs/tiny-1' evaluates its model")
        self.assertEqual(self.fails("train", "runs"), "runs: cannot read the config: expected a file, this is a folder")

    def test_a_home_folder_is_not_called_tilde(self):
        home = self.folder / "home"
        environment = {**os.environ, "HOME": str(home)}
        result = self.braid("train", self.config, "-q", "--set", "output.root=~/runs", env=environment)
        self.assertEqual(result.returncode, 0, result)
        self.assertTrue((home / "runs/tiny-1/model.safetensors").exists())
        self.assertFalse((self.folder / "~").exists())

    def test_one_of_a_thing_has_no_s(self):
        once = ["--set", "train.max_steps=1", "--set", "data.test_size=1"]
        out = self.braid("train", self.config, *once).stdout
        self.assertRegex(out, r"\(\d+ parameters\) in f32 on cpu, synthetic, 1 step; ")
        self.assertRegex(out, r"top-5 \d+\.\d+ %, 1 image; ")
        self.assertIn("small: done after 1 step; ", self.jobs(*once[1::2]).stdout)

    def test_more_threads_than_cores_are_worth_a_warning(self):
        cores = len(os.sched_getaffinity(0))
        on = f"{cores} core" + ("s" if cores > 1 else "")
        threads, workers = ["--set", f"threads={cores + 1}"], ["--set", f"data.workers={cores + 2}"]
        once = ["train", self.config, "--set", "train.max_steps=1"]
        self.assertEqual(self.braid(*once, "--set", f"threads={cores}", "--set", f"data.workers={cores}").stderr, "")
        for arguments in (threads, workers, threads + workers):
            result = self.braid(*once, *arguments)
            self.assertEqual(result.returncode, 0)
            warnings = [line for line in result.stderr.splitlines() if line.startswith("braid: warning: ")]
            self.assertEqual(len(warnings), len(arguments) // 2)
            self.assertEqual("data.workers asks for" in warnings[-1], arguments != threads)
            self.assertEqual(f" threads asks for {cores + 1} threads on {on}" in warnings[0], arguments != workers)
            self.assertEqual(self.braid(*once, *arguments, "-q").stderr, "")
        self.assertIn(f"{cores + 1} threads on {on}", self.braid("eval", "runs/tiny-1", *threads).stderr)
        self.assertIn(f"{cores + 1} threads on {on}", self.braid("bench", self.config, "--steps", "1", *threads).stderr)
        (self.folder / "jobs.yaml").write_text(JOBS)
        self.assertEqual(self.braid("train", "jobs.yaml", "--set", "train.max_steps=1", *workers).stderr.count("\n"), 1)

    def test_damaged_data_names_the_file(self):
        data = self.folder / "data"
        data.mkdir()
        (data / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03 this is no image")
        (data / "train-labels-idx1-ubyte").write_bytes(b"")
        config = CONFIGS / "lenet5_fashion_mnist.yaml"
        message = self.fails("train", config, "--set", f"data.root={data}", "--set", f"output.root={self.runs}")
        self.assertIn(f"{data}/train-images-idx3-ubyte: byte ", message)
        self.assertIn("data.root", self.fails("train", config, "--set", f"data.root={self.folder}/none"))
        self.assertFalse(self.runs.exists())

    def test_damaged_checkpoint_names_the_file(self):
        self.assertEqual(self.braid("train", self.config, "-q", "--set", "train.epochs=1").returncode, 0)
        model = self.runs / "tiny-1/model.safetensors"
        content = bytearray(model.read_bytes())
        content[len(content) // 2] ^= 1
        model.write_bytes(content)
        self.assertEqual(self.fails("eval", "runs/tiny-1"),
                         "runs/tiny-1/model.safetensors: damaged: the checksum does not match")
        self.assertIn("model.safetensors for this config: expected the folder of a run, or --checkpoint FILE",
                      self.fails("eval", self.config))
        model.unlink()
        self.assertEqual(self.fails("eval", "runs/tiny-1"),
                         "runs/tiny-1/model.safetensors: cannot read the checkpoint: No such file or directory")

    def test_a_run_and_a_bare_model_become_onnx_files(self):
        self.assertEqual(self.braid("train", self.config, "-q", "--set", "train.epochs=1").returncode, 0)
        trained, new = self.folder / "trained.onnx", self.folder / "new.onnx"
        self.assertEqual(self.braid("export", "runs/tiny-1", "--onnx", trained).stdout,
                         f"wrote {trained}: lenet5 with the weights of runs/tiny-1/model.safetensors\n")
        self.assertEqual(self.braid("export", self.config, "--onnx", new).stdout,
                         f"wrote {new}: lenet5 with its initial weights\n")
        self.assertEqual(len(trained.read_bytes()), len(new.read_bytes()))
        self.assertNotEqual(trained.read_bytes(), new.read_bytes())
        again = self.folder / "again.onnx"
        checkpoint = self.runs / "tiny-1/model.safetensors"
        self.braid("export", self.config, "--onnx", again, "--checkpoint", checkpoint)
        self.assertEqual(again.read_bytes(), trained.read_bytes())
        self.assertIn("no-folder", self.fails("export", self.config, "--onnx", self.folder / "no-folder/x.onnx"))
        self.assertEqual(self.misused("export", self.config), "expected --onnx FILE or --torchvision FILE")

    def test_a_run_starts_from_the_weights_of_another(self):
        self.assertEqual(self.braid("train", self.config, "-q").returncode, 0)
        weights = self.folder / "weights.safetensors"
        self.assertEqual(self.braid("export", "runs/tiny-1", "--torchvision", weights).returncode, 0)
        tuned = self.braid("train", self.config, "--set", f"model.weights={weights}", "--set", "optimizer.lr=1e-12")
        self.assertIn(f"starts from the weights in {weights}\n", tuned.stdout)
        losses = [self.metrics(f"tiny-{run}")[-1]["test_loss"] for run in (1, 2)]
        self.assertAlmostEqual(*losses, places=5)
        other = self.fails("train", self.config, "--set", f"model.weights={weights}", "--set", "model.width=2")
        self.assertIn("weights.safetensors: tensor 'conv1.weight': expected f32", other)

    def test_unwritable_runs_folder_says_why(self):
        self.runs.write_text("a file")
        self.assertEqual(self.fails("train", self.config), "runs: cannot make the folder for runs: Not a directory")

    def test_read_only_runs_folder_says_why(self):
        nobody = 65534
        self.runs.mkdir(mode=0o555)
        self.folder.chmod(0o755)
        options = {"user": nobody} if os.geteuid() == 0 else {}  # root may write anywhere
        try:
            message = self.fails("train", self.config, **options)
        except PermissionError:
            self.skipTest("the command is out of reach for other users")
        self.assertEqual(message, "runs/tiny-1: cannot make the run's folder: Permission denied")

    def test_a_full_disk_is_an_error(self):
        def limit_file_size():  # the closest thing to a full disk that needs no privileges
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        message = self.fails("train", self.config, "-q", preexec_fn=limit_file_size)
        self.assertIn("runs/tiny-1/checkpoints/step-", message)
        self.assertIn("cannot write: File too large", message)
        self.assertEqual(sorted(p.name.split(".tfevents.")[0] for p in (self.runs / "tiny-1").iterdir()),
                         ["checkpoints", "config.yaml", "events.out", "metrics.csv", "metrics.jsonl"])
        self.assertEqual(list((self.runs / "tiny-1/checkpoints").iterdir()), [])

    def test_bench(self):
        result = self.braid("bench", self.config, "--steps", "3", "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        report = json.loads(result.stdout)
        self.assertEqual((report["steps"], report["batch_size"], report["model"]), (3, 32, "lenet5"))
        self.assertGreater(report["images_per_second"], 0)
        measured = [op["measured_us"] for op in report["ops"]]
        self.assertEqual(measured, sorted(measured, reverse=True))
        self.assertIn("cross_entropy", [op["op"] for op in report["ops"]])
        text = self.braid("bench", self.config, "--steps", "3").stdout
        self.assertIn("images/s", text)
        rows = [line.split() for line in text[text.index("  op "):].splitlines()]
        self.assertEqual(rows[0], ["op", "nodes", "predicted,", "ms", "measured,", "ms", "ratio"])
        self.assertEqual(sorted(row[0] for row in rows[1:]), sorted([op["op"] for op in report["ops"]] + ["all"]))
        for _, _, predicted, measured, *ratio in rows[1:]:
            if float(predicted) > 0:
                self.assertAlmostEqual(float(measured) / float(predicted), float(*ratio), delta=0.0051)
        result = self.braid("bench", self.config, "--serve", input="run 2\nstop\n")
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(answers[0], {"ready": True})
        self.assertEqual(answers[1]["steps"], 2)
        self.assertIn("error", answers[2])
        result = self.braid("bench", self.config, "--serve", "--variant", "streams=1 policy=serial", "--variant", "streams=2",
                            input="setting\nuse 1\nsetting\n")
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([answers[1]["policy"], answers[3]["policy"]], ["serial", "critical_path"])
        self.assertFalse(self.runs.exists())

    def test_profile_measures_once_and_adds_later(self):
        result = self.braid("profile", self.config, "-o", "p.json", "--runs", "1", "--batch-size", "8", "--pairs", "4",
                            "--streams", "2")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        profile = json.loads((self.folder / "p.json").read_text())
        self.assertEqual(profile["version"], 3)
        self.assertLessEqual(len(profile["pairs"]), 8)
        for pair in profile["pairs"]:
            self.assertGreater(pair["factor"], 0)
        self.assertEqual(self.braid("profile", self.config, "-o", "p.json", "--runs", "1", "--pairs", "0").returncode, 0)
        both = json.loads((self.folder / "p.json").read_text())
        self.assertGreater(len(both["measurements"]), len(profile["measurements"]))
        text = self.braid("bench", self.config, "--steps", "1", "--set", "costs=p.json").stdout
        self.assertRegex(text, r"costs     measured for (\d+) of \1 nodes")
        result = self.braid("profile", "resnet20", "-o", "p.json", "--runs", "1", "--batch-size", "1",
                            "--pairs", "1", "--set", "data.image_size=8")
        self.assertIn("resnet20, batch 1: ", result.stdout)
        for option in ("--pairs", "--streams"):
            self.assertEqual(self.braid("profile", self.config, "-o", "q.json", option, "-1").returncode, 2)
        self.assertIn("nope.json: cannot read the profile: ", self.fails("train", self.config, "--set", "costs=nope.json"))
        (self.folder / "p.json").write_text("{")
        self.assertIn("p.json: is not a profile", self.fails("profile", self.config, "-o", "p.json"))
        self.assertIn("there is no model 'nope'", self.fails("profile", "nope", "-o", "q.json"))

    def test_an_interrupted_profile_keeps_the_times_of_the_nodes(self):
        profile = self.folder / "p.json"
        process = subprocess.Popen([BRAID, "profile", self.config, "-o", profile, "--runs", "1"], cwd=self.folder,
                                   stdout=subprocess.DEVNULL)
        while not profile.exists() and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        process.wait()
        kept = json.loads(profile.read_text())
        self.assertGreater(len(kept["measurements"]), 0)
        self.assertEqual(kept["pairs"], [])

    def jobs(self, *overrides):
        config = self.folder / "jobs.yaml"
        config.write_text(JOBS)
        arguments = [word for override in overrides for word in ("--set", override)]
        return self.braid("train", config, *arguments)

    def test_jobs_train_together_and_are_evaluated_each(self):
        result = self.jobs()
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("wide: epoch 1/1: loss ", result.stdout)
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
        self.assertIn("small: epoch 2/2: loss ", result.stdout)
        last = (self.runs / "jobs-1" / "wide" / "metrics.jsonl").read_text().splitlines()[-2:]
        self.assertEqual([json.loads(line)["event"] for line in last], ["failed", "cause"])

    def test_bench_of_jobs_compares_together_with_one_after_another(self):
        (self.folder / "jobs.yaml").write_text(JOBS)
        text = self.braid("bench", "jobs.yaml", "--steps", 2).stdout
        self.assertRegex(text, r"(?m)^one after another  takes [\d.]+ times as long \(quartiles [\d.]+ to [\d.]+\)$")
        self.assertIn("arena of the joint plan", text)
        times = json.loads(self.braid("bench", "jobs.yaml", "--steps", 2, "--json").stdout)
        self.assertEqual([job["name"] for job in times["jobs"]], ["small", "wide"])
        self.assertIn("expects the config of a single job", self.fails("bench", "jobs.yaml", "--serve"))

    def test_no_convolution_is_left_to_the_reference_code_of_a_library(self):
        for batch in (1, 3):
            settings = (f"train.batch_size={batch}", "data.size=16", "data.image_size=224", "streams=1", "device=cpu")
            result = subprocess.run([BRAID, "bench", "densenet121", "--steps", "1", *(word for s in settings for word in ("--set", s))],
                                    text=True, capture_output=True, timeout=LIMIT, env={**os.environ, "ONEDNN_VERBOSE": "1"})
            self.assertEqual(result.returncode, 0, result.stderr)
            ran = [line.split(",")[4] for line in result.stdout.splitlines() if ",exec,cpu,convolution," in line]
            if not ran:
                self.skipTest("this build has no oneDNN")
            self.assertNotIn("ref:any", ran)

    def test_bench_of_input_and_output_leaves_nothing(self):
        text = self.braid("bench", "tiny.yaml", "--io", "--steps", 2).stdout
        self.assertRegex(text, r"(?m)^  every step logged +[\d.]+x +[\d.]+ to [\d.]+$")
        times = json.loads(self.braid("bench", "tiny.yaml", "--io", "--steps", 2, "--json").stdout)
        self.assertEqual((times["steps"], times["batch_size"]), (2, 32))
        self.assertGreater(times["checkpoint_bytes"], 10000)
        for part in ("loading", "logging", "saving"):
            low, middle, high = times[part]
            self.assertTrue(0 < low <= middle <= high)
        self.assertEqual(list(self.runs.iterdir()), [])

    def test_pathnet_runs_like_any_config(self):
        (self.folder / "paths.yaml").write_text(PATHNET)
        result = self.braid("train", "paths.yaml")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("speed-up by task A: ", result.stdout)
        run = self.runs / "paths-1"
        self.assertEqual(sorted(p.name for p in run.iterdir()),
                         ["checkpoints", "config.yaml", "genotypes.json", "metrics.jsonl", "paths.svg", "report.json"])
        self.assertEqual(len(json.loads((run / "report.json").read_text())["seeds"]), 2)
        drawing = xml.etree.ElementTree.parse(run / "paths.svg").getroot()
        self.assertEqual(drawing.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertIn("seed 2", [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")])
        self.assertEqual(self.braid("train", "paths.yaml", "-q", "--set", "precision=f16").returncode, 0)
        self.assertIn("for 'braid train' only", self.fails("bench", "paths.yaml"))
        self.assertIn("unknown key (did you mean 'seeds'?)", self.fails("train", "paths.yaml", "--set", "evolution.seed=1"))

    def test_summary_of_models_and_configs(self):
        model = self.braid("summary", "resnet18", "--depth", 1, "--set", "train.batch_size=2")
        self.assertEqual(model.returncode, 0, model)
        self.assertIn("parameters  11,689,512\n", model.stdout)
        self.assertIn("MACs        1,814,073,344 an image\n", model.stdout)
        self.assertIn("lenet5, images [32,16,16,1]", self.braid("summary", "tiny.yaml").stdout)
        read = json.loads(self.braid("summary", "resnet18", "--depth", 1, "--set", "train.batch_size=2", "--json").stdout)
        self.assertEqual((read["model"], read["input"], read["parameters"]), ("resnet18", [2, 224, 224, 3], 11689512))
        self.assertEqual(sum(layer["parameters"] for layer in read["layers"]), read["parameters"])
        self.assertEqual(read["macs"], 1814073344)
        self.assertIn(f"W/D         {read['work_us'] / read['depth_us']:.2f}: ", model.stdout)
        (self.folder / "jobs.yaml").write_text(JOBS)
        read = [json.loads(line) for line in self.braid("summary", "jobs.yaml", "--json").stdout.splitlines()]
        self.assertEqual([summary["name"] for summary in read], ["small", "wide"])
        self.assertIn("\njob wide: lenet5, images [32,16,16,1]", self.braid("summary", "jobs.yaml").stdout)
        self.assertIn("there is no model 'resnet19' (did you mean 'resnet18'?); there are ",
                      self.fails("summary", "resnet19"))
        self.assertEqual(self.fails("train", "resnet20"),
                         "resnet20 is a model: expected a config that uses it; see configs/")
        self.assertIn("there is no model 'googlnet' (did you mean 'googlenet'?)", self.fails("plan", "googlnet"))
        self.assertIn("cannot read the config", self.fails("summary", "resnet19.yaml"))

    def plan(self, *arguments):
        result = self.braid("plan", *arguments, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        return json.loads(result.stdout)

    def test_plan_for_a_device_that_is_not_there(self):
        small = ["--set", "data.image_size=32", "--set", "data.classes=10"]
        plan = self.plan("resnet20", *small, "--device", "h200", "--streams", 3, "--batch-size", 2)
        self.assertEqual(plan["jobs"], [{"model": "resnet20", "input": [2, 32, 32, 3]}])
        self.assertEqual((plan["device"], plan["capacity"]), ("NVIDIA H200", 132))
        self.assertEqual(plan["convolutions"], 21 + 20 + 21)  # forward, backward-data (not of the images), backward-filter
        serial, configured = plan["plans"][0], plan["plans"][plan["configured"]]
        self.assertEqual((serial["policy"], serial["streams"], serial["waits"]), ("serial", 1, 0))
        self.assertEqual((configured["policy"], configured["streams"]), ("critical_path", 3))
        self.assertGreaterEqual(configured["makespan_us"], configured["lower_bound_us"] * (1 - 1e-9))
        self.assertLessEqual(configured["makespan_us"], serial["makespan_us"])
        self.assertEqual(len(configured["workspace_bytes"]), 3)
        memory = plan["memory"]
        parameters = 272474  # of ResNet-20 on CIFAR-10
        self.assertGreaterEqual(memory.pop("persistent_bytes"), 2 * 4 * parameters)  # SGD's momentum beside each
        self.assertEqual(sum(memory.values()), configured["live_bytes"])
        self.assertGreater(memory["activation_bytes"], 0)
        text = self.braid("plan", "resnet20", *small, "--device", "h200").stdout
        self.assertIn("resnet20, images [32,32,32,3]\nplanned for NVIDIA H200 ", text)
        rows = [re.split(r"  +", line) for line in text.splitlines() if re.search(r"\d of \d", line)]
        serial = float(rows[0][2].removesuffix(" ms"))
        bound = float(re.search(r"can be faster than ([\d.]+) ms", text)[1])
        for _, streams, makespan, over_bound, over_serial, *_ in rows:  # ratios are those of the times beside them
            makespan = float(makespan.removesuffix(" ms"))
            self.assertEqual(over_serial, f"{serial / makespan:.2f}")
            if streams.endswith(" of 3"):
                self.assertEqual(over_bound, f"{makespan / bound:.2f}")
        if plan["has_kernels"]:
            self.assertGreaterEqual(plan["implementations"], 2 * plan["convolutions"])
            self.assertIn(" with cuDNN's plans and their workspaces, f32 as tf32\n", text)
        else:
            self.assertEqual((plan["implementations"], sum(configured["workspace_bytes"])), (0, 0))
            self.assertIn(" by the analytic model alone: this build of Braid has no CUDA backend", " ".join(text.split()))

    def test_plan_for_the_cpu_and_for_a_described_device(self):
        plan = self.plan("tiny.yaml", "--device", "cpu")
        self.assertTrue(plan["has_kernels"])
        self.assertEqual(plan["jobs"][0]["input"], [32, 16, 16, 1])
        described = self.folder / "device.json"
        described.write_text(self.braid("devices", "--json", "cpu").stdout)
        self.assertEqual(self.plan("tiny.yaml", "--device", "device.json")["capacity"], plan["capacity"])
        described.write_text("{}")
        self.assertEqual(self.fails("plan", "tiny.yaml", "--device", "device.json"),
                         "device.json: [device] the key 'name' is missing")
        described.write_text("{\n  \"name\": oops}")
        self.assertEqual(self.fails("plan", "tiny.yaml", "--device", "device.json"),
                         "device.json: line 2, column 11: expected valid JSON, got something else")
        (self.folder / "folder.json").mkdir()
        for name, why in (("none.json", "No such file or directory"), ("folder.json", "expected a file, this is a folder")):
            self.assertEqual(self.fails("plan", "tiny.yaml", "--device", name),
                             f"{name}: cannot read the description of a device: {why}")
            self.assertEqual(self.fails("plan", "tiny.yaml", "--costs", name), f"{name}: cannot read the profile: {why}")
        self.assertIn("got 'serail' (did you mean 'serial'?)", self.fails("plan", "tiny.yaml", "--policy", "serail"))
        for command in (["plan", "tiny.yaml", "--device"], ["devices", "--json"]):
            message = self.fails(*command, "b200")
            self.assertIn("there is no device 'b200' (did you mean 'h200'?)", message)
            self.assertIn("a known device (p100, v100, rtx2080ti, a100, h100, h200), or a file *.json", message)
        self.assertIn("to plan for it: braid plan --device h200", self.fails("train", "tiny.yaml", "--set", "device=h200"))

    def test_plan_of_the_forward_pass_has_no_gradients_and_no_update(self):
        plan = self.plan("resnet20", "--set", "data.image_size=32", "--device", "v100", "--forward")
        self.assertEqual((plan["device"], plan["capacity"], plan["has_kernels"]), ("NVIDIA V100", 80, False))
        self.assertEqual(plan["convolutions"], 21)
        self.assertEqual((plan["memory"]["gradient_bytes"], plan["jobs"][0]["model"]), (0, "resnet20"))
        training = self.plan("resnet20", "--set", "data.image_size=32", "--device", "v100")
        self.assertLess(2 * plan["nodes"], training["nodes"])
        self.assertLess(plan["memory"]["persistent_bytes"], 0.6 * training["memory"]["persistent_bytes"])  # no momentum

    def test_plan_for_several_numbers_of_streams(self):
        plan = self.plan("tiny.yaml", "--device", "h200", "--streams", "1..3")
        self.assertEqual([(row["policy"], row["streams"]) for row in plan["plans"]],
                         [("serial", 1), ("critical_path", 1), ("critical_path", 2), ("critical_path", 3)])
        for wrong in ("0", "65", "3..1", "1..", "two"):
            self.assertIn(f"got '{wrong}'", self.braid("plan", "tiny.yaml", "--streams", wrong).stderr)

    def test_a_plan_that_does_not_fit_is_printed_and_fails(self):
        for arguments, why in ((["--memory-limit", 1, "--batch-size", 512], " MiB, the limit is 1.0 MiB; "),
                               (["--device", "small.json", "--batch-size", 512], "the plan does not fit the device: ")):
            (self.folder / "small.json").write_text(
                json.dumps(json.loads(self.braid("devices", "--json", "h200").stdout) | {"memory_bytes": 2 << 20}))
            for output in ([], ["--json"]):
                result = self.braid("plan", "tiny.yaml", *arguments, *output)
                self.assertEqual(result.returncode, 1, result)
                self.assertIn("critical_path", result.stdout)
                self.assertTrue(result.stderr.startswith("braid: error: the plan does not fit"), result.stderr)
                self.assertIn(why, result.stderr)
                self.assertIn("try a smaller --batch-size, ", result.stderr)
            self.assertFalse(json.loads(result.stdout)["fits"])
        self.assertTrue(self.plan("tiny.yaml", "--memory-limit", 100)["fits"])

    def test_the_text_of_a_plan_is_narrow_unless_all_columns_are_wanted(self):
        arguments = ["plan", "tiny.yaml", "--streams", 64, "--memory-limit", 1000]
        text = self.braid(*arguments).stdout
        self.narrow(text)
        self.assertNotIn("live, MiB", text)
        wide = self.braid(*arguments, "--wide").stdout
        for column in ("in use", "live, MiB", "naive, MiB", "planned in"):
            self.assertIn(column, wide)

    def test_plan_for_a_device_a_little_different(self):
        def makespan(*arguments):
            return self.plan("tiny.yaml", "--device", "h200", *arguments)["plans"][0]["makespan_us"]

        self.assertEqual(makespan(), makespan("--sms", 132, "--scale-launch", 1))
        self.assertGreater(makespan("--sms", 2), makespan())
        self.assertLess(makespan("--scale-launch", 0), makespan())
        self.assertGreater(makespan("--host-launch", 100), makespan())
        self.assertEqual(makespan("--host-launch", 0), makespan())
        self.assertEqual(self.plan("tiny.yaml", "--device", "h200", "--sms", 7)["capacity"], 7)
        self.assertIn("--sms", self.braid("plan", "tiny.yaml", "--sms", 0).stderr)
        self.assertIn("--scale-launch", self.braid("plan", "tiny.yaml", "--scale-launch", -1).stderr)

    def test_plan_of_jobs_is_one_plan(self):
        (self.folder / "jobs.yaml").write_text(JOBS)
        plan = self.plan("jobs.yaml", "--device", "h200")
        self.assertEqual(len(plan["jobs"]), 2)
        self.assertEqual(plan["nodes"], 2 * self.plan("tiny.yaml", "--device", "h200")["nodes"])

    def trace(self, path):
        """Slices of a trace by process, without those of the critical path's own track."""
        events = json.loads((self.folder / path).read_text())["traceEvents"]
        names = {e["pid"]: e["args"]["name"].split(":")[0] for e in events if e["name"] == "process_name"}
        slices = {name: [] for name in names.values()}
        for event in events:
            if event["ph"] == "X" and event["cat"] != "critical path":
                slices[names[event["pid"]]].append(event)
        return slices

    def test_plan_can_be_seen_as_a_trace_and_as_a_page(self):
        plan = self.plan("tiny.yaml", "--streams", 2, "--trace", "plan.trace", "--html", "plan.html")
        slices = self.trace("plan.trace")
        self.assertEqual(list(slices), ["planned"])
        self.assertLessEqual(len(slices["planned"]), plan["nodes"])
        self.assertIn("conv1", {event["args"]["layer"] for event in slices["planned"]})
        self.assertTrue((self.folder / "plan.html").read_text().startswith("<!DOCTYPE html>"))
        for option in ("--trace", "--html"):
            self.assertEqual(self.fails("plan", "tiny.yaml", option, "no/such/file"),
                             "no/such/file: cannot open: No such file or directory")
            self.assertIn("/dev/full: cannot write: ", self.fails("plan", "tiny.yaml", option, "/dev/full"))

    def test_a_traced_training_gives_the_same_bits(self):
        for number, streams in enumerate(("auto", "2")):
            settings = ["-q", "--set", f"streams={streams}", "--set", "train.epochs=20", "--set", "width=1"]
            self.assertEqual(self.braid("train", self.config, *settings).returncode, 0)
            result = self.braid("train", self.config, *settings, "--trace", "run.trace")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            first, second = (self.runs / f"tiny-{2 * number + i}/model.safetensors" for i in (1, 2))
            self.assertEqual(first.read_bytes(), second.read_bytes())
            slices = self.trace("run.trace")
            self.assertEqual(list(slices), ["planned", "measured"])
            planned, measured = ({event["args"]["node"] for event in run} for run in slices.values())
            self.assertEqual(planned, measured)
            self.assertGreater(sum(event["dur"] for event in slices["measured"]), 0)

    def test_jobs_are_traced_together(self):
        both = ["train.epochs=10", "jobs.wide.train.epochs=10", "streams=2", "width=1", "jobs.small.steps_per_turn=1",
                "jobs.wide.steps_per_turn=1"]
        self.assertEqual(self.jobs(*both).returncode, 0)
        (self.runs / "jobs-1").rename(self.runs / "untraced")
        settings = [word for setting in both for word in ("--set", setting)]
        result = self.braid("train", "jobs.yaml", *settings, "--trace", "run.trace")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
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
        (self.folder / "paths.yaml").write_text(PATHNET)
        self.assertIn("--trace and --html expect", self.fails("train", "paths.yaml", "--trace", "run.trace"))
        self.assertFalse(self.runs.exists())

    def test_explain_tells_a_block_step_by_step(self):
        result = self.braid("explain", "tiny.yaml", "--block", "conv1", "--html", "b.html", "--trace", "b.trace")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue(result.stdout.startswith("conv1 of lenet5, images [32,16,16,1]\non "))
        self.assertIn("     0 conv2d starts, until ", result.stdout)
        self.assertIn("     0 conv2d: stream 0, ", result.stdout)
        self.assertIn("   no fault found\n", result.stdout)
        self.assertGreater(len(self.trace("b.trace")["planned"]), 1)
        self.assertIn("(did you mean 'conv1'?)", self.fails("explain", "tiny.yaml", "--block", "con1"))
        blocks = self.braid("explain", "tiny.yaml")
        self.assertEqual((blocks.returncode, blocks.stderr), (0, ""))
        self.assertEqual([line.split()[0] for line in blocks.stdout.split("nodes\n")[1].splitlines()],
                         ["conv1", "conv2", "fc1", "fc2", "fc3"])
        self.assertEqual(self.misused("explain", "tiny.yaml", "--html", "b.html"), "--html requires --block")
        network = ["densenet121", "--set", "data.image_size=32", "--set", "train.batch_size=1", "--device", "h200"]
        self.assertIn("too many to explain one by one", self.fails("explain", *network, "--block", "features"))
        self.assertIn("\nfeatures.denseblock1 ", self.braid("explain", *network).stdout)

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


class BenchmarkTables(unittest.TestCase):
    """What the scripts in benchmarks/ make of times that drift: both programs become slower by half, and the ratio does not."""
    serial = [1.0, 1.1, 1.2, 1.4, 1.5]
    auto = [0.80, 0.88, 0.96, 1.12, 1.23]

    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(CONFIGS.parent / "benchmarks"))

    def test_streams_are_compared_by_one_ratio(self):
        import compare_streams
        choice = "serial: 1000 ms; relative to it, x: 0.8 (0.8 to 0.8); kept critical_path on 2 streams, which saves 20.0 %"
        table = compare_streams.table([{"config": "net", "serial_seconds": self.serial, "auto_seconds": self.auto,
                                        "choice": choice}])
        self.assertEqual(table.splitlines()[-1],
                         "| net | 1200.0 ms | 0.800 (0.800–0.800) | critical_path on 2 streams |")

    def test_programs_are_compared_within_turns(self):
        import compare_pytorch
        programs = [{"name": name, "step_seconds": times, "peak_bytes": 2**20}
                    for name, times in (("Braid", self.auto), ("PyTorch", self.serial))]
        table = compare_pytorch.cpu_table([{"config": "net", "options": {"batch_size": 6, "threads": 2},
                                            "programs": programs}])
        self.assertIn("| PyTorch | 1200.00 ms (1000.00–1500.00) | 5 | 1.25× (1.25–1.25) |", table)

    def test_one_turn_has_no_spread(self):
        import program
        self.assertEqual(list(program.relative([3], [2])), [1.5, 1.5, 1.5])


if __name__ == "__main__":
    unittest.main(verbosity=1)
