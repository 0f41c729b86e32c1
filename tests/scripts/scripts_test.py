#!/usr/bin/env python3
"""The scripts: what a step and the demo print, who waits for whom, how test cases are counted, which types are defined
twice, what is wrong with a kernel, how long a step takes at least, and what tables the benchmarks print."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
FAKES = pathlib.Path(__file__).resolve().parent / "fakes"
sys.path.insert(0, str(SCRIPTS))
sys.path.insert(0, str(SCRIPTS.parent / "benchmarks"))
import check_kernels  # noqa: E402
import step_counts  # noqa: E402


class Steps(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="braid-scripts-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def start(self, commands, ci=False):
        environment = {name: value for name, value in os.environ.items() if name != "CI"}
        if ci:
            environment["CI"] = "true"
        script = f"set -euo pipefail\nsource {SCRIPTS / 'steps.sh'}\nbegin_steps 2 log.txt\n{commands}\n"
        return subprocess.Popen(["bash", "-c", script], cwd=self.folder, env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def output(self, commands, status=0, ci=False):
        process = self.start(commands, ci)
        text = process.communicate()[0]
        self.assertEqual(process.returncode, status, text)
        return text

    def test_a_step_that_succeeds_is_one_line_and_its_output_is_in_the_log(self):
        self.assertEqual(self.output("step first echo noise\nbuild_step second true"), "[1/2] first …\n[2/2] second …\n")
        self.output("step first echo noise")
        self.assertEqual((self.folder / "log.txt").read_text(), "noise\n")

    def test_a_step_that_fails_shows_its_output_and_ends_the_script(self):
        text = self.output("step first bash -c 'echo reason; exit 3'\nstep second true", status=3)
        self.assertIn("reason\nfailed (exit status 3)", text)
        self.assertIn("log.txt", text)
        self.assertNotIn("second", text)

    def test_continuous_integration_sees_all_output_as_it_comes(self):
        self.assertEqual(self.output("step first echo noise", ci=True), "[1/2] first …\nnoise\n")

    def test_a_build_waits_for_one_that_outlived_its_killed_script(self):
        script = self.start("only_build build\n(while [[ ! -e go_on ]]; do sleep 0.05; done; touch ended) "
                            ">/dev/null 2>&1 &\necho locked\nwait")
        self.assertEqual(script.stdout.readline(), "locked\n")
        script.send_signal(signal.SIGKILL)
        script.communicate()
        self.assertFalse((self.folder / "ended").exists())
        second = self.start("only_build build\n[[ -e ended ]]")
        self.assertEqual(second.stdout.readline(), "waiting for another build in build to end …\n")
        (self.folder / "go_on").touch()
        second.communicate()
        self.assertEqual(second.returncode, 0)

    def test_a_build_that_ended_keeps_nobody_waiting(self):
        self.assertEqual(self.output("only_build build\nend_build\nbash -c 'exec 8>build/.lock; flock --nonblock 8'"), "")


class Demo(unittest.TestCase):
    """scripts/demo.sh with a finished build and fakes of all that it runs."""

    def run_demo(self, **environment):
        with tempfile.TemporaryDirectory(prefix="braid-demo-") as name:
            folder = pathlib.Path(name)
            binaries = folder / "build/release/bin"
            for made in (folder / "scripts", folder / "fakes", binaries):
                made.mkdir(parents=True)
            for script in ("demo.sh", "steps.sh"):
                shutil.copy(SCRIPTS / script, folder / "scripts")
            for nothing in ("scripts/setup.sh", "fakes/cmake"):
                (folder / nothing).write_text("#!/bin/sh\n")
            shutil.copy(FAKES / "nvidia-smi", folder / "fakes")
            shutil.copy(FAKES / "braid", binaries)
            for program in (*folder.glob("scripts/*"), *folder.glob("fakes/*"), *binaries.iterdir()):
                program.chmod(0o755)
            (folder / "build/release/build.ninja").touch()
            (folder / "build/release/CMakeCache.txt").write_text("BRAID_CUDA:STRING=AUTO\n")
            run = subprocess.run([folder / "scripts/demo.sh", "--set", f"output.root={folder}/runs"], text=True, capture_output=True,
                                 env={**os.environ, "PATH": f"{folder}/fakes:{os.environ['PATH']}", "PYTHONPATH": str(FAKES),
                                      "PYTHONDONTWRITEBYTECODE": "1", **environment})
            self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
            return run.stdout

    def test_a_gpu_that_the_build_cannot_use_is_mentioned(self):
        self.assertIn("has a GPU, but training will use the CPU: planned. BRAID_CUDA=ON", self.run_demo(FAKE_NO_CUDA="1"))

    def test_nothing_is_said_of_a_gpu_in_use_or_where_there_is_none(self):
        self.assertNotIn("GPU", self.run_demo())
        self.assertNotIn("GPU", self.run_demo(FAKE_NO_CUDA="1", FAKE_NO_GPU="1"))


def junit(*cases):
    """A report of ctest: (name, status, doctest's passed, failed and filtered cases)."""
    entries = [f'<testcase name="{name}" status="{status}"><system-out>[doctest] test cases: {passed + failed} | '
               f'{passed} passed | {failed} failed | {left} skipped</system-out></testcase>'
               for name, status, passed, failed, left in cases]
    return f"<testsuite>{''.join(entries)}</testsuite>"


class CountTests(unittest.TestCase):
    def count(self, *cases):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as report:
            report.write(junit(*cases))
            report.flush()
            run = subprocess.run([sys.executable, SCRIPTS / "count_tests.py", report.name], capture_output=True, text=True)
        return run.stdout.strip()

    def test_cases_that_another_part_of_the_program_runs_are_not_skipped(self):
        parts = ("scheduler/plan", "run", 3, 0, 5), ("scheduler/waits", "run", 5, 0, 3)
        self.assertEqual(self.count(("core", "run", 2, 0, 0), *parts), "10 passed, 0 failed, 0 skipped")

    def test_a_case_that_no_part_of_the_program_runs_is_skipped(self):
        parts = ("scheduler/plan", "run", 3, 0, 5), ("scheduler/waits", "run", 4, 0, 4)
        self.assertEqual(self.count(*parts), "7 passed, 0 failed, 1 skipped")

    def test_a_failure_in_one_part_is_a_failure(self):
        parts = ("scheduler/plan", "fail", 2, 1, 5), ("scheduler/waits", "run", 5, 0, 3)
        self.assertEqual(self.count(*parts), "7 passed, 1 failed, 0 skipped")

    def test_a_program_of_one_part_says_itself_what_it_skipped(self):
        self.assertEqual(self.count(("data", "run", 6, 0, 1)), "6 passed, 0 failed, 1 skipped")


class CheckTypes(unittest.TestCase):
    def repeated(self, **sources):
        """Sources by path, with __ for a slash; all but the ending, which is cpp."""
        with tempfile.TemporaryDirectory(prefix="braid-types-") as folder:
            for name, text in sources.items():
                path = pathlib.Path(folder, name.replace("__", "/") + ".cpp")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            run = subprocess.run([sys.executable, SCRIPTS / "check_types.py", folder], capture_output=True, text=True)
        self.assertEqual(run.stderr, "")
        self.assertEqual(run.returncode, bool(run.stdout))
        return run.stdout

    def test_braid_defines_no_type_twice(self):
        run = subprocess.run([sys.executable, SCRIPTS / "check_types.py"], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))

    def test_a_type_that_two_files_define_is_reported(self):
        expected = "braid::Range is defined in ops/a.cpp and train/b.cpp\n"
        for other in ("struct Range { int to; };", "class Range final : public Base<int> {};", "enum class Range : long { a };",
                      "// a comment {\n#define OPEN {\nconst char kOpen = '{', *kText = \"{\\\"\";\nstruct alignas(8) Range {};"):
            self.assertEqual(self.repeated(ops__a="namespace braid { struct Range { int from; }; }",
                                           train__b="namespace braid {\n" + other + "\n}"), expected)

    def test_types_that_cannot_meet_may_share_a_name(self):
        mine = "namespace braid { struct Range { int from; }; }"
        for other in ("namespace braid { namespace { struct Range { int to; }; } }", "namespace braid::cpu { struct Range {}; }",
                      "namespace braid { struct Range; }", "namespace braid { void f() { struct Range {}; } }",
                      "namespace braid { struct Axis { struct Range {}; }; }", "namespace braid { template <> struct Range<int> {}; }"):
            self.assertEqual(self.repeated(ops__a=mine, train__b=other), "")

    def test_programs_of_their_own_may_share_a_name_but_not_one_of_the_library(self):
        mine = "namespace braid { struct Range { int from; }; }"
        self.assertEqual(self.repeated(tests__ops__a=mine, tests__train__b=mine, examples__c=mine, examples__d=mine), "")
        self.assertIn("defined in core/r.cpp and examples/c.cpp", self.repeated(core__r=mine, examples__c=mine))
        self.assertIn("defined in tests/ops/a.cpp and tests/ops/b.cpp", self.repeated(tests__ops__a=mine, tests__ops__b=mine))


