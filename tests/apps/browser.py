"""Pages that braid writes, opened in a browser."""

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


class InBrowser(unittest.TestCase):
    page = None  # the file

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="braid-page-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def browse(self, query="", *options):
        """What the page looks like to a program once its scripts have run, with no network."""
        command = [BROWSER, "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--window-size=1320,1000",
                   "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={self.folder / 'browser'}", *options,
                   "--dump-dom", f"file://{self.page}{query}"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        page = Page(result.stdout)
        self.assertEqual(page.by_id("errors")["text"].strip(), "")
        self.assertEqual(next(e for e in page.elements if e["tag"] == "body").get("data-ready"), "yes")
        return page

    def look(self, script, width=1280, steps=(), options=()):
        """What a script finds on the page, as JSON; `steps` are scripts to run before, each drawn before the next."""
        path = self.page
        text = path.read_text()
        # Where nothing is shown, frames may never come, but time is certain to pass.
        timed = "<head><script>window.requestAnimationFrame = (draw) => setTimeout(draw, 16);</script>"
        waits = "".join(f"{step}; await new Promise(done => setTimeout(done, 50));" for step in steps)
        path.write_text(text.replace("<head>", timed).replace("</body>", f"""<script>(async () => {{
            {waits}
            document.body.dataset.found = JSON.stringify((() => {{ {script} }})());
            }})()</script></body>"""))
        page = self.browse("", f"--window-size={width},1000", *options)
        path.write_text(text)
        return json.loads(next(e for e in page.elements if e["tag"] == "body")["data-found"])

    def data(self):
        text = self.page.read_text()
        return json.loads(re.search(r"const DATA = (.*);</script>", text).group(1))
