#!/usr/bin/env python3
"""The planner in WebAssembly plans as the program does, byte for byte: playground_test.py PROGRAM SITE, a folder that scripts/site.sh has
made. Exits with 77 without Node."""
import base64
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

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

    def test_a_changed_device(self):
        self.check_same({"models": ["googlenet"], "policy": "critical_path", "sms": 64, "scale_bandwidth": 2, "scale_launch": 0.5, "wait": 3},
                        "--device", "a100", "--streams", "4", "--batch-size", "32", "--policy", "critical_path", "--sms", "64",
                        "--scale-bandwidth", "2", "--scale-launch", "0.5", "--wait", "3")

    def test_several_ranks(self):
        for strategy in ("data", "pipeline"):
            with self.subTest(strategy):
                self.check_same({"models": ["resnet18"], "policy": "critical_path", "ranks": 4, "cluster": "dgx_h100", "strategy": strategy},
                                "--device", "a100", "--streams", "4", "--batch-size", "32", "--policy", "critical_path", "--ranks", "4",
                                "--cluster", "dgx_h100", "--strategy", strategy)

    def test_a_config_of_the_readers(self):
        layers = [{"type": "flatten"}, {"type": "linear", "size": 64, "activation": "relu"}, {"type": "linear"}]
        text = json.dumps({"name": "mine", "model": {"layers": layers}, "train": {"epochs": 1, "batch_size": 4},
                           "data": {"name": "synthetic", "image_size": 8, "channels": 1, "classes": 10}})
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "mine.yaml"
            config.write_text(text)
            self.check_same({"models": [text], "policy": "critical_path"}, "--device", "a100", "--streams", "4", "--batch-size", "32",
                            "--policy", "critical_path", model=config)

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

    def test_explanations(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "cpu.json"
            file.write_text(CPU)
            for model, block in (("lenet5", ""), ("googlenet", "inception4a")):
                plan, explained = in_wasm({**REQUEST, "models": [model], "device": "cpu.json", "files": {"cpu.json": CPU}, "policy": "serial"},
                                          {"call": "explain", "block": block, "policies": ["list", "critical_path", "matching"]})
                self.assertIn("result", plan)
                self.assertEqual(explained["result"], subprocess.run(
                    [PROGRAM, "explain", model, "--device", file, "--streams", "4", "--batch-size", "32", "--json", "--against", "matching",
                     *(["--block", block] if block else [])], capture_output=True, text=True, check=True).stdout.rstrip("\n"))

    def test_nothing_is_explained_before_it_is_planned(self):
        [answer] = in_wasm({"call": "explain", "block": "", "policies": ["list"]})
        self.assertEqual(answer["error"], "[explain] nothing is planned")

    def test_the_page_of_a_plan(self):
        plan, page = in_wasm({**REQUEST, "models": ["lenet5"], "policy": "critical_path"}, {"call": "page"})
        self.assertIn("result", plan)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "plan.html"
            native("lenet5", "--device", "a100", "--streams", "4", "--batch-size", "32", "--policy", "critical_path", "--html", file)
            self.assertEqual(page["result"], file.read_text())


@unittest.skipIf(BROWSER is None, "there is no Chromium")
class PlaygroundPage(unittest.TestCase):
    LENET = "model=lenet5&device=a100&batch=3&streams=2"

    @contextlib.contextmanager
    def open(self, fragment):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            with OpenPage((SITE / "playground.html").as_uri() + "#" + fragment, folder) as page:
                yield page

    @contextlib.contextmanager
    def open_after(self, script, fragment=LENET):
        """Opens the page with a script that runs before its own, and waits for nothing."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            with OpenPage("data:text/html,<body data-ready=yes>", folder) as page:
                page.call("Page.enable")
                page.call("Page.addScriptToEvaluateOnNewDocument", source=script)
                page.call("Page.navigate", url=(SITE / "playground.html").as_uri() + "#" + fragment)
                page.wait("typeof planner !== 'undefined'")
                yield page

    def click(self, page, selector):
        box = page.look(f"(() => {{ const element = document.querySelector('{selector}'); element.scrollIntoView({{block: 'center'}});"
                        "const {x, y, width, height} = element.getBoundingClientRect(); return [x + width / 2, y + height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            page.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def press(self, page, key):
        for kind in ("rawKeyDown", "keyUp"):
            page.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode={"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35}[key])

    def explained(self, block=""):
        return in_wasm({**REQUEST, "models": ["lenet5"], "batch_size": 8, "streams": 2, "policy": "critical_path"},
                       {"call": "explain", "block": block, "policies": ["list", "critical_path"]})[1]

    def test_one_steps_through_the_schedule_by_mouse_and_keys(self):
        step = json.loads(self.explained()["result"])
        starts = [pick for pick in step["plans"][0]["picks"] if pick["started"]]
        with self.open(self.LENET) as page:
            self.click(page, "#steps summary")
            page.wait("$('step-count').textContent.startsWith('0 of ')")
            self.assertIn("nodes wait to be scheduled", page.look("$('step-text').textContent"))
            self.click(page, "#step-next")
            page.wait("$('step-count').textContent.startsWith('1 of ')")
            self.assertIn(f"node {starts[0]['node']} conv2d (conv1) starts, until", page.look("$('step-text').textContent"))
            for reason in ("The most urgent.|It alone is ready.", "SM", "stream"):
                self.assertRegex(page.look("$('step-text').textContent"), reason)
            self.assertEqual(page.look("document.querySelectorAll('#step-gantt .bar').length"), 1)
            self.assertEqual(page.look("document.querySelector('#ready .chosen').dataset.ready"), str(starts[0]["node"]))
            self.assertEqual(page.look("document.querySelector('#step-graph .box.chosen').dataset.node"), str(starts[0]["node"]))
            for key, count in (("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2)):
                self.press(page, key)
                page.wait(f"$('step-count').textContent.startsWith('{count} of ')")
                self.assertEqual(page.look("document.querySelectorAll('#step-gantt .bar').length"), count)
            self.assertIn("step=2", page.look("location.hash"))
            self.click(page, "#step-last")
            page.wait(f"document.querySelectorAll('#step-gantt .bar').length === {len(step['nodes'])}")
            self.assertTrue(page.look("$('step-next').disabled"))
            page.look("$('step').focus()")
            self.press(page, "Home")
            page.wait("$('step-count').textContent.startsWith('0 of ')")
            self.click(page, "#step-play")
            page.wait("$('step-count').textContent.startsWith('2 of ')")
            self.click(page, "#step-play")
            self.assertEqual(page.look("$('step-play').textContent"), "Play")
            self.click(page, "#searched")
            page.wait("!$('search-text').hidden")
            self.assertEqual(page.look("document.querySelectorAll('#search-text li').length"), len(step["plans"][1]["attempts"]))
            self.assertIn(", kept", page.look("document.querySelector('#search-text .chosen').textContent"))
            page.look("$('part').value = 'conv1'; $('part').dispatchEvent(new Event('change')); 0")
            block = json.loads(self.explained("conv1")["result"])
            page.wait(f"document.querySelectorAll('#step-graph .box').length === {len(block['nodes'])}")

    def test_a_changed_device_several_ranks_and_files_of_the_reader(self):
        def step_time(page):
            return page.look("document.querySelector('#cards dd b').textContent")

        with self.open(self.LENET) as page, tempfile.TemporaryDirectory() as folder:
            before = step_time(page)
            self.assertFalse(page.look("$('more').open"))
            page.look("$('more').open = true; controls.launch.value = 8; controls.launch.dispatchEvent(new Event('input', {bubbles: true})); 0")
            page.wait(f"document.querySelector('#cards dd b').textContent !== {json.dumps(before)}")
            self.assertIn("launch=8", page.look("location.hash"))
            self.assertTrue(page.look("document.querySelector('[data-for=ranks]').hidden"))
            page.look("controls.ranks.value = 3; controls.ranks.dispatchEvent(new Event('input', {bubbles: true})); 0")
            page.wait("$('cards').textContent.includes('of 8 ranks')")
            self.assertFalse(page.look("document.querySelector('[data-for=ranks]').hidden"))

            config = {"name": "mine", "model": {"layers": [{"type": "flatten"}, {"type": "linear"}]}, "train": {"epochs": 1, "batch_size": 4},
                      "data": {"name": "synthetic", "image_size": 8, "channels": 1, "classes": 10}}
            files = {"mine.json": json.dumps(config), "slow.json": json.dumps({**json.loads(CPU), "name": "slow"}), "broken.json": "{"}
            for name, text in files.items():
                (pathlib.Path(folder) / name).write_text(text)
            for name, found in (("mine.json", "$('description').textContent.startsWith('mine.json')"),
                                ("slow.json", "controls.device.value === 'slow.json' && $('errors').textContent === ''"),
                                ("broken.json", "$('link-errors').textContent.startsWith('broken.json: expected a device or a config in JSON')")):
                root = page.call("DOM.getDocument")["root"]["nodeId"]
                node = page.call("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
                page.call("DOM.setFileInputFiles", nodeId=node, files=[str(pathlib.Path(folder) / name)])
                page.wait(found)
        with self.open(self.LENET + "&ranks=1&sms=9") as page:
            self.assertTrue(page.look("$('more').open"))
            self.assertIn("of 2 ranks", page.look("$('cards').textContent"))

    def test_two_policies_are_drawn_on_one_axis_with_their_first_difference(self):
        with self.open(self.LENET + "&against=serial") as page:
            page.wait("$('difference').textContent !== ''")
            self.assertIn("The first decision in which they differ", page.look("$('difference').textContent"))
            ticks = [page.look(f"[...document.querySelectorAll('#against-gantt-{i} text.faint')].map(each => each.textContent)") for i in (0, 1)]
            self.assertEqual(ticks[0], ticks[1])
            self.assertEqual(*(page.look(f"document.querySelector('#against-gantt-{i} .chosen').dataset.node") for i in (0, 1)))
            page.look("$('against').value = ''; $('against').dispatchEvent(new Event('change')); 0")
            page.wait("$('comparison').hidden")
            self.assertNotIn("against", page.look("location.hash"))

    def test_a_link_shows_the_same_step_and_a_wrong_one_says_what_is_wrong(self):
        with self.open(self.LENET + "&part=conv2&search=true&step=2&against=matching") as page:
            page.wait("$('step-count').textContent.startsWith('2 of ')")
            self.assertEqual(page.look("$('part').value"), "conv2")
            self.assertEqual(page.look("$('searched').getAttribute('aria-pressed')"), "true")
            self.assertEqual(page.look("$('against').value"), "matching")
            self.assertEqual(page.look("$('link-errors').textContent"), "")
        with self.open("model=lenet6&streams=99&step=abc&colour=red&device=a100&batch=0&part=conv9") as page:
            told = page.look("$('link-errors').textContent")
            for wrong in ("model = lenet6", "streams = 99", "step = abc", "colour = red"):
                self.assertIn(wrong, told)
            self.assertNotIn("batch", told)
            self.assertEqual(page.look("[controls.model.value, controls.streams.value]"), ["googlenet", "16"])
            self.click(page, "#steps summary")
            page.wait("$('step-errors').textContent.includes(\"no layer is 'conv9'\")")

    def test_a_change_draws_the_overview_of_the_chosen_policy_and_the_rest_once_changes_end(self):
        with self.open(self.LENET) as page:
            page.look("globalThis.asked = []; const real = call; call = (name, request) => { asked.push(name); return real(name, request); };"
                      "globalThis.drawn = []; const whole = draw; draw = page => { drawn.push(document.querySelectorAll('#overview .bar').length); whole(page); }; 0")
            page.look("(async () => { for (const streams of [3, 4, 5, 6]) { controls.streams.value = streams; await plan(); } asked.push('end'); })(); 0")
            page.wait("drawn.length > 0")
            asked = page.look("asked")
            self.assertEqual(asked[:asked.index("end")], ["plan", "page_data"] * 4)
            self.assertNotIn("explain", asked)
            self.assertEqual(len(page.look("drawn")), 1)
            self.assertEqual(page.look("drawn[0]"), page.look("document.querySelectorAll('#overview .bar').length"))
            self.assertEqual(page.look("document.querySelectorAll('#policies tbody tr').length"), 2)

    def test_the_plan_is_saved_as_svg_and_png(self):
        with self.open(self.LENET) as page:
            page.look("globalThis.saved = null; save_file = async (name, blob) => { saved = {name, data: await new Promise(done => {"
                      "const reader = new FileReader(); reader.onload = () => done(reader.result); reader.readAsDataURL(blob); })}; }; 0")
            self.click(page, "#save-svg")
            page.wait("saved")
            self.assertEqual(page.look("saved.name"), "lenet5-a100-critical_path.svg")
            picture = xml.etree.ElementTree.fromstring(base64.b64decode(page.look("saved.data").split(",")[1]))
            bars = [rect for rect in picture.iter("{http://www.w3.org/2000/svg}rect") if "bar" in rect.get("class", "").split()]
            self.assertGreater(len(bars), 20)
            self.assertTrue(all(re.search(r"fill: rgb\(\d", bar.get("style")) for bar in bars))
            page.look("saved = null; 0")
            self.click(page, "#save-png")
            page.wait("saved")
            self.assertEqual(page.look("saved.name"), "lenet5-a100-critical_path.png")
            image = base64.b64decode(page.look("saved.data").split(",")[1])
            self.assertEqual(image[:8], b"\x89PNG\r\n\x1a\n")
            self.assertGreater(int.from_bytes(image[16:20], "big"), 1000)

    def test_a_phone_shows_everything_without_scrolling_sideways(self):
        with self.open(self.LENET + "&step=3&search=true&against=serial") as page:
            page.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
            page.wait("$('step-count').textContent.startsWith('3 of ') && $('difference').textContent !== ''")
            self.assertEqual(page.look("document.documentElement.scrollWidth"), 390)

    def test_without_webassembly_the_page_says_so(self):
        with self.open_after("""Blob = class extends Blob { constructor(parts, options) {
                super(options?.type === 'text/javascript' ? ['delete self.WebAssembly;', ...parts] : parts, options); } };""") as page:
            page.wait("$('errors').textContent !== ''")
            self.assertEqual(page.look("$('errors').textContent"), "This browser has no WebAssembly, to which the planner is compiled.")

    def test_a_planner_that_does_not_answer_can_be_started_again(self):
        with self.open_after("const RealWorker = Worker; Worker = class { postMessage() {} terminate() {} };") as page:
            page.wait("!$('stop').hidden")
            self.assertIn("has not answered for", page.look("$('status').textContent"))
            page.look("Worker = RealWorker; 0")
            self.click(page, "#stop")
            page.wait("document.body.dataset.ready === 'yes'")
            self.assertEqual(page.look("$('errors').textContent"), "")
            self.assertTrue(page.look("$('stop').hidden"))

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
