#!/usr/bin/env python3
"""The pages of the site: site_test.py PROGRAM SITE, a folder that scripts/site.sh has made."""
import functools
import html.parser
import http.server
import pathlib
import re
import sys
import tempfile
import threading
import unittest
import urllib.parse

import browser
from browser import OpenPage

SITE = pathlib.Path(sys.argv.pop(1)).resolve()
PAGES = sorted(SITE.rglob("*.html"))
NAMES = [str(page.relative_to(SITE)) for page in PAGES]
# What is kept of a page from before its scripts run.
WATCH = """window.mistakes = [];
addEventListener('error', event => {
  if (event.message?.startsWith('ResizeObserver loop')) return;  // what was not drawn in this frame is drawn in the next
  mistakes.push(event.message ?? `${event.target.src ?? event.target.href} does not load`);
}, true);
addEventListener('unhandledrejection', event => mistakes.push(String(event.reason)));
console.error = (...words) => mistakes.push(words.join(' '));"""
# Colours of text, and what they are on.
TEXT = {"--paper": "ink faint link good critical", "--panel": "ink faint link good critical", "--code": "word text value faint",
        "--forward": "on-bar", "--backward": "on-bar", "--update": "on-bar", "--workspace": "on-bar"}


class Parsed(html.parser.HTMLParser):
    """What a page contains: ids, links, headings, resources and controls without a name."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.resources, self.levels, self.unnamed, self.labels = [], [], [], [], [], 0
        self.language, self.title, self.open = None, "", None
        text = path.read_text()
        self.labelled = set(re.findall(r'<label [^>]*for="([^"]+)', text))
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" and "href" in given else []
        self.resources += [given[key] for key in ("src", "href") if key in given and tag != "a"]
        self.levels += [int(tag[1])] if re.fullmatch("h[1-6]", tag) else []
        self.labels += tag == "label"
        self.language = given.get("lang") if tag == "html" else self.language
        self.open = tag if tag == "title" else None
        named = self.labels or "aria-label" in given or given.get("id") in self.labelled
        if tag == "img" and not given.get("alt") or tag in ("input", "select", "textarea") and not named:
            self.unnamed.append(self.get_starttag_text())

    def handle_endtag(self, tag):
        self.labels -= tag == "label"
        self.open = None

    def handle_data(self, data):
        self.title += data if self.open == "title" else ""


@functools.cache
def parsed(path):
    return Parsed(path)


class Files(unittest.TestCase):
    def test_links_lead_to_pages_and_their_anchors(self):
        broken = []
        for page in PAGES:
            for target in set(parsed(page).links + parsed(page).resources):
                path, _, anchor = target.partition("#")
                anchor = "" if "=" in anchor else anchor  # the state of the playground
                file = (page.parent / urllib.parse.unquote(path)).resolve() if path else page
                if not re.match(r"(https?|mailto):", target) and not (
                        file.is_file() and (not anchor or file.suffix != ".html" or urllib.parse.unquote(anchor) in parsed(file).ids)):
                    broken.append(f"{page.relative_to(SITE)}: {target}")
        self.assertEqual(broken, [])
        self.assertGreater(len(PAGES), 500)

    def test_nothing_is_loaded_from_elsewhere(self):
        for page in PAGES:
            self.assertEqual([target for target in parsed(page).resources if ":" in target or target.startswith("//")], [], page)
        for path in [*SITE.glob("*.js"), *SITE.glob("*.css")]:
            self.assertIsNone(re.search(r"(import|url|fetch|src *=)[ (]*['\"]?(https?:)?//", path.read_text()), path)

    def test_pages_have_a_language_a_title_one_main_heading_and_named_controls(self):
        titles = set()
        for page in PAGES:
            found = parsed(page)
            with self.subTest(page.relative_to(SITE)):
                self.assertEqual((found.language, found.levels.count(1), found.unnamed), ("en", 1, []))
                self.assertEqual(found.levels[0], 1)
                self.assertTrue(all(below <= above + 1 for above, below in zip(found.levels, found.levels[1:])), found.levels)
                self.assertEqual(len(found.ids), len(set(found.ids)))
                self.assertTrue(found.title.strip())
            titles.add(found.title)
        self.assertGreater(len(titles), 0.95 * len(PAGES))

    def test_what_a_first_visit_loads_is_small(self):
        def size(*names):
            return sum((SITE / name).stat().st_size for name in names)

        self.assertLess(size("playground.html", "planner.js", "style.css", "site.js"), 3e6)
        self.assertLess(size("search.js"), 1.2e6)


class InBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        cls.page = cls.enterClassContext(OpenPage((SITE / "index.html").as_uri(), cls.folder))
        for domain in ("Page", "Runtime"):
            cls.page.call(f"{domain}.enable")
        cls.page.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        cls.served = f"http://127.0.0.1:{server.server_port}"

    def go(self, name, base=SITE.as_uri()):
        self.page.look("document.body.dataset.ready = ''")
        self.page.call("Page.navigate", url=f"{base}/{name}")
        self.page.wait(f"document.readyState === 'complete' && document.body.dataset.ready === 'yes' && location.pathname.endsWith({name!r})")

    def press(self, key, **more):
        for kind in ("keyDown", "keyUp"):
            self.page.call("Input.dispatchKeyEvent", type=kind, key=key, **more)

    def kinds(self):
        """A page of every kind, and all whose scripts differ."""
        chapters = [name for name in NAMES if name.startswith("course/")]
        return [*(name for name in NAMES if "/" not in name), *chapters, "docs/scheduling.html", "docs/cpp/index.html",
                "src/scheduler/plan.h.html", "src/scheduler/index.html", *(name for name in NAMES if name.endswith("/session.h.html"))]

    def test_pages_run_without_mistakes_and_load_only_files_of_the_site(self):
        for name in self.kinds():
            with self.subTest(name):
                self.go(name, self.served)  # browsers do not list what pages load from files
                self.assertEqual(self.page.look("mistakes"), [])
                self.assertEqual(self.page.look("[...document.querySelectorAll('.block [role=alert]')].map(alert => alert.textContent).join('')"), "")
                loaded = self.page.look("performance.getEntriesByType('resource').map(entry => entry.name)")
                self.assertTrue(loaded)
                self.assertEqual([url for url in loaded if not url.startswith((self.served, "blob:", "data:"))], [])

    def test_search_finds_workspace_and_goes_there_by_keyboard(self):
        self.go("docs/gpu.html")
        self.press("/", text="/")
        self.page.call("Input.insertText", text="workspace")
        self.page.wait("document.querySelectorAll('#site-found li a').length > 3")
        self.assertEqual(self.page.look("document.getElementById('site-search').getAttribute('aria-expanded')"), "true")
        self.press("ArrowDown")
        chosen = "document.querySelector('#site-found [aria-selected=true]')"
        self.assertEqual(self.page.look(f"{chosen}.id"), "found-1")
        self.assertIn("workspace", self.page.look(f"{chosen}.textContent").lower())
        target = self.page.look(f"{chosen}.querySelector('a').href")
        self.press("Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
        self.page.wait(f"location.href === {target!r} && document.readyState === 'complete'")
        self.assertIn("workspace", self.page.look("document.body.textContent").lower())
        self.assertTrue(self.page.look("!location.hash || document.querySelector(':target') !== null"))

    def test_search_says_that_it_finds_nothing_and_escape_closes_it(self):
        self.go("docs/gpu.html")
        self.page.look("document.getElementById('site-search').focus()")
        self.page.call("Input.insertText", text="zyzzyva")
        self.page.wait("document.getElementById('site-found').textContent === 'Nothing found'")
        self.press("Escape", code="Escape", windowsVirtualKeyCode=27)
        self.assertTrue(self.page.look("document.getElementById('site-found').hidden"))

    def test_the_theme_is_kept_from_page_to_page_from_files_and_from_a_server(self):
        paper = "getComputedStyle(document.body).backgroundColor"
        for base in (SITE.as_uri(), self.served):
            with self.subTest(base):
                self.go("index.html", base)
                seen = []
                for name in ("docs/gpu.html", "playground.html", "index.html"):
                    self.page.look("document.getElementById('site-theme').click()")
                    seen.append((self.page.look("document.documentElement.dataset.theme ?? ''"), self.page.look(paper)))
                    self.go(name, base)
                    self.assertEqual((self.page.look("document.documentElement.dataset.theme ?? ''"), self.page.look(paper)), seen[-1])
                self.assertEqual([theme for theme, _ in seen], ["light", "dark", ""])
                self.assertNotEqual(seen[0][1], seen[1][1])

    def test_text_has_the_contrast_of_aa_in_light_and_dark(self):
        self.go("docs/gpu.html")
        luminance = """name => {
          const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim().slice(1);
          const [r, g, b] = [0, 2, 4].map(at => parseInt(hex.slice(at, at + 2), 16) / 255).map(
              part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        }"""
        for theme in ("light", "dark"):
            self.page.look(f"document.documentElement.dataset.theme = '{theme}'; 0")
            for below, names in TEXT.items():
                for name in names.split():
                    low, high = sorted(self.page.look(f"({luminance})('{one}')") for one in (below, f"--{name}"))
                    self.assertGreaterEqual((high + 0.05) / (low + 0.05), 4.5, (theme, name, below))

    def test_no_page_scrolls_sideways_on_a_phone(self):
        self.page.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
        self.addCleanup(self.page.call, "Emulation.clearDeviceMetricsOverride")
        wide = []
        for name in [name for name in NAMES if not name.startswith("src/")] + NAMES[::25]:
            self.go(name)
            width = self.page.look("document.documentElement.scrollWidth")
            wide += [f"{name}: {width}"] if width > 390 else []
        self.assertEqual(wide, [])

    def step_through(self, state):
        """Plans in the playground, takes every decision, and returns what was wrong at any; keeps what was said at each."""
        self.go("playground.html")
        self.page.look(f"told = null; location.hash = '{state}&step=0'; 0")
        self.page.wait("told !== null && !$('step-text').textContent.startsWith('Explaining') && $('status').textContent.includes('planned')")
        return self.page.look("""(() => {
          const {decisions, placements} = shown_plan(), wrong = [], row = new Map(placements.map(({node, stream}) => [node, stream]));
          window.said = [];
          for (let step = 0; step <= decisions.length; ++step) {
            go_to(step);
            said.push($('step-text').innerText);
            const bars = [...document.querySelectorAll('#step-gantt .bar')], started = decisions.slice(0, step).filter(each => each.started);
            if (String(bars.map(bar => bar.dataset.node)) !== String(started.map(each => each.node))) wrong.push(`${step}: other bars`);
            const now = started.at(-1), before = started.slice(0, -1).filter(each => row.get(each.node) === row.get(now.node));
            if (before.some(each => each.finish_us > now.start_us + 1e-6)) wrong.push(`${step}: two nodes at once in a stream`);
            const unready = told.nodes.find(({node}) => node === now?.node)?.after.filter(
                other => !(started.find(each => each.node === other)?.finish_us <= now.start_us + 1e-6));
            if (unready?.length) wrong.push(`${step}: starts before ${unready}`);
          }
          if (document.querySelectorAll('#step-gantt .bar').length !== told.nodes.length) wrong.push('nodes never start');
          return wrong;
        })()""")

    def test_one_steps_through_the_plan_of_a_rank_whose_links_are_rows(self):
        for strategy in ("data", "pipeline"):
            with self.subTest(strategy):
                self.assertEqual(self.step_through(f"model=lenet5&device=h200&batch=3&ranks=1&strategy={strategy}"), [])
                self.assertEqual(self.page.look("[...document.querySelectorAll('#step-gantt .row-name')].map(row => row.textContent)"),
                                 ["stream 0", "stream 1", "stream 2", "stream 3", "link 0"])
                self.assertIn("the times of one rank", self.page.look("said[0]"))
                sent = self.page.look("told.nodes.find(({node}) => shown_plan().placements.find(place => place.node === node).stream === 4).op")
                self.assertIn(sent, {"data": ("all_reduce",), "pipeline": ("send", "receive")}[strategy])
                self.assertIn("Link 0, as the node communicates.", self.page.look(f"said.find(text => text.includes(' {sent} '))"))

    def test_one_steps_through_a_plan_under_a_memory_limit(self):
        self.assertEqual(self.step_through("model=squeezenet1_1&device=a100&batch=4&limit=9"), [])
        self.assertGreater(self.page.look("told.nodes.length - parseInt($('status').textContent)"), 0)  # some are computed twice
        self.assertIn("To keep the memory limit, the plan may run fewer nodes", self.page.look("said[0]"))
        self.assertEqual(self.page.look("$('step-errors').textContent + $('errors').textContent"), "")

    def test_a_chapter_that_was_read_to_its_end_is_marked(self):
        chapters = [name for name in NAMES if re.match(r"course/\d", name)]
        self.go(chapters[0])
        self.page.look("scrollTo(0, document.body.scrollHeight)")
        self.page.wait("document.querySelector('[data-chapter].done [aria-current]') !== null")
        self.go(chapters[1])
        self.assertEqual(self.page.look("document.querySelectorAll('[data-chapter].done').length"), 1)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


if __name__ == "__main__":
    browser.main()
