"""Processes that run training steps on request, so that several can take turns on one machine; and files of results."""
import argparse
import contextlib
import datetime
import json
import math
import os
import pathlib
import re
import select
import signal
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ANSWER_LIMIT = 300  # seconds within which a program must answer


def overrides(settings):
    """Values of a config's keys as options of braid."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def worker_options(model, batch_size, image_size, classes, threads, **changes):
    """What the workers of other frameworks take, by default for training in f32 on the CPU."""
    return {"model": model, "stem": "image" if image_size == 224 else "small_image", "batch_size": batch_size, "image_size": image_size,
            "channels": 3, "classes": classes, "lr": 0.01, "momentum": 0.9, "threads": threads, "device": "cpu", "precision": "f32",
            "mode": "eager", "fused": False, **changes}


def settings_of(options):
    """The keys of Braid's configs for the step of worker_options."""
    names = {"threads": "threads", "train.batch_size": "batch_size", "data.image_size": "image_size", "data.classes": "classes",
             "optimizer.lr": "lr", "optimizer.momentum": "momentum"}
    return {key: options[name] for key, name in names.items()}


def bench(braid, config, settings={}, variants=()):
    """The command that runs training steps of a config, or of a model, with some of its keys overridden. Variants override
    further ones, and take turns in one process."""
    words = [word for variant in variants for word in ("--variant", " ".join(f"{key}={value}" for key, value in variant.items()))]
    return [braid, "bench", config, "--serve", *overrides(settings), *words]


def braid_plan(braid, *arguments):
    """What `braid plan` prints as JSON, also of a plan that does not fit; ends the script if it prints nothing."""
    command = [str(word) for word in (braid, "plan", *arguments, "--json")]
    run = subprocess.run(command, capture_output=True, text=True)
    return json.loads(run.stdout) if run.stdout else sys.exit(f"{' '.join(command)}\n{run.stderr}")


def relative(times, others):
    """The ratio of a program's times to another's in the same turns, which cancels the machine's drift: lower quartile,
    median and upper quartile."""
    ratios = [time / other for time, other in zip(times, others, strict=True)]
    return statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3


def ratio_text(times, others):
    """The median of the ratio, and its quartiles in parentheses."""
    lower, median, upper = relative(times, others)
    return f"{median:.2f} ({lower:.2f}–{upper:.2f})"


@contextlib.contextmanager
def running_programs():
    """A list of programs; those in it end with the block."""
    programs = []
    try:
        yield programs
    finally:
        for program in programs:
            program.close()


def start(programs, program):
    """Adds the program to the list, and waits until it is ready."""
    programs.append(program)
    program.wait_until_ready()
    return program


def take_turns(programs, turns, seconds, name=None, between=lambda: None):
    """Lets the programs run one after another, every other turn in reverse order. With a name, says how long steps took in each turn. Returns
    for each turn what `between` returned before, between and after the programs."""
    returned = []
    for turn in range(turns):
        returned.append([between()])
        for program in programs if turn % 2 == 0 else reversed(programs):
            program.take_turn(seconds)
            returned[-1].append(between())
        if name:
            print(f"{name}: turn {turn + 1} of {turns}: " +
                  ", ".join(f"{program.name} {1e3 * program.step_seconds[-1]:.2f} ms" for program in programs), file=sys.stderr)
    return returned


def python_with(*packages, folder="pytorch"):
    """The Python of an environment in a folder of build that has these packages."""
    folder = ROOT / "build" / folder
    if status := subprocess.run([ROOT / "scripts/python_env.sh", folder, *packages]).returncode:
        sys.exit(status)
    return folder / "bin/python"


def is_same_program(commit):
    """Whether nothing that is compiled has changed since the commit."""
    others = [f":!{path}" for path in ("benchmarks", "docs", "tests", "scripts", "configs", ".ci", "*.md")]
    return subprocess.run(["git", "diff", "--quiet", commit, "--", ".", *others], cwd=ROOT).returncode == 0


