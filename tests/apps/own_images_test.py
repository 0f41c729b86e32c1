#!/usr/bin/env python3
"""From a user's images to a network that other tools open.

Usage: own_images_test.py PATH_OF_BRAID"""

import json
import os
import re
import shutil
import struct
import subprocess
import unittest

from command import BRAID, CommandTest, png

BLUE = {"été": 0, "winter": 255}  # of the images of each class


class OwnImages(CommandTest):
    def own_images(self):
        """A config of two classes of plain images in different sizes, one of which is damaged."""
        for name, blue in BLUE.items():
            self.write_images(f"images/{name}", 10, lambda i: png(12 + i, 20, [0, 51, blue]))
        folder = self.folder / "images/winter"
        (folder / "3.png").write_bytes(png(13, 13, [0, 13107, 65535], bits=16))
        (folder / "damaged.jpg").write_bytes(b"nothing")
        config = self.folder / "own.yaml"
        config.write_text("""\
name: own
device: cpu
model: {name: lenet5}
data:
  {name: image_folder, root: images, image_size: 16, max_bad: 1, normalize: {compute: true},
   augment: {random_resized_crop: true, brightness: 0.2, random_erasing: 0.2, mixup: 0.2, cutmix: 1}}
train: {epochs: 2, batch_size: 8}
""")
        return config

    def plain_config(self, epochs, batch_size):
        config = self.folder / "own.yaml"
        config.write_text(f"name: own\ndevice: cpu\nmodel: {{name: lenet5}}\ntrain: {{epochs: {epochs}, batch_size: {batch_size}}}\n"
                          "data: {name: image_folder, root: images, image_size: 16}\n")
        return config

    def test_own_images_are_described_and_shown(self):
        config = self.own_images()
        text = self.succeeds("data", config, "--sheet", "sheet.png")
        self.assertIn("image_folder, 2 classes, batches of images [16,16,3]", text)
        self.assertRegex(text, r"\nwinter +7 +4\nété +9 +1\nall +16 +5\n")
        self.assertRegex(text, "1 image cannot be read:\n    images/winter/damaged.jpg: not a PNG or JPEG image")
        self.assertIn("1 image of 16 bits per channel: the upper 8 are used", text)
        sheet = (self.folder / "sheet.png").read_bytes()
        self.assertTrue(sheet.startswith(b"\x89PNG\r\n"))
        width, height = struct.unpack(">II", sheet[16:24])
        self.assertEqual((width, height), (8 + 8 * (112 + 8), 8 + 2 * (112 + 14 + 8)))  # 16 images in rows of eight
        report = json.loads(self.braid("data", config, "--json").stdout)
        self.assertEqual((report["name"], report["classes"]), ("own", ["winter", "été"]))
        for part in (report["training"], report["validation"]):
            read = part["images"] - len(part["unreadable"])
            self.assertEqual(sum(part["sizes"].values()), read)
            self.assertEqual(part["mean"][:2], [0, 0.2])
            self.assertEqual(part["std"][:2], [0, 0])
            self.assertAlmostEqual(part["mean"][2], part["std"][2] ** 2 + part["mean"][2] ** 2)  # all 0 or 1
        self.assertEqual(report["training"]["sixteen_bits"] + report["validation"]["sixteen_bits"], 1)

    def test_own_images_train_with_computed_normalisation(self):
        config = self.own_images()
        result = self.braid("train", config)
        self.assertEqual((result.returncode, result.stderr), (0, "braid: warning: 1 image of image_folder cannot be read, and others "
                         "take its place in training; the first: images/winter/damaged.jpg: not a PNG or JPEG image\n"))
        used = (self.runs / "own-1" / "config.yaml").read_text()
        report = json.loads(self.braid("data", config, "--json").stdout)["training"]
        mean = [float(x) for x in re.search(r"mean: \[(.*)\]", used)[1].split(", ")]
        self.assertEqual(mean, report["mean"])
        self.assertIn("compute: false", used)
        for run in (["runs/own-1"], [config, "--checkpoint", "runs/own-1/model.safetensors"]):
            self.assertIn(f"{self.metrics('own-1')[-1]['val_loss']:.4f}", self.braid("eval", *run).stdout)
        self.assertIn("cannot be read, more than data.max_bad = 0: images/winter/damaged.jpg",
                      self.fails("train", config, "--set", "data.max_bad=0"))

    def test_init_writes_a_config_that_trains(self):
        self.own_images()
        result = self.braid("init", "images/")
        self.assertEqual((result.returncode, result.stdout),
                         (0, "wrote images.yaml: resnet18 on 32x32 images for 30 epochs, under a minute on cpu\n"
                             "train with braid train images.yaml\n"))
        text = (self.folder / "images.yaml").read_text()
        self.assertIn("# 16 training images and 5 validation images of 2 classes: winter, été\n", text)
        self.assertIn("image_size: 32", text)
        result = self.braid("train", "images.yaml", "-q", "--set", "train.epochs=1", "--set", "model.width=0.125")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.runs / "images-1/model.safetensors").exists())
        self.assertEqual(self.fails("init", "images"), "images.yaml: exists already: choose another name with -o")
        self.assertEqual(self.fails("init", "none"), "none: cannot read the folder: No such file or directory")
        (self.folder / "my: photos #1").mkdir()
        shutil.copytree(self.folder / "images", self.folder / "my: photos #1", dirs_exist_ok=True)
        self.assertEqual(self.braid("init", "my: photos #1", "-o", "odd.yaml").returncode, 0)
        self.assertIn('name: "my__photos__1"', self.braid("train", "odd.yaml", "--print-config").stdout)

    def test_init_looks_at_the_images(self):
        """Photographs are mirrored. Characters are not; what is transparent is white, and rare classes are remarked on."""
        for name, count, colour in (("photos/cat", 20, [0, 0, 9]), ("photos/dog", 20, [9, 0, 0]), ("digits/0", 8, [0, 0, 9, 9]), ("digits/1", 40, [9, 0, 0, 9])):
            self.write_images(name, count, lambda i, colour=colour: png(40, 40, colour))
        texts, remark = {}, " times the images of another"
        for folder in ("photos", "digits"):
            self.assertEqual(remark + ": see train.class_weights" in self.succeeds("init", folder), folder == "digits")
            texts[folder] = (self.folder / f"{folder}.yaml").read_text()
        for said, of in (("flip: true", "photos"), ("flip: false", "digits"), ("background: [1, 1, 1]", "digits"),
                         ("class_weights: balanced", "digits"), ("data.sampler: balanced", "digits"), (remark, "digits"),
                         ("crop_pct: 1 ", "digits")):
            self.assertEqual({folder for folder, text in texts.items() if said in text}, {of}, said)

    def test_init_takes_what_trains_within_minutes_on_a_cpu(self):
        for name in ("many/a", "many/b"):
            self.write_images(name, 300, lambda i: png(200, 200, [i % 256, 0, 0]))
        result = self.succeeds("init", "many")
        self.assertRegex(result, r"resnet18( of width 0\.(5|25))? on (\d+)x\3 images for \d+ epochs, (about [1-4] minutes?|under a minute) on cpu\n")

    def test_predictions_are_those_of_the_validation(self):
        for part in ("train", "val"):
            for name, level in BLUE.items():  # half of the images say nothing about their class
                self.write_images(f"images/{part}/{name}", 12,
                                  lambda i: png(12 + i, 20, [level if i % 2 else 128, 20 * i, 255 - 20 * i]))
        config = self.plain_config(epochs=3, batch_size=8)
        self.assertEqual(self.braid("train", config, "-q").returncode, 0)
        accuracy = float(re.search(r"accuracy ([\d.]+) %", self.braid("eval", "runs/own-1").stdout)[1])
        (self.folder / "images").rename(self.folder / "moved")  # the data set is not needed
        files = sorted(str(path.relative_to(self.folder)) for path in (self.folder / "moved/val").rglob("*.png"))
        predictions = json.loads(self.succeeds("predict", "runs/own-1", *files, "--json", "--top", 2))
        self.assertEqual([entry["image"] for entry in predictions], files)
        right = sum(entry["classes"][0]["class"] == entry["image"].split("/")[2] for entry in predictions)
        self.assertAlmostEqual(100 * right / len(files), accuracy, places=2)
        for entry in predictions:
            first, second = entry["classes"]
            self.assertEqual({first["class"], second["class"]}, {"winter", "été"})
            self.assertGreaterEqual(first["probability"], second["probability"])
            self.assertAlmostEqual(first["probability"] + second["probability"], 1)
        top = predictions[0]["classes"][0]
        self.assertEqual(self.braid("predict", "runs/own-1", files[0], "--top", 1).stdout,
                         f"{files[0]}: {top['class']} {100 * top['probability']:.2f} %\n")

        (self.folder / "damaged.jpg").write_bytes(b"nothing")
        result = self.braid("predict", "runs/own-1", files[0], "damaged.jpg", "none.png")
        self.assertEqual((result.returncode, len(result.stdout.splitlines())), (1, 1))
        self.assertEqual(result.stderr.splitlines(),
                         ["braid: error: damaged.jpg: not a PNG or JPEG image",
                          "braid: error: none.png: cannot read the image: No such file or directory"])

        (self.folder / "photo.png").write_bytes(png(3000, 4000, [255, 0, 0]))

        def most_memory(photos):
            process = subprocess.Popen([BRAID, "predict", "runs/own-1", *photos * ["photo.png"]], cwd=self.folder, stdout=subprocess.PIPE)
            with process.stdout as output:
                self.assertEqual(len(output.read().splitlines()), photos)
            _, process.returncode, usage = os.wait4(process.pid, 0)
            self.assertEqual(process.returncode, 0)
            return usage.ru_maxrss

        # All photos at once would take three times as much.
        self.assertLess(most_memory(48), 1.5 * most_memory(16))

    def test_classes_of_other_names_are_others(self):
        config = self.own_images()
        self.assertEqual(self.braid("train", config, "-q").returncode, 0)
        (self.folder / "images/winter").rename(self.folder / "images/autumn")
        for command in (("eval", "runs/own-1"), ("train", "--resume", "runs/own-1")):
            with self.subTest(command):
                result = self.braid(*command)
                self.assertEqual(result.returncode, 1)
                self.assertIn('the model\'s classes are ["winter","été"], those of image_folder are ["autumn","été"]', result.stderr)
        result = self.braid("train", config, "--set", "model.weights=runs/own-1/model.safetensors")
        self.assertIn('fc3.weight, fc3.bias at random, as the file has the classes ["winter","été"]\n', result.stdout)

    def test_transparent_pixels_show_the_background(self):
        config = self.own_images()
        icon = png(16, 16, [0, 0, 0, 0])  # black, and transparent
        for name in ("été", "winter"):
            for i in range(10):
                (self.folder / "images" / name / f"{i}.png").write_bytes(icon)
        self.assertRegex(self.braid("data", config).stdout, r"\d images with alpha: it is dropped, unless data.background is set")
        settings = ("--set", "data.background=[1, 0.5, 0]")
        self.assertRegex(self.braid("data", config, *settings).stdout, r"\d images with alpha: painted over data.background")
        part = json.loads(self.braid("data", config, *settings, "--json").stdout)["training"]
        self.assertEqual([round(level, 2) for level in part["mean"]], [1, 0.5, 0])
        self.assertGreater(part["with_alpha"], 0)
        self.assertIn("data.background=[1]: expected one value per channel (3), got 1", self.fails("data", config, "--set", "data.background=[1]"))

    def test_a_model_needs_no_data_to_be_exported(self):
        config = self.own_images()
        self.assertEqual(self.braid("train", config, "-q").returncode, 0)
        shutil.rmtree(self.folder / "images")
        used = self.runs / "own-1/config.yaml"
        mean, std = (str([float(number) for number in re.search(rf"{key}: \[(.*)\]", used.read_text())[1].split(",")])
                     for key in ("mean", "std"))
        for source in (["runs/own-1"], [config, "--checkpoint", "runs/own-1/model.safetensors"]):
            self.assertEqual(self.braid("export", *source, "--onnx", "net.onnx").returncode, 0)
            exported = (self.folder / "net.onnx").read_bytes()
            for text in ('["winter","été"]', mean, std):
                self.assertTrue(text.replace(" ", "").encode() in exported, text)

    def test_images_that_training_has_seen_are_said(self):
        config = self.own_images()
        self.assertEqual(self.braid("train", config, "-q").returncode, 0)
        others = ("its training held out other images than data.split_seed = {}, data.val_share = 0.2 and data.test_share = {} do "
                  "from image_folder: the model may have been trained on some of these")
        self.assertEqual(self.braid("eval", "runs/own-1").stderr, "")
        self.assertIn(others.format(1, 0), self.braid("eval", "runs/own-1", "--set", "data.split_seed=1").stderr)
        self.assertIn(others.format(1, 0), self.fails("train", "--resume", "runs/own-1", "--set", "data.split_seed=1"))
        late = self.braid("eval", "runs/own-1", "--split", "test", "--set", "data.test_share=0.3")
        self.assertIn(others.format(0, 0.3), late.stderr)

    def test_the_test_set_is_never_seen_by_training(self):
        config = self.own_images()
        self.assertEqual(self.braid("train", config, "-q", "--set", "data.test_share=0.3").returncode, 0)
        counts = {name: part["images"] for name, part in json.loads(self.braid("data", "runs/own-1/config.yaml", "--json").stdout).items()
                  if isinstance(part, dict)}
        self.assertEqual(set(counts), {"training", "validation", "test"})
        self.assertRegex(self.braid("data", "runs/own-1/config.yaml").stdout, r"\nclass +training +validation +test\n(.*\n)*all ")
        for split, name in (("val", "validation"), ("test", "test")):
            text = self.succeeds("eval", "runs/own-1", "--split", split, "--json")
            self.assertEqual(json.loads(text)["images"], counts[name])
            self.assertIn(f"{split}_loss", json.loads(text))
            self.assertTrue(self.braid("eval", "runs/own-1", "--split", split).stdout.startswith(f"{split} loss "))
        self.assertIn("--split: expected val or test, got 'train'", self.braid("eval", "runs/own-1", "--split", "train").stderr)
        self.assertIn("the test set is empty: data.test_share = 0 leaves it no image",
                      self.fails("eval", "runs/own-1", "--split", "test", "--set", "data.test_share=0"))

    def test_unreadable_images_count_once_per_run_and_are_not_validated(self):
        for part in ("train", "val"):
            for name, blue in BLUE.items():
                self.write_images(f"images/{part}/{name}", 6, lambda _: png(12, 20, [0, 51, blue]))
            (self.folder / "images" / part / "winter/damaged.jpg").write_bytes(b"nothing")
        config = self.plain_config(epochs=1, batch_size=4)
        message = self.fails("train", config, "-q", "--set", "data.max_bad=1")
        for text in ("2 images of image_folder cannot be read, more than data.max_bad = 1: ",
                     "images/train/winter/damaged.jpg", "images/val/winter/damaged.jpg"):
            self.assertIn(text, message)
        self.assertEqual(self.braid("train", config, "-q", "--set", "data.max_bad=2").returncode, 0)
        evaluation = self.braid("eval", "runs/own-2", "--set", "data.max_bad=2", "--json")
        self.assertEqual(json.loads(evaluation.stdout)["images"], 12)

    def test_cifar_trains_from_its_files(self):
        (self.folder / "cifar").mkdir()
        for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
            (self.folder / "cifar" / f"{name}.bin").write_bytes(b"".join(bytes([label]) + bytes(3072) for label in range(10)))
        config = self.plain_config(epochs=1, batch_size=10)
        config.write_text(re.sub("data: .*", "data: {name: cifar10, root: cifar, augment: {crop_padding: 4, cutmix: 1}}", config.read_text()))
        self.succeeds("train", config, "-q")
        self.assertEqual(json.loads(self.braid("eval", "runs/own-1", "--json").stdout)["images"], 10)

    def test_a_relative_path_that_leads_nowhere_says_where_it_begins(self):
        config = self.own_images()
        self.assertEqual(self.fails("data", config, "--set", "data.root=none"),
                         f"none: there is no such file or folder in {self.folder}, where relative paths of a config begin")

    def test_a_run_and_a_bare_model_become_onnx_files(self):
        self.assertEqual(self.braid("train", self.config, "-q", "--set", "train.epochs=1").returncode, 0)
        trained, new = self.folder / "trained.onnx", self.folder / "new.onnx"
        self.assertEqual(self.braid("export", "runs/tiny-1", "--onnx", trained).stdout,
                         f"wrote {trained}: lenet5 with the weights of runs/tiny-1/model.safetensors\n")
        self.assertEqual(self.braid("export", self.config, "--onnx", new).stdout,
                         f"wrote {new}: lenet5 with its initial weights\n")
        self.assertEqual(len(trained.read_bytes()), len(new.read_bytes()))
        self.assertNotEqual(trained.read_bytes(), new.read_bytes())
        again = self.folder / "again.onnx"
        checkpoint = self.runs / "tiny-1/model.safetensors"
        self.braid("export", self.config, "--onnx", again, "--checkpoint", checkpoint)
        self.assertEqual(again.read_bytes(), trained.read_bytes())
        self.assertEqual(self.braid("export", "siamese", "--onnx", self.folder / "siamese.onnx").returncode, 0)  # pairs of two classes
        self.assertIn("no-folder", self.fails("export", self.config, "--onnx", self.folder / "no-folder/x.onnx"))
        self.assertEqual(self.misused("export", self.config), "expected --onnx FILE or --torchvision FILE")

    def test_a_run_starts_from_the_weights_of_another(self):
        self.assertEqual(self.braid("train", self.config, "-q").returncode, 0)
        weights = self.folder / "weights.safetensors"
        self.assertEqual(self.braid("export", "runs/tiny-1", "--torchvision", weights).returncode, 0)
        tuned = self.braid("train", self.config, "--set", f"model.weights={weights}", "--set", "optimizer.lr=1e-12")
        self.assertIn(f"starts from the weights in {weights}\n", tuned.stdout)
        losses = [self.metrics(f"tiny-{run}")[-1]["val_loss"] for run in (1, 2)]
        self.assertAlmostEqual(*losses, places=5)


if __name__ == "__main__":
    unittest.main()
