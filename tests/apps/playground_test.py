#!/usr/bin/env python3
"""The planner in WebAssembly plans as the program does, byte for byte: playground_test.py PROGRAM SITE, a folder that scripts/site.sh has
made. Exits with 77 without Node."""
import base64
import contextlib
import json
import os
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
CPU_FILE = ROOT / "docs/two-cores.json"
CPU = CPU_FILE.read_text()
REQUEST = {"call": "plan", "device": "a100", "streams": 4, "policy": "", "batch_size": 32, "memory_limit": 0, "forward": False, "files": {}}


def in_wasm(*requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    run = subprocess.run(["node", ROOT / "tests/apps/playground.js", SITE], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def native(model, *options):
    run = subprocess.run([PROGRAM, "plan", model, *map(str, options)], capture_output=True, text=True)
    assert run.returncode in (0, 1) and run.stdout, run.stderr
    return run.stdout.rstrip("\n")


MINE = """\
name: mine
device: cpu
streams: 2
intra_op_threads: 1
model:
  layers:
    - {type: conv, name: stem, channels: 8, kernel: 3, activation: relu}
    - {type: conv, name: left, from: stem, channels: 8, kernel: 1}
    - {type: conv, name: right, from: stem, channels: 8, kernel: 1}
    - {type: concat, from: [left, right]}
    - {type: global_avg_pool}
    - {type: linear, name: fc}
data: {name: synthetic, size: 320, val_size: 16, image_size: 8, channels: 1, classes: 4}
train: {epochs: 1, batch_size: 8}
"""
CLUSTER = "{device: a100, hosts: 2, devices: 2, network: {latency: 10, bandwidth: 1}}"
FUZZ = os.environ.get("BRAID_FUZZ_INPUTS", "400")  # scripts/nightly.sh: more


def timeless(report):
    return re.sub(r'"plan_seconds":[^,}]*', "", report)


class Playground(unittest.TestCase):
    def check_same(self, request, *options, model=None, device=None):
        """The program gets the settings of the request, with a model or a device from a file, and these options."""
        request = {**REQUEST, **request}
        [answer] = in_wasm(request)
        self.assertNotIn("error", answer)
        settings = ["--device", device or request["device"], "--streams", request["streams"], "--batch-size", request["batch_size"]]
        if request["policy"]:
            settings += ["--policy", request["policy"]]
        self.assertEqual(timeless(answer["result"]), timeless(native(model or request["models"][0], *settings, *options, "--json")))

    def test_every_network_by_every_policy(self):
        [names] = in_wasm({"call": "names"})
        models = [model["name"] for model in names["result"]["models"]]
        self.assertGreater(len(models), 20)
        for model in models:
            with self.subTest(model):
                self.check_same({"models": [model], "batch_size": 8})

    def test_a_cpu_whose_nodes_have_widths(self):
        self.check_same({"models": ["squeezenet1_1"], "device": "cpu.json", "files": {"cpu.json": CPU}, "streams": 2}, device=CPU_FILE)

    def test_the_forward_pass(self):
        self.check_same({"models": ["googlenet"], "forward": True, "policy": "stages", "streams": 3}, "--forward")

    def test_a_memory_limit(self):
        self.check_same({"models": ["googlenet"], "memory_limit": 700 << 20, "policy": "critical_path"}, "--memory-limit", 700)

    def test_a_changed_device(self):
        self.check_same({"models": ["googlenet"], "policy": "critical_path", "sms": 64, "scale_bandwidth": 2, "scale_launch": 0.5, "wait": 3},
                        "--sms", 64, "--scale-bandwidth", 2, "--scale-launch", 0.5, "--wait", 3)

    def test_several_ranks(self):
        for strategy in ("data", "pipeline"):
            with self.subTest(strategy):
                self.check_same({"models": ["resnet18"], "policy": "critical_path", "ranks": 4, "cluster": "dgx_h100", "strategy": strategy},
                                "--ranks", 4, "--cluster", "dgx_h100", "--strategy", strategy)

    def test_a_config_of_the_readers(self):
        layers = [{"type": "flatten"}, {"type": "linear", "size": 64, "activation": "relu"}, {"type": "linear"}]
        text = json.dumps({"name": "mine", "model": {"layers": layers}, "train": {"epochs": 1, "batch_size": 4},
                           "data": {"name": "synthetic", "image_size": 8, "channels": 1, "classes": 10}})
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "mine.yaml"
            config.write_text(text)
            self.check_same({"models": [text], "policy": "critical_path"}, model=config)

    def test_networks_that_train_together(self):
        data = {"size": 32, "val_size": 1, "name": "synthetic", "image_size": 224, "classes": 1000}
        jobs = [{"name": f"{model}-{i}", "model": {"name": model}, "data": data, "train": {"epochs": 1, "batch_size": 32}}
                for i, model in enumerate(("resnet18", "squeezenet1_1"), 1)]
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "together.yaml"
            config.write_text(json.dumps({"name": "together", "jobs": jobs}))
            self.check_same({"models": ["resnet18", "squeezenet1_1"], "policy": "matching"}, model=config)

    def test_mistakes_are_errors_with_the_message_of_the_program(self):
        answers = in_wasm({**REQUEST, "models": ["resnet"]}, {**REQUEST, "models": ["resnet18"], "device": "h300"},
                          {**REQUEST, "models": ["lenet5"], "policy": "serial"})
        self.assertIn("there is no model 'resnet'", answers[0]["error"])
        self.assertIn("h300", answers[1]["error"])
        self.assertIn("result", answers[2])

    def test_explanations(self):
        for model, block in (("lenet5", ""), ("googlenet", "inception4a")):
            plan, explained = in_wasm({**REQUEST, "models": [model], "device": "cpu.json", "files": {"cpu.json": CPU}, "policy": "serial"},
                                      {"call": "explain", "block": block, "policies": ["list", "critical_path", "matching"]})
            self.assertIn("result", plan)
            self.assertEqual(explained["result"], subprocess.run(
                [PROGRAM, "explain", model, "--device", CPU_FILE, "--streams", "4", "--batch-size", "32", "--json", "--against", "matching",
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


class WithFiles(unittest.TestCase):
    """The program makes one file of each kind."""
    made = None

    @classmethod
    def setUpClass(cls):
        if WithFiles.made is not None:
            return
        WithFiles.made = tempfile.TemporaryDirectory()
        WithFiles.folder = pathlib.Path(WithFiles.made.name)
        (cls.folder / "mine.yaml").write_text(MINE)
        (cls.folder / "cluster.yaml").write_text(CLUSTER)
        (cls.folder / "device.json").write_text(cls.braid("devices", "cpu", "--json"))
        cls.braid("profile", "mine.yaml", "-o", "costs.json", "--pairs", "9")
        cls.braid("plan", "mine.yaml", "--device", "device.json", *cls.PLAN, "--policy", "matching", "--write-plan", "plan.json")
        cls.braid("train", "mine.yaml", "--quiet", "--trace", "run.json", "--html", "run.html")

    PLAN = ("--streams", "2", "--batch-size", "8")

    @classmethod
    def braid(cls, *arguments):
        run = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, cwd=cls.folder)
        assert run.returncode == 0, run.stderr
        return run.stdout



class FilesOfTheReader(WithFiles):
    """The same command with a file prints what the page plans."""

    def own(self, *names):
        return {name: (self.folder / name).read_text() for name in names}

    def opened(self, own):
        files = [answer["result"] for answer in in_wasm(*({"call": "open", "name": name, "text": text} for name, text in own.items()))]
        return {file["kind"]: file for file in files}

    def request(self, *names, **others):
        """With these files instead of those of the folder."""
        files = self.opened({**self.own("mine.yaml", "device.json", *(name for name in names if name not in others)), **others})
        return {**REQUEST, "models": [files["network"]["text"]], "device": "device.json", "streams": 2, "batch_size": 8,
                "policy": "critical_path", "files": {file["name"]: file["text"] for file in files.values()},
                **{kind: files[kind]["name"] for kind in ("profile", "plan", "trace", "cluster") if kind in files}}

    def check_same(self, request, *options, device="device.json"):
        [answer] = in_wasm(request)
        self.assertNotIn("error", answer)
        self.assertEqual(timeless(answer["result"]),
                         timeless(self.braid("plan", "mine.yaml", "--device", device, *self.PLAN, "--policy", "critical_path", *options, "--json").rstrip("\n")))
        return json.loads(answer["result"])

    def test_every_kind_is_recognised_by_its_content(self):
        files = self.opened(self.own("mine.yaml", "cluster.yaml", "device.json", "costs.json", "plan.json", "run.json"))
        self.assertEqual({kind: file["name"] for kind, file in files.items()},
                         {"network": "mine.yaml", "cluster": "cluster.yaml", "device": "device.json", "profile": "costs.json",
                          "plan": "plan.json", "trace": "run.json"})
        for text, error in (("colour: red", "x: expected a trace .* a profile .* a plan .* a device .* a network.* a cluster.*; got the keys colour"),
                            ("7", "x: expected a trace .*; got 7"), (self.braid("plan", "mine.yaml", "--json"), "got the numbers that 'braid plan --json'")):
            self.assertRegex(in_wasm({"call": "open", "name": "x", "text": text})[0]["error"], error)

    def test_a_network_in_yaml(self):
        self.check_same(self.request())

    def test_every_config_is_read_as_the_program_reads_it_and_needs_no_data(self):
        configs = sorted((ROOT / "configs").glob("*.yaml"))
        self.assertGreater(len(configs), 20)
        texts = [answer["result"]["text"] for answer in in_wasm(*({"call": "open", "name": c.name, "text": c.read_text()} for c in configs))]
        requests = [{**REQUEST, "models": [text], "policy": "serial", "batch_size": 8} for text in texts]
        for config, answer in zip(configs, in_wasm(*requests)):
            with self.subTest(config.name):
                run = subprocess.run([PROGRAM, "plan", config, "--device", "a100", "--streams", "4", "--batch-size", "8", "--policy", "serial",
                                      "--json"], capture_output=True, text=True)
                if config.name == "image_folder.yaml":
                    self.assertIn("expected a data set whose classes are known without its files, got image_folder", answer["error"])
                elif "error" in answer:
                    self.assertIn(answer["error"], re.sub(r"(yaml:\d+):\d+", r"\1", " ".join(run.stderr.split())))
                else:
                    self.assertEqual(timeless(answer["result"]), timeless(run.stdout.rstrip("\n")))

    def test_mistakes_in_yaml_are_named_with_their_lines(self):
        for change, line, native in (
                (("channels: 8", "chanels: 8"), 7, True), (("epochs: 1", "epochs: many"), 14, True), (("epochs: 1", "epochs: '1'"), 14, True),
                (("size: 320", "size: 320.5"), 13, True), (("- {type: linear, name: fc}", "- {type: linear, nam: fc}"), 12, True),
                (("device: cpu", "name: cpu"), 2, False), (("streams: 2", "streams: &two 2"), 3, False), (("streams: 2", "streams: !!int 2"), 3, False)):
            with self.subTest(change):
                text = MINE.replace(*change, 1)
                (self.folder / "wrong.yaml").write_text(text)
                run = subprocess.run([PROGRAM, "plan", "wrong.yaml"], capture_output=True, text=True, cwd=self.folder)
                said = " ".join(run.stderr.split())
                self.assertIn(f"wrong.yaml:{line}:", said)
                [answer] = in_wasm({"call": "open", "name": "wrong.yaml", "text": text})
                if native:
                    [answer] = in_wasm({**self.request(), "models": [answer["result"]["text"]]})
                    self.assertIn(answer["error"], re.sub(r"(wrong.yaml:\d+):\d+", r"\1", said))
                self.assertTrue(answer["error"].startswith(f"wrong.yaml:{line}: "), answer["error"])

    def test_a_device(self):
        text = json.dumps({**json.loads((self.folder / "device.json").read_text()), "name": "slow", "bytes_per_second": 1e9})
        (self.folder / "slow.json").write_text(text)
        plan = self.check_same({**self.request(**{"slow.json": text}), "device": "slow.json"}, device="slow.json")
        self.assertEqual(plan["device"], "slow")

    def test_a_cluster(self):
        self.check_same({**self.request("cluster.yaml"), "ranks": 4, "device": "a100"}, "--ranks", "4", "--cluster", "cluster.yaml", device="a100")

    def test_a_profile(self):
        report = self.check_same(self.request("costs.json"), "--profile", "costs.json")
        self.assertGreater(report["measured_nodes"], 20)
        [answer] = in_wasm({**self.request("costs.json"), "device": "a100"})
        self.assertIn("costs.json: expected a profile of 'NVIDIA A100'", answer["error"])

    def test_a_plan_is_verified_and_simulated(self):
        report = self.check_same(self.request("plan.json"), "--plan", "plan.json")
        self.assertEqual(report["plans"][-1]["policy"], "matching of plan.json")
        plan = json.loads((self.folder / "plan.json").read_text())
        plan["offsets"] = [max(offset, -1) and min(offset, 0) for offset in plan["offsets"]]
        other, unsafe = in_wasm({**self.request("plan.json"), "models": ["lenet5"]}, self.request("plan.json", **{"plan.json": json.dumps(plan)}))
        self.assertRegex(other["error"], r"(?s)plan.json: expected a plan of lenet5, images .*placements instead of")
        self.assertIn("made an unsafe plan", unsafe["error"])

    def test_a_measured_run_is_drawn_as_the_program_draws_it(self):
        plan, data = in_wasm(self.request("run.json"), {"call": "page_data"})
        self.assertIn("result", plan)
        ours = json.loads(data["result"])
        native = json.loads(re.search("const DATA = (.*);</script>", (self.folder / "run.html").read_text())[1])
        self.assertEqual(ours["clock"], native["clock"])
        for key in ("title", "device", "edges", "pace", "measured_pace"):
            self.assertEqual(ours[key], native[key], key)
        self.assertEqual(sorted(ours["waits"]), sorted(native["waits"]))
        for node, expected in zip(ours["nodes"], native["nodes"], strict=True):
            for key in ("op", "layer", "stream", "width", "alone", "level", "planned"):
                self.assertEqual(node[key], expected[key])
            for time, measured in zip(node["measured"], expected["measured"]):
                self.assertAlmostEqual(time, measured)
        other, elsewhere = in_wasm({**self.request("run.json"), "models": ["lenet5"]}, {**self.request("run.json"), "device": "a100"})
        self.assertIn("the trace is of a step with another network", other["error"])
        self.assertIn("expected a run on 'NVIDIA A100', got one on", elsewhere["error"])

    def test_changed_files_and_requests_end_in_plans_or_messages(self):
        files = ("costs.json", "plan.json", "run.json", "cluster.yaml")
        seeds = [{**REQUEST, "models": ["lenet5"], "policy": "critical_path", "own": {}}]
        for file in files:
            own = self.own("mine.yaml", "device.json", file)
            seeds.append({**REQUEST, "device": "device.json", "streams": 2, "batch_size": 8, "policy": "critical_path", "own": own,
                          **({"ranks": 2} if file == "cluster.yaml" else {})})
        for seed in seeds:
            del seed["call"]
        subprocess.run(["node", ROOT / "tests/apps/files_fuzz.js", SITE, FUZZ], input="".join(json.dumps(seed) + "\n" for seed in seeds),
                       text=True, check=True)


@unittest.skipIf(BROWSER is None, "there is no Chromium")
class PlaygroundPage(WithFiles):
    LENET = "model=lenet5&device=a100&batch=3&streams=2"

    @contextlib.contextmanager
    def open(self, fragment, site=SITE.as_uri()):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            with OpenPage(f"{site}/playground.html#{fragment}", folder) as page:
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

    def choose(self, page, *files):
        root = page.call("DOM.getDocument")["root"]["nodeId"]
        node = page.call("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
        page.call("DOM.setFileInputFiles", nodeId=node, files=[str(file) for file in files])

    def paste(self, page, text):
        page.look(f"$('paste').open = true; $('pasted').value = {json.dumps(text)}; $('take').click(); 0")

    def test_files_of_every_kind_are_opened_pasted_and_dropped(self):
        numbers = json.loads((self.folder / "costs.json").read_text())
        device = numbers["device"]
        idle = "!busy && $('errors').textContent === ''"
        with self.open("model=lenet5&batch=3&streams=2") as page:
            self.choose(page, self.folder / "mine.yaml", self.folder / "device.json")
            page.wait(f"$('opened').children.length === 2 && $('description').textContent === 'mine.yaml: a network: mine' && {idle}")
            self.assertEqual(page.look("[controls.model.value, controls.device.value]"), ["mine.yaml", "device.json"])
            self.assertIn(f"device.json: a device: {device}", page.look("$('opened').textContent"))
            self.paste(page, (self.folder / "costs.json").read_text())
            page.wait(f"$('sources').textContent.startsWith('The durations of 27 nodes come from pasted-1') && {idle}")
            self.assertIn(f"pasted-1: a profile: {len(numbers['measurements'])} durations on {device}", page.look("$('opened').textContent"))
            self.assertEqual(page.look("$('pasted').value"), "")
            page.look("[...$('opened').querySelectorAll('button')].at(-1).click(); 0")
            page.wait(f"$('opened').children.length === 2 && $('sources').textContent === '' && {idle}")
            self.choose(page, self.folder / "plan.json")
            page.wait(f"$('sources').textContent.includes('plan.json is a plan of this step, and no fault was found in it') && {idle}")
            self.assertEqual(page.look("document.querySelector('#policies tbody tr:last-child').cells[0].textContent"), "matching of plan.json")
            page.look("[...$('opened').querySelectorAll('button')].at(-1).click(); 0")
            page.wait(f"$('opened').children.length === 2 && {idle}")
            page.look(f"""const data = new DataTransfer();
                data.items.add(new File([{json.dumps((self.folder / 'run.json').read_text())}], 'run.json'));
                document.body.dispatchEvent(new DragEvent('drop', {{dataTransfer: data, bubbles: true}})); 0""")
            page.wait(f"$('cards').textContent.includes('Measured') && $('sources').textContent.includes('run.json') && {idle}")
            page.wait("document.querySelector('#plan iframe:not(.next)')?.contentDocument.body.textContent.includes('easured')")
            self.choose(page, self.folder / "cluster.yaml")
            page.wait("controls.cluster.value === 'cluster.yaml' && controls.ranks.value === '1'")
            self.assertIn("cluster.yaml: a cluster of 2 × 2 a100", page.look("$('opened').textContent"))

    def test_the_program_serves_the_files_and_runs_of_its_machine(self):
        command = [PROGRAM, "playground", "mine.yaml", "costs.json", "runs", "--port", "0", "--site", SITE]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True) as server:
            self.addCleanup(server.kill)
            address = re.search(r"http://[^/]*", server.stdout.readline())[0]
            with self.open("model=lenet5&device=a100&batch=3&streams=2", address) as page:
                page.wait("controls.local.options.length === 4 && !$('local').hidden && !busy")
                self.assertEqual(page.look("[...controls.local.options].map(option => option.value)"),
                                 ["", "costs.json", "mine.yaml", "runs/mine-1/config.yaml"])
                for name in ("mine.yaml", "runs/mine-1/config.yaml"):
                    page.look(f"controls.local.value = '{name}'; controls.local.dispatchEvent(new Event('change')); 0")
                    page.wait(f"$('description').textContent === '{name}: a network: mine' && !busy && $('errors').textContent === ''")
                self.assertEqual(page.look("[...$('runs').querySelectorAll('a')].map(link => link.getAttribute('href'))"), ["runs/mine-1/"])
                page.call("Page.navigate", url=f"{address}/runs/mine-1/")
                page.wait("document.querySelector('[data-column=run]')?.textContent === 'mine-1'")
            server.kill()

    def test_broken_files_of_every_kind_are_refused_with_the_reason(self):
        def without(name, key):
            return json.dumps({each: value for each, value in json.loads((self.folder / name).read_text()).items() if each != key})

        with self.open("model=lenet5&batch=3&streams=2") as page:
            for text, where, error in (
                    ("colour: red", "own-errors", "pasted-1: expected a trace ('braid train --trace FILE'); a profile"),
                    ("model: {name: x", "own-errors", "pasted-2:2: not valid YAML: unexpected end of the stream within a flow collection"),
                    (MINE.replace("channels", "chanels"), "errors", "pasted-3:7: "),
                    ("{device: a100, hosts: many}", "errors", "pasted-4:1: hosts: expected an integer"),
                    (without("device.json", "capacity"), "errors", "pasted-5.json: "),
                    (without("costs.json", "capacity"), "errors", "pasted-6: is not a profile that 'braid profile' wrote: the whole has no key 'capacity'"),
                    (without("plan.json", "events"), "errors", "pasted-7: expected a plan of googlenet, images [8,"),
                    (without("run.json", "otherData"), "errors", "[trace] the whole has no key 'otherData'")):
                with self.subTest(error):
                    self.paste(page, text)
                    page.wait(f"!busy && $('{where}').textContent.startsWith({json.dumps(error)})")
                    page.look("[...$('opened').querySelectorAll('button')].forEach(each => each.click()); controls.ranks.value = 0; 0")
                    page.wait("!busy && $('opened').children.length === 0")
            page.wait("$('errors').textContent === ''")

    def test_a_changed_device_and_several_ranks(self):
        def step_time(page):
            return page.look("document.querySelector('#cards dd b').textContent")

        with self.open(self.LENET) as page:
            before = step_time(page)
            self.assertFalse(page.look("$('more').open"))
            page.look("$('more').open = true; controls.launch.value = 8; controls.launch.dispatchEvent(new Event('input', {bubbles: true})); 0")
            page.wait(f"document.querySelector('#cards dd b').textContent !== {json.dumps(before)}")
            self.assertIn("launch=8", page.look("location.hash"))
            self.assertTrue(page.look("document.querySelector('[data-for=ranks]').hidden"))
            page.look("controls.ranks.value = 3; controls.ranks.dispatchEvent(new Event('input', {bubbles: true})); 0")
            page.wait("$('cards').textContent.includes('of 8 ranks')")
            self.assertFalse(page.look("document.querySelector('[data-for=ranks]').hidden"))

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
