#!/usr/bin/env python3
"""scripts/gpu_check.sh in a bundle of fakes: nvidia-smi, braid, test_gpu, compute-sanitizer and PyTorch. They do as the real ones
do when all goes well, and fail or hang where a test asks for it."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAKES = ROOT / "tests/scripts/fakes"


class GpuCheck(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="braid-gpu-check-")
        self.addCleanup(temporary.cleanup)
        self.bundle = pathlib.Path(temporary.name) / "bundle"
        self.out = pathlib.Path(temporary.name) / "out"
        for folder in ("bin", "scripts", "data"):
            (self.bundle / folder).mkdir(parents=True)
        (self.bundle / "run").touch(mode=0o755)
        shutil.copy(ROOT / "scripts/gpu_check.sh", self.bundle / "scripts")
        shutil.copytree(ROOT / "benchmarks", self.bundle / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
        # A quarter of the combinations, so that the comparison takes seconds.
        script = self.bundle / "benchmarks/compare_pytorch.py"
        text = script.read_text()
        self.assertIn('["bf16", "tf32"], [32, 8, 1, 256]', text)
        script.write_text(text.replace('["bf16", "tf32"], [32, 8, 1, 256]', '["bf16"], [32, 8]'))
        for name in ("braid", "test_gpu"):
            self.install(name, self.bundle / "bin")
        for name in ("nvidia-smi", "compute-sanitizer"):
            self.install(name, self.bundle / "fakes")
        (self.bundle / "fakes/python3").symlink_to(sys.executable)

    def install(self, name, folder):
        folder.mkdir(exist_ok=True)
        shutil.copy(FAKES / name, folder / name)
        (folder / name).chmod(0o755)

    def check(self, *options, seconds=None, status=0, python=FAKES, **trouble):
        """Runs it with as many seconds as a busy machine needs, or where some of them are spent on what hangs, with a few.
        A `status` of None: it depends on what was begun in time."""
        seconds = seconds or (40 if "FAKE_HANG" in trouble else 400)
        environment = {"PATH": f"{self.bundle / 'fakes'}:{os.environ['PATH']}", "PYTHONPATH": str(python),
                       "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(self.bundle), **trouble}
        run = subprocess.run([self.bundle / "scripts/gpu_check.sh", "--out", self.out, "--seconds", str(seconds), *options],
                             env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=500)  # what hangs does so for longer
        if status is not None:
            self.assertEqual(run.returncode, status, run.stdout)
        recorder = self.bundle / "recorder"
        if recorder.exists():  # nvidia-smi must not outlive the check
            self.assertFalse(pathlib.Path("/proc", recorder.read_text().strip()).exists())
        return run.stdout

    def summary(self, text):
        """{part: result}, in their order."""
        lines = text.split("==== summary")[1].splitlines()[1:]
        return {line.split()[1]: line.split()[0] for line in lines}

    def comparison(self):
        return json.loads((self.out / "comparison.json").read_text())["results"]

    def test_all_parts_run_in_order_and_leave_a_few_files(self):
        text = self.check()
        self.assertEqual(list(self.summary(text).items()),
                         [(part, "ok") for part in ("smoke", "tests", "bench", "profile", "sanitize")])
        self.assertEqual({path.name for path in self.out.iterdir()},
                         {"log.txt", "machine.txt", "clocks.csv", "cases.txt", "device.json", "profile.json",
                          "comparison.json", "comparison.md"})
        machine = (self.out / "machine.txt").read_text()
        for found in ("Driver Version", "braid fake", "cuda:0: a fake GPU", "python 3"):
            self.assertIn(found, machine)
        for case in ("one convolution", "a step, replayed", "a tiny network trains as on the CPU", "one epoch of three networks at once"):
            self.assertRegex(text, rf"ok +\d+ ms {case}\n")
        self.check_begins_with_what_matters_most(text)

    def check_begins_with_what_matters_most(self, text):
        results = self.comparison()
        self.assertEqual([(r["config"], r["batch_size"], r["precision"]) for r in results[:5]],
                         [("resnet50", 32, "bf16"), ("googlenet", 8, "bf16"), ("pathnet_conv", 8, "bf16"),
                          ("inception_v3", 8, "bf16"), ("googlenet", 32, "bf16")])
        self.assertEqual([program["name"] for program in results[0]["programs"]],
                         ["Braid, 1 stream", "Braid, auto", "PyTorch, eager", "PyTorch, CUDA graph"])
        self.assertEqual(results[0]["ops"]["Braid, auto"]["implementations"][0]["implementation"], "engine 7")
        pytorch = results[0]["ops"]["PyTorch, eager"]
        self.assertEqual([(op["op"], op["measured_us"]) for op in pytorch["ops"]],
                         [("aten::cudnn_convolution", 100), ("aten::relu", 20)])
        self.assertEqual(pytorch["kernels"], 4)
        self.assertIn("| resnet50 | 32 | bf16 | PyTorch, eager | CUPTI | 120 | aten::cudnn_convolution 100, aten::relu 20 |", text)
        self.assertIn("| resnet50 | 32 | bf16 | Braid, auto | events | 120 | conv2d 120 |", text)
        self.assertRegex(text, r"\| resnet50 \| 32 \| bf16 \| 4\.000 \| 3\.000 \|.* 1\.33× \|")

    def test_without_a_gpu_it_is_skipped(self):
        self.assertIn("skipped", self.check(status=77, FAKE_NO_GPU="1"))

    def test_a_gpu_that_braid_cannot_use_is_a_failure(self):
        self.assertIn("cuda: not available: planned", self.check(status=1, FAKE_NO_CUDA="1"))

    def test_wrong_options_are_refused(self):
        for options in (["--only", "test"], ["--only", "smoke,test"], ["--seconds", "0"], ["--out"], ["--fast"]):
            self.assertIn("usage", self.check(*options, status=2))

    def test_a_failed_case_is_shown_and_a_later_call_resumes_with_what_is_missing(self):
        first = self.check("--only", "smoke,tests", status=1, FAKE_FAIL="-tc=a step")
        self.assertRegex(first, r"FAILED +\d+ ms a step, replayed\n +planned failure")  # and it stops nothing
        self.assertRegex(first, r"ok +\d+ ms several sessions\n")
        self.assertEqual(self.summary(first), {"smoke": "ok", "tests": "FAILED"})
        second = self.check("--only", "smoke,tests", "--resume")
        self.assertIn("done before         one convolution\n", second)
        self.assertRegex(second, r"ok +\d+ ms a step, replayed\n")
        self.assertEqual(second.count(" ms "), 1)
        self.assertEqual(self.summary(second), {"smoke": "ok", "tests": "ok"})

    def test_a_case_that_hangs_is_stopped_and_stops_nothing(self):
        text = self.check("--only", "smoke", status=1, FAKE_HANG="-tc=one convolution")
        self.assertRegex(text, r"STOPPED +\d+ ms one convolution\n +planned hang")
        self.assertRegex(text, r"ok +\d+ ms every op")
        self.assertIn("one convolution", (self.out / "cases.txt").read_text())

    def test_ops_are_tried_one_by_one_when_one_fails(self):
        text = self.check("--only", "smoke", status=1, FAKE_FAIL="f32$|-sc=relu")
        self.assertRegex(text, r"FAILED +\d+ ms every op agrees")
        self.assertRegex(text, r"ok +\d+ ms   conv2d\n")
        self.assertRegex(text, r"FAILED +\d+ ms   relu\n")

    def test_no_cases_is_a_failure(self):
        self.assertIn("lists no cases", self.check("--only", "smoke", status=1, FAKE_FAIL="-ltc"))

    def test_all_networks_of_the_demo_must_learn(self):
        text = self.check("--only", "tests", status=1, FAKE_ACCURACY="0.1")
        self.assertIn("only 2 of 3 networks", text)
        (self.bundle / "data").rmdir()
        self.assertIn("synthetic", self.check("--only", "tests", FAKE_ACCURACY="0.1"))

    def test_an_interrupted_profile_keeps_what_it_has(self):
        text = self.check("--only", "profile", status=1, FAKE_HANG="cuda/googlenet.yaml .*--batch-size 32.*bf16")
        self.assertRegex(text, r"STOPPED +\d+ ms googlenet, batch 32, bf16")
        profile = json.loads((self.out / "profile.json").read_text())
        self.assertEqual((profile["measurements"], profile["pairs"]), (16, 15))

    def test_a_profile_that_is_left_out_is_among_the_results(self):
        text = self.check("--only", "profile", seconds=6, status=None, FAKE_HANG="profile")
        left_out = re.findall("left out for lack of time: .*", text)
        self.assertGreater(len(left_out), 0)
        self.assertEqual(re.findall("left out for lack of time: .*", (self.out / "cases.txt").read_text()), left_out)

    def test_time_ends_the_check(self):
        text = self.check(seconds=6, status=1, FAKE_HANG=".")
        self.assertEqual(len(self.summary(text)), 5)
        self.assertIn("left out", text)

    def test_a_program_that_hangs_or_fails_leaves_the_comparison(self):
        text = self.check("--only", "bench", status=1, FAKE_HANG="cuda/googlenet.*batch_size=8.* run", FAKE_FAIL="torch.cuda.graph")
        first, second, third = self.comparison()[:3]
        self.assertEqual([len(result["programs"]) for result in (first, second, third)], [3, 1, 3])
        self.assertRegex(" ".join(second["failed"]), "Braid, 1 stream gave no answer in 8 s")
        self.assertIn("PyTorch, CUDA graph ended with exit status 3", first["failed"])
        self.assertIn("Failed: resnet50, batch 32, bf16: PyTorch, CUDA graph ended", text)

    def test_steps_that_are_not_captured_are_a_failure_and_keep_their_times(self):
        text = self.check("--only", "bench", status=1, FAKE_CAPTURE_REPORT="steps run without a CUDA graph: relu 4")
        result = self.comparison()[0]
        self.assertEqual(len(result["programs"]), 4)
        self.assertEqual(result["failed"], ["Braid, auto: steps run without a CUDA graph: relu 4"])
        self.assertIn("Failed: resnet50, batch 32, bf16: Braid, auto: steps run without a CUDA graph: relu 4.", text)

    def test_a_profiler_that_fails_costs_no_times(self):
        self.check("--only", "bench", status=1, FAKE_FAIL="torch.profiler")
        result = self.comparison()[0]
        self.assertEqual(len(result["programs"]), 4)
        self.assertEqual(list(result["ops"]), ["Braid, auto"])

    def test_a_comparison_out_of_time_keeps_its_results(self):
        text = self.check("--only", "bench", seconds=20, FAKE_SECONDS="1.2")  # 18 s for eight combinations of at least 2.4 s
        results = self.comparison()
        self.assertGreater(len(results), 0)
        self.assertLess(len(results), 8)
        self.assertIn("Left out for lack of time: ", text)
        self.assertIn("| resnet50 | 32 | bf16 |", (self.out / "comparison.md").read_text())

    def test_without_pytorch_or_a_sanitizer_these_parts_are_skipped(self):
        only_trouble = self.bundle / "python"
        only_trouble.mkdir()
        shutil.copy(FAKES / "trouble.py", only_trouble)
        (self.bundle / "fakes/compute-sanitizer").unlink()
        if shutil.which("compute-sanitizer") is None and not pathlib.Path("/usr/local/cuda/bin/compute-sanitizer").exists():
            self.assertEqual(self.summary(self.check("--only", "sanitize", python=only_trouble)), {"sanitize": "skipped"})
        self.install("compute-sanitizer", self.bundle / "fakes")
        self.assertEqual(self.summary(self.check("--only", "bench", python=only_trouble)), {"bench": "skipped"})

    def test_sanitizers_check_our_own_kernels_only(self):
        self.check("--only", "sanitize")
        calls = re.findall(r"^sanitizer: (.*)", (self.out / "log.txt").read_text(), re.MULTILINE)
        self.assertEqual(len(calls), 3)
        for call in calls:
            self.assertIn("--kernel-name kns=5braid", call)


if __name__ == "__main__":
    unittest.main()
