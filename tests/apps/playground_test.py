#!/usr/bin/env python3
"""The planner in WebAssembly plans as the program does, byte for byte: playground_test.py PROGRAM SITE, a folder that scripts/site.sh has
made. Exits with 77 without Node."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from command import BRAID  # takes the path of the program

from browser import BROWSER, OpenPage

PROGRAM, SITE = pathlib.Path(BRAID).resolve(), pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
CPU = (ROOT / "docs/two-cores.json").read_text()
REQUEST = {"call": "plan", "device": "a100", "streams": 4, "policy": "", "batch_size": 32, "memory_limit": 0, "forward": False, "files": {}}


def in_wasm(*requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    run = subprocess.run(["node", ROOT / "tests/apps/playground.js", SITE], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def native(model, *options):
    run = subprocess.run([PROGRAM, "plan", model, *options], capture_output=True, text=True)
    assert run.returncode in (0, 1) and run.stdout, run.stderr
    return run.stdout.rstrip("\n")


def timeless(report):
    return re.sub(r'"plan_seconds":[^,}]*', "", report)


class Playground(unittest.TestCase):
    def check_same(self, request, *options, model=None):
        [answer] = in_wasm({**REQUEST, **request})
        self.assertNotIn("error", answer)
        self.assertEqual(timeless(answer["result"]), timeless(native(model or request["models"][0], *options, "--json")))

    def test_every_network_by_every_policy(self):
        [names] = in_wasm({"call": "names"})
        models = [model["name"] for model in names["result"]["models"]]
        self.assertGreater(len(models), 20)
        for model in models:
            with self.subTest(model):
                self.check_same({"models": [model], "batch_size": 8}, "--device", "a100", "--streams", "4", "--batch-size", "8")

    def test_a_cpu_whose_nodes_have_widths(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "cpu.json"
            file.write_text(CPU)
            self.check_same({"models": ["squeezenet1_1"], "device": "cpu.json", "files": {"cpu.json": CPU}, "streams": 2},
                            "--device", file, "--streams", "2", "--batch-size", "32")

    def test_the_forward_pass(self):
        self.check_same({"models": ["googlenet"], "forward": True, "policy": "stages", "streams": 3},
                        "--device", "a100", "--streams", "3", "--batch-size", "32", "--forward", "--policy", "stages")

    def test_a_memory_limit(self):
        self.check_same({"models": ["googlenet"], "memory_limit": 700 << 20, "policy": "critical_path"},
                        "--device", "a100", "--streams", "4", "--batch-size", "32", "--memory-limit", "700", "--policy", "critical_path")

    def test_networks_that_train_together(self):
        data = {"size": 32, "val_size": 1, "name": "synthetic", "image_size": 224, "classes": 1000}
        jobs = [{"name": f"{model}-{i}", "model": {"name": model}, "data": data, "train": {"epochs": 1, "batch_size": 32}}
                for i, model in enumerate(("resnet18", "squeezenet1_1"), 1)]
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "together.yaml"
            config.write_text(json.dumps({"name": "together", "jobs": jobs}))
            self.check_same({"models": ["resnet18", "squeezenet1_1"], "policy": "matching"},
                            "--device", "a100", "--streams", "4", "--batch-size", "32", "--policy", "matching", model=config)

    def test_mistakes_are_errors_with_the_message_of_the_program(self):
        answers = in_wasm({**REQUEST, "models": ["resnet"]}, {**REQUEST, "models": ["resnet18"], "device": "h300"},
                          {**REQUEST, "models": ["lenet5"], "policy": "serial"})
        self.assertIn("there is no model 'resnet'", answers[0]["error"])
        self.assertIn("h300", answers[1]["error"])
        self.assertIn("result", answers[2])

    def test_the_page_of_a_plan(self):
        plan, page = in_wasm({**REQUEST, "models": ["lenet5"], "policy": "critical_path"}, {"call": "page"})
        self.assertIn("result", plan)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "plan.html"
            native("lenet5", "--device", "a100", "--streams", "4", "--batch-size", "32", "--policy", "critical_path", "--html", file)
            self.assertEqual(page["result"], file.read_text())

    @unittest.skipIf(BROWSER is None, "there is no Chromium")
    def test_the_page_keeps_its_state_in_its_address_and_plans_what_is_chosen(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            address = (SITE / "playground.html").as_uri() + "#model=lenet5&device=a100&batch=3&streams=2"
            with OpenPage(address, folder) as page:
                self.assertEqual(page.look("controls.model.value"), "lenet5")
                page.look("controls.policy.value = 'matching'; plan(); 0")
                page.wait("document.querySelector('#policies .chosen')?.textContent.startsWith('matching')")
                self.assertIn("policy=matching", page.look("location.hash"))
                [answer] = in_wasm({**REQUEST, "models": ["lenet5"], "batch_size": 8, "streams": 2, "policy": "matching"})
                waits = json.loads(answer["result"])["plans"][1]["waits"]
                self.assertEqual(page.look("document.querySelector('#policies .chosen').cells[5].textContent"), str(waits))
                page.wait("document.querySelector('iframe:not(.next)').contentDocument.querySelectorAll('.bar').length > 20")
                page.look("$('compare').click(); 0")
                page.wait("document.querySelectorAll('#policies tbody tr').length === 7")
                self.assertEqual(page.look("$('errors').textContent"), "")


if __name__ == "__main__":
    if shutil.which("node") is None:
        print("playground: skipped (there is no Node)")
        sys.exit(77)
    unittest.main()
