#!/usr/bin/env python3
"""The games of the site, played in a browser: games_test.py PROGRAM SITE, a folder that scripts/site.sh has made."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

from command import BRAID  # takes the path of the program

import browser

PROGRAM = pathlib.Path(BRAID).resolve().parent / "plan_tasks"
SITE = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
PRIORITY = "return task.microseconds + Math.max(0, ...task.before.map(name => priority(named[name])));"


class Games(unittest.TestCase):
    page = None

    def open(self, name, **state):
        if self.page:
            self.page.__exit__()
        else:
            folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            self.folder = folder.name
            self.addCleanup(folder.cleanup)
            self.addCleanup(lambda: self.page.__exit__())
        address = f"{(SITE / name).as_uri()}.html#{urllib.parse.urlencode(state)}"
        self.page = browser.OpenPage(address, self.folder)
        self.js("window.$ = s => document.querySelector(s); window.$$ = s => [...document.querySelectorAll(s)]; 0")

    def js(self, expression):
        return self.page.look(expression)

    def text(self, selector):
        return self.js(f"$({json.dumps(selector)})?.textContent ?? ''")

    def until(self, selector, text):
        self.page.wait(f"($({json.dumps(selector)})?.textContent ?? '').includes({json.dumps(text)})")

    def find(self, selector):
        self.page.wait(f"$({json.dumps(selector)}) !== null")

    def press(self, selector, *keys):
        """Presses keys while an element has the focus."""
        script = f"(e => {{ e?.focus(); return e !== null && e === document.activeElement; }})($({json.dumps(selector)}))"
        self.assertTrue(self.js(script), selector)
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            codes = {"Enter": 13, "Tab": 9, "Delete": 46, "Escape": 27}
            code = codes.get(key, 0)
            self.page.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
            self.page.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def middle(self, selector):
        return self.js(f"""(e => {{ e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();
                           return [r.x + r.width / 2, r.y + r.height / 2]; }})($({json.dumps(selector)}))""")

    def box(self, selector):
        return self.js(f"(r => [r.x, r.y, r.width, r.height])($({json.dumps(selector)}).getBoundingClientRect())")

    def click(self, selector):
        self.drag(selector, 0, 0)

    def click_button(self, label):
        script = f"""(b => {{ const found = b?.disabled === false; b?.click(); return found; }})(
                         $$('.game button').find(b => b.textContent === {json.dumps(label)}))"""
        self.assertTrue(self.js(script), label)

    def drag(self, selector, dx, dy):
        x, y = self.middle(selector)
        for kind, share in (("mousePressed", 0), ("mouseMoved", 0.5), ("mouseMoved", 1), ("mouseReleased", 1)):
            if kind != "mouseMoved" or (dx, dy) != (0, 0):
                self.page.call("Input.dispatchMouseEvent", type=kind, x=x + share * dx, y=y + share * dy, button="left", buttons=1,
                               clickCount=1)

    def drag_onto(self, selector, target):
        (x, y), (left, top, width, height) = self.middle(selector), self.box(target)
        self.drag(selector, left + 0.7 * width - x, top + height / 2 - y)

    def choose(self, option):
        self.js(f"(s => {{ s.value = {json.dumps(option)}; s.dispatchEvent(new Event('change')); }})($('.game-choose select'))")

    def bars(self):
        """The tasks on the streams, by name: (stream, when)."""
        labels = self.js("$$('.beat [data-key^=bar]').map(e => e.getAttribute('aria-label'))")
        return {label.split(" on ")[0]: label.split(" on ")[1] for label in labels}

    # ---- beat it

    def test_a_puzzle_is_solved_with_the_keyboard_and_the_address_has_the_schedule(self):
        self.open("beat")
        for task, stream in (("0", "0"), ("4", "0"), ("3", "1"), ("2", "1"), ("1", "1")):
            self.press(f"[data-key=box{task}]", stream)
            self.find(f".beat [data-key=bar{task}]")
        self.assertEqual(self.bars()["d"], "stream 0, from 1 µs to 7 µs")
        self.assertIn("5 of 6 tasks placed", self.text(".game-score"))
        self.press("[data-key=box5]", "Enter")
        self.click_button("→ stream 0")
        self.until(".game-verdict", "No schedule is faster")
        self.assertEqual(self.text(".game-verdict b"), "8 µs")
        self.assertEqual(self.text(".game-scores .own td:nth-of-type(2)"), "100 %")
        self.assertIn("serial", self.text(".game-verdict").split("beats")[1])
        self.open("beat", **dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.js("location.href")).fragment)))
        self.until(".game-verdict", "No schedule is faster")

    def test_a_task_that_is_not_ready_is_refused_and_a_schedule_can_be_changed(self):
        self.open("beat")
        self.press("[data-key=box5]", "0")
        self.until(".game-status", "join needs a, b, c and d first.")
        self.drag_onto("[data-key=box0]", ".beat [data-stream='1']")
        self.find(".beat [data-key=bar0]")
        self.assertTrue(self.bars()["split"].startswith("stream 1"))
        for task in "1", "2":
            self.press(f"[data-key=box{task}]", "1")
            self.find(f".beat [data-key=bar{task}]")
        self.press("[data-key=bar2]", "ArrowLeft")
        self.page.wait("$('[data-key=bar2]').getAttribute('aria-label') === 'b on stream 1, from 1 µs to 3 µs'")
        self.drag_onto("[data-key=bar2]", ".beat [data-stream='0']")
        self.page.wait("$('[data-key=bar2]').getAttribute('aria-label').startsWith('b on stream 0')")
        self.drag("[data-key=bar0]", 0, -200)
        self.page.wait("$$('.beat [data-key^=bar]').length === 0")
        self.click_button("Undo")
        self.page.wait("$$('.beat [data-key^=bar]').length === 3")
        self.press("[data-key=bar1]", "Delete")
        self.page.wait("$$('.beat [data-key^=bar]').length === 2")
        self.click_button("Clear")
        self.until(".game-score", "0 of 6 tasks placed")

    def test_a_finger_drags_a_task_to_a_stream(self):
        self.open("beat")
        self.page.call("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=True)
        self.page.call("Emulation.setTouchEmulationEnabled", enabled=True)
        self.page.wait("$('svg.game-picture[viewBox]').viewBox.baseVal.width < 390")
        (x, y), (left, top, width, height) = self.middle("[data-key=box0]"), self.box(".beat [data-stream='1'] .lane")
        to_x, to_y = left + width / 2, top + height / 2
        self.page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        for share in (0.3, 0.6, 1):
            self.page.call("Input.dispatchTouchEvent", type="touchMove",
                           touchPoints=[{"x": x + share * (to_x - x), "y": y + share * (to_y - y)}])
        self.page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.until(".game-status", "split runs on stream 1 from 0 µs to 1 µs.")

    def test_a_slow_schedule_loses_and_hints_say_why(self):
        self.open("beat", puzzle="fork_join", plan="split.0 a.0 b.0 c.0 d.0 join.0")
        self.until(".game-verdict", "Score 57 %. The best schedule takes 8 µs.")
        self.click_button("Hint")
        self.until(".game-hint", "no schedule takes less than 8 µs, because the chain split, d, join takes as long")
        self.click_button("Hint")
        self.until(".game-hint", "At 1 µs a stream is idle although b could run. Is that on purpose?")
        self.click_button("critical path (Braid)")
        self.until(".game h4", "The schedule of critical path")
        self.click_button("Show the best")
        self.until(".game-verdict", "No schedule is faster")
        self.click_button("Hint")
        self.until(".game-hint", "No schedule is faster than yours.")

    def test_every_puzzle_has_a_best_schedule_and_all_policies(self):
        self.open("beat")
        for puzzle in self.js("[...$('.game-choose select').options].map(o => o.value)"):
            with self.subTest(puzzle):
                self.choose(puzzle)
                self.page.wait(f"location.hash.startsWith('#puzzle={puzzle}')")
                self.click_button("Show the best")
                self.until(".game-verdict", "No schedule is faster")
                self.assertEqual(self.js("$$('.game-scores tbody tr').length"), 7)
                self.assertEqual(self.text(".game-errors"), "")
        self.open("beat", puzzle="memory", plan="in.0 a.0 b.1 c.2 x.0 y.1 out.0")
        self.until(".game-verdict", "bytes, and there are 2048.")

    def test_a_wrong_address_is_a_message(self):
        self.open("beat", puzzle="chess")
        self.until(".game-errors", "There is no puzzle chess; there are fork_join,")
        self.open("beat", puzzle="fork_join", plan="join.0")
        self.until(".game-errors", "The address places join.0, which cannot be.")
        self.open("break", plan="block", edit='{"events": 2, "streams": [], "offsets": []}')
        self.until(".game-errors", "The change in the address does not fit this plan: 'edit.streams' has 0 entries instead of 3")
        self.until(".game-safe", "safe")

    def test_the_pages_fit_a_phone(self):
        for name, state in (("beat", {"puzzle": "backward", "plan": "f1.0"}), ("write", {}), ("break", {"plan": "redundant"})):
            with self.subTest(name):
                self.open(name, **state)
                if name == "write":
                    self.run_code()
                    self.find(".game-verdict")
                self.page.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
                self.page.wait("$$('svg.game-picture[viewBox]').every(e => e.viewBox.baseVal.width < 390)")
                self.assertLessEqual(self.js("document.documentElement.scrollWidth"), 390)

    def test_a_chapter_has_the_games_as_blocks(self):
        self.open("beat")
        for kind, spec, selector in (("beat", {"puzzle": "graham"}, ".game-tools"), ("write", {"start": "serial"}, "textarea"),
                                     ("break", {"plan": "chains"}, ".game-safe")):
            self.js(f"$('main').insertAdjacentHTML('beforeend', '<div id=in_{kind}></div>')")
            self.js(f"blocks.{kind}($('#in_{kind}'), {json.dumps(spec)}); 0")
            self.find(f"#in_{kind} {selector}")
        self.assertEqual(self.text("#in_beat h3"), "Graham’s anomaly")
        self.assertIn("everything on stream 0", self.js("$('#in_write textarea').value").lower())
        self.assertNotIn("graham", self.js("location.hash"))

    # ---- write it

    def run_code(self, code=None):
        if code is not None:
            self.js(f"(e => {{ e.value = {json.dumps(code)}; e.dispatchEvent(new Event('input')); }})($('textarea')); 0")
        self.click_button("Run and grade")
        self.page.wait("!$('.game button.main').disabled")

    def start_from(self, template):
        self.choose(template)
        return self.js("$('textarea').value")

    def test_templates_are_graded_and_the_filled_gap_beats_round_robin(self):
        self.open("write")
        self.start_from("serial")
        self.run_code()
        self.until(".game-verdict", "Yours beats no policy yet")
        code = self.start_from("critical_path")
        self.run_code()
        before = float(self.text(".game-verdict b").rstrip(" %"))
        self.run_code(code.replace("return 0;", PRIORITY))
        after = float(self.text(".game-verdict b").rstrip(" %"))
        self.assertIn("round robin", self.text(".game-verdict"))
        self.assertGreater(after, before)
        self.assertEqual(self.js("$$('.game-scores')[1].querySelectorAll('tbody tr').length"), 15)
        self.click_button("Hidden 3")
        self.until(".game h4", "Hidden 3: your plan")
        self.page.wait("$$('.game-picture').length === 2")
        link = self.js("location.href")
        self.open("write")
        self.assertIn("Math.max(0, ...task.before", self.js("$('textarea').value"))  # it was kept
        self.open("write", **dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(link).fragment)))
        self.run_code()
        self.until(".game-verdict b", f"{after} %")
        self.open("write", code="function policy() { return 1; }")
        self.until(".game-status", "This code comes with the link. Read it before you run it.")
        self.open("write")
        self.assertIn("Math.max(0, ...task.before", self.js("$('textarea').value"))  # the reader's own is still kept

    def test_mistakes_in_the_code_are_messages_with_their_line(self):
        self.open("write")
        for code, message in (
                ("function policy({tasks}) {\n  while (true) {}\n}", "does a loop never end?"),
                ("function policy({tasks}) {\n  return tasks.map(;\n}", "Line 2: SyntaxError"),
                ("function policy({tasks}) {\n\n  return tusks;\n}", "Line 3: ReferenceError: tusks is not defined"),
                ("function police() {}", "There is no function policy"),
                ("function policy() {", "does not end properly"),
                ("function policy() { return 7; }", "On Fork and join: 'schedule' must be a list, got 7"),
                ("function policy() {}", "On Fork and join: 'schedule' must be a list, got null"),
                ("function policy() { return []; }", "On Fork and join: 'schedule' does not place 'split'"),
                ("function policy({tasks}) { return tasks.map(t => ({task: t.name, stream: 9})); }", "must be an integer from 0 to 1, got 9"),
                ("postMessage('x'); function policy() {}", "must not call postMessage()"),
                ("throw new Error('mine')", "Line 1: Error: mine")):
            with self.subTest(code):
                self.run_code(code)
                self.assertIn(message, self.text(".game-errors"))
        self.run_code("function policy({tasks}) {\n\n  return tusks;\n}")
        self.assertEqual(self.text(".lines .wrong").strip(), "3")

    def test_the_tab_key_indents_and_escape_leaves_the_box(self):
        self.open("write")
        self.js("(e => { e.value = 'x'; e.setSelectionRange(0, 0); })($('textarea')); 0")
        self.press("textarea", "Tab")
        self.assertEqual(self.js("$('textarea').value"), "  x")
        self.press("textarea", "Escape", "Tab")
        self.assertEqual(self.js("$('textarea').value"), "  x")

    # ---- break it

    def test_every_wait_of_the_plan_is_necessary_and_a_run_without_it_goes_wrong(self):
        self.open("break")
        waits = self.js("$$('[data-wait]').map(e => e.dataset.wait)")
        self.assertGreater(len(waits), 2)
        for wait in waits:
            with self.subTest(wait):
                self.press(f"[data-wait='{wait}']", "Delete")
                self.until(".game-fault", " race on bytes ")
                self.assertIn("edit=", self.js("location.hash"))
                self.click_button("Undo")
                self.until(".game-safe", "The verifier finds the plan safe")
        first, second = waits[-1].split()
        self.press(f"[data-wait='{waits[-1]}']", "Enter")
        self.until(".game-fault", f"{first} and {second} race on bytes")
        self.click_button("Show a run that goes wrong")
        self.until(".game-clock", "what the arena holds")
        self.find(".game-run .read")
        self.until(".game-run .lost", f"{second} computes with")
        self.open("break", **dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.js("location.href")).fragment)))
        self.until(".game-fault", f"{first} and {second} race on bytes")
        self.click_button("Undo")
        self.until(".game-safe", "safe")

    def changes(self, look, action):
        """What a script sees after an action, once it differs from before."""
        before = self.js(look)
        action()
        self.page.wait(f"{look} !== {json.dumps(before)}")
        return self.js(look)

    def test_a_value_is_moved_by_keys_and_by_dragging(self):
        self.open("break", plan="chains")
        label = "$('[data-value={}]').getAttribute('aria-label')".format
        begin = self.js(label("b"))
        moved = self.changes(label("b"), lambda: self.press("[data-value=b]", "ArrowDown"))
        self.assertEqual(int(moved.split()[4]) - int(begin.split()[4]), 256)
        self.until(".game-fault", " race on bytes ")
        self.assertEqual(self.changes(label("b"), lambda: self.press("[data-value=b]", "ArrowUp")), begin)
        self.until(".game-safe", "safe")
        begin = self.js(label("x"))
        self.changes(label("x"), lambda: self.drag("[data-value=x]", 0, 90))
        self.until(".game-fault", " race on bytes ")
        self.click_button("Show a run that goes wrong")
        self.until(".game-run .lost", "computes with")
        self.assertEqual(self.changes(label("x"), lambda: self.click_button("Reset")), begin)
        self.until(".game-safe", "safe")

    def test_swapped_commands_race_or_deadlock(self):
        self.open("break")
        order = "$$('.game-commands').map(e => e.textContent).join()"
        found = set()
        for key in self.js("$$('.game-commands [data-key]:not(:last-child)').map(e => e.dataset.key)"):
            with self.subTest(key):
                self.changes(order, lambda: self.press(f".game-commands [data-key='{key}']", "ArrowRight"))
                verdict = self.text(".game-faults")
                found.add(next((word for word in ("deadlock", "race on", "safe") if word in verdict), verdict))
                self.changes(order, lambda: self.click_button("Undo"))
        self.assertEqual(found, {"race on", "safe"})
        self.click(".game-commands [data-key='1.0']")
        self.until(".game", "Later →")
        self.changes(order, lambda: self.click_button("Later →"))
        self.until(".game-fault", "race on")
        self.press(".game-commands [data-key='1.1']", "Delete")  # the wait, which has moved
        self.page.wait("!$(\".game-commands [data-key='1.0']\").textContent.startsWith('wait')")
        self.press(".game-commands [data-key='1.0']", "Delete")
        self.until(".game-status", "Only waits can be deleted")

    def test_all_redundant_waits_are_found_by_trying(self):
        self.open("break", plan="redundant")
        tried = set()
        for _ in range(40):
            left = [w for w in self.js("$$('[data-wait]').map(e => e.dataset.wait)") if w not in tried]
            if not left:
                break
            tried.add(left[0])
            count = self.text(".game-verdict b")
            self.press(f"[data-wait='{left[0]}']", "Delete")
            self.page.wait(f"$('.game-verdict b').textContent !== {json.dumps(count)}")
            if self.text(".game-fault"):
                self.click_button("Undo")
                self.page.wait(f"$('.game-verdict b').textContent === {json.dumps(count)}")
        self.until(".game-verdict.won", "redundant waits are deleted, and the plan is safe")

    # ---- the planner behind them

    @unittest.skipIf(shutil.which("node") is None, "there is no Node")
    def test_mutated_requests_end_in_the_answers_and_messages_of_the_same_code_built_natively(self):
        subprocess.run(["node", ROOT / "tests/apps/tasks_fuzz.js", SITE, "3000", "1", PROGRAM], check=True)


if __name__ == "__main__":
    browser.main()
