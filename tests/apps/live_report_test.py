#!/usr/bin/env python3
"""braid report --serve: the page shows what runs have achieved so far, while they train.

Usage: live_report_test.py PATH_OF_BRAID. Exits with 77 where there is no Chromium."""

import concurrent.futures
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import time

import browser
import command
from browser import InBrowser, OpenPage

TINY = command.TINY.replace("epochs: 2", "epochs: 3").replace("lr: 0.05", "lr: 0.02")
ONE_JOB = TINY.replace("model: {name: lenet5}\n", "") + """\
jobs:
  - {name: first, model: {name: lenet5}}
"""
TWO_JOBS = ONE_JOB + "  - {name: second, model: {name: mlp}}\n"
POINTS = "document.querySelector('#loss-chart polyline:not(.val)').points.length"  # points of the first run
NAMES = "[...document.querySelectorAll('[data-column=run]')].map(cell => cell.textContent).join()"
STATUS = "document.getElementById('refreshed').textContent"


class LiveReport(InBrowser):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "runs/tiny-1"

    def train(self, config=TINY):
        self.config.write_text(config)
        self.assertEqual(self.braid("train", "tiny.yaml", "-q").returncode, 0)

    def serve(self, *runs, port=0):
        """The process and its port."""
        return self.start("report", "--serve", str(port), *runs)

    def start(self, *words):
        server = subprocess.Popen([command.BRAID, *words], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def end():
            server.kill()
            server.communicate()

        self.addCleanup(end)
        line = server.stdout.readline()
        self.assertRegex(line, r"^serving http://127\.0\.0\.1:[0-9]+/ \(Ctrl-C ends\)\n$")
        return server, int(re.search(r":(\d+)/", line).group(1))

    def open(self, port, *options):
        return OpenPage(f"http://127.0.0.1:{port}/", self.folder / "browser", *options)

    def ask(self, port, path="/", method="GET", host=None):
        """Status, headers and text of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()

    def data(self, port):
        return json.loads(self.ask(port, "/data.json")[2])

    def test_curves_grow_with_the_metrics_and_a_half_written_line_waits(self):
        self.train()
        file = self.run_folder / "metrics.jsonl"
        lines = file.read_text().splitlines(keepends=True)
        steps = sum(json.loads(line)["event"] == "step" for line in lines)
        file.write_text("".join(lines[:2]) + lines[2][:20])
        _, port = self.serve("runs/tiny-1")
        with self.open(port) as page:
            self.assertEqual(page.look(POINTS), 2)
            page.look("window.same_page = true")
            file.write_text("".join(lines))
            page.wait(f"{POINTS} === {steps}")
            self.assertTrue(page.look("window.same_page"))
            self.assertEqual(page.look("document.querySelector('[data-column=epochs]').textContent"), "3 of 3")
            self.assertEqual(page.look("document.querySelectorAll('#loss-chart polyline').length"), 2)
            self.assertEqual(page.look("document.querySelectorAll('#loss-chart circle').length"), 3)
            self.assertIn("without --serve", page.look("document.getElementById('live').innerText"))
            self.assertEqual(page.look("document.querySelectorAll('.confusion, .mistakes, iframe').length"), 0)
            self.assertEqual(page.look("document.getElementById('errors').textContent"), "")

    def test_a_run_is_shown_while_another_process_trains_it(self):
        (self.folder / "tiny.yaml").write_text(TINY.replace("epochs: 3", "epochs: 1000000"))
        training = subprocess.Popen([command.BRAID, "train", "tiny.yaml", "-q"], cwd=self.folder)
        self.addCleanup(training.wait)
        self.addCleanup(training.kill)
        file = self.run_folder / "metrics.jsonl"
        while not file.exists() or file.stat().st_size == 0:
            self.assertIsNone(training.poll())
            time.sleep(0.05)
        _, port = self.serve(self.run_folder)
        with self.open(port) as page:
            before = page.look(POINTS)
            self.assertGreater(before, 0)
            page.wait(f"{POINTS} > {before}")
            training.send_signal(signal.SIGINT)
            self.assertEqual(training.wait(timeout=300), 130)
            records = [json.loads(line) for line in file.read_text().splitlines()]
            steps = {record["step"] for record in records if record["event"] in ("step", "epoch")}
            page.wait(f"{POINTS} === {len(steps)}")

    def test_a_run_that_disappears_is_named_and_the_others_stay(self):
        self.train()
        self.train()
        _, port = self.serve("runs/tiny-1", "runs/tiny-2")
        with self.open(port) as page:
            self.assertEqual(page.look(NAMES), "tiny-1,tiny-2")
            self.assertEqual(page.look("document.querySelectorAll('#rate-chart polyline').length"), 2)
            self.run_folder.rename(self.folder / "away")
            page.wait(f"{NAMES} === 'tiny-2'")
            self.assertIn("runs/tiny-1: there is no config.yaml", page.look(STATUS))
            (self.folder / "away").rename(self.run_folder)
            page.wait(f"{NAMES} === 'tiny-1,tiny-2'")
            self.assertNotIn("config.yaml", page.look(STATUS))

    def test_a_job_that_starts_later_is_added(self):
        self.train(ONE_JOB)
        self.train(TWO_JOBS)
        _, port = self.serve("runs/tiny-1")
        with self.open(port) as page:
            self.assertEqual(page.look(NAMES), "tiny-1/first")
            shutil.copy(self.folder / "runs/tiny-2/config.yaml", self.run_folder)  # and no metrics yet
            page.wait(f"{NAMES} === 'tiny-1/first,tiny-1/second'")
            shutil.copytree(self.folder / "runs/tiny-2/second", self.run_folder / "second")
            page.wait("document.querySelectorAll('#rate-chart polyline').length === 2")

    def test_the_page_waits_for_a_server_that_ended_with_ctrl_c(self):
        self.train()
        server, port = self.serve("runs/tiny-1")
        with self.open(port) as page:
            server.send_signal(signal.SIGINT)
            self.assertEqual(server.wait(timeout=60), -signal.SIGINT)  # 130 in a shell
            self.assertEqual(server.stderr.read(), "")
            page.wait(f"{STATUS}.includes('does not answer')")
            self.assertGreater(page.look(POINTS), 0)
            self.serve("runs/tiny-1", port=port)
            page.wait(f"!{STATUS}.includes('does not answer')")

    def test_only_pages_of_this_machine_get_an_answer(self):
        self.train()
        _, port = self.serve("runs/tiny-1")
        for host in ("127.0.0.1", f"127.0.0.1:{port}", "localhost", "localhost:8080"):  # the last through a tunnel
            self.assertEqual(self.ask(port, host=host)[0], 200, host)
        for host in ("attacker.example", f"attacker.example:{port}", "127.0.0.1.attacker.example", "localhost.", ":", "[::1]"):
            for path in ("/", "/data.json", "/other"):
                status, _, text = self.ask(port, path, host=host)
                self.assertEqual((status, text), (403, ""), host)
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))

    def test_there_are_two_files_to_get_and_nothing_else(self):
        self.train()
        _, port = self.serve("runs/tiny-1")
        status, headers, text = self.ask(port)
        self.assertEqual((status, headers["Content-Type"], headers["Cache-Control"]), (200, "text/html; charset=utf-8", "no-store"))
        head = self.ask(port, method="HEAD")
        self.assertEqual((head[0], head[1]["Content-Length"], head[2]), (200, str(len(text.encode())), ""))
        self.assertEqual([run["name"] for run in self.data(port)["runs"]], ["tiny-1"])
        for path in ("/config.yaml", "/runs/tiny-1/metrics.jsonl", "/../config.yaml", "/index.html"):
            self.assertEqual(self.ask(port, path)[0], 404, path)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            self.assertEqual(self.ask(port, method=method)[0], 404, method)

    def site(self):
        (self.folder / "site/course").mkdir(parents=True)
        for file in ("index.html", "planner.js", "local.json", "course/index.html", "../secret.txt"):
            (self.folder / "site" / file).write_text(file)

    def test_the_playground_offers_configs_and_runs_of_this_machine(self):
        self.train()
        self.site()
        (self.folder / "configs").mkdir()
        for file in ("net.yaml", "costs.json", "notes.txt"):
            (self.folder / "configs" / file).write_text(file)
        (self.folder / "configs/broken.json").symlink_to("nowhere")
        _, port = self.start("playground", "--port", "0", "--site", "site")
        config = (self.run_folder / "config.yaml").read_text()
        local = {"files": {"configs/costs.json": "costs.json", "configs/net.yaml": "net.yaml", "runs/tiny-1/config.yaml": config},
                 "runs": ["runs/tiny-1"]}
        status, headers, text = self.ask(port, "/local.json")
        self.assertEqual((status, headers["Content-Type"], headers["X-Content-Type-Options"]), (200, "application/json", "nosniff"))
        self.assertEqual(json.loads(text), local)
        self.assertEqual(self.ask(port, "/local.json", host="attacker.example")[0], 403)
        self.assertIn("<html", self.ask(port, "/runs/tiny-1/")[2])
        self.assertEqual([run["name"] for run in json.loads(self.ask(port, "/runs/tiny-1/data.json")[2])["runs"]], ["tiny-1"])
        for path in ("/runs/tiny-1/config.yaml", "/runs/tiny-2/", "/runs/", "/runs/tiny-1", "/configs/net.yaml"):
            self.assertEqual(self.ask(port, path)[0], 404, path)
        self.train()  # a run that begins after the server
        self.assertEqual(json.loads(self.ask(port, "/local.json")[2])["runs"], ["runs/tiny-1", "runs/tiny-2"])

        run = str(self.run_folder)
        _, port = self.start("playground", "configs/net.yaml", f"{run}/", "--port", "0", "--site", "site")
        local = {"files": {f"{run}/config.yaml": config, "configs/net.yaml": "net.yaml"}, "runs": [run.lstrip("/")]}
        self.assertEqual(json.loads(self.ask(port, "/local.json")[2]), local)
        self.assertEqual(self.ask(port, f"{run}/")[0], 200)
        result = self.braid("playground", "none.yaml", "--site", "site")
        self.assertEqual((result.returncode, result.stderr), (1, "braid: error: none.yaml: there is no such file\n"))

    def test_the_playground_serves_the_files_of_its_site_alone(self):
        result = self.braid("playground")
        self.assertEqual(result.returncode, 1)
        self.assertIn("there is no site in build/site: make it with scripts/site.sh", result.stderr)
        self.site()
        _, port = self.start("playground", "--port", "0", "--site", "site")
        for path, file in (("/", "index.html"), ("/planner.js", "planner.js"), ("/course/", "course/index.html")):
            status, headers, text = self.ask(port, path)
            self.assertEqual((status, headers["Cache-Control"], text), (200, "no-store", file))
        for path in ("/../secret.txt", "/%2e%2e/secret.txt", "/course/../../secret.txt", "/none"):
            self.assertEqual(self.ask(port, path)[0], 404, path)
        self.assertEqual(self.ask(port, host="attacker.example")[0], 403)

    def test_several_browsers_ask_at_once(self):
        self.train()
        _, port = self.serve("runs/tiny-1")
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]  # browsers open connections before they ask
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: self.ask(port, ("/", "/data.json")[i % 2]), range(64)))
        self.assertEqual({status for status, *_ in answers}, {200})
        self.assertEqual(len({text for _, _, text in answers}), 2)
        for connection in idle:
            connection.close()

    def test_mistakes_on_the_command_line(self):
        self.train()
        server, port = self.serve("runs/tiny-1")

        def fails(status, message, *arguments):
            result = self.braid("report", *arguments)
            self.assertEqual((result.returncode, result.stdout), (status, ""))
            self.assertTrue(result.stderr.startswith(f"braid: error: {message}"), result.stderr)

        fails(1, f"cannot serve on port {port}: Address already in use; choose another port, or 0 for any free one\n",
              "runs/tiny-1", "--serve", port)
        fails(2, "--serve: expected an integer from 0 to 65535, got '65536'\n", "runs/tiny-1", "--serve", 65536)
        fails(2, "--output excludes --serve\n", "runs/tiny-1", "--serve", 0, "-o", "page.html")
        self.assertIsNone(server.poll())


if __name__ == "__main__":
    browser.main()
