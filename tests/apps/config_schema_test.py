#!/usr/bin/env python3
"""The schema of configs says what the reader says.

Usage: config_schema_test.py PATH_OF_BRAID. Exits with 77 where Python has no packages jsonschema and yaml."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(f"skipped: {error}; scripts/setup.sh --tests installs it")
    sys.exit(77)

BRAID = sys.argv.pop(1) if len(sys.argv) > 1 else "braid"
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Yaml(yaml.SafeLoader):
    """Reads the numbers of YAML 1.2, as editors do: 1e-3 is one."""


Yaml.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"-?[0-9]+(\.[0-9]+)?[eE][-+]?[0-9]+$"), list("-0123456789"))

MINIMAL = """\
name: x
model: {name: lenet5}
data: {name: synthetic}
train: {epochs: 1}
"""
JOBS = """\
name: x
data: {name: fashion_mnist}
jobs:
  - {name: a, model: {name: mlp}, train: {epochs: 1}}
  - {name: b, model: {name: lenet5}, train: {epochs: 1}, optimizer: {name: adam}}
"""
LAYERS = """\
name: x
model:
  layers:
    - {type: conv, name: a, channels: 4, kernel: [3, 1], padding: same}
    - {type: conv, from: input, channels: 4, kernel: 3, stride: 1, padding: [1, 1]}
    - {type: concat, from: [a, "1"]}
    - {type: flatten}
    - {type: linear}
