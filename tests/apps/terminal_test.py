#!/usr/bin/env python3
"""The terminal during a training: braid train on a pseudo-terminal, through a model of a screen.

Usage: terminal_test.py PATH_OF_BRAID"""

import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import unittest

from command import BRAID, LIMIT, CommandTest, wait_until
from screen import Screen

PROGRESS = re.compile(r"\bstep +\d+/|, task [AB].*: generation ")


class Run:
    """A training on a terminal. After each drawing, the screen must show messages and below them the block. Every
    `frames` drawings the terminal gets the next of `widths`; after the last one, Ctrl-C."""

    def __init__(self, test, arguments, columns, height=24, reflows=True, frames=80, widths=()):
        self.test, self.blocks, self.frames, self.stopped = test, [], frames, False
        self.widths, self.seen = list(widths), 0
        self.screen = Screen(columns, height, reflows, self.check_frame)
        self.master, slave = pty.openpty()
        self.resize(columns)
        test.addCleanup(os.close, self.master)
        self.process = subprocess.Popen([BRAID, "train", *arguments], cwd=test.folder, stdin=slave, stdout=slave,
                                        stderr=slave, env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"}, start_new_session=True)
        test.addCleanup(self.process.kill)
        os.close(slave)

    def resize(self, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", self.screen.height, columns, 0, 0))
        if columns != self.screen.columns:
            self.screen.resize(columns)

    def check_frame(self):
        rows = self.screen.rows
        block = rows[self.screen.y :]
        texts = [row.text for row in block]
        self.test.assertEqual(self.screen.x, 0)
        self.test.assertFalse(any(row.continues for row in block), texts)
        self.test.assertLessEqual(len(block), self.screen.height)
        above = [row.text for row in rows[: self.screen.y]]
        self.test.assertFalse([text for text in above if PROGRESS.search(text)], "a stale line of the block")
        if texts != [""]:
            self.blocks.append(texts)
        if len(self.blocks) - self.seen < self.frames or self.stopped:
            return
        self.seen = len(self.blocks)
        if self.widths:
            self.resize(self.widths.pop(0))
        else:
            self.process.send_signal(signal.SIGINT)
            self.stopped = True

    def finish(self):
        """Reads to the end. Returns the remaining lines."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        while True:
            try:
                data = os.read(self.master, 4096)
            except OSError:  # the other end is closed
                data = b""
            if not data:
                break
            self.screen.feed(decoder.decode(data))
        self.test.assertEqual(self.process.wait(timeout=LIMIT), 130 if self.stopped else 0)
        lines = self.screen.lines()
        self.test.assertEqual(lines.pop(), "")
        return lines


class Terminal(CommandTest):
    ENDLESS = ["tiny.yaml", "--set", "train.epochs=2000"]
    ENDLESS_JOBS = ["jobs.yaml", "--set", "train.epochs=2000", "--set", "jobs.wide.train.epochs=4"]

    def check_epochs(self, lines, label=""):
        """The messages of one job's epochs: each once, in order."""
        epochs = [int(match[1]) for line in lines if (match := re.match(rf"{label}epoch (\d+)/\d+  train ", line))]
        self.assertGreater(len(epochs), 2)
        self.assertEqual(epochs, list(range(1, len(epochs) + 1)))

    def test_one_job_has_one_line_at_any_width(self):
        for columns in (1, 60):
            with self.subTest(columns=columns):
                run = Run(self, self.ENDLESS, columns, frames=40)
                lines = run.finish()
                self.assertTrue(lines[0].startswith("lenet5, "), lines[0])
                self.check_epochs(lines)
                self.assertTrue(lines[-2].startswith("interrupted after step "), lines[-2])
                self.assertTrue(lines[-1].startswith("results are in runs/tiny-"), lines[-1])
                self.assertEqual({len(block) for block in run.blocks}, {1})
                for word, least in (("step", 40), ("acc", 60), ("/s ", 80)):
                    self.assertEqual(any(word in block[0] for block in run.blocks), columns >= least, run.blocks[-1])

    def test_the_line_tells_the_time_left(self):
        # Epochs of more than 100 ms, after which the line is drawn while training.
        run = Run(self, [*self.ENDLESS, "--set", "data.size=9600"], 80, frames=20)
        run.finish()
        self.assertTrue(any(" left" in block[0] for block in run.blocks), run.blocks)

    def test_jobs_have_a_block_below_all_messages_at_any_width(self):
        for columns in (40, 200):
            with self.subTest(columns=columns):
                run = Run(self, self.ENDLESS_JOBS, columns, frames=160)
                lines = run.finish()
                for label in ("small", "wide"):
                    self.check_epochs(lines, f"{label}: ")
                    self.assertEqual(sum(line.startswith(f"{label}: lenet5, ") for line in lines), 1)
                self.assertEqual(sum(line.startswith("steps per round: ") for line in lines), 1)
                self.assertEqual(sum(line.startswith("wide: done after 12 steps; ") for line in lines), 1)
                for block in run.blocks:
                    labels = [text.split()[0] for text in block]
                    self.assertIn(labels, (["small"], ["wide"], ["small", "wide"]))
                self.assertIn(2, {len(block) for block in run.blocks})
                self.assertEqual(len(run.blocks[-1]), 1)  # what has ended is gone

    def test_the_block_follows_a_terminal_that_is_resized(self):
        for reflows in (True, False):
            with self.subTest(reflows=reflows):
                run = Run(self, self.ENDLESS_JOBS, 200, reflows=reflows, frames=40, widths=[60, 40, 80, 30, 120])
                run.finish()
                self.assertLess(max(len(block[0]) for block in run.blocks if "acc" not in block[0]), 60)
                self.assertTrue(any("images/s" in block[0] for block in run.blocks))

    def test_a_block_is_no_higher_than_the_terminal(self):
        run = Run(self, self.ENDLESS_JOBS, 80, height=1)
        run.finish()
        self.assertIn(["and 2 more"], run.blocks)

    def test_generations_of_a_pathnet_fit_and_leave_nothing(self):
        run = Run(self, ["paths.yaml", "--set", "evolution.threshold=1", "--set", "evolution.batches=1500"], 40,
                  frames=1000000)
        lines = run.finish()
        self.assertTrue(any("generation" in block[0] and block[0].endswith("…") for block in run.blocks), run.blocks)
        self.assertEqual(sum(line.startswith("seed 1: task A learned in ") for line in lines), 1)

    def test_an_error_stands_below_the_messages_alone(self):
        run = Run(self, ["tiny.yaml", "--set", "train.epochs=9", "--set", "optimizer.lr=1e30"], 60, frames=1000000)
        run.test = unittest.TestCase()  # it fails
        with self.assertRaises(AssertionError):
            run.finish()
        lines = run.screen.lines()
        self.assertTrue(lines[-2].startswith("braid: error: [train] the loss is "), lines)
        self.assertFalse([line for line in lines if PROGRESS.search(line)])

    def on_terminal(self, config, stream, variables):
        """What a training writes to standard output or error, a terminal, where these variables describe it."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        environment = {key: value for key, value in os.environ.items() if key not in ("TERM", "NO_COLOR")} | variables
        subprocess.run([BRAID, "train", config], cwd=self.folder, env=environment, timeout=LIMIT, **{stream: slave})
        os.close(slave)
        return os.read(master, 65536).decode()

    def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(self):
        for variables in ({"TERM": "dumb"}, {}):
            text = self.on_terminal("tiny.yaml", "stdout", variables)
            self.assertIn("step 6/6", text)
            self.assertNotIn("\x1b", text)

    def test_errors_are_red_on_a_terminal_that_may_have_colours(self):
        red = "\x1b[1;31mbraid: error:\x1b[0m none.yaml: cannot read the config: No such file or directory\r\n"
        plain = red.replace("\x1b[1;31m", "").replace("\x1b[0m", "")
        for variables, expected in (({"TERM": "xterm"}, red), ({"TERM": "xterm", "NO_COLOR": ""}, red),
                                    ({"TERM": "xterm", "NO_COLOR": "1"}, plain), ({"TERM": "dumb"}, plain), ({}, plain)):
            self.assertEqual(self.on_terminal("none.yaml", "stderr", variables), expected, variables)
        piped = self.braid("train", "none.yaml", env={**os.environ, "TERM": "xterm"})
        self.assertEqual(piped.stderr, plain.replace("\r", ""))

    def check_complete(self, run, epochs):
        """Checks that a training has finished all its epochs and saved its model."""
        last = self.metrics(run)[-1]
        self.assertEqual((last["event"], last["epoch"]), ("epoch", epochs))
        self.assertTrue((self.runs / run / "model.safetensors").exists())

    def test_a_pipe_that_nobody_reads_any_more_does_not_end_the_training(self):
        process, output = self.start_with_one_line("train", "tiny.yaml", "--set", "train.epochs=50", text=True, stderr=subprocess.PIPE)
        output.readline()
        output.close()
        self.assertEqual(process.wait(timeout=LIMIT), 0)
        self.assertEqual(process.stderr.read(), "braid: warning: cannot write to standard output: Broken pipe; "
                         "training continues without output\n")
        process.stderr.close()
        self.check_complete("tiny-1", 50)

    def test_ctrl_c_saves_every_job_though_nobody_reads(self):
        process = self.train_for_ever("jobs.yaml", "--set", "jobs.wide.train.epochs=2000", until="epoch 2/")
        process.send_signal(signal.SIGINT)  # as with "| tee log", whose reader Ctrl-C ends at once
        process.stdout.close()
        self.assertEqual(process.wait(timeout=LIMIT), 130)
        process.stderr.close()
        for job in ("small", "wide"):
            self.assertEqual(self.metrics(f"jobs-1/{job}")[-1]["event"], "interrupted")

    def test_a_terminal_that_is_closed_does_not_end_the_training(self):
        master, slave = pty.openpty()
        termios.tcflow(slave, termios.TCOOFF)  # as after Ctrl-S: the training waits to print its first line
        process = subprocess.Popen([BRAID, "train", "tiny.yaml", "--set", "train.epochs=50"], cwd=self.folder,
                                   text=True, stdout=slave, stderr=subprocess.PIPE,
                                   env={**os.environ, "TERM": "xterm"})
        self.addCleanup(process.kill)
        os.close(slave)
        wait_until((self.runs / "tiny-1").exists)
        os.close(master)
        self.assertEqual(process.wait(timeout=LIMIT), 0)
        self.assertEqual(process.stderr.read().count("\n"), 1)
        process.stderr.close()
        self.check_complete("tiny-1", 50)


if __name__ == "__main__":
    unittest.main()
