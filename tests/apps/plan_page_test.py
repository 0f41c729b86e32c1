#!/usr/bin/env python3
"""The pages of braid plan --html and braid train --html, opened in a browser: what they show is what the data say.

Usage: plan_page_test.py PATH_OF_BRAID. Exits with 77 where there is no Chromium."""

import json
import pathlib
import re
import xml.etree.ElementTree

import browser
import command
from browser import InBrowser

SMALL = ["--set", "data.image_size=32", "--set", "data.classes=10", "--batch-size", 4]
TINY = command.TINY.replace("epochs: 2", "epochs: 1")
TOGETHER = TINY.replace("name: tiny", "name: together").replace("model: {name: lenet5}\n", "") + """\
jobs:
  - name: first
    model: {name: lenet5}
  - name: second
    model: {name: mlp}
    train: {epochs: 24}
"""
TRAINING = ["--set", "train.epochs=10", "--set", "streams=2", "--set", "intra_op_threads=1"]


def duration(node, run):
    return node[run][1] - node[run][0]


class PlanPage(InBrowser):
    def setUp(self):
        super().setUp()
        self.page = self.folder / "plan.html"
        (self.folder / "tiny.yaml").write_text(TINY)
        (self.folder / "together.yaml").write_text(TOGETHER)

    def plan(self, *arguments):
        return json.loads(self.succeeds("plan", *arguments, "--json", "--html", "plan.html"))

    def train(self, config, *arguments):
        """The folder of the run."""
        self.assertEqual(self.braid("train", config, "-q", *arguments, "--html", "plan.html").returncode, 0)
        return next((self.folder / "runs").iterdir())

    def check_shown(self, page, data):
        nodes = sorted(node["id"] for node in data["nodes"])
        numbers = [int(e["data-node"]) for e in page.of_class("bar")]
        self.assertEqual(sorted(numbers), nodes)
        self.assertEqual(sorted(int(e["data-node"]) for e in page.of_class("box")), nodes)
        for kind in ("bar", "box"):
            marked = [int(e["data-node"]) for e in page.of_class(kind, "critical")]
            self.assertEqual(sorted(marked), sorted(data["critical"]))
        self.assertEqual(len(page.of_class("mark")), len(data["critical"]))
        self.assertEqual([int(e["data-node"]) for e in page.of_class("strip")], data["pace"])
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
        for arguments in (["tiny.yaml", "--streams", 2], ["nasnet_a_mobile", *SMALL, "--device", "h200", "--streams", 4]):
            plan = self.plan(*arguments)
            page = self.browse()
            self.check_shown(page, self.data())
            self.check_numbers(page, plan["plans"][plan["configured"]])
            self.assertIn("Plan: ", next(e for e in page.elements if e["tag"] == "title")["text"])
        self.assertGreater(plan["nodes"], 1000)

    def test_the_page_of_a_plan_for_ranks_shows_communication_and_how_the_step_scales(self):
        scaling = self.plan("tiny.yaml", "--policy", "round_robin", "--ranks", 16, "--cluster", "ethernet_25g", "--svg",
                            "plan.svg")["scaling"]
        page, data = self.browse(), self.data()
        self.check_shown(page, data)
        rows = [e["text"] for e in page.of_class("row-name")]
        self.assertIn("link 0", rows)
        communicating = [node for node in data["nodes"] if node["op"] == "all_reduce"]
        self.assertEqual({node["stream"] for node in communicating}, {rows.index("link 0")})
        self.assertNotIn("hidden", page.by_id("scaling"))
        table = page.elements[page.elements.index(page.by_id("scaling-table")):]
        cells = [e["text"] for e in table if e["tag"] == "td" and e.get("class") == "number"][:7 * len(scaling)]
        self.assertEqual(cells[::7], ["1", "4", "16"])
        self.assertEqual(cells[2::7], [f"{100 * row['efficiency']:.0f} %" for row in scaling])
        self.assertEqual(len(page.of_class("point")), 2 * len(scaling))
        self.assertEqual(data["scaling"]["picture"], (self.folder / "plan.svg").read_text())
        xml.etree.ElementTree.parse(self.folder / "plan.svg")
        self.plan("tiny.yaml")
        self.assertIn("hidden", self.browse().by_id("scaling"))

    def test_a_block_has_a_page_too_and_parts_of_it_can_be_shown_alone(self):
        self.assertEqual(self.braid("explain", "googlenet", *SMALL, "--device", "h200", "--block", "inception3a", "--html",
                                    "plan.html").returncode, 0)
        page = self.browse("?show=graph")
        self.check_shown(page, self.data())
        hidden = {e["id"] for e in page.elements if e["tag"] == "section" and "hidden" in e}
        self.assertEqual(hidden, {"numbers", "scaling", "division", "losses", "gantt", "memory", "slowest", "gaps", "words"})

    def test_the_page_of_a_training_shows_what_was_measured(self):
        run = self.train("tiny.yaml", *TRAINING)
        page, data = self.browse(), self.data()
        self.check_times(page, data)
        self.check_losses(page, data, self.metrics(run.name))
        self.check_tables(page, data["nodes"])
        self.plan("tiny.yaml")
        page, nodes = self.browse(), self.data()["nodes"]
        for what in ("losses", "gaps"):
            self.assertIn("hidden", page.by_id(what))
        self.assertEqual([node for node, _ in self.rows(page, "slowest-table")],
                         [node["id"] for node in sorted(nodes, key=lambda node: -duration(node, "planned"))[:10]])

    def check_times(self, page, data):
        for run, pace in (("planned", data["pace"]), ("measured", data["measured_pace"])):
            bars = [e for e in page.of_class("bar") if e["data-run"] == run]
            self.assertEqual(len(bars), len(data["nodes"]))
            marked = [int(e["data-node"]) for e in bars if "critical" in e["class"].split()]
            self.assertEqual(sorted(marked), sorted(data["critical"]))
            self.assertEqual([int(e["data-node"]) for e in page.of_class("strip") if e["data-run"] == run], pace)

    def test_the_memory_map_of_a_training_has_the_time_axis_of_the_measured_step(self):
        self.train("tiny.yaml", *TRAINING)
        # Times that were planned ten times as short would squeeze the map if it showed those.
        path, data = self.folder / "plan.html", self.data()
        text = path.read_text()
        for node in data["nodes"]:
            node["planned"] = [time / 10 for time in node["planned"]]
        path.write_text(re.sub(r"const DATA = .*;</script>", lambda _: f"const DATA = {json.dumps(data)};</script>", text))
        right = """const right = what => Math.max(...[...document.querySelectorAll(what)].map(e => e.getBoundingClientRect().right));
            const ticks = chart => [...document.querySelectorAll(`#${chart} .axis`)][0].textContent;
            return [right('.bar[data-run="measured"]'), right('.use'), ticks('gantt-chart'), ticks('memory-chart'),
                    document.getElementById('memory-run').textContent];"""
        bars, rectangles, above, below, run = self.look(right)
        self.assertAlmostEqual(rectangles, bars, delta=2)
        self.assertGreater(rectangles, 1000)  # of 1280 pixels
        self.assertEqual(above, below)
        self.assertEqual(run, "measured")

    def check_losses(self, page, data, metrics):
        """The curve has a point for every step and one for every test."""
        epochs = [line for line in metrics if line["event"] == "epoch"]
        curve = next(e for e in page.of_class("loss") if e["tag"] == "polyline" and "val" not in e["class"].split())
        points = [tuple(map(float, point.split(","))) for point in curve["points"].split()]
        self.assertEqual(len(points), 30)  # 10 epochs of 3 batches
        self.assertEqual([x for x, _ in points], sorted(x for x, _ in points))
        losses = data["losses"][0]["steps"]
        for epoch, line in enumerate(epochs):  # the metrics have the mean of every epoch
            self.assertAlmostEqual(sum(losses[3 * epoch:3 * epoch + 3]) / 3, line["loss"], places=6)
        self.assertEqual(points[losses.index(min(losses))][1], max(y for _, y in points))  # y grows downwards
        tests = [(int(e["data-step"]), float(e["data-value"])) for e in page.of_class("loss", "val") if e["tag"] == "circle"]
        self.assertEqual(tests, [(line["step"], line["val_loss"]) for line in epochs])

    def rows(self, page, table):
        """Node and value of every row."""
        first = page.elements.index(page.by_id(table))
        end = next((i for i, e in enumerate(page.elements) if i > first and e["tag"] in ("section", "table")), None)
        return [(int(e["data-node"]), float(e["data-value"])) for e in page.elements[first:end] if "data-value" in e]

    def check_tables(self, page, nodes):
        """They have the slowest nodes and the largest gaps, in order."""
        for table, value in (("slowest-table", lambda node: duration(node, "measured")),
                             ("gaps-table", lambda node: abs(duration(node, "measured") - duration(node, "planned")))):
            expected = sorted(((node["id"], value(node)) for node in nodes), key=lambda row: -row[1])[:10]
            shown = self.rows(page, table)
            self.assertEqual([node for node, _ in shown], [node for node, _ in expected], table)
            for (_, got), (_, wanted) in zip(shown, expected):
                self.assertAlmostEqual(got, wanted, places=6)

    def test_jobs_that_train_together_have_colours_and_losses_of_their_own(self):
        script = """
            const fills = {};
            for (const e of document.querySelectorAll('.bar, .box')) {
              (fills[e.dataset.job] ??= new Set()).add(getComputedStyle(e).fill);
            }
            const legend = [...document.querySelectorAll('#gantt .legend span')].filter(e => e.querySelector('i'));
            return [Object.fromEntries(Object.entries(fills).map(([job, all]) => [job, [...all]])),
                    Object.fromEntries(legend.map(e => [e.textContent, getComputedStyle(e.querySelector('i')).backgroundColor])),
                    [...document.querySelectorAll('polyline.loss:not(.val)')].map(e => e.points.length)];"""
        self.plan("together.yaml", "--streams", 2)
        self.assertEqual(self.data()["jobs"], ["first", "second"])
        seen = []
        for scheme in (0, 1):  # dark, light
            fills, legend, _ = self.look(script, options=[f"--blink-settings=preferredColorScheme={scheme}"])
            self.assertEqual(set(fills), {"0", "1"})
            for each in fills.values():
                self.assertEqual(len(each), 1)
            self.assertNotEqual(fills["0"], fills["1"])
            self.assertEqual([legend["first"], legend["second"]], [fills["0"][0], fills["1"][0]])
            seen.append(fills)
        self.assertNotEqual(*seen)
        self.train("together.yaml", "--set", "train.epochs=20", "--set", "balance=none", *TRAINING[2:])
        fills, legend, points = self.look(script)
        self.assertEqual([legend["first"], legend["second"]], [fills["0"][0], fills["1"][0]])
        self.assertEqual(points, [60, 72])  # epochs of 3 batches
        self.plan("tiny.yaml")
        fills, legend, _ = self.look(script)
        self.assertNotIn("tiny", legend)  # one job: colours say which pass a node belongs to

    def test_the_graph_fits_and_names_appear_where_they_can_be_read(self):
        script = """
            const box = id => { const {left, right, top, bottom} = document.getElementById(id).getBoundingClientRect();
                                return [left, right, top, bottom]; };
            const boxes = [...document.querySelectorAll('.box')];  // in the order of their names
            const names = [...document.querySelectorAll('#graph-names text:not(.second)')].flatMap((e, i) => {
              const text = e.getBoundingClientRect(), box = boxes[i].getBoundingClientRect();
              return e.checkVisibility() && e.textContent ? [[text.height, text.left - box.left, box.right - text.right]] : [];
            });
            return [box('graph-drawing'), box('graph-chart'), names,
                    [document.documentElement.scrollWidth, innerWidth]];"""
        zoom = "document.querySelector('[data-graph-zoom=\"2\"]').click()"
        for model, width in (("googlenet", 1280), ("resnet20", 800)):
            self.plan(model, *(SMALL if model == "googlenet" else []), "--device", "h200")
            drawing, chart, names, (content, window) = self.look(script, width)
            self.assertLessEqual(content, window)
            self.assertGreaterEqual(drawing[0], chart[0])
            self.assertLessEqual(drawing[1], chart[1])
            self.assertGreaterEqual(drawing[2], chart[2])
            self.assertLessEqual(drawing[3], chart[3])
            self.assertGreater(drawing[1] - drawing[0], 0.9 * (chart[1] - chart[0]))
            self.assertEqual(names, [])
            zoomed, chart, names, _ = self.look(script, width, [zoom] * 6)
            self.assertGreater(zoomed[1] - zoomed[0], 3 * (drawing[1] - drawing[0]))
            self.assertGreater(len(names), 3)
            for height, left, right in names:
                self.assertGreater(height, 9)  # pixels: not scaled with the boxes
                self.assertGreater(min(left, right), 0)

    def test_the_text_of_the_picture_of_how_it_works_stays_within_its_boxes(self):
        picture = (pathlib.Path(__file__).resolve().parents[2] / "docs/how-it-works.svg").read_text()
        (self.folder / "plan.html").write_text(
            f'<html><head></head><body data-ready="yes"><div id="errors"></div>{picture}</body></html>')
        texts = self.look("""return [...document.querySelectorAll('text.body, text.note, text.code')].map(text => {
            const box = text.closest('g').closest('svg > g').querySelector('.panel').getBoundingClientRect();
            const {left, right} = text.getBoundingClientRect();
            return [text.textContent, left - box.left, box.right - right]; });""")
        self.assertGreater(len(texts), 20)
        for text, left, right in texts:
            self.assertGreater(min(left, right), 8, text)

    def test_pictures_can_be_zoomed_and_what_is_pointed_at_lights_up_everywhere(self):
        self.plan("tiny.yaml", "--streams", 2)
        before = """window.bar = document.querySelector('.bar');
            window.wide = +bar.getAttribute('width');
            window.full = document.getElementById('graph-drawing').getAttribute('transform');
            document.querySelector('[data-zoom="2"]').click();
            const turn = new WheelEvent('wheel', {deltaY: -400, clientX: 500, clientY: 500, cancelable: true});
            document.getElementById('graph-chart').dispatchEvent(turn);
            bar.dispatchEvent(new MouseEvent('mousemove', {bubbles: true}));
            const own = `[data-node="${bar.dataset.node}"]`;
            window.pointed = [document.getElementById('tooltip').textContent, document.querySelectorAll(`.lit${own}`).length,
                              document.querySelectorAll(own).length, +bar.dataset.node]"""
        zoomed, moved, tooltip, lit, of_node, pointed = self.look("""
            return [bar.getAttribute('width') / wide,
                    document.getElementById('graph-drawing').getAttribute('transform') !== full, ...pointed];""", steps=[before])
        self.assertAlmostEqual(zoomed, 2, places=3)
        self.assertTrue(moved)
        node = next(node for node in self.data()["nodes"] if node["id"] == pointed)
        self.assertRegex(node["attributes"], r"^{stride: \[\d,\d\], padding: ")
        for part in (node["op"], node["attributes"], node["layer"], "bottom level"):
            self.assertIn(part, tooltip)
        self.assertEqual(lit, of_node)
        self.assertGreaterEqual(lit, 3)  # bar, box, and a rectangle in memory

    def test_divided_layers_and_stages_are_shown(self):
        plan = ("tiny.yaml", "--ranks", 4, "--cluster", "p100_nodes", "--strategy")
        self.plan(*plan, "data")
        self.assertIn("hidden", self.browse().by_id("division"))
        (self.folder / "own.yaml").write_text("layers: {conv1: {h: 2, w: 2}, fc1: {n: 2, c: 2}, fc2: {c: 2}, fc3: {n: 1}}")
        self.plan(*plan, "own.yaml")
        self.assertNotIn("hidden", self.browse().by_id("division"))
        rows = """return [...document.querySelectorAll('#division-table tbody tr')].map(row => [row.children[0].textContent,
            row.children[2]?.textContent, row.querySelectorAll('.part').length, row.querySelectorAll('.part.own').length]);"""
        first, *fully_connected = self.look(rows)
        self.assertTrue(first[0].startswith("conv1 … "), first)
        self.assertEqual(first[1:], ["h 2 × w 2", 4, 1])
        self.assertEqual(fully_connected, [["fc1", "n 2 × c 2", 4, 1], ["fc2", "c 2, each part on 2 ranks", 2, 1],
                                           ["fc3", "all of it on each of 4 ranks", 1, 1]])
        point = """document.querySelector('#division-table tr[data-group="1"]').dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))"""
        lit = self.look("return [...document.querySelectorAll('.bar.lit')].map(bar => +bar.dataset.node);", steps=[point])
        self.assertEqual(sorted(lit), [node["id"] for node in self.data()["nodes"] if node["layer"] == "fc1"])
        self.assertGreater(len(lit), 2)

        stages = self.plan(*plan, "pipeline")["stages"]
        script = "return [...document.querySelectorAll('#division-bands rect')].map(band => +band.getAttribute('width'));"
        widths, rows = self.look(script), self.look(rows)
        self.assertEqual([row[0] for row in rows], ["0", "1", "2", "3"])
        self.assertAlmostEqual(widths[1] / widths[0], stages[1]["computing_us"] / stages[0]["computing_us"], places=3)
        self.assertEqual([group["layers"][0] for group in self.data()["division"]["groups"][1:]], [stage["first_layer"] for stage in stages[1:]])


if __name__ == "__main__":
    browser.main()
