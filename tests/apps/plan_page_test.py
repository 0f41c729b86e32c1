#!/usr/bin/env python3
"""The page of braid plan --html, opened in a browser: what it shows is what the plan says.

Usage: plan_page_test.py PATH_OF_BRAID. Exits with 77 where there is no Chromium."""

import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BRAID = sys.argv.pop(1) if len(sys.argv) > 1 else "braid"
BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
SMALL = ["--set", "data.image_size=32", "--set", "data.classes=10", "--batch-size", 4]
TINY = """\
name: tiny
device: cpu
threads: 2
model: {name: lenet5}
data: {name: synthetic, size: 96, test_size: 40, image_size: 16, channels: 1, classes: 4}
train: {epochs: 1, batch_size: 32}
"""


class Page(html.parser.HTMLParser):
    """The elements of a page, each as its attributes with its name and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append({"tag": tag, "text": "", **{key: value or "" for key, value in attributes}})

    def handle_data(self, data):
        if self.elements:
            self.elements[-1]["text"] += data

    def of_class(self, *names):
        return [e for e in self.elements if set(names) <= set(e.get("class", "").split())]

    def with_attribute(self, name):
        return [e for e in self.elements if name in e]

    def by_id(self, name):
        return next(e for e in self.elements if e.get("id") == name)


class PlanPage(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="braid-page-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "tiny.yaml").write_text(TINY)

    def plan(self, *arguments):
        result = subprocess.run([BRAID, "plan", *map(str, arguments), "--json", "--html", "plan.html"], cwd=self.folder,
                                capture_output=True, text=True, timeout=300)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)

    def browse(self, query="", *options):
        """What the page looks like to a program once its scripts have run, with no network."""
        command = [BROWSER, "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--window-size=1320,1000",
                   "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={self.folder / 'browser'}", *options,
                   "--dump-dom", f"file://{self.folder / 'plan.html'}{query}"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        page = Page(result.stdout)
        self.assertEqual(page.by_id("errors")["text"].strip(), "")
        self.assertEqual(next(e for e in page.elements if e["tag"] == "body").get("data-ready"), "yes")
        return page

    def data(self):
        text = (self.folder / "plan.html").read_text()
        return json.loads(re.search(r"const DATA = (.*);</script>", text).group(1))

    def check_shown(self, page, data):
        nodes = sorted(node["id"] for node in data["nodes"])
        numbers = [int(e["data-node"]) for e in page.of_class("bar")]
        self.assertEqual(sorted(numbers), nodes)
        self.assertEqual(sorted(int(e["data-node"]) for e in page.of_class("box")), nodes)
        for kind in ("bar", "box"):
            marked = [int(e["data-node"]) for e in page.of_class(kind, "critical")]
            self.assertEqual(sorted(marked), sorted(data["critical"]))
        waits = [[int(e["data-before"]), int(e["data-after"])] for e in page.with_attribute("data-before")]
        self.assertEqual(sorted(waits), sorted(data["waits"]))
        edges = [[int(e["data-from"]), int(e["data-to"])] for e in page.of_class("edge") if "data-from" in e]
        self.assertEqual(sorted(edges), sorted(data["edges"]))
        self.assertEqual(len(page.of_class("use")), len(data["memory"]))
        for bar in page.of_class("bar"):
            self.assertGreater(float(bar["width"]), 0)
            self.assertGreater(float(bar["height"]), 0)

    def check_numbers(self, page, plan):
        shown = {e["data-number"]: e for e in page.with_attribute("data-number")}
        for key in ("makespan_us", "lower_bound_us", "depth_us", "work_us", "waits", "used_streams", "arena_bytes"):
            self.assertAlmostEqual(float(shown[key]["data-value"]), plan[key], delta=1e-9 * plan[key], msg=key)
        scale = {"s": 1e6, "ms": 1e3, "µs": 1}
        number, unit = shown["makespan_us"]["text"].split()
        self.assertAlmostEqual(float(number) * scale[unit], plan["makespan_us"], delta=0.006 * plan["makespan_us"])
        number, unit = shown["arena_bytes"]["text"].split()
        self.assertAlmostEqual(float(number) * {"KiB": 1024, "MiB": 1024**2}[unit], plan["arena_bytes"],
                               delta=0.006 * plan["arena_bytes"])
        self.assertEqual(shown["waits"]["text"], str(plan["waits"]))

    def test_the_page_shows_the_plan(self):
        for arguments in (["tiny.yaml", "--streams", 2], ["googlenet", *SMALL, "--device", "h200", "--streams", 4]):
            plan = self.plan(*arguments)
            page = self.browse()
            self.check_shown(page, self.data())
            self.check_numbers(page, plan["plans"][plan["configured"]])
            self.assertIn("Plan: ", next(e for e in page.elements if e["tag"] == "title")["text"])

    def test_a_page_of_more_than_a_thousand_nodes_works(self):
        plan = self.plan("nasnet_a_mobile", *SMALL, "--device", "h200")
        self.assertGreater(plan["nodes"], 1000)
        self.check_shown(self.browse(), self.data())

    def test_a_block_has_a_page_too_and_parts_of_it_can_be_shown_alone(self):
        command = [BRAID, "explain", "googlenet", *map(str, SMALL), "--device", "h200", "--block", "inception3a", "--html",
                   "plan.html"]
        subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.DEVNULL, timeout=300)
        page = self.browse("?show=graph")
        self.check_shown(page, self.data())
        hidden = {e["id"] for e in page.elements if e["tag"] == "section" and "hidden" in e}
        self.assertEqual(hidden, {"numbers", "gantt", "memory", "words"})

    def test_the_page_of_a_training_has_the_real_times_beside_the_planned_ones(self):
        command = [BRAID, "train", "tiny.yaml", "-q", "--set", "train.epochs=10", "--set", "streams=2", "--set", "width=1",
                   "--html", "plan.html"]
        subprocess.run(command, cwd=self.folder, check=True, timeout=300)
        page, data = self.browse(), self.data()
        for run, path in (("planned", data["critical"]), ("measured", data["measured_critical"])):
            bars = [e for e in page.of_class("bar") if e["data-run"] == run]
            self.assertEqual(len(bars), len(data["nodes"]))
            marked = [int(e["data-node"]) for e in bars if "critical" in e["class"].split()]
            self.assertEqual(sorted(marked), sorted(path))

    def test_pictures_can_be_zoomed_and_what_is_pointed_at_lights_up_everywhere(self):
        self.plan("tiny.yaml", "--streams", 2)
        path = self.folder / "plan.html"
        # Where nothing is shown, frames may never come, but time is certain to pass.
        timed = "<head><script>window.requestAnimationFrame = (draw) => setTimeout(draw, 16);</script>"
        path.write_text(path.read_text().replace("<head>", timed).replace("</body>", """<script>
            const wide = +document.querySelector('.bar').getAttribute('width');
            const full = document.getElementById('graph-chart').getAttribute('viewBox');
            document.querySelector('[data-zoom="2"]').click();
            const turn = new WheelEvent('wheel', {deltaY: -400, clientX: 500, clientY: 500, cancelable: true});
            document.getElementById('graph-chart').dispatchEvent(turn);
            const bar = document.querySelector('.bar');
            bar.dispatchEvent(new MouseEvent('mousemove', {bubbles: true}));
            document.body.dataset.tooltip = document.getElementById('tooltip').textContent;
            document.body.dataset.lit = document.querySelectorAll(`.lit[data-node="${bar.dataset.node}"]`).length;
            setTimeout(() => {
              document.body.dataset.zoomed = document.querySelector('.bar').getAttribute('width') / wide;
              document.body.dataset.moved = document.getElementById('graph-chart').getAttribute('viewBox') !== full;
            }, 100);</script></body>"""))
        page = self.browse()
        body = next(e for e in page.elements if e["tag"] == "body")
        self.assertAlmostEqual(float(body["data-zoomed"]), 2, places=3)
        self.assertEqual(body["data-moved"], "true")
        self.assertIn("bottom level", body["data-tooltip"])
        node = page.of_class("bar")[0]["data-node"]
        self.assertEqual(int(body["data-lit"]), sum(e.get("data-node") == node for e in page.elements))
        self.assertGreaterEqual(int(body["data-lit"]), 3)  # bar, box, and a rectangle in memory

    def test_a_mistake_in_the_script_would_be_seen(self):
        self.plan("tiny.yaml")
        path = self.folder / "plan.html"
        path.write_text(path.read_text().replace('"nodes":', '"noodles":'))
        with self.assertRaises(AssertionError):
            self.browse()


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: there is no Chromium")
        sys.exit(77)
    unittest.main(verbosity=1)
