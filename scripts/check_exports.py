#!/usr/bin/env python3
"""Compares networks that Braid has trained and exported with what other libraries make of the files.

    scripts/check_exports.py [BUILD] [NETWORK ...]

Builds the program export_networks in the build folder (build/release). For every network, ONNX's checker accepts the file, and
onnxruntime computes Braid's logits, for a batch and image by image. Those that torchvision has compute them there with the
exported weights, and Braid computes what torchvision does with other weights. Installs the libraries in build/pytorch; exits with
77 if PyPI cannot be reached.
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / "build/pytorch"
PACKAGES = ["numpy", "onnx", "onnxruntime", "pillow", "safetensors", "torch", "torchvision"]
CLASSES = 7
OF_SPREAD, OF_LARGEST = 1e-4, 1e-5  # see differences()


def read(path, *shape):
    import numpy
    return numpy.fromfile(path, "<f4").reshape(shape)


def differences(found, expected):
    """The largest difference, relative to how far the logits of one image are from those of the mean image, and relative to the
    largest logit. The first notices a network that hardly looks at its images."""
    import numpy
    if not numpy.isfinite(found).all():
        return numpy.inf, numpy.inf
    most = abs(found - expected).max()
    return float(most / abs(expected - expected.mean(axis=0)).max()), float(most / abs(expected).max())


def run_onnx(path):
    import numpy
    import onnx
    import onnxruntime
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (images,), (logits,) = session.get_inputs(), session.get_outputs()
    assert (images.name, images.shape[0], logits.name, logits.shape[0]) == ("images", "batch", "logits", "batch")
    channels, height, width = images.shape[1:]
    pixels = read(path.with_suffix(".images"), -1, height, width, channels).transpose(0, 3, 1, 2)
    whole, = session.run(["logits"], {"images": pixels})
    singles = numpy.concatenate([session.run(["logits"], {"images": image[None]})[0] for image in pixels])
    return pixels, *(numpy.moveaxis(logits, 1, -1) for logits in (whole, singles))


def torch_network(name, tensors):
    """Torchvision's network with these tensors, made as narrow as they are."""
    import torch
    import torchvision
    special = {"googlenet": {"init_weights": False}, "inception_v3": {"init_weights": False},
               "mobilenet_v2": {"width_mult": 0.125}}.get(name, {})  # blocks of equal widths have shortcuts
    if name == "efficientnet_b0":
        stages, last = torchvision.models.efficientnet._efficientnet_conf(name, width_mult=0.125, depth_mult=1)
        network = torchvision.models.EfficientNet(stages, 0.2, last_channel=last, num_classes=CLASSES)
    else:
        network = getattr(torchvision.models, name)(weights=None, num_classes=CLASSES, **special)
    for path, layer in network.named_modules():
        for key, own in [*layer._parameters.items(), *layer._buffers.items()]:
            if own is not None:
                own.data = torch.empty_like(tensors[f"{path}.{key}"], dtype=own.dtype)
        if isinstance(layer, torch.nn.Conv2d) and layer.groups > 1 and layer.groups == layer.in_channels:
            layer.groups = len(layer.weight)
    network.load_state_dict(tensors, strict=True)
    return network.eval().double()


def run_torch(name, path, pixels):
    """Torchvision's logits with Braid's weights, and with others, which it writes for Braid."""
    import safetensors.torch
    import torch
    network = torch_network(name, safetensors.torch.load_file(path.with_suffix(".safetensors")))
    images = torch.from_numpy(pixels).double()
    with torch.no_grad():
        logits = network(images).numpy()
        torch.manual_seed(1)
        for parameter in network.parameters():
            parameter.copy_((parameter * (1 + 0.2 * torch.randn(parameter.shape))).float())
        changed = network(images).numpy()
    tensors = {key: tensor.float() if tensor.is_floating_point() else tensor for key, tensor in network.state_dict().items()}
    safetensors.torch.save_file(tensors, path.with_suffix(".back.safetensors"))
    return logits, changed


def report(library, name, *compared):
    """Prints the differences of (found, expected); whether they are small."""
    spread, largest = (max(values) for values in zip(*(differences(*pair) for pair in compared), strict=True))
    good = spread < OF_SPREAD and largest < OF_LARGEST
    print(f"{'ok    ' if good else 'FAILED'} {library:18} {name:24} {spread:.1e} {largest:.1e}", flush=True)
    return good


def check(program, networks, folder):
    import torchvision
    subprocess.run([program, "write", folder, *networks], check=True)
    good, changed = [], {}
    for path in sorted(folder.glob("*.onnx")):
        pixels, whole, singles = run_onnx(path)
        expected = read(path.with_suffix(".logits"), *whole.shape)
        good.append(report("onnxruntime", path.stem, (whole, expected), (singles, expected)))
        name = path.stem.removesuffix("_large")
        if name != path.stem and hasattr(torchvision.models, name):  # it has the forms for large images
            logits, changed[path] = run_torch(name, path, pixels)
            good.append(report("torchvision", name, (expected, logits)))
    subprocess.run([program, "read", folder, *networks], check=True)
    for path, logits in changed.items():
        found = read(path.with_suffix(".back.logits"), -1, CLASSES)
        good.append(report("torchvision, back", path.stem.removesuffix("_large"), (found, logits)))
    return all(good) and bool(good)


def enter_environment(folder=ENVIRONMENT, packages=PACKAGES):
    """Starts the script again where the packages are, unless it runs there."""
    if sys.prefix != str(folder):
        made = subprocess.run([ROOT / "scripts/python_env.sh", folder, *packages])
        sys.exit(made.returncode or subprocess.run([folder / "bin/python", *sys.argv]).returncode)


def main():
    enter_environment()
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release").resolve()
    subprocess.run(["cmake", "--build", build, "--target", "export_networks"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(not check(build / "bin/export_networks", sys.argv[2:], pathlib.Path(folder)))


if __name__ == "__main__":
    main()
