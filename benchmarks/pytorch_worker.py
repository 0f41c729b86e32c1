"""PyTorch's side of compare_pytorch.py: the same networks as Braid's, and training steps on request.

Runs in a separate process, so that it has its own peak memory: pytorch_worker.py OPTIONS, a JSON object. Answers "run N",
"run N unread", "setting" and "ops" in lines of JSON, like `braid bench --serve`, but touches the device only after a line
"begin": several workers can load PyTorch at once and then use the device one at a time.
"""
import json
import sys
import time

from pytorch_networks import gan_losses, make_model


class Training:
    """A model, its optimizer and one batch on the device; step() trains on the batch and returns the loss on the device.

    `mode` is eager, compiled (torch.compile), or graph: the whole step as one CUDA graph.
    """

    def __init__(self, options):
        import torch
        self.torch, self.device, self.mode = torch, torch.device(options["device"]), options["mode"]
        self.bf16 = options["precision"] == "bf16"
        cuda = self.device.type == "cuda"
        if cuda:
            tf32 = options["precision"] != "f32"
            torch.set_float32_matmul_precision("high" if tf32 else "highest")
            torch.backends.cudnn.allow_tf32 = tf32
            torch.backends.cudnn.benchmark = True
        else:
            torch.set_num_threads(options["threads"])
        torch.manual_seed(1)
        batch, size, channels, classes = (options[key] for key in ("batch_size", "image_size", "channels", "classes"))
        self.is_gan, is_pair, has_pixel_labels = (options["model"] == name for name in ("dcgan", "siamese", "unet"))
        self.model = make_model(options).to(self.device, memory_format=torch.channels_last)
        width = 2 * size if is_pair else size
        self.images = torch.randn(batch, channels, size, width).to(self.device, memory_format=torch.channels_last)
        self.labels = torch.randint(classes, (batch, size, size) if has_pixel_labels else (batch,)).to(self.device)
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=options["lr"], momentum=options["momentum"],
                                   fused=True if options["fused"] else None)
        self.loss_of = self.loss
        if self.mode == "compiled":
            self.loss_of = torch.compile(self.loss, mode="max-autotune" if cuda else None)
        self.graph = None
        if self.mode == "graph":
            self.capture()

    def persistent_bytes(self):
        """Weights, their momentum, and the running statistics of batch norm: Braid's persistent tensors. In bf16 these are
        also the weights that it keeps rounded, where autocast rounds them in every step."""
        from torch import nn
        layers = [module for module in self.model.modules() if isinstance(module, (nn.Conv2d, nn.Linear))] if self.bf16 else []
        return (sum(2 * weight.numel() for layer in layers for weight in layer.parameters()) +
                sum((1 + weight.requires_grad) * weight.nbytes for weight in self.model.parameters()) +
                sum(buffer.nbytes for buffer in self.model.buffers() if buffer.is_floating_point()))

    def loss(self, images, labels):
        # Weights change in every step, so a cache of their casts would only hold memory.
        with self.torch.autocast(self.device.type, dtype=self.torch.bfloat16, enabled=self.bf16, cache_enabled=False):
            return self.torch.nn.functional.cross_entropy(self.model(images), labels)

    def issue(self):
        if self.is_gan:
            losses = gan_losses(self.model, self.images)
            for loss, weights in losses:
                for weight, weight.grad in zip(weights, self.torch.autograd.grad(loss, weights, retain_graph=loss is losses[0][0])):
                    pass
        else:
            loss = self.loss_of(self.images, self.labels)
            loss.backward()
        self.sgd.step()
        return loss

    def capture(self):
        """Follows PyTorch's notes on whole-network capture: warm up on another stream, drop the gradients, capture."""
        stream = self.torch.cuda.Stream()
        stream.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(stream):
            for _ in range(5):
                self.sgd.zero_grad(set_to_none=True)
                self.issue()
        self.torch.cuda.current_stream().wait_stream(stream)
        self.sgd.zero_grad(set_to_none=True)
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            self.graph_loss = self.issue()
        self.graph = graph

    def step(self):
        if self.graph is not None:
            self.graph.replay()
            return self.graph_loss
        self.sgd.zero_grad(set_to_none=True)
        return self.issue()

    def synchronize(self):
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()

    def run(self, steps):
        host = []
        begin = time.perf_counter()
        for _ in range(steps):
            start = time.perf_counter()
            loss = self.step()
            host.append(time.perf_counter() - start)
            loss.item()
        return {"seconds": time.perf_counter() - begin, "host_seconds": sorted(host)[len(host) // 2]}

    def run_unread(self, steps):
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.synchronize()
        return {"seconds": time.perf_counter() - begin}

    def ops(self, steps=5):
        """The device's time for each op of a step, longest first, and the number of kernels and copies that a step launches.
        From PyTorch's profiler; not for mode graph, whose replay consists of kernels only."""
        from torch.profiler import ProfilerActivity, profile
        cuda, cpu = self.device.type == "cuda", self.torch.autograd.DeviceType.CPU
        with profile(activities=[ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * cuda) as profiler:
            for _ in range(steps):
                self.step()
            self.synchronize()
        # Events of ops, which have the time of their kernels, and of kernels. An annotation spans several.
        averages = [each for each in profiler.key_averages() if not getattr(each, "is_user_annotation", False)]
        ops = [{"op": each.key, "nodes": each.count / steps,
                "measured_us": (each.self_device_time_total if cuda else each.self_cpu_time_total) / steps}
               for each in averages if each.device_type == cpu]
        return {"clock": "CUPTI" if cuda else "host clock",
                "ops": sorted((op for op in ops if op["measured_us"] > 0), key=lambda op: -op["measured_us"]),
                "kernels": sum(each.count for each in averages if each.device_type != cpu) / steps}

    def setting(self):
        cuda = self.device.type == "cuda"
        return {"persistent_bytes": self.persistent_bytes(),
                "memory_bytes": self.torch.cuda.max_memory_allocated() if cuda else None}


def main():
    import torch  # noqa: F401  # takes seconds
    sys.stdin.readline()
    training = Training(json.loads(sys.argv[1]))
    print(json.dumps({"ready": True, "version": training.torch.__version__}), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words in (["setting"], ["ops"]):
            answer = getattr(training, words[0])()
        else:
            answer = (training.run_unread if words[2:] else training.run)(int(words[1]))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