class CheckKernels(unittest.TestCase):
    REPORT = ("ptxas info    : Compiling entry function 'pass' for 'sm_90'\nptxas info    : Function properties for pass\n"
              "    {} bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
              "ptxas info    : Used {} registers, used 1 barriers, {} bytes smem\n")
    LOAD, WIDE_LOAD = "\tld.global.nc.f32 %f1, [%rd1];\n", "\tld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n"

    def kernel(self, body, local=0, registers=64, shared=0, name="pass"):
        ptx = f".visible .entry pass(\n)\n.maxntid 256, 1, 1\n{{\n{body}}}\n.visible .entry other(\n)\n{{\n{self.LOAD * 99}}}\n"
        kernel, = check_kernels.kernels_in(self.REPORT.format(local, registers, shared), ptx, "pass.cu")
        return kernel._replace(name=name)

    def test_a_kernel_that_moves_vectors_is_right(self):
        kernel = self.kernel(self.WIDE_LOAD * 4 + self.LOAD * 3 + "\tst.global.wb.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};\n")
        self.assertEqual((kernel.wide("ld"), kernel.narrow("ld"), kernel.wide("st"), kernel.narrow("st")), (4, 3, 1, 0))
        self.assertEqual(list(kernel.faults()), [])

    def test_local_memory_narrow_accesses_and_few_blocks_are_faults(self):
        self.assertIn("local memory", *self.kernel("", local=8).faults())
        self.assertIn("32 loads of less than 16 bytes beside 6", *self.kernel(self.WIDE_LOAD * 6 + self.LOAD * 32).faults())
        self.assertIn("room for 2 blocks", *self.kernel("", registers=84).faults())
        self.assertIn("room for 2 blocks", *self.kernel("", shared=100 << 10).faults())
        self.assertEqual(list(self.kernel("", registers=84, name="pass<double>").faults()), [])

    def test_the_table_shows_the_loss_of_wide_loads_or_stores_of_any_kernel_of_an_op(self):
        store, wide_store = self.LOAD.replace("ld.", "st."), self.WIDE_LOAD.replace("ld.", "st.")

        def row(first, second):
            kernels = [self.kernel(first, name="pass<4>"), self.kernel(self.LOAD + store, name="pass<1>"),
                       self.kernel(second, name="sums<4>")]
            with unittest.mock.patch.dict(check_kernels.OPS, {"op": r"pass<\d|sums<"}, clear=True):
                return next(check_kernels.rows_of(kernels))[1:3]
        wide = self.WIDE_LOAD + wide_store
        self.assertEqual(row(wide, wide), ("16 B", "16 B"))
        self.assertEqual(row(wide, wide_store), ("16 B and none", "16 B"))
        self.assertEqual(row(self.LOAD + wide_store, wide), ("4 B and 16 B", "16 B"))
        self.assertEqual(row(wide, self.WIDE_LOAD + store), ("16 B", "16 B and 4 B"))

    def test_the_scarcest_of_what_an_sm_has_limits_its_blocks(self):
        for registers, shared, blocks in ((32, 0, 8), (33, 0, 6), (64, 0, 4), (80, 0, 3), (128, 0, 2), (32, 31 << 10, 7)):
            self.assertEqual(self.kernel("", registers=registers, shared=shared).blocks(), blocks)


