#!/usr/bin/env python3
"""Puts simulated speedups over one stream, and efficiencies on many GPUs, next to published, measured ones.

    benchmarks/published.py [--braid FILE] [--check | --dry-run]

Every row is a measurement that its authors published for a GPU, and what `braid plan` predicts for the same GPU from NVIDIA's public
figures: same network, batch size and number format, the authors' own policy where Braid has it. Nothing runs on a GPU here. Exits with
1 if a speedup is more than 25 % off, or an efficiency more than 10 points.
"""

import sys
from typing import NamedTuple

from program import braid_plan, report

GOAL, POINTS = 0.25, 0.10


class Row(NamedTuple):
    source: str
    network: str
    gpu: str
    batch: int
    published: float
    measured_ms: float  # on one stream; 0 if not published
    policy: str
    streams: int
    arguments: tuple  # for braid plan


# Ding et al., "IOS: Inter-operator scheduler for CNN acceleration", MLSys 2021. Latencies in milliseconds from the README of
# github.com/mit-han-lab/inter-operator-scheduler, sections 4.2.1 and 4.2.6: V100 SXM2 at 1530 MHz, CUDA 10.2, cuDNN 7.6.5, f32.
# Both sides run on IOS's engine, with batch norm folded into the convolutions and the algorithms that cudnnFind found fastest. The
# rows at batch 1 are "IOS-Parallel", which only runs operators at once; those by batch size are "IOS-Both", the only ones there are,
# which may also merge convolutions that read the same input.
#
# IOS launches kernels from one thread, without a CUDA graph: --host-launch is 5 us (4.8 on average in the profile of
# github.com/apache/mxnet/pull/9055) times its kernels for each node that Braid records. By its source (src/ios/ios_runtime.cu) and
# profiles of cuDNN 7, a dense convolution takes two kernels (computeOffsetsKernel and its own), a bias without an activation one
# more, a sum one, and a concatenation one for each input; batch norm is folded. IOS synchronises the device after each stage of
# concurrent operators: --wait is 10 us, as a stage of three small copies takes 18 in its README's example.
IOS = "IOS"


def ios(network, batch, one, several, kernels, *arguments):
    return Row(IOS, network, "v100", batch, round(one / several, 2), one, "stages", 8,
               (*arguments, "--forward", "--host-launch", f"{5 * kernels:.1f}", "--wait", "10"))


# Chen et al., "Opara: Exploiting operator parallelism for expediting DNN inference on GPUs", IEEE Transactions on Computers, 2025.
# Milliseconds from the README of github.com/OparaSys/Opara: torchvision's GoogLeNet in PyTorch, whose convolutions use tf32 by
# default; against the same kernels as a CUDA graph of one stream. The paper's GPU is an A100.
OPARA = "Opara"

# Carter, "Dual stream cudnn Convolution backward()", github.com/apache/mxnet/pull/14006 (2019): backward-data alongside
# backward-filter on a second stream. "2-3 %" at 32 images per GPU, "negligible" at 256. It does not name GPU and number
# format: V100 and f16 are assumed, as in NVIDIA's MLPerf submissions that it mentions. Braid's policy overlaps more
# than these pairs.
MXNET = "MXNet"

ROWS = [
    *(ios("Inception-v3", batch, one, several, 1.1, "inception_v3", "--set", "data.image_size=299")
      for batch, one, several in ((1, 6.51, 4.11), (16, 17.95, 15.17), (32, 30.54, 27.00), (64, 55.67, 51.11), (128, 108.55, 102.74))),
    ios("SqueezeNet", 1, 0.86, 0.82, 2, "squeezenet1_0"),
    # The last three of the four stages of the "regular" RandWire that IOS uses, with its 308, 616 and 1232 channels. A node of its
    # graphs takes 7 kernels (sum, ReLU, two convolutions with bias), and 4.6 nodes of Braid's.
    ios("RandWire", 1, 8.49, 6.02, 7 / 4.6, "randwire", "--set", f"model.width={308 / 78}"),
    # 168 filters at first, images of 331 x 331; 12 normal cells in place of 18. A normal cell takes 82 kernels (ten times ReLU and
    # two convolutions with bias, twice ReLU and convolution with bias, 3 pools, 11 sums and copies); Braid's cells have 50 nodes on
    # average.
    ios("NASNet-A large", 1, 22.95, 16.04, 82 / 50, "nasnet_a_mobile", "--set", f"model.width={168 / 44}", "--set",
        "data.image_size=331"),
    Row(OPARA, "GoogLeNet", "a100", 1, round(1.868 / 1.110, 2), 1.868, "resource_order", 8,
        ("googlenet", "--forward", "--set", "precision=tf32")),
    Row(MXNET, "ResNet-50, training", "v100", 32, 1.025, 0, "critical_path", 2, ("resnet50", "--set", "precision=f16")),
    Row(MXNET, "ResNet-50, training", "v100", 256, 1.00, 0, "critical_path", 2, ("resnet50", "--set", "precision=f16")),
]

