#!/usr/bin/env python3
"""Steps that are planned, explained, measured and summarised.

Usage: planning_test.py PATH_OF_BRAID"""

import json
import os
import re
import unittest

import command
from command import CommandTest, wait_until


class Planning(CommandTest):
    def test_ranks_of_a_cluster(self):
        plan = ("plan", self.config, "--batch-size", "16", "--policy", "round_robin")
        report = json.loads(self.succeeds(*plan, "--ranks", "16", "--cluster", "ethernet_25g", "--json"))
        self.assertEqual((report["cluster"], report["device"]), ("ethernet_25g", "NVIDIA P100"))
        scaling = report["scaling"]
        self.assertEqual([row["ranks"] for row in scaling], [1, 4, 16])
        self.assertEqual((scaling[0]["efficiency"], scaling[0]["communicating_us"]), (1, 0))
        self.assertGreater(scaling[-1]["communicating_us"], 0)
        self.assertLess(scaling[-1]["efficiency"], 1)
        self.assertEqual(scaling[-1]["makespan_us"], report["plans"][report["configured"]]["makespan_us"])

        late = self.braid(*plan, "--ranks", "16", "--cluster", "ethernet_25g", "--straggler", "3", "--json")
        slow = json.loads(late.stdout)["scaling"]
        self.assertEqual(slow[0]["makespan_us"], scaling[0]["makespan_us"])
        self.assertGreater(slow[-1]["makespan_us"], 1.2 * scaling[-1]["makespan_us"])
        self.assertIn("efficiency", self.braid(*plan, "--ranks", "2", "--cluster", "dgx_h100").stdout)

        (self.folder / "own.yaml").write_text("{device: a100, hosts: 2, devices: 2, network: {latency: 10, bandwidth: 1}}")
        own = json.loads(self.braid(*plan, "--ranks", "4", "--cluster", "own.yaml", "--json").stdout)
        self.assertEqual((own["cluster"], own["device"]), ("own.yaml", "NVIDIA A100"))

        for arguments, error in (
                (("--ranks", "8"), "expected the cluster of 8 ranks: --cluster with one of dgx_h100, pcie_box"),
                (("--svg", "x.svg"), "--svg requires --ranks"),
                (("--ranks", "1", "--cluster", "pcie_box", "--svg", "x.svg"), "a picture of scaling needs at least 2 ranks"),
                (("--ranks", "8", "--cluster", "dgx"), "expected one of dgx_h100, pcie_box, ethernet_25g, p100_nodes, p100x4x4, got 'dgx'"),
                (("--ranks", "9", "--cluster", "pcie_box"), "expected 1 to 8 ranks on 'pcie_box'"),
                (("--ranks", "5", "--cluster", "own.yaml"), "expected 1 to 4 ranks on 'own.yaml', which has 2 hosts")):
            result = self.braid(*plan, *arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(error, " ".join(result.stderr.split()))
        (self.folder / "own.yaml").write_text("{device: a100, hosts: 2, device_count: 2}")
        self.assertIn("own.yaml:1:", self.braid(*plan, "--ranks", "2", "--cluster", "own.yaml").stderr)

    def test_a_plan_that_was_written_is_verified_and_shown_with_the_others(self):
        plan, file = ("plan", self.config, "--device", "a100", "--batch-size", "16", "--streams", "3"), self.folder / "plan.json"
        written = json.loads(self.succeeds(*plan, "--policy", "round_robin", "--write-plan", file, "--json"))["plans"][1]
        report = json.loads(self.succeeds(*plan, "--policy", "matching", "--plan", file, "--json"))
        row = report["plans"][report["configured"]]
        self.assertEqual([each["policy"] for each in report["plans"]], ["serial", "matching", f"round_robin of {file}"])
        same = ("streams", "makespan_us", "lower_bound_us", "waits", "arena_bytes", "utilisation")
        self.assertEqual([row[key] for key in same], [written[key] for key in same])
        ranks = (*plan, "--ranks", "8", "--cluster", "dgx_h100", "--policy", "matching")
        self.succeeds(*ranks, "--write-plan", self.folder / "ranks.json")
        report = json.loads(self.succeeds(*ranks, "--plan", self.folder / "ranks.json", "--json"))
        self.assertEqual(report["plans"][1]["makespan_us"], report["plans"][2]["makespan_us"])
        self.assertEqual(report["scaling"][-1]["makespan_us"], report["plans"][2]["makespan_us"])
        other = self.braid("plan", "resnet18", "--device", "a100", "--plan", file)
        self.assertRegex(" ".join(other.stderr.split()), r"plan.json: expected a plan of resnet18, images .* placements instead of")
        changed = json.loads(file.read_text())
        changed["streams"][0].pop()
        file.write_text(json.dumps(changed))
        self.assertIn("is launched 0 times", " ".join(self.braid(*plan, "--plan", file).stderr.split()))

    def test_asynchronous_training_on_a_cluster(self):
        plan = ("plan", self.config, "--batch-size", "16", "--policy", "serial", "--ranks", "16", "--cluster", "ethernet_25g")
        self.assertIsNone(json.loads(self.succeeds(*plan, "--json"))["asynchronous"])
        report = json.loads(self.succeeds(*plan, "--asynchronous", "--json"))
        computing, asynchronous = report["scaling"][0]["makespan_us"], report["asynchronous"]
        self.assertLess(asynchronous["updates_per_second"], 1.05 * 16e6 / computing)
        self.assertAlmostEqual(asynchronous["mean_staleness"], 15, delta=1)
        updates = asynchronous["updates_by_staleness"]
        mean = sum(staleness * count for staleness, count in enumerate(updates)) / sum(updates)
        self.assertAlmostEqual(mean, asynchronous["mean_staleness"])
        same, other, even, late, bounded = (json.loads(self.succeeds(*plan, "--asynchronous", "--json", *more))["asynchronous"] for more in (
            (), ("--set", "seed=5"), ("--spread", "0"), ("--straggler", "3"), ("--straggler", "3", "--staleness-bound", "0")))
        self.assertEqual(same, asynchronous)
        self.assertNotEqual(other, asynchronous)
        self.assertNotEqual(even, asynchronous)
        self.assertGreater(late["mean_staleness_of_rank_0"], 2 * late["mean_staleness"])
        self.assertLessEqual(len(bounded["updates_by_staleness"]), 16)
        self.assertLess(bounded["updates_per_second"], late["updates_per_second"])
        text = self.braid(*plan, "--asynchronous", "--straggler", "3").stdout
        self.narrow(text)
        self.assertRegex(text, r"(?m)^asynchronous +[\d.]+ +1[45]\.\d +\d+\n +its straggler +\d\d\.\d$")
        self.assertRegex(text, r"(?m)^ *\d+ to \d+ +[\d.]+ % +#+$")
        self.assertEqual(self.misused("plan", self.config, "--asynchronous"), "--asynchronous requires --ranks")
        for arguments in (("--strategy", "owt"), ("--forward",), ("--set", "parallel.average_every=2")):
            self.assertIn("[plan] asynchronous SGD is for training on several ranks with a whole model each",
                          " ".join(self.braid(*plan, "--asynchronous", *arguments).stderr.split()))

    def test_strategies(self):
        ranks = ("--ranks", "4", "--cluster", "p100_nodes", "--batch-size", "2")
        rows = json.loads(self.succeeds("plan", self.config, *ranks, "--policy", "auto", "--strategy", "all", "--json"))["strategies"]
        self.assertEqual([row["strategy"] for row in rows], ["data", "owt", "layerwise", "pipeline"])
        data, owt, _, pipeline = rows
        self.assertLess(owt["sent_bytes"], data["sent_bytes"])
        self.assertLess(owt["persistent_bytes"], data["persistent_bytes"])
        self.assertLess(pipeline["sent_bytes"], data["sent_bytes"])
        one = ("plan", self.config, *ranks, "--policy", "serial")
        file = self.folder / "strategy.json"
        self.succeeds(*one, "--strategy", "owt", "--write-strategy", file)
        self.assertEqual(json.loads(file.read_text())["layers"]["fc1"], {"c": 4})
        by_name, by_file = (json.loads(self.succeeds(*one, "--strategy", strategy, "--json")) for strategy in ("owt", file))
        self.assertEqual(by_name["plans"][0]["makespan_us"], by_file["plans"][0]["makespan_us"])
        self.succeeds(*one, "--strategy", "pipeline", "--write-strategy", file)
        self.assertEqual(len(json.loads(file.read_text())["stages"]), 3)
        by_name, by_file = (json.loads(self.succeeds(*one, "--strategy", strategy, "--json")) for strategy in ("pipeline", file))
        self.assertEqual(by_name["stages"], by_file["stages"])
        self.assertEqual([row["first_layer"] for row in by_name["stages"]], ["", *json.loads(file.read_text())["stages"]])
        for stages, error in (("conv2, fc1, fc9", "strategy.json:1:23: stages: the model has no layer 'fc9'"),
                              ("fc1, conv2, fc3", "strategy.json:1:16: stages: expected a layer that follows 'fc1' in the forward pass, got 'conv2'"),
                              ("conv2, fc1", "strategy.json:1:2: stages: expected 3 layers, where the second and later stages of 4 ranks begin, got 2")):
            file.write_text("{stages: [" + stages + "]}")
            self.assertIn(error, " ".join(self.braid(*one, "--strategy", file).stderr.split()))
        for arguments, error in ((("--straggler", "2"), "expected a straggler of 1, as the stages of a pipeline have separate plans, got 2"),
                                 (("--steps", "2"), "a pipeline runs whole layers, one step at a time")):
            self.assertIn(error, " ".join(self.braid(*one, "--strategy", "pipeline", *arguments).stderr.split()))
        forward = json.loads(self.succeeds(*one, "--strategy", "pipeline", "--forward", "--json"))
        self.assertEqual({task["pass"] for task in forward["tasks"]}, {"forward"})
        of_config = ("plan", self.config, "--policy", "serial", "--set", "parallel.strategy=owt", "--set", "parallel.virtual_ranks=8")
        self.succeeds(*of_config)
        self.assertIn("expected 4 virtual ranks (parallel.virtual_ranks), one per rank, or 0, got 8", " ".join(self.braid(*of_config, *ranks).stderr.split()))
        for arguments, error in ((("--strategy", "owt"), "--strategy requires --ranks"),
                                 ((*ranks, "--strategy", "all", "--write-strategy", file), "expected one strategy, got --strategy all")):
            self.assertIn(error, " ".join(self.braid("plan", self.config, *arguments).stderr.split()))

    def test_auto_is_as_fast_as_the_fastest_strategy_which_may_be_a_pipeline(self):
        pipelines = 0
        cluster = self.folder / "slow.yaml"
        for model, ranks, bandwidth in (("lenet5", 2, 0.1), ("mlp", 2, 0.1), ("mlp", 4, 0.01), ("lenet5", 2, 0.01)):  # GB/s
            cluster.write_text(f"{{device: p100, hosts: 4, network: {{latency: 10, bandwidth: {bandwidth}}}}}")
            plan = ("plan", model, "--set", "data.image_size=28", "--set", "data.classes=10", "--batch-size", 8, "--ranks", ranks, "--cluster",
                    cluster, "--policy", "critical_path", "--json", "--strategy")
            named = {row["strategy"]: row["step_us"] for row in json.loads(self.succeeds(*plan, "all"))["strategies"]}
            auto = json.loads(self.succeeds(*plan, "auto"))
            fastest = min(named, key=named.get)
            self.assertAlmostEqual(auto["strategies"][0]["step_us"], named[fastest], delta=1e-6 * named[fastest], msg=plan)
            self.assertEqual(len(auto["stages"]), ranks if fastest == "pipeline" else 0)
            pipelines += fastest == "pipeline"
        self.assertEqual(pipelines, 2)
        (self.folder / "jobs.yaml").write_text(command.JOBS)  # what makes no pipeline
        mlp = ("mlp", "--set", "data.image_size=28", "--set", "data.classes=10", "--batch-size", 8)
        for arguments in (("jobs.yaml",), (self.config, "--steps", 2), (*mlp, "--straggler", 1.2)):
            auto = json.loads(self.succeeds("plan", *arguments, "--ranks", 2, "--cluster", "slow.yaml", "--strategy", "auto", "--json"))
            self.assertEqual(auto["stages"], [], arguments)

    def test_a_memory_limit_changes_the_strategy(self):
        file = self.folder / "strategy.json"
        command = ("plan", "alexnet", "--set", "data.image_size=64", "--set", "data.classes=10", "--ranks", "4", "--cluster", "ethernet_25g",
                   "--batch-size", "16", "--policy", "critical_path", "--strategy", "layerwise", "--json", "--write-strategy", file)
        free = json.loads(self.succeeds(*command))["strategies"][0]
        fastest = file.read_text()
        limited = json.loads(self.succeeds(*command, "--memory-limit", "50"))
        self.assertTrue(limited["fits"])
        self.assertLessEqual(limited["strategies"][0]["arena_bytes"], 50 << 20)
        self.assertGreater(free["arena_bytes"], 50 << 20)
        self.assertGreater(limited["strategies"][0]["step_us"], free["step_us"])
        self.assertNotEqual(file.read_text(), fastest)

    def test_bench(self):
        report = json.loads(self.succeeds("bench", self.config, "--steps", "3", "--json"))
        self.assertEqual((report["steps"], report["batch_size"], report["model"]), (3, 32, "lenet5"))
        self.assertGreater(report["images_per_second"], 0)
        self.assertIn("cross_entropy", [op["op"] for op in report["ops"]])
        self.assertIn("images/s", self.braid("bench", self.config, "--steps", "3").stdout)
        result = self.braid("bench", self.config, "--serve", "--variant", "streams=1 policy=serial", "--variant", "streams=2",
                            input="setting\nuse 1\nsetting\nhandover\n")
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([answers[1]["policy"], answers[3]["policy"]], ["serial", "critical_path"])
        self.assertGreater(answers[4]["handover_ns"], 0)
        self.assertFalse(self.runs.exists())

    def test_no_convolution_is_left_to_the_reference_code_of_a_library(self):
        for batch in (1, 3):
            (self.folder / "dense.yaml").write_text(
                "name: dense\ndevice: cpu\nstreams: 1\nmodel: {name: densenet121}\neval: {batch_size: 1}\n"
                f"data: {{name: synthetic, size: {batch}, val_size: 1, image_size: 224}}\ntrain: {{epochs: 1, batch_size: {batch}}}\n")
            result = self.braid("train", "dense.yaml", env={**os.environ, "ONEDNN_VERBOSE": "1"})
            self.assertEqual(result.returncode, 0, result.stderr)
            ran = [line.split(",")[4] for line in result.stdout.splitlines() if ",exec,cpu,convolution," in line]
            if not ran:
                self.skipTest("this build has no oneDNN")
            self.assertNotIn("ref:any", ran)

    def test_bench_of_input_and_output_leaves_nothing(self):
        text = self.braid("bench", "tiny.yaml", "--io", "--steps", 2).stdout
        self.assertRegex(text, r"(?m)^  every step logged +[\d.]+x +[\d.]+ to [\d.]+$")
        times = json.loads(self.braid("bench", "tiny.yaml", "--io", "--steps", 2, "--json").stdout)
        self.assertEqual((times["steps"], times["batch_size"]), (2, 32))
        self.assertGreater(times["checkpoint_bytes"], 10000)
        for part in ("loading", "logging", "saving"):
            low, middle, high = times[part]
            self.assertTrue(0 < low <= middle <= high)
        self.assertEqual(list(self.runs.iterdir()), [])

    def test_profile_measures_once_and_adds_later(self):
        self.succeeds("profile", self.config, "-o", "p.json", "--runs", 1, "--batch-size", 8, "--pairs", 4, "--streams", 2)
        profile = json.loads((self.folder / "p.json").read_text())
        self.assertEqual(profile["version"], 3)
        self.assertLessEqual(len(profile["pairs"]), 8)
        for pair in profile["pairs"]:
            self.assertGreater(pair["factor"], 0)
        self.assertEqual(self.braid("profile", self.config, "-o", "p.json", "--runs", "1", "--pairs", "0").returncode, 0)
        both = json.loads((self.folder / "p.json").read_text())
        self.assertGreater(len(both["measurements"]), len(profile["measurements"]))
        text = self.braid("bench", self.config, "--steps", "1", "--set", "profile=p.json").stdout
        self.assertRegex(text, r"costs     measured for (\d+) of \1 nodes")
        result = self.braid("profile", "resnet20", "-o", "p.json", "--runs", "1", "--batch-size", "1",
                            "--pairs", "1", "--set", "data.image_size=8")
        self.assertIn("resnet20, batch 1: ", result.stdout)
        for option in ("--pairs", "--streams"):
            self.assertEqual(self.braid("profile", self.config, "-o", "q.json", option, "-1").returncode, 2)
        (self.folder / "p.json").write_text("{")
        self.assertIn("p.json: is not a profile", self.fails("profile", self.config, "-o", "p.json"))
        self.assertIn("there is no model 'nope'", self.fails("profile", "nope", "-o", "q.json"))

    def test_a_link_is_measured_between_ranks(self):
        self.assertIn("mpirun -n 2 braid profile --links", self.fails("profile", "--links"))
        self.assertEqual(self.braid("profile", "--links", "--runs", "1").returncode, 2)

    def test_an_interrupted_profile_keeps_the_times_of_the_nodes(self):
        # The second line of output comes after the pairs, and must wait.
        profile = self.folder / "p.json"
        process, _ = self.start_with_one_line("profile", self.config, "-o", profile, "--runs", "1")
        wait_until(lambda: profile.exists() or process.poll() is not None)
        process.kill()
        process.wait()
        kept = json.loads(profile.read_text())
        self.assertGreater(len(kept["measurements"]), 0)
        self.assertEqual(kept["pairs"], [])

    def test_bench_of_jobs_compares_together_with_one_after_another(self):
        text = self.braid("bench", "jobs.yaml", "--steps", 2).stdout
        self.assertRegex(text, r"(?m)^one after another  takes [\d.]+ times as long \(quartiles [\d.]+ to [\d.]+\)$")
        self.assertIn("arena of the joint plan", text)
        times = json.loads(self.braid("bench", "jobs.yaml", "--steps", 2, "--json").stdout)
        self.assertEqual([job["name"] for job in times["jobs"]], ["small", "wide"])
        for job in times["jobs"]:
            self.assertGreater(min(job["images_per_second_together"], job["alone_arena_bytes"]), 0)
        self.assertFalse(self.runs.exists())
        self.assertIn("expects the config of a single job", self.fails("bench", "jobs.yaml", "--serve"))

    def test_summary_of_models_and_configs(self):
        text = self.succeeds("summary", "resnet18", "--depth", 1, "--set", "train.batch_size=2")
        self.assertIn("parameters  11,689,512\n", text)
        self.assertIn("MACs        1,814,073,344 per image\n", text)
        self.assertIn("lenet5, images [32,16,16,1]", self.braid("summary", "tiny.yaml").stdout)
        read = json.loads(self.braid("summary", "resnet18", "--depth", 1, "--set", "train.batch_size=2", "--json").stdout)
        self.assertEqual((read["model"], read["input"], read["parameters"]), ("resnet18", [2, 224, 224, 3], 11689512))
        self.assertEqual(sum(layer["parameters"] for layer in read["layers"]), read["parameters"])
        self.assertEqual(read["macs"], 1814073344)
        self.assertIn(f"W/D         {read['work_us'] / read['depth_us']:.2f}: ", text)
        read = [json.loads(line) for line in self.braid("summary", "jobs.yaml", "--json").stdout.splitlines()]
        self.assertEqual([summary["name"] for summary in read], ["small", "wide"])
        self.assertIn("\njob wide: lenet5, images [32,16,16,1]", self.braid("summary", "jobs.yaml").stdout)
        self.assertIn("there is no model 'resnet19' (did you mean 'resnet18'?); there are ",
                      self.fails("summary", "resnet19"))
        self.assertEqual(self.fails("train", "resnet20"),
                         "resnet20 is a model: expected a config that uses it; see configs/")
        self.assertIn("there is no model 'googlnet' (did you mean 'googlenet'?)", self.fails("plan", "googlnet"))
        self.assertIn("cannot read the config", self.fails("summary", "resnet19.yaml"))

    def plan(self, *arguments):
        return json.loads(self.succeeds("plan", *arguments, "--json"))

    def test_plan_for_a_device_that_is_not_there(self):
        small = ["--set", "data.image_size=32", "--set", "data.classes=10"]
        plan = self.plan("resnet20", *small, "--device", "h200", "--streams", 3, "--batch-size", 2)
        self.assertEqual(plan["jobs"], [{"model": "resnet20", "input": [2, 32, 32, 3]}])
        self.assertEqual((plan["device"], plan["capacity"]), ("NVIDIA H200", 132))
        self.assertEqual(plan["convolutions"], 21 + 20 + 21)  # forward, backward-data (not of the images), backward-filter
        serial, configured = plan["plans"][0], plan["plans"][plan["configured"]]
        self.assertEqual((serial["policy"], serial["streams"], serial["waits"]), ("serial", 1, 0))
        self.assertEqual((configured["policy"], configured["streams"]), ("critical_path", 3))
        self.assertGreaterEqual(configured["makespan_us"], configured["lower_bound_us"] * (1 - 1e-9))
        self.assertLessEqual(configured["makespan_us"], serial["makespan_us"])
        self.assertEqual(len(configured["workspace_bytes"]), 3)
        memory = plan["memory"]
        parameters = 272474  # ResNet-20 on CIFAR-10
        self.assertGreaterEqual(memory.pop("persistent_bytes"), 2 * 4 * parameters)  # each with SGD's momentum
        self.assertEqual(sum(memory.values()), configured["live_bytes"])
        self.assertGreater(memory["activation_bytes"], 0)
        text = self.braid("plan", "resnet20", *small, "--device", "h200").stdout
        self.assertIn("resnet20, images [32,32,32,3]\nplanned for NVIDIA H200 ", text)
        rows = [re.split(r"  +", line) for line in text.splitlines() if re.search(r"\d of \d", line)]
        serial = float(rows[0][2].removesuffix(" ms"))
        bound = float(re.search(r"can be faster than ([\d.]+) ms", text)[1])
        for _, streams, makespan, over_bound, over_serial, *_ in rows:  # ratios are those of the times next to them
            makespan = float(makespan.removesuffix(" ms"))
            self.assertEqual(over_serial, f"{serial / makespan:.2f}")
            if streams.endswith(" of 3"):
                self.assertEqual(over_bound, f"{makespan / bound:.2f}")
        if plan["has_kernels"]:
            self.assertGreaterEqual(plan["implementations"], 2 * plan["convolutions"])
            self.assertIn(" with cuDNN's plans and their workspaces, f32 as tf32\n", text)
        else:
            self.assertEqual((plan["implementations"], sum(configured["workspace_bytes"])), (0, 0))
            self.assertIn(" by the analytic model alone: this build of Braid has no CUDA backend", " ".join(text.split()))

    def test_plan_for_the_cpu_and_for_a_described_device(self):
        plan = self.plan("tiny.yaml", "--device", "cpu")
        self.assertTrue(plan["has_kernels"])
        self.assertEqual(plan["jobs"][0]["input"], [32, 16, 16, 1])
        described = self.folder / "device.json"
        described.write_text(self.braid("devices", "cpu", "--json").stdout)
        self.assertEqual(self.plan("tiny.yaml", "--device", "device.json")["capacity"], plan["capacity"])
        described.write_text("{}")
        self.assertEqual(self.fails("plan", "tiny.yaml", "--device", "device.json"),
                         "device.json: [device] the whole has no key 'name', got {}")
        (self.folder / "folder.json").mkdir()
        for name, why in (("none.json", "No such file or directory"), ("folder.json", "expected a file, this is a folder")):
            self.assertEqual(self.fails("plan", "tiny.yaml", "--device", name),
                             f"{name}: cannot read the description of a device: {why}")
            self.assertEqual(self.fails("plan", "tiny.yaml", "--profile", name), f"{name}: cannot read the profile: {why}")
        self.assertIn("got 'serail' (did you mean 'serial'?)", self.fails("plan", "tiny.yaml", "--policy", "serail"))
        for words in (["plan", "tiny.yaml", "--device"], ["devices", "--json"]):
            message = self.fails(*words, "b200")
            self.assertIn("there is no device 'b200' (did you mean 'h200'?)", message)
            self.assertIn("a known device (p100, p4000, v100, rtx2080ti, a100, h100, h200), or a file *.json", message)
        self.assertIn("to plan for it: braid plan --device h200", self.fails("train", "tiny.yaml", "--set", "device=h200"))

    def test_plan_of_the_forward_pass_has_no_gradients_and_no_update(self):
        plan = self.plan("resnet20", "--set", "data.image_size=32", "--device", "v100", "--forward")
        self.assertEqual((plan["device"], plan["capacity"], plan["has_kernels"]), ("NVIDIA V100", 80, False))
        self.assertEqual(plan["convolutions"], 21)
        self.assertEqual((plan["memory"]["gradient_bytes"], plan["jobs"][0]["model"]), (0, "resnet20"))
        training = self.plan("resnet20", "--set", "data.image_size=32", "--device", "v100")
        self.assertLess(2 * plan["nodes"], training["nodes"])
        self.assertLess(plan["memory"]["persistent_bytes"], 0.6 * training["memory"]["persistent_bytes"])  # no momentum

    def test_plan_for_several_numbers_of_streams(self):
        plan = self.plan("tiny.yaml", "--device", "h200", "--streams", "1..3")
        self.assertEqual([(row["policy"], row["streams"]) for row in plan["plans"]],
                         [("serial", 1), ("critical_path", 1), ("critical_path", 2), ("critical_path", 3)])
        for wrong in ("0", "65", "3..1", "1..", "two"):
            self.assertIn(f"got '{wrong}'", self.braid("plan", "tiny.yaml", "--streams", wrong).stderr)

    def test_a_plan_that_does_not_fit_is_printed_and_fails(self):
        for arguments, why in ((["--memory-limit", 1, "--batch-size", 512], " MiB, the limit is 1.0 MiB; "),
                               (["--device", "small.json", "--batch-size", 512], "the plan does not fit the device: ")):
            (self.folder / "small.json").write_text(
                json.dumps(json.loads(self.braid("devices", "h200", "--json").stdout) | {"memory_bytes": 2 << 20}))
            for output in ([], ["--json"]):
                result = self.braid("plan", "tiny.yaml", *arguments, *output)
                self.assertEqual(result.returncode, 1, result)
                self.assertIn("critical_path", result.stdout)
                self.assertTrue(result.stderr.startswith("braid: error: the plan does not fit"), result.stderr)
                self.assertIn(why, result.stderr)
                self.assertIn("try a smaller --batch-size, ", result.stderr)
            self.assertFalse(json.loads(result.stdout)["fits"])
        self.assertTrue(self.plan("tiny.yaml", "--memory-limit", 100)["fits"])

    def test_the_text_of_a_plan_is_narrow_unless_all_columns_are_wanted(self):
        arguments = ["plan", "tiny.yaml", "--streams", 64, "--memory-limit", 1000]
        text = self.braid(*arguments).stdout
        self.narrow(text)
        self.assertNotIn("live, MiB", text)
        wide = self.braid(*arguments, "--wide").stdout
        for column in ("in use", "live, MiB", "naive, MiB", "planned in"):
            self.assertIn(column, wide)

    def test_plan_for_a_device_a_little_different(self):
        def makespan(*arguments):
            return self.plan("tiny.yaml", "--device", "h200", *arguments)["plans"][0]["makespan_us"]

        self.assertEqual(makespan(), makespan("--sms", 132, "--scale-launch", 1))
        self.assertGreater(makespan("--sms", 2), makespan())
        self.assertLess(makespan("--scale-launch", 0), makespan())
        self.assertGreater(makespan("--host-launch", 100), makespan())
        self.assertEqual(makespan("--host-launch", 0), makespan())
        self.assertEqual(self.plan("tiny.yaml", "--device", "h200", "--sms", 7)["capacity"], 7)
        self.assertIn("--sms", self.braid("plan", "tiny.yaml", "--sms", 0).stderr)
        self.assertIn("--scale-launch", self.braid("plan", "tiny.yaml", "--scale-launch", -1).stderr)

    def test_plan_of_jobs_is_one_plan(self):
        plan = self.plan("jobs.yaml", "--device", "h200")
        self.assertEqual(len(plan["jobs"]), 2)
        self.assertEqual(plan["nodes"], 2 * self.plan("tiny.yaml", "--device", "h200")["nodes"])

    def test_plan_can_be_seen_as_a_trace_and_as_a_page(self):
        plan = self.plan("tiny.yaml", "--streams", 2, "--trace", "plan.trace", "--html", "plan.html")
        slices = self.trace("plan.trace")
        self.assertEqual(list(slices), ["planned"])
        self.assertLessEqual(len(slices["planned"]), plan["nodes"])
        self.assertIn("conv1", {event["args"]["layer"] for event in slices["planned"]})
        self.assertTrue((self.folder / "plan.html").read_text().startswith("<!DOCTYPE html>"))
        for option in ("--trace", "--html"):
            self.assertEqual(self.fails("plan", "tiny.yaml", option, "no/such/file"),
                             "no/such/file: cannot open: No such file or directory")
            self.assertIn("/dev/full: cannot write: ", self.fails("plan", "tiny.yaml", option, "/dev/full"))

    def test_explain_tells_a_block_step_by_step(self):
        text = self.succeeds("explain", "tiny.yaml", "--block", "conv1", "--html", "b.html", "--trace", "b.trace")
        self.assertTrue(text.startswith("conv1 of lenet5, images [32,16,16,1]\non "))
        self.assertIn("     0 conv2d starts, until ", text)
        self.assertIn("     0 conv2d: stream 0, ", text)
        self.assertIn("   no fault found\n", text)
        self.assertGreater(len(self.trace("b.trace")["planned"]), 1)
        blocks = self.succeeds("explain", "tiny.yaml").split("nodes\n")[1].splitlines()
        self.assertEqual([line.split()[0] for line in blocks], ["conv1", "conv2", "fc1", "fc2", "fc3"])
        self.assertEqual(self.misused("explain", "tiny.yaml", "--html", "b.html"), "--html requires --block")
        plain = self.succeeds("explain", "tiny.yaml", "--block", "conv1", "--search", "off")
        self.assertIn(" One sharing rule:\n\n   equal shares: ", plain)
        self.assertIn("expected on or off, got 'no'", self.misused("explain", "tiny.yaml", "--search", "no"))
        network = ["densenet121", "--set", "data.image_size=32", "--set", "train.batch_size=1", "--device", "h200"]
        self.assertIn("\nfeatures.denseblock1 ", self.braid("explain", *network).stdout)

    def test_explain_tells_all_about_one_node(self):
        text = self.succeeds("explain", "tiny.yaml", "--why", 0)
        self.assertTrue(text.startswith("0 conv2d (conv1) of lenet5, images [32,16,16,1]\n\nready       from the start\n"))
        for word in ("\nstart       at 0.0 us, until ", "\nwidth ", "\nstream ", "\nneeded by   1", "\nresult      [32,", "\nsimulated   from 0.0 us to "):
            self.assertIn(word, text)
        self.assertIn("[explain] expected a node of lenet5, images [32,16,16,1], which has ", self.fails("explain", "tiny.yaml", "--why", 9999))

    def test_explain_compares_two_policies(self):
        text = self.succeeds("explain", "tiny.yaml", "--against", "serial", "--search", "off")
        self.assertIn("\nlist, until ", text)
        self.assertIn("\nserial, until ", text)
        self.assertIn("The plans start the same nodes", self.succeeds("explain", "tiny.yaml", "--against", "critical_path"))
        self.assertIn("expected one of serial, critical_path", self.fails("explain", "tiny.yaml", "--against", "fifo"))

    def test_explain_prints_decisions_of_a_whole_step_as_json(self):
        step = json.loads(self.succeeds("explain", "tiny.yaml", "--json", "--against", "matching"))
        self.assertEqual([plan["policy"] for plan in step["plans"]], ["list", "critical_path", "matching"])
        self.assertEqual(step["blocks"], ["conv1", "conv2", "fc1", "fc2", "fc3"])
        nodes = {node["node"]: node for node in step["nodes"]}
        planned = self.plan("tiny.yaml", "--policy", "critical_path")
        self.assertEqual(step["plans"][1]["makespan_us"], planned["plans"][1]["makespan_us"])
        for plan in step["plans"]:
            runs = {run["node"]: run for run in plan["placements"]}
            self.assertEqual(set(runs), set(nodes))
            self.assertAlmostEqual(max(run["finish_us"] for run in runs.values()), plan["makespan_us"])
        [plain, searched, _] = step["plans"]
        self.assertEqual(plain["attempts"][0]["rule"], "equal shares")
        self.assertEqual(sorted(pick["node"] for pick in plain["picks"] if pick["started"]), sorted(nodes))
        self.assertEqual(searched["attempts"][searched["kept"]]["makespan_us"], min(each["makespan_us"] for each in searched["attempts"]))
        ready = []
        for pick in plain["picks"]:
            ready = pick.get("ready", ready)
            self.assertIn(pick["node"], ready)
            self.assertEqual([plain["priorities"][node] for node in ready], sorted((nodes[node]["level_us"] for node in ready), reverse=True))


if __name__ == "__main__":
    unittest.main()
