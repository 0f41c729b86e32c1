"""What the tests of the braid command share: the program, configs, and how to run it."""

import fcntl
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

BRAID = sys.argv.pop(1) if len(sys.argv) > 1 else "braid"
LIMIT = 300  # seconds for a command that hangs, not for one that is slow
for number in (signal.SIGINT, signal.SIGHUP):  # a shell's background, and nohup, ignore them: so would the program
    signal.signal(number, signal.SIG_DFL)

TINY = f"""\
name: tiny
device: cpu
threads: {min(2, len(os.sched_getaffinity(0)))}
model: {{name: lenet5}}
data:
  name: synthetic
  size: 96
  val_size: 40
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


def wait_until(condition):
    """Only a hang takes as long as the limit."""
    for _ in range(100 * LIMIT):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError(f"not within {LIMIT} s")


def png(height, width, colour, bits=8):
    """A PNG file of one colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = b"\0" + b"".join(value.to_bytes(bits // 8, "big") for value in colour) * width
    kind = 2 if len(colour) == 3 else 6  # RGB, or with alpha
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(row * height)) + chunk(b"IEND", b""))


class CommandTest(unittest.TestCase):
    """Runs the program in a folder of its own, which holds a config of each kind."""

    def setUp(self):
        # Children of a browser may still write.
        temporary = tempfile.TemporaryDirectory(prefix="braid-cli-", ignore_cleanup_errors=True)
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.config = self.folder / "tiny.yaml"
        for name, config in (("tiny", TINY), ("jobs", JOBS), ("paths", PATHNET)):
            (self.folder / f"{name}.yaml").write_text(config)
        self.runs = self.folder / "runs"

    def braid(self, *arguments, **options):
        return subprocess.run([BRAID, *map(str, arguments)], cwd=self.folder, text=True, timeout=LIMIT,
                              capture_output=True, **options)

    def succeeds(self, *arguments):
        """Runs a command that must succeed, with nothing on standard error; returns what it prints."""
        result = self.braid(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        return result.stdout

    def fails(self, *arguments, **options):
        """Runs a command that must fail with one line on standard error; returns what it says."""
        result = self.braid(*arguments, **options)
        self.assertEqual(result.returncode, 1, result)
        self.assertTrue(result.stderr.startswith("braid: error: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr.removeprefix("braid: error: ").rstrip("\n")

    def write_images(self, where, count, image):
        """Files 0.png, 1.png, … in a new folder, as a function of their number."""
        folder = self.folder / where
        folder.mkdir(parents=True)
        for i in range(count):
            (folder / f"{i}.png").write_bytes(image(i))

    def narrow(self, text):
        self.assertLessEqual(max(map(len, text.splitlines())), 80, text)

    def metrics(self, run):
        return [json.loads(line) for line in (self.runs / run / "metrics.jsonl").read_text().splitlines()]

    def misused(self, *arguments, command=None):
        """Runs an invalid command line; returns its message, without the pointer to the help."""
        result = self.braid(*arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
        error, help = result.stderr.splitlines()
        self.assertTrue(error.startswith("braid: error: "), error)
        self.assertEqual(help, f"See 'braid {command or arguments[0]} --help'." if command != "" else "See 'braid --help'.")
        return error.removeprefix("braid: error: ")

    def train_for_ever(self, *arguments, until="step 5/"):
        """A training that is under way."""
        process = subprocess.Popen([BRAID, "train", *map(str, arguments), "--set", "train.epochs=1000000"],
                                   cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if until in line:
                return process
        self.fail(process.communicate()[1])

    def start_with_one_line(self, *arguments, **options):
        """A command that has room for one line of output until the returned file is read."""
        reader, writer = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)  # every write takes a page
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen([BRAID, *map(str, arguments)], cwd=self.folder, stdout=writer, **options)
        os.close(writer)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        output = os.fdopen(reader)
        self.addCleanup(output.close)
        return process, output

    def jobs(self, *overrides):
        return self.braid("train", "jobs.yaml", *(word for override in overrides for word in ("--set", override)))

    def trace(self, path):
        """Slices of a trace by process, without those of the critical path's own track."""
        events = json.loads((self.folder / path).read_text())["traceEvents"]
        names = {e["pid"]: e["args"]["name"].split(":")[0] for e in events if e["name"] == "process_name"}
        slices = {name: [] for name in names.values()}
        for event in events:
            if event["ph"] == "X" and event["cat"] != "critical path":
                slices[names[event["pid"]]].append(event)
        return slices