# Horovod's published benchmark (docs/benchmarks.rst in its repository): 128 servers with four Pascal GPUs and 25 Gbit/s each, images
# per second relative to 512 times those of one GPU, 64 images each. With Winograd's algorithm, cuDNN trains VGG-16 faster than the
# arithmetic of direct convolutions allows: TensorFlow's own benchmarks had 154 images/s on one P100. --sms makes the simulated GPU as
# fast.
HOROVOD = [
    ("Inception-v3", 0.90, ("inception_v3", "--set", "data.image_size=299")),
    ("ResNet-101", 0.90, ("resnet101",)),
    ("VGG-16", 0.68, ("vgg16", "--sms", "89")),
]


def simulated(given):
    speedups, efficiencies = [], []
    for row in ROWS:
        plans = braid_plan(given.braid, *row.arguments, "--device", row.gpu, "--batch-size", row.batch, "--policy", row.policy,
                           "--streams", row.streams)["plans"]
        serial, several = (each["makespan_us"] / 1e3 for each in plans)
        speedups.append({**row._asdict(), "serial_ms": serial, "simulated": serial / several})
    for network, published, arguments in HOROVOD:
        last = braid_plan(given.braid, *arguments, "--ranks", "512", "--cluster", "ethernet_25g", "--batch-size", "64", "--policy",
                          "critical_path")["scaling"][-1]
        efficiencies.append({"network": network, "published": published, "ranks": last["ranks"], "simulated": last["efficiency"],
                             "step_ms": last["makespan_us"] / 1e3, "communicating_ms": last["communicating_us"] / 1e3})
    return {"rows": {"speedups": speedups, "efficiencies": efficiencies}}


def speedup_table(rows):
    yield "| source | network | GPU | batch | policy | one stream: measured, ms | simulated | speedup: measured | simulated | off |\n"
    yield "|---" * 10 + "|\n"
    for row in rows["speedups"]:
        measured = f"{row['measured_ms']:.3g}" if row["measured_ms"] else ""
        yield (f"| {row['source']} | {row['network']} | {row['gpu']} | {row['batch']} | `{row['policy']}` | {measured} | "
               f"{row['serial_ms']:.3g} | {row['published']:.2f} | {row['simulated']:.2f} | {100 * (row['simulated'] / row['published'] - 1):+.0f} % |\n")


def efficiency_table(rows):
    yield "| network | GPUs | efficiency: published | simulated | step, ms | communicating, ms |\n" + "|---" * 6 + "|\n"
    for row in rows["efficiencies"]:
        yield (f"| {row['network']} | {row['ranks']} | {100 * row['published']:.0f} % | {100 * row['simulated']:.0f} % | {row['step_ms']:.3g} | "
               f"{row['communicating_ms']:.3g} |\n")


def main():
    rows = report(__file__, __doc__, simulated, {"published": speedup_table, "published, efficiency": efficiency_table})
    wrong = [row["network"] for row in rows["speedups"] if abs(row["simulated"] / row["published"] - 1) > GOAL]
    wrong += [row["network"] for row in rows["efficiencies"] if abs(row["simulated"] - row["published"]) > POINTS]
    if wrong:
        sys.exit(f"published: more than {100 * GOAL:.0f} % or {100 * POINTS:.0f} points off: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
