#!/usr/bin/env python3
"""The course in a browser: course_test.py PROGRAM SITE, a folder that scripts/site.sh has made. Answers every question of every chapter, and
checks what chapters say against the program."""
import contextlib
import json
import pathlib
import re
import sys
import tempfile
import unittest

from command import BRAID  # takes the path of the program

import browser
from browser import OpenPage

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from check_numbers import Numbers  # noqa: E402

SITE = pathlib.Path(sys.argv.pop(1)).resolve()
CHAPTERS = sorted(SITE.glob("course/[0-9]*.html"))
# answer(question, whether right): enters what the block's spec calls right, or something else, and submits it.
ANSWER = """
window.questions = [...document.querySelectorAll('.block[data-kind=predict], .block[data-kind=exercise]')];
window.spec_of = block => parse_block(block.querySelector('script').textContent.replaceAll('<\\\\/', '</'));
window.verdict = i => questions[i].querySelector('.verdict').className.split(' ')[1] ?? '';
window.answer = async (i, right) => {
  const block = questions[i], spec = spec_of(block), form = block.querySelector('form');
  if (spec.choices) {
    const correct = spec.correct.split(' '), inputs = [...form.querySelectorAll('input')];
    const wrong = inputs.find(input => !correct.includes(input.value));
    for (const input of inputs) input.checked = right ? correct.includes(input.value) : input === wrong;
  } else if (spec.kind === 'order') {
    if (right) spec.items.split(/[|\\n]/).forEach((text, place) => {
      const item = [...form.querySelectorAll('.order li')].find(each => each.dataset.item === text.trim());
      while ([...item.parentElement.children].indexOf(item) > place) item.querySelector('button').click();
    });
  } else {
    const report = spec.command && await ask('plan', course.request_of_command(spec.command));
    const value = spec.command ? course.evaluate(spec.value, report) : +spec.answer;
    form.querySelector('input').value = right ? value : 2 * value + 1;
  }
  form.requestSubmit();
};
"""