class StepCounts(unittest.TestCase):
    def test_a_step_takes_as_long_as_what_limits_it(self):
        self.assertEqual(step_counts.floor("bf16", 4800, 98.9, 400), (1000, "memory"))
        self.assertEqual(step_counts.floor("bf16", 4800, 98.9, 600), (1200, "launches"))
        self.assertEqual(step_counts.floor("bf16", 480, 989, 400), (1000, "arithmetic"))
        self.assertEqual(step_counts.floor("tf32", 480, 989, 400), (2000, "arithmetic"))

    def test_the_counts_of_pytorch_are_read_back_from_the_table(self):
        own = [{"kernels": 40, "chain": 20, "waits": 7, "bytes": 1e9, "flops": 1e12, "cudnn": "9.19"}] * len(step_counts.ROWS)
        pytorch = [(100 + row, step_counts.rounded(1234.5 + 1000 * row)) for row in range(len(own))]
        table = "".join(step_counts.make_table(own, pytorch, "2.9.1"))
        self.assertEqual(step_counts.written_pytorch(table), (pytorch, "2.9.1"))
        with self.assertRaisesRegex(SystemExit, "other rows"):
            step_counts.written_pytorch(table.replace("| bf16 | resnet50 | 8 |", "| bf16 | resnet50 | 16 |"))


