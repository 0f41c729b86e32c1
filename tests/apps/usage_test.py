#!/usr/bin/env python3
"""The command line itself: what it accepts, how it explains mistakes, what it says of itself.

Usage: usage_test.py PATH_OF_BRAID"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

from command import BRAID, LIMIT, TINY, CommandTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += map(str, (ROOT / "scripts", ROOT / "benchmarks"))
import check_docs  # noqa: E402
from check_numbers import Numbers  # noqa: E402
from pytorch_tables import speedup  # noqa: E402


class Usage(CommandTest):
    def test_the_config_that_is_printed_is_that_of_the_run(self):
        for config in ("tiny.yaml", "jobs.yaml", "paths.yaml"):
            printed = self.braid("train", config, "--print-config", "--set", "seed=3").stdout
            self.assertIn("\nseed: 3\n", printed)
            self.assertFalse(self.runs.exists())
            (self.folder / "printed.yaml").write_text(printed)
            self.assertEqual(self.braid("train", "printed.yaml", "--print-config").stdout, printed)
        printed = self.braid("train", self.config, "--print-config").stdout
        self.assertEqual(self.braid("train", self.config, "-q").returncode, 0)
        self.assertEqual((self.runs / "tiny-1" / "config.yaml").read_text(), printed)

    def test_what_configs_may_say_is_a_schema_or_tables(self):
        self.assertEqual(json.loads(self.braid("config", "schema").stdout)["title"], "Braid config")
        self.assertIn("| `train.batch_size` | integer ≥ 1 | 64 | images in a step |\n", self.braid("config", "table").stdout)
        self.assertEqual(self.misused("config", "x"), "what: expected schema or table, got 'x'")

    def test_commands_in_documents_are_parsed_and_not_run(self):
        page = """
Mentions, as `braid plan --html` or `braid train --resume`, leave out arguments; `braid bench --ops` and `braid bench x --steps y` are wrong.

    $ braid train tiny.yaml --set train.epoch=3 --set train.epochs=3   # once more
    $ braid trian tiny.yaml
    braid: error: there is no command
    mpirun -n 2 build/bin/braid train tiny.yaml --quiet > log
    braid launch -n 4 train tiny.yaml --loud
    braid plan lenet5 --html
