#!/usr/bin/env python3
"""Compares networks that Braid has trained and exported with what other libraries make of the files.

    scripts/check_exports.py [BUILD] [NETWORK ...]

Takes the program export_networks of the build folder (build/release). For every network, ONNX's checker accepts the file, and
onnxruntime computes Braid's logits to 1e-4, relative to how much they differ between images, for a batch and image by image. Installs the libraries in
build/pytorch; exits with 77 if PyPI cannot be reached.
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / "build/pytorch"
PACKAGES = ["numpy", "onnx", "onnxruntime"]
ONNX_TOLERANCE = 1e-4


def read(path, *shape):
    import numpy
    return numpy.fromfile(path, "<f4").reshape(shape)


def difference(found, expected):
    """Relative to how far the logits of one image are from those of the mean image; infinite if something is not finite."""
    import numpy
    spread = abs(expected - expected.mean(axis=0)).max()
    return float(abs(found - expected).max() / spread) if numpy.isfinite(found).all() else numpy.inf


def check_onnx(path):
    """How far onnxruntime's logits are from Braid's."""
    import numpy
    import onnx
    import onnxruntime
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (images,), (logits,) = session.get_inputs(), session.get_outputs()
    assert (images.name, images.shape[0], logits.name, logits.shape[0]) == ("images", "batch", "logits", "batch")
    pixels = read(path.with_suffix(".images"), 4, *images.shape[2:], images.shape[1]).transpose(0, 3, 1, 2)
    expected = read(path.with_suffix(".logits"), 4, logits.shape[1])
    whole, = session.run(["logits"], {"images": pixels})
    singles = [session.run(["logits"], {"images": pixels[i:i + 1]})[0] for i in range(4)]
    return max(difference(whole, expected), difference(numpy.concatenate(singles), expected))


def check(build, networks):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([build / "bin/export_networks", folder, *networks], check=True)
        files = sorted(pathlib.Path(folder).glob("*.onnx"))
        differences = {path.stem: check_onnx(path) for path in files}
    for name, value in differences.items():
        print(f"{'ok    ' if value < ONNX_TOLERANCE else 'FAILED'} onnxruntime  {name:24} {value:.1e}")
    return all(value < ONNX_TOLERANCE for value in differences.values()) and bool(files)


def main():
    if sys.prefix != str(ENVIRONMENT):  # again, where the packages are
        made = subprocess.run([ROOT / "scripts/python_env.sh", ENVIRONMENT, *PACKAGES])
        sys.exit(made.returncode or subprocess.run([ENVIRONMENT / "bin/python", *sys.argv]).returncode)
    build = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/release"
    sys.exit(not check(build.resolve(), sys.argv[2:]))


if __name__ == "__main__":
    main()
