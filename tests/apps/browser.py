"""Pages that braid writes, opened in a browser."""

import fcntl
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

from command import CommandTest

BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)


def main():
    """Runs the tests of a script, if there is a browser."""
    if BROWSER is None:
        print("skipped: there is no Chromium")
        sys.exit(77)
    unittest.main(verbosity=1)


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


class InBrowser(CommandTest):
    page = None  # the file

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
        # Without a display, frames may never come, so a timer replaces them.
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


class OpenPage:
    """A page of a server on this machine that stays open: scripts look at it while it changes. A context manager."""

    def __init__(self, url, folder, *options):
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()
        command = [BROWSER, "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={folder}",
                   "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--window-size=1320,1000", *options, "about:blank"]
        # The protocol's pipes are descriptors 3 and 4; until then, neither may have the other's number.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (to_browser, from_browser)]
        self.process = subprocess.Popen(["bash", "-c", 'exec "$@" 3<&{} 4>&{}'.format(*ends), "bash", *command], pass_fds=ends,
                                        stderr=subprocess.DEVNULL)
        for end in (to_browser, from_browser, *ends):
            os.close(end)
        self.received, self.sent, self.session = b"", 0, {}
        target = next(t["targetId"] for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        self.call("Page.navigate", url=url)
        self.wait("document.body?.dataset.ready === 'yes'")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)

    def call(self, method, **parameters):
        """Calls a method of the Chrome DevTools Protocol, whose messages end with a null byte."""
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": parameters, **self.session}
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.received:
                part = os.read(self.answers, 1 << 16)
                if not part:
                    raise EOFError("the browser has ended")
                self.received += part
            answer, self.received = self.received.split(b"\0", 1)
            answer = json.loads(answer)
            if answer.get("id") == self.sent:
                return answer["result"]

    def look(self, expression):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, expression, seconds=60):
        """Waits until an expression is true."""
        deadline = time.monotonic() + seconds
        while not self.look(expression):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {expression}; the page says: {self.look('document.body.innerText')}")
            time.sleep(0.1)