class CourseTest(unittest.TestCase):
    def open(self, chapter):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        page = OpenPage((chapter if isinstance(chapter, pathlib.Path) else next(SITE.glob(f"course/{chapter}-*.html"))).as_uri(), folder.name)
        self.addCleanup(page.__exit__)
        return page

    def prepare(self, page):
        page.look(ANSWER + "0")
        return page.look("questions.map(block => block.dataset.kind)")

    def answer(self, page, question, right):
        page.look(f"answer({question}, {str(right).lower()}); 0")
        page.wait(f"verdict({question}) === '{'right' if right else 'wrong'}'", 20)

    def after_reload(self, page, action):
        """Waits for the page that an action loads; in between there is none to look at."""
        page.look(f"document.body.dataset.ready = 'no'; {action}; 0")
        while True:
            with contextlib.suppress(KeyError):
                page.wait("document.body?.dataset.ready === 'yes'")
                return

    def press(self, page, key, code, text=""):
        for kind in ("keyDown", "keyUp"):
            page.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text if kind == "keyDown" else "")

    def test_every_block_of_every_chapter_mounts_and_is_readable_on_a_phone(self):
        self.assertEqual([chapter.name[:2] for chapter in CHAPTERS], [f"{i:02}" for i in range(1, len(CHAPTERS) + 1)])
        for chapter in CHAPTERS:
            with self.subTest(chapter.stem):
                page = self.open(chapter)
                self.assertEqual(page.look("[...document.querySelectorAll('[role=alert]')].map(each => each.textContent).filter(Boolean)"), [])
                self.assertEqual(page.look("[...document.querySelectorAll('.block')].filter(each => each.children.length < 2).length"), 0)
                page.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=2, mobile=True)
                page.wait("document.querySelector('.block').clientWidth < 390")
                # Text of blocks is 12 pixels tall or taller, and what can be pressed 24.
                self.assertEqual(page.look("[...document.querySelectorAll('.block text, .block p, .block label, .block small')].filter("
                                           "each => parseFloat(getComputedStyle(each).fontSize) < 10).length"), 0)
                self.assertEqual(page.look("[...document.querySelectorAll('.block form > .buttons button')].filter("
                                           "each => each.offsetHeight < 24).length"), 0)

    def test_wrong_answers_are_wrong_and_right_ones_right_and_the_score_is_kept(self):
        for chapter in CHAPTERS:
            with self.subTest(chapter.stem):
                page = self.open(chapter)
                kinds = self.prepare(page)
                self.assertGreaterEqual(kinds.count("predict"), 1)
                self.assertGreaterEqual(kinds.count("exercise"), 2)
                self.assertEqual(page.look("document.querySelectorAll('.veil').length"), kinds.count("predict"))
                for question in range(len(kinds)):
                    self.answer(page, question, right=False)
                self.assertEqual(page.look("document.querySelectorAll('.veil').length"), 0)
                self.assertIn(f"0 of {len(kinds)} ", page.look("document.querySelector('.score').textContent"))
                for question, kind in enumerate(kinds):
                    if kind == "exercise":  # a prediction is made once
                        self.answer(page, question, right=True)
                right = f"{kinds.count('exercise')} of {len(kinds)} "
                self.assertIn(right, page.look("document.querySelector('.score').textContent"))
                self.after_reload(page, "location.reload()")
                self.assertIn(right, page.look("document.querySelector('.score').textContent"))
                self.after_reload(page, "document.querySelector('.score button').click()")
                self.prepare(page)
                for question in range(len(kinds)):
                    self.answer(page, question, right=True)
                self.assertIn(f"{len(kinds)} of {len(kinds)} ", page.look("document.querySelector('.score').textContent"))

    def test_a_prediction_hides_what_follows_from_the_keyboard_until_it_is_made(self):
        page = self.open("05")
        self.prepare(page)
        page.look("questions.find(block => block.dataset.kind === 'predict').querySelector('.buttons button:last-child').focus(); 0")
        self.press(page, "Tab", 9)
        self.assertFalse(page.look("document.activeElement.closest('.veil') !== null"))
        page.look("questions.find(block => block.dataset.kind === 'predict').querySelector('input').focus(); 0")
        self.press(page, " ", 32, " ")
        self.press(page, "Enter", 13, "\r")
        page.wait("document.querySelectorAll('.block[data-kind=predict] .verdict.wrong').length === 1")
        self.assertTrue(page.look("questions.find(block => block.dataset.kind === 'predict').nextElementSibling.inert === false"))
        page.look("[...document.querySelectorAll('button')].find(each => each.textContent === 'Show anyway').click(); 0")
        page.wait("document.querySelectorAll('.verdict.shown').length === 1")

    def test_hints_and_solutions_and_answers_that_say_nothing(self):
        page = self.open("05")
        self.prepare(page)
        page.look("window.first = questions.find(block => block.dataset.kind === 'exercise'); first.querySelector('form').requestSubmit(); 0")
        page.wait("first.querySelector('.verdict').textContent === 'Enter a number.'")
        self.assertIn(" open", page.look("document.querySelector('.score').textContent"))
        for label in ("Hint", "Solution"):
            page.look(f"[...first.querySelectorAll('button')].find(each => each.textContent === '{label}').click(); 0")
            text = page.look(f"spec_of(first)['{label.lower()}']").split("\n")[0].replace("`", "")
            self.assertIn(text, page.look("first.textContent"))
        page.look("answer(questions.indexOf(first), true); 0")  # after its solution it does not count
        page.wait("first.querySelector('.verdict.right') !== null")
        self.assertIn("0 of ", page.look("document.querySelector('.score').textContent"))

    def test_a_live_plan_follows_its_controls_by_keyboard(self):
        page = self.open("02")
        page.look(ANSWER + "document.querySelectorAll('.veil').forEach(veil => { veil.inert = false; });"
                  "window.live = document.querySelector('.block[data-kind=live]'); live.querySelector('[name=streams]').focus(); 0")
        page.look("live.querySelector('[name=streams]').value = 2; 0")
        self.press(page, "ArrowLeft", 37)
        page.wait("live.querySelector('.hint').textContent.includes(' 1 stream,')")
        self.assertIn("1.00", page.look("live.querySelector('.cards').textContent"))
        self.assertIn("on 1 stream,", page.look("live.querySelector('svg').getAttribute('aria-label')"))
        page.look("live.querySelector('[name=model]').value = 'lenet5';"
                  "live.querySelector('form').dispatchEvent(new Event('input', {bubbles: true})); 0")
        page.wait("live.querySelector('.hint').textContent.includes('lenet5')")
        nodes = Numbers(BRAID).value("braid plan lenet5 --device a100 --streams 1", "report.nodes")
        self.assertIn(f": {nodes} nodes;", page.look("live.querySelector('.hint').textContent"))
        self.assertLess(nodes - page.look("live.querySelectorAll('.picture .bar').length"), 5)  # views are not drawn

    def test_an_sm_holds_as_many_blocks_as_the_program_counts(self):
        page = self.open("05")
        page.look(ANSWER + "window.sm = document.querySelector('.block[data-kind=sm]'); 0")
        blocks = page.look("Object.fromEntries(Object.entries(course.kernels_of(spec_of(sm).kernels)).map("
                           "([name, kernel]) => [name, course.blocks_in(course.room_for(kernel))]))")
        table = {op: int(row[1]) for row in re.findall(r"^\| (`.*`) \|.*\| (\d+) \|$", (ROOT / "docs/gpu.md").read_text(), re.MULTILINE)
                 for op in re.findall(r"\w+", row[0])}
        self.assertGreaterEqual(len(set(blocks) & set(table)), 3)
        self.assertEqual({op: count for op, count in blocks.items() if op in table}, {op: table[op] for op in blocks if op in table})
        outcome = "sm.querySelector('.outcome').textContent"
        self.assertIn("1.00×", page.look(outcome))  # the second kernel waits for the first
        page.look("const blocks = sm.querySelector('[name=A-blocks]'); blocks.value = 20; blocks.dispatchEvent(new Event('input')); 0")
        self.assertIn("Together 120 µs, one after the other 130 µs", page.look(outcome))  # its last wave leaves room

    def solution(self, function):
        return re.search(rf"```js\n(function {function}.*?)```", (ROOT / "docs/course/teacher.md").read_text(), re.DOTALL)[1]

    def run_code(self, page, kind, code):
        page.look(f"window.block = document.querySelector('.block[data-kind={kind}]'); block.querySelector('textarea').value = {json.dumps(code)};"
                  "window.run = [...block.querySelectorAll('button')].find(button => button.textContent.startsWith('Run')); run.click(); 0")
        page.wait("!run.disabled", 20)

    def test_the_solution_of_the_policy_beats_round_robin_on_hidden_graphs_and_others_do_not(self):
        page = self.open("04")
        given = page.look("document.querySelector('.block[data-kind=write] textarea').value")
        for code, outcome in ((given, "Not yet"), (self.solution("policy"), "Solved"), (given, "Not yet")):
            self.run_code(page, "write", code)
            self.assertIn(f"{outcome}: yours reaches ", page.look("block.querySelector('.game-verdict').textContent"))
        self.run_code(page, "write", "function policy() { return []; }")
        self.assertIn("does not place 'split'", page.look("block.querySelector('.game-errors').textContent"))

    def test_the_solution_of_the_checker_agrees_with_the_verifier_and_others_do_not(self):
        solution = self.solution("check")
        rule = re.search(r" +if \(overlap.*\n", solution)[0]
        page = self.open("08")
        for code, outcome in ((solution, "on 15 of 15 plans below and 45 of 45 others. It agrees"), (solution.replace(rule, ""), "It lets "),
                              ("function check() { return 'no'; }", "It lets 0 unsafe plans pass"), ("function check() { for (;;); }", "not answered"),
                              ("\nconst a = ;", "Line 2: "), ("const a = 1;", "check is not defined")):
            self.run_code(page, "check", code)
            self.assertIn(outcome, page.look("block.querySelector('.verdict').textContent"))


if __name__ == "__main__":
    browser.main()
