#!/usr/bin/env python3
"""The simulated cluster: what it repeats, refuses and finds. Without MPI there is none.

Usage: simulate_test.py PATH_OF_BRAID"""

import os
import signal
import subprocess
import unittest

from command import BRAID, LIMIT, CommandTest


class Simulate(CommandTest):
    def setUp(self):
        super().setUp()
        if "this build has no MPI" in self.braid("simulate", "--ranks", 4).stderr:  # trains nothing
            self.skipTest("this build has no MPI")

    def test_a_seed_repeats_a_run_exactly(self):
        first, second = (self.braid("simulate", "--seed", 5, "--seeds", 6) for _ in range(2))
        self.assertEqual(first.returncode, 0, first.stdout + first.stderr)
        self.assertEqual(first.stdout, second.stdout)
        self.assertIn("seed 5 on 3 ranks, ", first.stdout)
        self.assertIn("the right weights after", first.stdout)  # with a hash of all decisions
        for what in ("; restarted on ", "; continued on "):  # by the launcher, and by one that was started again
            self.assertIn(what, first.stdout)
        self.assertTrue(first.stdout.endswith("6 of 6 seeds ended with the right weights\n"))

    def test_an_interruption_ends_all_ranks_and_leaves_no_files(self):
        temporary = self.folder / "temporary"
        temporary.mkdir()
        running = subprocess.Popen([BRAID, "simulate", "--seeds", "1000000"], stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "TMPDIR": str(temporary)})
        self.assertIn("seed 0 ", running.stdout.readline())
        ranks = []
        while not ranks:  # between two seeds there are none
            ranks = subprocess.run(["pgrep", "-P", str(running.pid)], stdout=subprocess.PIPE, text=True).stdout.split()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=LIMIT)
        self.assertFalse([rank for rank in ranks if os.path.exists(f"/proc/{rank}")])
        self.assertEqual(running.returncode, 128 + signal.SIGINT)
        self.assertEqual(list(temporary.iterdir()), [])

    def test_only_trainings_with_the_same_bits_on_any_number_of_ranks_are_simulated(self):
        config = self.folder / "run.yaml"
        config.write_text("name: run\nmodel: {name: mlp}\ndata: {name: synthetic, size: 12, val_size: 12, image_size: 4}\n"
                          "train: {epochs: 1, batch_size: 6}\n")
        self.assertIn("expected parallel.virtual_ranks", self.braid("simulate", config).stderr)
        self.assertIn("a number of ranks that divides the 6 shards, got 4", self.braid("simulate", "--ranks", 4).stderr)
        config.write_text("name: run\nmodel: {name: nothing}\n")
        self.assertIn("run.yaml:2:", self.braid("simulate", config).stderr)


if __name__ == "__main__":
    unittest.main()
