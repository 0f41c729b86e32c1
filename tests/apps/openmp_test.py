#!/usr/bin/env python3
"""Braid computes the same bits whatever OpenMP's environment variables say: its own loops do not use OpenMP, and oneDNN,
which does, is kept to one thread.

Usage: openmp_test.py PATH_OF_BRAID PATH_OF_TEST_OPS"""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TEST_OPS = sys.argv.pop(2) if len(sys.argv) > 2 else "test_ops"
BRAID = sys.argv.pop(1) if len(sys.argv) > 1 else "braid"
LIMIT = 600  # seconds: a thread that waits for a team that never comes would wait forever

SETTINGS = [
    {"OMP_THREAD_LIMIT": "1", "OMP_DYNAMIC": "true", "OMP_MAX_ACTIVE_LEVELS": "0"},
    {"OMP_NUM_THREADS": "7", "OMP_NESTED": "true", "OMP_SCHEDULE": "dynamic,1", "OMP_WAIT_POLICY": "passive"},
    {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "infinity", "OMP_PLACES": "{0}",
     "OMP_PROC_BIND": "master"},
]

# Every kind of kernel: Winograd, oneDNN (cut and whole), and Braid's own.
NETWORKS = {
    "lenet5": "model: {name: lenet5}",
    "googlenet": "model: {name: googlenet, width: 0.25}",
}
CONFIG = """\
name: NAME
device: cpu
threads: 3
streams: 2
intra_op_threads: 2
policy: critical_path
MODEL
data: {name: synthetic, size: 48, val_size: 16, image_size: 32, channels: 1, classes: 4}
train: {epochs: 1, batch_size: 16}
"""


class OpenMP(unittest.TestCase):
    def run_in(self, settings, command, folder):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
        return subprocess.run(command, cwd=folder, env=environment | settings, text=True, timeout=LIMIT,
                              capture_output=True, check=True).stdout

    def results(self, settings):
        """What the op table and a training compute: a hash of all outputs, and one of every trained model."""
        output = self.run_in(settings, [TEST_OPS, "--test-case=results do not depend on the width*"], None)
        found = {"ops": re.search(r"hash of all results: (.*)", output).group(1)}
        with tempfile.TemporaryDirectory(prefix="braid-openmp-") as folder:
            for name, model in NETWORKS.items():
                config = pathlib.Path(folder) / f"{name}.yaml"
                config.write_text(CONFIG.replace("NAME", name).replace("MODEL", model))
                self.run_in(settings, [BRAID, "train", str(config), "--quiet"], folder)
                model_file, = pathlib.Path(folder).glob(f"runs/{name}*/model.safetensors")
                found[name] = hashlib.sha256(model_file.read_bytes()).hexdigest()
        return found

    def test_results_do_not_depend_on_the_environment(self):
        expected = self.results({})
        for settings in SETTINGS:
            with self.subTest(settings=settings):
                self.assertEqual(self.results(settings), expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