def json_text(value, indent=0):
    """JSON in which whatever fits, or holds nothing but numbers, has one line."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    short = json.dumps(value)
    if len(short) + indent <= 250 or not any(isinstance(child, (dict, list, str)) for child in children):
        return short
    names = [f"{json.dumps(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    lines = [f"\n{' ' * (indent + 1)}{name}{json_text(child, indent + 1)}" for name, child in zip(names, children)]
    return short[0] + ",".join(lines) + f"\n{' ' * indent}{short[-1]}"


def save_results(path, command, **results):
    """Writes results as JSON, with what they were measured or simulated with."""
    machine = re.search("model name\\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())[1]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    setting = {"date": str(datetime.date.today()), "commit": commit, "command": command, "machine": f"{machine}, {os.cpu_count()} cores"}
    path.write_text(json_text({**setting, **results}) + "\n")


def write_table(results, table, check, picture=None, name=None):
    """Puts a table between the marks with a name, that of the results by default, wherever README.md and the documents have them, and a picture
    into docs. With `check`, writes nothing and ends the script if the documents differ."""
    name, table = name or results.stem, "".join(table)
    place = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->\n)", re.DOTALL)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/benchmarks").glob("*.md")]
    shown = {page: place.sub(lambda _: table, page.read_text()) for page in pages if place.search(page.read_text())}
    if not shown:
        sys.exit(f"no page has a place <!-- {name} -->")
    for file, made in {**shown, **({ROOT / f"docs/{name}.svg": "\n".join(picture)} if picture else {})}.items():
        if not check:
            file.write_text(made)
        elif file.read_text() != made:
            sys.exit(f"{file.name} does not show {results.name}: run the benchmark again, or write it without --check")


def report(script, doc, measure, tables, options=None, picture=None):
    """The main function of a benchmark: writes what measure(given) returns, rows or a dictionary with them, to results/SCRIPT.json and the tables
    made of the rows into the documents. With --check, it compares these and runs nothing; with --dry-run, it only runs. `tables` is a function
    of the rows, or several by the names of their places. `options` adds some to the parser. Returns the rows."""
    results = ROOT / f"benchmarks/results/{pathlib.Path(script).stem}.json"
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", type=pathlib.Path, default=ROOT / "build/release/bin/braid", help="the program to measure")
    parser.add_argument("--check", action="store_true", help="compare the documents with the saved results, and run nothing")
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    if options:
        options(parser)
    given = parser.parse_args()
    if not given.check:
        made = measure(given)
        made = made if isinstance(made, dict) else {"rows": made}
        if given.dry_run:
            print(json.dumps(made["rows"], indent=1))
            return made["rows"]
        save_results(results, f"benchmarks/{results.stem}.py", **made)
    rows = json.loads(results.read_text())["rows"]
    for name, table in (tables if isinstance(tables, dict) else {results.stem: tables}).items():
        write_table(results, table(rows), given.check, picture and picture(rows), name)
    return rows


class ProgramFailed(Exception):
    pass


class Program:
    """A process that runs training steps on request; with `stop`, it is stopped in between."""

    def __init__(self, name, command, stop=False, begin=False, limit=ANSWER_LIMIT):
        self.name, self.stop, self.begin, self.limit = name, stop, begin, limit
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.greeting = None
        self.step_seconds, self.unread_seconds, self.host_seconds = [], [], []

    def wait_until_ready(self, limit=None):
        self.greeting = self.ask("begin", limit) if self.begin else self.read(limit)
        self.pause()

    def read(self, limit=None):
        """The next line of JSON; one answer follows one request, so nothing is left in a buffer."""
        limit = limit or self.limit
        if not select.select([self.process.stdout], [], [], limit)[0]:
            self.process.kill()
            raise ProgramFailed(f"{self.name} gave no answer in {limit:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise ProgramFailed(f"{self.name} ended with exit status {self.process.wait()}")
        try:
            return json.loads(line)
        except json.JSONDecodeError as error:
            self.process.kill()
            raise ProgramFailed(f"{self.name} answered {line!r}") from error

    def ask(self, request, limit=None):
        try:
            self.process.stdin.write(f"{request}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read() says how the process ended
        return self.read(limit)

    def signal(self, number):
        os.kill(self.process.pid, number)

    def pause(self):
        if self.stop:
            self.signal(signal.SIGSTOP)

    def resume(self):
        if self.stop:
            self.signal(signal.SIGCONT)

    def request(self, text, limit=None):
        self.resume()
        answer = self.ask(text, limit)
        self.pause()
        return answer

    def take_turn(self, seconds, unread=False):
        """Runs for about `seconds`; does not count the first step, which finds cold caches."""
        self.resume()
        steps = math.ceil(seconds / self.ask("run 1")["seconds"])
        answer = self.ask(f"run {steps}")
        self.step_seconds.append(answer["seconds"] / steps)
        self.host_seconds.append(answer["host_seconds"])
        if unread:
            self.unread_seconds.append(self.ask(f"run {steps} unread")["seconds"] / steps)
        self.pause()

    def warm_up(self, steps, limit=None):
        self.request(f"run {steps}", limit)

    def setting(self):
        return self.request("setting")

    def status_bytes(self, field):
        """VmRSS, the resident memory, or VmHWM, its peak."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field))

    def close(self):
        if self.process.poll() is not None:
            return
        self.resume()
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def result(self):
        return {"name": self.name, "step_seconds": self.step_seconds, "unread_seconds": self.unread_seconds,
                "host_seconds": self.host_seconds}


class Variant(Program):
    """One of the settings that take turns in a process of `braid bench --variant`."""

    def __init__(self, name, index, program):
        vars(self).update(vars(program))
        self.name, self.index = name, index
        self.step_seconds, self.unread_seconds, self.host_seconds = [], [], []

    def ask(self, request, limit=None):
        super().ask(f"use {self.index}", limit)
        return super().ask(request, limit)
