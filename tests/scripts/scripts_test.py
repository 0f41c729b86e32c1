#!/usr/bin/env python3
"""The scripts that people wait for: what a step prints, who waits for whom, and how test cases are counted."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


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


if __name__ == "__main__":
    unittest.main()