class BenchmarkTables(unittest.TestCase):
    """The ratios of the scripts in benchmarks/ for times that drift: both programs become slower by half, and the ratio does not."""
    serial = [1.0, 1.1, 1.2, 1.4, 1.5]
    auto = [0.80, 0.88, 0.96, 1.12, 1.23]

    def test_streams_are_compared_by_one_ratio(self):
        import compare_streams
        choice = "serial: 1000 ms; relative to it, x: 0.8 (0.8 to 0.8); kept critical_path on 2 streams, which saves 20.0 %"
        rows = [{"network": "net", "batch": 1, "size": 32, "serial_seconds": self.serial, "auto_seconds": self.auto, "choice": text}
                for text in (choice, "serial: 1000 ms; kept serial, as no other saves enough")]
        _, row, _, mean = compare_streams.table(rows)
        self.assertEqual(row, "| net | 32×32 | 1 | 1200.0 | 1.25 (1.25–1.25) | critical_path on 2 streams |\n")
        self.assertIn("Geometric mean 1.12, with 1 where serial was kept", mean)

    def test_trials_are_grouped_by_what_helped(self):
        import trials
        trial = {"idea": "fetch", "measured": "0.9", "date": "2026-11-30", "how": "5 turns", "result": "adopted"}
        helped, _, row, separator, others, _, joined, unbuilt = trials.table(
            [{**trial, "result": "not adopted", "idea": "join"}, trial, {**trial, "result": "not built"}]).splitlines()
        self.assertEqual((helped, others, separator), ("| helped | measured | how |", "| did not help | measured | how |", ""))
        self.assertEqual((row, joined), tuple(f"| {idea} | 0.9 | 2026-11-30: 5 turns |" for idea in ("fetch", "join")))
        self.assertEqual(unbuilt, "| fetch (not built) | 0.9 | as above |")
        with self.assertRaises(KeyError):
            trials.table([{**trial, "result": "perhaps"}])

    def test_results_are_of_the_same_program_until_its_sources_change(self):
        import program
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(program, "ROOT", pathlib.Path(folder)):
            git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a"]
            for path in ("README.md", "docs/a.md", "core/a.cpp"):
                pathlib.Path(folder, path).parent.mkdir(exist_ok=True)
                pathlib.Path(folder, path).write_text("before")
            for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a"]):
                subprocess.run([*git, *command], check=True)
            for path, same in (("README.md", True), ("docs/a.md", True), ("core/a.cpp", False)):
                pathlib.Path(folder, path).write_text("after")
                self.assertEqual(program.is_same_program("HEAD"), same, path)

    def test_programs_are_compared_within_turns(self):
        import compare_pytorch
        programs = [{"name": name, "step_seconds": times, "peak_bytes": 2**20}
                    for name, times in (("Braid", self.auto), ("PyTorch", self.serial))]
        table = compare_pytorch.cpu_table([{"config": "net", "options": {"batch_size": 6, "threads": 2},
                                            "programs": programs}])
        self.assertIn("| PyTorch | 1200.00 ms (1000.00–1500.00) | 5 | 1.25× (1.25–1.25) |", table)

    def test_turns_of_cores_that_share_a_cache_are_known(self):
        import pytorch_tables
        result = {"handover_ns": [[30, 31, 35], [31, 200, 33], [30, 30, 180]],
                  "programs": [{"name": "Braid", "step_seconds": [1, 1, 1]}, {"name": "PyTorch", "step_seconds": [2, 3, 4]}]}
        self.assertEqual(pytorch_tables.turns_by_cache(result), ([2], [3, 4]))

    def test_large_batches_run_one_program_at_a_time(self):
        import compare_pytorch
        groups = []

        def measure(config, batch, precision, suite, arguments, sides):
            groups.append(sides)
            return {"pytorch": "", "failed": [], "ops": {}, "programs": [{"name": side, "persistent_bytes": 80} for side in sides]}

        arguments = types.SimpleNamespace(modes=None, compile=False)
        with unittest.mock.patch.object(compare_pytorch, "measure_on_gpu", measure):
            for batch in (32, 256):
                result = compare_pytorch.compare_on_gpu("net", batch, "bf16", compare_pytorch.SUITES["cuda"], arguments)
                self.assertEqual([program["name"] for program in result["programs"]], ["Braid", "eager", "CUDA graph"])
        self.assertEqual(groups, [["Braid", "eager", "CUDA graph"], ["Braid"], ["eager"], ["CUDA graph"]])

    def test_ranks_are_compared_within_turns(self):
        import compare_ddp
        programs = [{"name": name, "step_seconds": times} for name, times in (("Braid, overlapped", self.auto), ("PyTorch DDP", self.serial))]
        table = compare_ddp.table([{"network": "net", "batch": 6, "programs": programs, "settings": {"Braid, overlapped": {"makespan": 0.72}}}])
        beside, pytorch = list(table)[-2:]
        self.assertIn("| 1.00 (1.00–1.00) | 720.0 | 0.75 |", beside)
        self.assertIn("| PyTorch DDP | 1200.0 (1100.0–1400.0) | 5 | 1.25 (1.25–1.25) |", pytorch)

    def test_one_turn_has_no_spread(self):
        import program
        self.assertEqual(list(program.relative([3], [2])), [1.5, 1.5, 1.5])


if __name__ == "__main__":
    unittest.main()
