#!/usr/bin/env python3
"""Walks the way of a user, from image files to other tools: check_walk.py [PROGRAM]

Makes a folder of PNG and JPEG images and the files of CIFAR-10. On each, trains a network, predicts and exports: onnxruntime and
torchvision must compute the predicted probabilities. Installs the libraries in build/pytorch; exits with 77 if PyPI cannot be
reached.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from check_exports import ROOT, enter_environment, report

IMAGES = 200  # for training, in batches of two
CIFAR = """\
name: cifar
model: {name: mobilenet_v2}
data: {name: cifar10, root: archive, augment: {crop_padding: 4, flip: true}, normalize: {compute: true}}
optimizer: {name: adamw}
"""
SETTINGS = ["device=cpu", "train.epochs=2", "train.batch_size=2", "optimizer.lr=0.001", "model.stem=image"]


def draw(label, size, random):
    """An image whose colours tell its class."""
    import numpy
    from PIL import Image
    colour = numpy.array([67, 131, 199]) * (label + 1) % 200
    noise = numpy.array([random.randrange(56) for _ in range(size * size * 3)]).reshape(size, size, 3)
    return Image.fromarray((colour + noise).astype("u1"))


def make_photos(folder, random):
    """Images of 64×64 in four classes. Returns those to predict, which are PNG: decoders of JPEG round differently."""
    for label, name in enumerate(("arancione", "été", "two words", "x")):
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(IMAGES * 5 // 16):  # a fifth becomes the validation set
            draw(label, 64, random).save(folder / "photos" / name / f"{i}.{'png' if i % 2 == 0 else 'jpg'}")
    return sorted(folder.glob("photos/*/?.png"))


def make_cifar(folder, random):
    """The six files of CIFAR-10, with few images. Returns some of them as PNG files."""
    import numpy
    (folder / "archive").mkdir()
    images = []
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        content = b""
        for i in range(IMAGES // 5):
            image = draw(i % 10, 32, random)
            content += bytes([i % 10]) + numpy.asarray(image).transpose(2, 0, 1).tobytes()
            if name == "test_batch.bin" and i < 20:
                images.append(folder / f"cifar-{i}.png")
                image.save(images[-1])
        (folder / "archive" / name).write_bytes(content)
    return images


def braid(program, folder, *arguments):
    return subprocess.run([program, *map(str, arguments)], cwd=folder, check=True, text=True, stdout=subprocess.PIPE).stdout


def train(program, folder, name, *more):
    """The folder of the run."""
    settings = [word for setting in [*SETTINGS, *more] for word in ("--set", setting)]
    braid(program, folder, "train", f"{name}.yaml", *settings, "--quiet")
    return f"runs/{name}-1"


def predicted(program, folder, run, images, classes):
    import numpy
    predictions = json.loads(braid(program, folder, "predict", run, *images, "--json", "--top", len(classes)))
    assert [entry["image"] for entry in predictions] == [str(image) for image in images]
    rows = [{entry["class"]: entry["probability"] for entry in prediction["classes"]} for prediction in predictions]
    return numpy.array([[row[name] for name in classes] for row in rows])


def softmax(logits):
    import numpy
    powers = numpy.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def compare_exports(program, folder, run, network, images):
    """Whether both libraries compute the probabilities that `braid predict` prints, from the same files."""
    import numpy
    import onnx
    import onnxruntime
    import safetensors.torch
    import torch
    import torchvision
    from PIL import Image
    braid(program, folder, "export", run, "--onnx", "net.onnx", "--torchvision", "net.safetensors")
    onnx.checker.check_model(str(folder / "net.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(folder / "net.onnx"), providers=["CPUExecutionProvider"])
    properties = session.get_modelmeta().custom_metadata_map
    mean, std, classes = (json.loads(properties[key]) for key in ("mean", "std", "classes"))
    pixels = numpy.stack([numpy.asarray(Image.open(image)) for image in images])
    pixels = ((pixels / 255 - mean) / std).transpose(0, 3, 1, 2)
    expected = predicted(program, folder, run, images, classes)
    logits, = session.run(["logits"], {"images": pixels.astype("f4")})
    torch_network = getattr(torchvision.models, network)(num_classes=len(classes)).eval()
    torch_network.load_state_dict(safetensors.torch.load_file(folder / "net.safetensors"), strict=True)
    with torch.no_grad():
        torch_logits = torch_network.double()(torch.from_numpy(pixels)).numpy()
    return [report("onnxruntime", run, (softmax(logits), expected), (logits, torch_logits)),
            report("torchvision", run, (softmax(torch_logits), expected))]


def main():
    enter_environment()
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/bin/braid").resolve()
    with tempfile.TemporaryDirectory(prefix="braid-walk-") as name:
        folder, generator = pathlib.Path(name), random.Random(1)
        photos, cifar = make_photos(folder, generator), make_cifar(folder, generator)
        braid(program, folder, "init", "photos")
        (folder / "cifar.yaml").write_text(CIFAR)
        photos_run = train(program, folder, "photos", "data.crop_pct=1", "model.width=1")  # as the files, and as torchvision's network
        cifar_run = train(program, folder, "cifar")
        good = [*compare_exports(program, folder, photos_run, "resnet18", photos),
                *compare_exports(program, folder, cifar_run, "mobilenet_v2", cifar)]
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
