"""The numbers and pictures of docs/parallelism.md: `braid plan` of the YAML in it.

A block that begins with "name:" is a config, "layers:" a strategy file, "device:" a cluster file, all after comments; any other adds
keys to the first config. A comment that begins with dashes has further options of the command. Blocks that a line "Simulated: …"
follows are planned, and `braid train --print-config` accepts the others.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/parallelism.md"
RANKS, CLUSTER, DEVICE = 4, "ethernet_25g", "p100"
BLOCK = re.compile(r"^##+ (?P<heading>[^\n]*)$|```yaml\n(?P<yaml>.*?)```\n(?P<line>\nSimulated: [^\n]*\n)?", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?<=<!-- plans -->\n).*?(?=<!-- end of plans -->)", re.DOTALL)
PICTURES = {  # what each shows, one below the other, by the labels of blocks
    "parallelism-layers.svg": ["strategy: data", "channels.yaml", "height.yaml", "strategy: owt", "mesh.yaml", "strategy: layerwise"],
    "parallelism-gradients.svg": ["policy: serial", "strategy: data", "steps_per_execution: 2", "servers.yaml"],
    "parallelism-consistency.svg": ["strategy: data", "staleness: 1", "average_every: 8", "compression: top_k", "compression: int8"],
}
PIPELINES = [f"strategy: pipeline, virtual_ranks: 8, pipeline: {order}" for order in ("gpipe", "1f1b", "zb_h1", "auto")]
PICTURES["parallelism-pipeline.svg"] = PIPELINES
PASSES = {"forward": "forward pass", "backward": "backward pass", "weights": "gradients of weights, if apart"}
KINDS = {"forward": "forward pass", "backward": "backward pass", "update": "update, compression", "all_reduce": "all-reduce",
         "gather": "other communication"}
LEFT, WIDTH, LANES = 76, 864, ((0, 9), (10, 6))  # the computing of a rank and, below, its link: top and height
HEAD, RANK, PANEL = 44, 20, 22 + RANKS * 20 + 14  # heights of the legend, of a rank and of a plan
STYLE = """
    text { font: 12px system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif; fill: #1d2430; }
    .name { font-size: 13px; font-weight: 600; } .note { fill: #667085; } .end { text-anchor: end; } .middle { text-anchor: middle; }
    .paper { fill: #f6f7f9; stroke: #d5d9e0; } .line { stroke: #d5d9e0; }
    .forward { fill: #629eda; } .backward { fill: #3073b5; } .update { fill: #4f9d69; }
    .all_reduce { fill: #d9822b; } .gather { fill: #a8589c; } .weights { fill: #4f9d69; }
    .number { font-size: 9px; fill: #fff; text-anchor: middle; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e8ecf2; } .note { fill: #9aa6b6; } .paper { fill: #1c222b; stroke: #39424f; } .line { stroke: #39424f; }
    }
"""


class Block:
    """A block of YAML on the page, under its heading."""

    def __init__(self, heading, yaml, is_planned):
        self.heading, self.yaml, self.is_planned = heading, yaml, is_planned
        line = yaml.splitlines()[0]
        name = re.match(r"# (\S+\.yaml)|parallel: \{(.*)\}", line)
        self.label = next(filter(None, name.groups())) if name else line
        self.options = line[2:].split() if line.startswith("# --") else []
        self.kind = next((key for key in ("name", "layers", "device") if re.search(rf"^{key}:", yaml, re.MULTILINE)), "keys")

    def command(self, program, base, folder):
        files = {name: folder / f"{name}.yaml" for name in ("base", "added", "block")}
        for name, text in zip(files, (base, base + self.yaml, self.yaml)):
            files[name].write_text(text)
        config = files["block" if self.kind == "name" else "added" if self.kind == "keys" else "base"]
        if not self.is_planned:
            return [program, "train", config, "--print-config"]
        policy = "serial" if "policy: serial" in self.yaml else "critical_path"
        command = [program, "plan", config, "--policy", policy, "--json", "--trace", folder / "trace.json"]
        if self.kind == "name":
            return [*command, "--device", DEVICE]
        strategy = ["--strategy", files["block"]] if self.kind == "layers" else []
        return [*command, "--ranks", str(RANKS), "--cluster", files["block"] if self.kind == "device" else CLUSTER, *strategy,
                *self.options]

    def run(self, program, base):
        """Plans the block: fills `plan`, and the events of its timeline in `trace`."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            run = subprocess.run(self.command(program, base, folder), capture_output=True, text=True)
            if run.returncode != 0:
                sys.exit(f"{PAGE.name}: '{self.label}' under '{self.heading}' fails: {run.stderr.strip()}")
            if self.is_planned:
                self.plan = json.loads(run.stdout)
                self.trace = json.loads((folder / "trace.json").read_text())["traceEvents"]
        return self

    def numbers(self):
        """For a rank: milliseconds per step, milliseconds that its link is busy, MiB that it sends, and MiB of parameters and arena."""
        if self.kind == "name":
            plan = self.plan["plans"][-1]
            return [plan["makespan_us"] / 1e3, 0, 0, self.plan["memory"]["persistent_bytes"] / 2**20, plan["arena_bytes"] / 2**20]
        row, ranks = self.plan["strategies"][0], self.plan["scaling"][-1]
        step, link, sent = row["step_us"] / 1e3, ranks["communicating_us"] / 1e3, row["sent_bytes"] / 2**20
        if average := re.search(r"average_every: (\d+)", self.yaml):  # what is planned is the one step of these that averages
            steps = int(average[1])
            step, link, sent = (step + (steps - 1) * self.alone) / steps, link / steps, sent / steps
        return [step, link, sent, row["persistent_bytes"] / 2**20, row["arena_bytes"] / 2**20]

    def sentence(self):
        if self.kind == "name":
            serial, plan = self.plan["plans"][0], self.plan["plans"][-1]
            return (f"Simulated: {serial['makespan_us'] / 1e3:.1f} ms per step on one stream, {plan['makespan_us'] / 1e3:.1f} ms on "
                    f"{plan['used_streams']}.")
        step, link, sent, parameters, arena = self.numbers()
        if asynchronous := self.plan["asynchronous"]:
            synchronous, largest = RANKS * 1e6 / self.plan["scaling"][-1]["makespan_us"], len(asynchronous["updates_by_staleness"]) - 1
            straggler = f" ({asynchronous['mean_staleness_of_rank_0']:.1f} of the straggler)" if "--straggler" in self.options else ""
            return (f"Simulated: {asynchronous['updates_per_second']:.1f} batches per second, and {synchronous:.1f} by a synchronous training; "
                    f"updates have a staleness of {asynchronous['mean_staleness']:.1f} on average{straggler} and of {largest} at most.")
        if stages := self.plan["stages"]:
            computing, held = (max(stage[key] for stage in stages) for key in ("computing_us", "micro_batches_held"))
            return (f"Simulated: {step:.1f} ms per step, of which the busiest rank computes {computing / 1e3:.1f} ms; each holds at most "
                    f"{held} micro-batches, sends at most {sent:.1f} MiB and has at most {arena:.0f} MiB of activations and gradients.")
        return (f"Simulated: {step:.1f} ms per step; the link is busy for {link:.1f} ms; each rank sends {sent:.1f} MiB and holds "
                f"{parameters + arena:.0f} MiB.")

    def row(self):
        anchor = re.sub(r"[^\w -]", "", self.heading.lower()).replace(" ", "-")
        step, link, sent, parameters, arena = self.numbers()
        return f"| [{self.heading}](#{anchor}) | `{self.label}` | {step:.1f} | {link:.1f} | {sent:.1f} | {parameters:.1f} | {arena:.1f} |\n"


def planned(program, text):
    heading, blocks = "", []
    for match in BLOCK.finditer(text):
        heading = match["heading"] or heading
        if match["yaml"]:
            blocks.append(Block(heading, match["yaml"], bool(match["line"])))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        blocks = list(pool.map(lambda block: block.run(program, blocks[0].yaml), blocks))
    for block in blocks:
        block.alone = blocks[0].numbers()[0]  # milliseconds per step on one rank
    return blocks


def with_new_plans(program, text):
    """The page with numbers as `braid plan` prints them, in the line after each block and in the table."""
    blocks = planned(program, text)
    lines = iter([f"\n{block.sentence()}\n" for block in blocks if block.is_planned])
    text = BLOCK.sub(lambda match: match[0].removesuffix(match["line"]) + next(lines) if match["line"] else match[0], text)
    rows = [block.row() for block in blocks if block.is_planned and (block is blocks[0] or block.kind != "name") and not block.options]
    head = "| | config | step, ms | link busy, ms | sent, MiB | parameters, MiB | arena, MiB |\n" + "|---" * 7 + "|\n"
    return TABLE.sub(lambda _: head + "".join(rows), text)


def kind_of(event):
    """The lane of an event, and its kind: what occupies no part of the device is communication."""
    if event["args"]["width"] == 0:
        return 1, "all_reduce" if event["name"] == "all_reduce" else "gather"
    phase = event["args"]["phase"]
    return 0, phase if event["args"]["layer"] or phase == "backward" else "update"


def timeline(trace, scale):
    """Paths, one for each kind, of what a rank does: a pixel shows what takes most of it."""
    pixels = {}
    for event in trace:
        if event["ph"] != "X" or not event["cat"].startswith("node"):
            continue
        lane, kind = kind_of(event)
        begin, end = event["ts"] * scale, (event["ts"] + event["dur"]) * scale
        for x in range(int(begin), int(end) + 1):
            shares = pixels.setdefault((lane, x), {})
            shares[kind] = shares.get(kind, 0) + min(end, x + 1) - max(begin, x)
    shown = {place: max(shares, key=shares.get) for place, shares in pixels.items() if sum(shares.values()) >= 0.5}
    paths = dict.fromkeys(KINDS, "")
    for (lane, x), kind in sorted(shown.items()):
        if shown.get((lane, x - 1)) != kind:
            width = 1
            while shown.get((lane, x + width)) == kind:
                width += 1
            top, height = LANES[lane]
            paths[kind] += f"M{LEFT + x} {top}h{width}v{height}h-{width}z"
    return "".join(f'<path class="{kind}" d="{path}"/>' for kind, path in paths.items() if path)


def pipeline_panel(top, block, scale):
    """What each stage runs of which micro-batch."""
    yield f'<text class="name" x="{LEFT}" y="{top + 14}">{block.label}</text>'
    for rank in range(RANKS):
        yield f'<text class="note end" x="{LEFT - 10}" y="{top + 33 + RANK * rank}">rank {rank}</text>'
    for task in block.plan["tasks"]:
        x, y = LEFT + task["start_us"] * scale, top + 22 + RANK * task["stage"]
        width = (task["finish_us"] - task["start_us"]) * scale
        if width >= 0.5:
            yield f'<rect class="{task["pass"]}" x="{x:.1f}" y="{y}" width="{max(0.5, width - 0.6):.1f}" height="15"/>'
        if width >= 8:
            yield f'<text class="number" x="{x + width / 2:.1f}" y="{y + 11}">{task["micro_batch"]}</text>'


def panel(number, block, scale):
    """The timelines of all ranks. Unless they are stages, they have the same plan and the same speed, so these are equal."""
    top, name = HEAD + PANEL * number, f"plan{number}"
    if block.plan["tasks"]:
        yield from pipeline_panel(top, block, scale)
        return
    yield f'<text class="name" x="{LEFT}" y="{top + 14}">{block.label}</text><defs><g id="{name}">{timeline(block.trace, scale)}</g></defs>'
    for rank in range(RANKS):
        y = top + 22 + RANK * rank
        yield f'<text class="note end" x="{LEFT - 10}" y="{y + 11}">rank {rank}</text><use href="#{name}" y="{y}"/>'


def picture(blocks, labels):
    """An SVG of the plans of these blocks, one below the other, on one axis of time."""
    chosen = [next(block for block in blocks if block.label == label) for label in labels]
    longest = max(block.plan["plans"][-1]["makespan_us"] for block in chosen)  # of a plan, which may have several steps
    scale, bottom = WIDTH / longest, HEAD + PANEL * len(chosen)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {bottom + 34}" role="img">'
    yield f"<title>Timelines of {RANKS} ranks: {', '.join(labels)}</title><style>{STYLE}</style>"
    yield f'<rect class="paper" x="0.5" y="0.5" width="959" height="{bottom + 33}" rx="8"/>'
    for number, (kind, name) in enumerate((PASSES if chosen[0].plan["tasks"] else KINDS).items()):
        x = LEFT + 160 * number
        yield f'<rect class="{kind}" x="{x}" y="16" width="12" height="10"/><text class="note" x="{x + 18}" y="25">{name}</text>'
    for milliseconds in range(0, int(longest / 1e3) + 1, 20):
        x = LEFT + round(milliseconds * 1e3 * scale)
        yield f'<line class="line" x1="{x}" y1="{HEAD}" x2="{x}" y2="{bottom}"/>'
        yield f'<text class="note middle" x="{x}" y="{bottom + 18}">{milliseconds} ms</text>'
    for number, block in enumerate(chosen):
        yield from panel(number, block, scale)
    yield "</svg>\n"


def pictures(program):
    """The pictures by their names."""
    blocks = planned(program, PAGE.read_text())
    return {name: "\n".join(picture(blocks, labels)) for name, labels in PICTURES.items()}