data: {name: synthetic}
train: {epochs: 1}
"""
PATHNET = """\
name: x
model: {name: pathnet_linear}
data: {name: fashion_mnist}
evolution: {task_a: [0, 1], task_b: [6, 1]}
"""

ACCEPTED = [
    MINIMAL, JOBS, LAYERS, PATHNET, PATHNET.replace("linear", "conv"),
    *(MINIMAL.replace("lenet5", model) for model in ("mlp", "googlenet", "resnet18", "resnet20", "randwire", "vgg16")),
    MINIMAL.replace("synthetic", "fashion_mnist"),
    *(MINIMAL + f"optimizer: {{name: {name}}}" for name in ("sgd", "adam", "adamw")),
    *(MINIMAL + f"schedule: {{name: {name}}}" for name in ("constant", "cosine", "one_cycle", "step, step_epochs: 2")),
    MINIMAL + "schedule: {name: step, milestones: [1, 2.5]}",
    MINIMAL + "streams: {partition: [8, 16]}",
    MINIMAL + "streams: 3",
    MINIMAL + "threads: 2",
    MINIMAL + "memory_limit: 100",
    MINIMAL + "device: cuda:1",
    MINIMAL + "optimizer: {lr: 1e-3}",
    MINIMAL + "seed: 18446744073709551615",
    MINIMAL.replace("synthetic", "synthetic, classes: 100, only_classes: [99, 3]"),
    PATHNET.replace("task_a", "seeds: [4, 2], task_a"),
]

REJECTED = {
    "an unknown key": MINIMAL + "sead: 1",
    "an unknown key in a section": MINIMAL + "eval: {batch: 1}",
    "a missing key": MINIMAL.replace("name: x\n", ""),
    "a missing section": MINIMAL.replace("train: {epochs: 1}\n", ""),
    "a missing key of a section": MINIMAL.replace("{epochs: 1}", "{batch_size: 1}"),
    "a wrong type": MINIMAL + "optimizer: {lr: fast}",
    "a fraction where an integer should be": MINIMAL + "eval: {batch_size: 1.5}",
    "a number in quotes": MINIMAL + 'eval: {batch_size: "64"}',
    "a number that is too small": MINIMAL + "optimizer: {lr: 0}",
    "a number that is too large": MINIMAL + "optimizer: {momentum: 1}",
    "a word that is none of those": MINIMAL + "threads: every",
    "a name that there is not": MINIMAL.replace("lenet5", "lenet6"),
    "a name that is no folder": MINIMAL.replace("name: x", "name: a/b"),
    "a device that there is not": MINIMAL + "device: gpu",
    "a value in place of a section": MINIMAL + "optimizer: adam",
    "a section in place of a value": MINIMAL + "seed: {a: 1}",
    "an empty list": MINIMAL + "streams: {partition: []}",
    "a key of another model": MINIMAL.replace("lenet5", "lenet5, hidden: [3]"),
    "neither a name nor layers of a model": LAYERS.replace("layers:", "freeze: [a]").replace("    - ", "    # "),
    "both a name and layers of a model": LAYERS.replace("  layers:", "  name: mlp\n  layers:"),
    "a key of a named model beside layers": LAYERS.replace("  layers:", "  width: 2\n  layers:"),
    "a key of another type of layer": LAYERS.replace("flatten", "flatten, p: 0.5"),
    "a type of layer that there is not": LAYERS.replace("flatten", "flat"),
    "a convolution without channels": LAYERS.replace("name: a, channels: 4", "name: a"),
    "a key of another dataset": MINIMAL.replace("synthetic", "fashion_mnist, size: 3"),
    "a key of another optimizer": MINIMAL + "optimizer: {name: adam, momentum: 0.5}",
    "a key of another than the default optimizer": MINIMAL + "optimizer: {beta1: 0.5}",
    "a key of another schedule": MINIMAL + "schedule: {name: one_cycle, warmup_epochs: 1}",
    "a key for several jobs only": MINIMAL + "balance: auto",
    "an empty list of jobs": "name: x\njobs: []",
    "a job without a name": JOBS.replace("{name: a, ", "{"),
    "a job with a device": JOBS.replace("{name: a, ", "{name: a, device: cpu, "),
    "a key that no PathNet has": PATHNET + "eval: {batch_size: 3}",
    "a task of one class": PATHNET.replace("[0, 1]", "[0]"),
    "a list of classes beside tasks": PATHNET.replace("fashion_mnist", "fashion_mnist, only_classes: [1, 2]"),
}


def read(text):
    return yaml.load(text, Yaml)


class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = subprocess.run([BRAID, "config", "schema"], capture_output=True, text=True, check=True).stdout
        cls.schema = json.loads(text)
        cls.validator = jsonschema.Draft202012Validator(cls.schema)

    def resolved(self, text):
        """The config as braid understands it, or its complaint."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            run = subprocess.run([BRAID, "train", file.name, "--print-config"], capture_output=True, text=True)
        return (read(run.stdout), "") if run.returncode == 0 else (None, run.stderr)

    def mistakes(self, config):
        return [f"{error.json_path}: {error.message}" for error in self.validator.iter_errors(config)]

    def test_the_schema_is_one(self):
        jsonschema.Draft202012Validator.check_schema(self.schema)

    def test_it_accepts_every_config_of_the_repository(self):
        files = [*ROOT.glob("configs/*.yaml"), *ROOT.glob("benchmarks/configs/**/*.yaml")]
        self.assertGreater(len(files), 20)
        for path in files:
            self.assertEqual(self.mistakes(read(path.read_text())), [], path)

    def test_it_accepts_what_the_reader_accepts(self):
        for text in [*ACCEPTED, MINIMAL + "threads: 0"]:
            with self.subTest(text):
                resolved, complaint = self.resolved(text)
                self.assertEqual(complaint, "")
                self.assertEqual(self.mistakes(read(text)), [])
                self.assertEqual(self.mistakes(resolved), [])

    def test_it_rejects_what_the_reader_rejects(self):
        for what, text in REJECTED.items():
            with self.subTest(what):
                self.assertIsNone(self.resolved(text)[0])
                self.assertNotEqual(self.mistakes(read(text)), [])

    def add_defaults(self, schema, value):
        """Adds to the value what the schema says that it has if it is not given."""
        def branch_of(rule):
            return rule.get("then" if jsonschema.Draft202012Validator(rule["if"]).is_valid(value) else "else", True)

        if "if" in schema:
            self.add_defaults(branch_of(schema), value)
            return
        properties = dict(schema["properties"])
        for branch in map(branch_of, schema.get("allOf", [])):
            for name, change in ({} if branch is True else branch.get("properties", {})).items():
                properties[name] = change and {**properties[name], **change}
        for name, property in properties.items():
            if property is False:
                continue
            if "default" in property:
                value.setdefault(name, property["default"])
            elif name == "jobs":
                for job in value["jobs"]:
                    self.add_defaults(property["items"], job)
            elif name == "layers" and "layers" in value:
                for i, layer in enumerate(value["layers"]):
                    self.add_defaults(property["items"], layer)
                    layer.setdefault("name", str(i))
            elif property.get("type") == "object" and ("jobs" not in value or name in ("output", "parallel")):
                self.add_defaults(property, value.setdefault(name, {}))

    def test_its_defaults_are_those_of_the_reader(self):
        for text in ACCEPTED:
            with self.subTest(text):
                expected = read(text)
                if "jobs" in expected:  # shared sections are part of every job in what is printed
                    shared = expected.pop("data")
                    for job in expected["jobs"]:
                        job["data"] = dict(shared)
                self.add_defaults(self.schema, expected)
                resolved, _ = self.resolved(text)
                if isinstance(expected.get("evolution", {}).get("seeds"), int):
                    self.assertEqual(len(resolved["evolution"]["seeds"]), expected["evolution"]["seeds"])
                    expected["evolution"]["seeds"] = resolved["evolution"]["seeds"]
                self.assertEqual(resolved, expected)


if __name__ == "__main__":
    unittest.main()
