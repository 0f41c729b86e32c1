#!/usr/bin/env python3
"""What a GPU does at most, through PyTorch: a copy in device memory (bytes read and written), and matrix products of random
numbers. Prints JSON; the median of ten runs each."""
import json
import statistics

import torch


def median_seconds(action, runs=10):
    times = []
    for run in range(runs + 3):  # three to warm up
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        action()
        end.record()
        torch.cuda.synchronize()
        times.append(1e-3 * start.elapsed_time(end))
    return statistics.median(times[3:])


def product_tflops(dtype, size=8192):
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    return 2e-12 * size ** 3 / median_seconds(lambda: a @ b)


def main():
    torch.backends.cuda.matmul.allow_tf32 = True
    source = torch.randn(1 << 30, device="cuda")
    target = torch.empty_like(source)
    copied = 2e-9 * source.nbytes / median_seconds(lambda: target.copy_(source))
    print(json.dumps({"copy_gb_s": round(copied), "bf16_tflops": round(product_tflops(torch.bfloat16)),
                      "tf32_tflops": round(product_tflops(torch.float32))}))


if __name__ == "__main__":
    main()