"""
        self.assertEqual(list(check_docs.rejected_in(BRAID, {"train.epochs"}, page)), [
            "braid train tiny.yaml --set train.epoch=3 --set train.epochs=3 # once more: there is no key 'train.epoch'",
            "braid launch -n 4 train tiny.yaml --loud: there is no option '--loud'",
            "braid plan lenet5 --html: expected a value of --html",
            "braid bench --ops: there is no option '--ops'",
            "braid bench x --steps y: --steps: expected an integer from 1 to 1000000, got 'y'"])
        self.assertFalse(self.runs.exists())

    def test_numbers_in_documents_that_their_sources_do_not_say_are_found(self):
        numbers = Numbers(BRAID)
        node_count = "A step has 38<!-- braid plan lenet5 --device a100: report.nodes --> nodes."
        compared, limited = (json.loads((ROOT / f"benchmarks/results/{name}.json").read_text()) for name in ("pytorch-cpu", "memory_limit"))
        resnet = next(row for row in limited["rows"] if row["network"] == "resnet20")
        slowest = f"{min(map(speedup, compared['results'])):.2f}<!-- pytorch-cpu: min(map(speedup,\nresults)) --> times"
        worst = f"{100 * resnet['slowdown']:.1f}<!-- memory_limit: 100 * row(network='resnet20').slowdown --> %"
        again = f"{worst}, {resnet['mib']:.0f}<!-- …: row(network='resnet20').mib --> MiB"
        said = "4.32<!-- h100: said(\"together # ms a step\") --> ms"
        for right in (node_count, slowest, worst, again, said.replace("step", "turn")):
            self.assertEqual(numbers.written(right), right)
            wrong = re.sub(r"^\D*\d", lambda found: found[0][:-1] + "9", right)
            self.assertEqual(numbers.written(wrong), right)
        self.assertEqual(numbers.written(node_count.replace("38", "38.0")), node_count.replace("38", "38.0"))
        for wrong in (said, "1<!-- no_file: rows -->", "1<!-- memory_limit: row(network=\"none\") -->", "1<!-- a mark without a source -->"):
            with self.assertRaises((ValueError, OSError, TypeError)):
                numbers.written(wrong)
        table = "<!-- table: braid plan NAME --device a100: report.nodes -->\n\n| n | nodes |\n|---|---|\n| `lenet5` | 1 |\n"
        self.assertEqual(numbers.written(table), table.replace("| 1 |", "| 38 |"))
        output = "<!-- braid plan lenet5 --device a100 -->\n```text\n…\n38 nodes; 6 are convolutions and their gradients\n…\n```\n"
        self.assertIn("\npolicy ", numbers.written(output.replace("38 nodes", "39 nodes")))  # the whole output instead
        quote = "138<!-- docs/parallelism.md: 138 million parameters -->"
        self.assertEqual([*Numbers.mistakes_in_quotes(quote)], [])
        self.assertEqual(len([*Numbers.mistakes_in_quotes(quote.replace("138<", "139<"))]), 1)
        self.assertEqual(len([*Numbers.mistakes_in_quotes(quote.replace("million", "billion"))]), 1)

    def test_measured_numbers_without_a_source_are_found(self):
        def found(text):
            return [*Numbers.numbers_without_source("page.md", text)]

        for wrong in ("It takes 19.5\nms.", "2× as fast", "a ratio of 0.98", "| 3 MiB |", "8 % slower", "130 GFLOP/s", "1,165 µs", "2 to 3<!-- h100: x --> µs"):
            self.assertEqual(len(found(wrong)), 1, wrong)
        for right in ("3<!-- h100: x --> ms", "3×3 filters", "PyTorch 2.15", "2026-11-30", "`3 ms`", "    3 ms\n", "```text\n3 ms\n```\n",
                      "<!-- h100 -->\n| 3 ms |\n<!-- end of h100 -->\n"):
            self.assertEqual(found(right), [], right)
        self.assertEqual([*Numbers.numbers_without_source("README.md", "saves at least 2 %")], [])
        self.assertEqual(len([*Numbers.numbers_without_source("README.md", "saves at least 3 %")]), 2)

    def test_a_chapter_says_what_every_build_says_and_its_questions_have_right_answers(self):
        mistakes = Numbers(BRAID).mistakes_in_chapter
        self.assertEqual([*mistakes("1<!-- braid plan lenet5 --device h200: waits -->")],
                         ["braid plan lenet5 --device h200: what it prints depends on the build"])
        question = "```predict\nquestion: How many?\nchoices: 10 | 38\ncorrect: 1\ncommand: plan lenet5 --device a100\nvalue: report.nodes\n```\n"
        self.assertEqual([*mistakes(question)], ["choice 2 is right, as it is 38: How many?"])
        self.assertEqual([*mistakes("```sm\nkernels: relu: 256 31 0\n```\n")], ["a block of relu needs 256, 32, 0"])

    def test_config_mistakes_name_file_line_and_column(self):
        self.config.write_text(TINY.replace("batch_size: 32", "batch_sze: 32"))
        for command in ("train", "bench", "eval"):
            self.assertEqual(self.fails(command, "tiny.yaml"),
                             "tiny.yaml:14:3: train.batch_sze: unknown key (did you mean 'batch_size'?)")
        self.assertFalse(self.runs.exists())

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
        self.assertEqual(self.misused("devices", "cuda"), "expected --json with a device")
        self.assertEqual(self.misused("train", "tiny.yaml", "--quite"),
                         "there is no option '--quite' (did you mean '--quiet'?)")
        self.assertEqual(self.misused("train", "tiny.yaml", "---"), "there is no option '---'")
        self.assertEqual(self.misused("train", "tiny.yaml", "--steps", "3"),
                         "there is no option '--steps' here, only for 'braid bench', 'braid plan'")
        self.assertFalse(self.runs.exists())

    def test_an_option_that_is_a_key_of_the_config_is_translated(self):
        for option, override in (("--learning-rate", "optimizer.lr"), ("--epochs=3", "train.epochs"),
                                 ("--optimizer", "optimizer.name"), ("--device", "device"),
                                 ("--seed", "seed"), ("--benchmark", "autotune")):
            self.assertEqual(self.misused("train", "tiny.yaml", option),
                             f"there is no option '{option.split('=')[0]}'; to change the config: --set {override}=VALUE")

    def test_an_option_that_was_renamed_with_a_key_is_refused_with_its_new_name(self):
        for command in ("plan", "train"):
            self.assertEqual(self.misused(command, "tiny.yaml", "--costs", "profile.json"),
                             "there is no option '--costs' (did you mean '--profile'?)")

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
            text = self.succeeds(*arguments, "--help")
            self.assertIn(" ".join(["Usage: braid", *arguments]), text)
            self.assertRegex(text, r"\n\nExample:\n(  braid ([^\n]+ \\\n    )?[^\n]+\n)+$")
            self.narrow(text)

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

    def test_lost_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([BRAID, "devices"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
        self.assertEqual((result.returncode, result.stderr), (1, "braid: error: cannot write to standard output\n"))

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
        self.assertIn("known to 'braid plan --device': p100, p4000, v100, rtx2080ti, a100, h100, h200", result.stdout)
        self.assertEqual(json.loads(self.braid("devices", "h200", "--json").stdout)["name"], "NVIDIA H200")

    def test_an_unusable_device_says_why(self):
        devices = self.braid("devices").stdout
        if "cuda: not available" not in devices:
            self.skipTest("this machine has a CUDA device")
        self.assertIn("[cuda:3]", self.fails("train", self.config, "--set", "device=cuda:3"))

    def test_a_config_may_come_through_a_pipe_of_the_shell_only(self):
        shell = ["bash", "-c", 'cat "$1" | "$0" train /dev/stdin -q && "$0" train <(cat "$1") -q', BRAID, self.config]
        self.assertEqual(subprocess.run(shell, cwd=self.folder, timeout=LIMIT).returncode, 0)
        self.assertEqual(len(list(self.runs.iterdir())), 2)
        os.mkfifo(self.folder / "pipe")
        for command in (["train", "pipe"], ["train", self.config, "--set", "profile=pipe"],
                        ["plan", self.config, "--profile", "pipe"], ["eval", self.config, "--checkpoint", "pipe"]):
            self.assertRegex(self.fails(*command), "^pipe: cannot read the [a-z]+: expected a file, this is a named pipe$")

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
        self.assertEqual(self.braid("train", "jobs.yaml", "--set", "train.max_steps=1", *workers).stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
