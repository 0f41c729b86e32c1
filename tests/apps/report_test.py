#!/usr/bin/env python3
"""The page of braid report, opened in a browser: what it shows is what the runs say.

Usage: report_test.py PATH_OF_BRAID. Exits with 77 where there is no Chromium."""

import browser
import command
from browser import InBrowser

TINY = command.TINY.replace("epochs: 2", "epochs: 3").replace("lr: 0.05", "lr: 0.02")
JOBS = TINY.replace("name: tiny", "name: jobs").replace("model: {name: lenet5}\n", "") + """\
jobs:
  - {name: first, model: {name: lenet5}}
  - {name: second, model: {name: mlp}, train: {epochs: 1}}
"""
COLOURS = """\
name: colours
device: cpu
threads: 2
model: {name: mlp}
data: {name: image_folder, root: images, image_size: 8, channels: 3, normalize: {mean: [0.3, 0.4, 0.5], std: [0.2, 0.3, 0.4]}}
train: {epochs: 1, batch_size: 2}
optimizer: {lr: 0.000001}
"""
PLAIN = {"<blue> ü": (0, 40, 250), "green": (10, 200, 30), "red": (240, 20, 0)}


class Report(InBrowser):
    def setUp(self):
        super().setUp()
        self.page = self.folder / "report.html"
        (self.folder / "tiny.yaml").write_text(TINY)

    def train(self, config, *arguments):
        self.succeeds("train", config, "-q", *arguments)

    def report(self, *arguments):
        result = self.braid("report", *arguments, "-o", "report.html")
        self.assertEqual((result.returncode, result.stderr, result.stdout), (0, "", "wrote report.html\n"))
        page = self.browse()
        self.assertNotRegex(self.page.read_text().replace("http://www.w3.org/2000/svg", ""), "https?://")  # works offline
        return page

    def test_curves_of_runs_lie_over_each_other(self):
        self.train("tiny.yaml")
        self.train("tiny.yaml", "--set", "optimizer.lr=0.05")
        page = self.report("runs/tiny-1", "runs/tiny-2")
        charts = {}
        for element in page.elements:
            if element.get("id", "").endswith("-chart"):
                chart = charts.setdefault(element["id"], [])
            elif element["tag"] == "polyline":
                chart.append((element["data-job"], "val" in element["class"].split(), element["points"].split()))
        steps = len([r for r in self.metrics("tiny-1") if r["event"] == "step"])
        for name in ("loss", "accuracy"):
            self.assertEqual([(job, test, len(points)) for job, test, points in charts[f"{name}-chart"]],
                             [("0", False, steps), ("0", True, 3), ("1", False, steps), ("1", True, 3)])
        for name, points in (("rate", steps), ("throughput", steps), ("waiting", 3)):
            self.assertEqual([(job, len(p)) for job, _, p in charts[f"{name}-chart"]], [("0", points), ("1", points)])
        keys = self.look("return [...document.querySelectorAll('#differences tr[data-key]')].map(row => [...row.cells].map(cell => cell.textContent));")
        self.assertEqual(keys, [["optimizer.lr", "0.02", "0.05"]])
        rates = [float(points[0].split(",")[1]) for _, _, points in charts["rate-chart"]]
        self.assertGreater(rates[0], rates[1])  # the larger rate is higher up
        tested = [(float(e["data-epoch"]), float(e["data-value"])) for e in page.of_class("loss", "val") if e["tag"] == "circle"]
        for run in ("tiny-1", "tiny-2"):
            for record in self.metrics(run):
                if record["event"] == "epoch":
                    self.assertIn((record["epoch"], record["val_loss"]), tested)

    def test_training_ends_with_the_page_of_its_run(self):
        text = self.succeeds("train", "tiny.yaml", "--report")
        self.assertTrue(text.endswith("open runs/tiny-1/report.html in a browser\n"), text)
        self.page = self.folder / "runs/tiny-1/report.html"
        self.browse()
        self.assertEqual([run["name"] for run in self.data()["runs"]], ["tiny-1"])

    def test_the_confusion_matrix_and_the_mistakes_agree_with_the_evaluation(self):
        self.train("tiny.yaml")
        page = self.report("runs/tiny-1")
        cells = [(int(e["data-label"]), int(e["data-predicted"]), int(e["data-count"])) for e in page.of_class("cell")]
        self.assertEqual(sum(count for *_, count in cells), 40)
        right = sum(count for label, predicted, count in cells if label == predicted)
        last = self.metrics("tiny-1")[-1]
        self.assertAlmostEqual(right / 40, last["val_accuracy"])
        test = self.data()["runs"][0]["val"]
        self.assertAlmostEqual(test["loss"], last["val_loss"], places=5)
        self.assertLess(right, 40)
        of_classes = self.look("return [...document.querySelectorAll('.classes tr[data-class]')].map(row => [...row.cells].map(cell => cell.textContent));")
        self.assertEqual(len(of_classes), len(test["classes"]))
        for label, (name, images, precision, recall, f1) in enumerate(of_classes):
            self.assertEqual(name, test["classes"][label])
            counts = {key: sum(count for *cell, count in cells if fits(*cell)) for key, fits in (
                ("images", lambda truth, _: truth == label), ("taken", lambda _, taken: taken == label),
                ("right", lambda truth, taken: truth == taken == label))}
            self.assertEqual(int(images), counts["images"])
            for shown, part, whole in ((precision, counts["right"], counts["taken"]), (recall, counts["right"], counts["images"]),
                                       (f1, 2 * counts["right"], counts["taken"] + counts["images"])):
                self.assertEqual(shown, f"{100 * (part / whole):.2f} %" if whole else "–")
        mistakes = test["mistakes"]
        self.assertEqual(len(mistakes), min(24, 40 - right))
        for mistake in mistakes:
            self.assertNotEqual(mistake["label"], mistake["predicted"])
        losses = [float(e["data-loss"]) for e in page.elements if e["tag"] == "figure"]
        self.assertEqual(losses, sorted((mistake["loss"] for mistake in mistakes), reverse=True))
        sizes = self.look("return [...document.querySelectorAll('.mistakes img')].map(e => [e.naturalWidth, e.naturalHeight]);")
        self.assertEqual(sizes, [[16, 16]] * len(mistakes))

    def test_mistakes_are_shown_with_their_own_colours_and_names(self):
        (self.folder / "colours.yaml").write_text(COLOURS)
        for split in ("train", "val"):
            for name, colour in PLAIN.items():
                self.write_images(f"images/{split}/{name}", 2, lambda _: command.png(8, 8, colour))
        self.train("colours.yaml")
        self.report("runs/colours-1")
        found = self.look("""return [...document.querySelectorAll('.mistakes figure')].map(figure => {
            const canvas = document.createElement('canvas').getContext('2d');
            canvas.drawImage(figure.querySelector('img'), 0, 0);
            return [figure.querySelector('b').textContent, [...canvas.getImageData(3, 3, 1, 1).data]]; });""")
        self.assertGreater(len(found), 0)
        for mistake in self.data()["runs"][0]["val"]["mistakes"]:
            self.assertEqual(mistake["file"].split("/")[-2], list(sorted(PLAIN))[mistake["label"]])
        for name, pixel in found:
            self.assertEqual(tuple(pixel[:3]), PLAIN[name], name)

    def test_the_step_is_shown_as_planned_and_as_measured(self):
        self.train("tiny.yaml")
        self.report("runs/tiny-1")
        bars = """const plan = document.querySelector('iframe').contentDocument;
            return [['planned', 'measured'].map(run => plan.querySelectorAll(`.bar[data-run="${run}"]`).length),
                    plan.getElementById('errors').textContent, plan.getElementById('memory').hidden];"""
        (planned, measured), errors, hidden = self.look(bars, steps=["await new Promise(done => setTimeout(done, 500))"])
        self.assertGreater(planned, 10)
        self.assertEqual(measured, planned)
        self.assertEqual((errors, hidden), ("", True))
        whole = "document.querySelector('#plans button').click(); await new Promise(done => setTimeout(done, 500))"
        self.assertFalse(self.look(bars, steps=[whole])[2])

    def test_jobs_are_shown_as_runs(self):
        (self.folder / "jobs.yaml").write_text(JOBS)
        self.train("jobs.yaml")
        page = self.report("runs/jobs-1")
        self.assertEqual([run["name"] for run in self.data()["runs"]], ["jobs-1/first", "jobs-1/second"])
        self.assertEqual([e["text"] for e in page.elements if e.get("data-column") == "model"], ["lenet5", "mlp"])
        self.assertEqual(len(self.data()["plans"]), 1)

    def test_a_run_without_a_model_has_curves_only(self):
        self.train("tiny.yaml")
        (self.folder / "runs/tiny-1/model.safetensors").unlink()
        page = self.report("runs/tiny-1")
        self.assertEqual(page.of_class("confusion"), [])
        self.assertGreater(len(page.of_class("loss")), 0)

    def test_a_folder_without_a_run_is_an_error_and_the_page_goes_into_the_first_run(self):
        result = self.braid("report", ".")
        self.assertEqual((result.returncode, result.stderr),
                         (1, "braid: error: .: there is no config.yaml: expected the folder of a run\n"))
        self.assertFalse((self.folder / "report.html").exists())
        self.train("tiny.yaml")
        self.assertEqual(self.braid("report", "runs/tiny-1").stdout, "wrote runs/tiny-1/report.html\n")
        self.assertTrue((self.folder / "runs/tiny-1/report.html").exists())


if __name__ == "__main__":
    browser.main()
