"""PyTorch's side of compare_pytorch.py: the same networks as Braid's, and training steps on request.

Runs in a separate process, so that it has its own peak memory: pytorch_worker.py OPTIONS, a JSON object. Answers "run N",
"run N unread", "setting" and "ops" in lines of JSON, like `braid bench --serve`, but touches the device only after a line
"begin": several workers can load PyTorch at once and then use the device one at a time.
"""
import json
import sys
import time

CIFAR_RESNETS = ("resnet20", "resnet32", "resnet44", "resnet56", "resnet110")
OWN_MODELS = ("resnet18", *CIFAR_RESNETS, "pathnet_conv")  # written out below for small images; the others are torchvision's


def resnet(name, classes, channels):
    """The same networks as models/zoo/blocks/resnet.cpp, for small images, in plain PyTorch."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or inputs != width:
                self.downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

        def forward(self, x):
            shortcut = x if self.downsample is None else self.downsample(x)
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            y += shortcut
            return self.relu(y)

    blocks, width = ([2, 2, 2, 2], 64) if name == "resnet18" else ([(int(name.removeprefix("resnet")) - 2) // 6] * 3, 16)
    layers = [nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    inputs = width
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Block(inputs, width << stage, 2 if stage > 0 and block == 0 else 1))
            inputs = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def pathnet(modules, classes, channels):
    """models/zoo/wired/pathnet.cpp along one path with the given number of modules in each layer."""
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, count, inputs, width):
            super().__init__()
            self.branches = nn.ModuleList(
                nn.Sequential(nn.Conv2d(inputs, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
                for _ in range(count))

        def forward(self, x):
            return sum(branch(x) for branch in self.branches)

    layers, inputs, width = [], channels, 16
    for count in modules:
        layers += [nn.MaxPool2d(2)] * bool(layers) + [Layer(count, inputs, width)]
        inputs, width = width, 2 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def torchvision_model(name, classes, channels, large):
    """torchvision's networks; for small images, with the same stem as Braid's."""
    from torch import nn
    from torchvision import models

    def stem(width):
        return nn.Conv2d(channels, width, 3, 1, 1, bias=name == "squeezenet1_0")

    options = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
    if name.startswith("vgg"):
        options = {"init_weights": False}
    model = getattr(models, name)(num_classes=classes, **options)
    if large:
        return model
    if name == "googlenet":
        model.conv1.conv = stem(64)
        model.maxpool1 = nn.Identity()
    elif name == "densenet121":
        model.features.conv0 = stem(64)
        model.features.pool0 = nn.Identity()
    elif name == "mobilenet_v2":
        model.features[0][0] = stem(32)
        model.features[2].conv[1][0].stride = (1, 1)
    elif name == "squeezenet1_0":
        model.features[0] = stem(96)
        model.features[2] = nn.Identity()
    elif name == "vgg16":
        for layer in model.features:
            if isinstance(layer, nn.MaxPool2d):
                layer.ceil_mode = True
        model.avgpool = nn.AdaptiveAvgPool2d(1)
        model.classifier = nn.Sequential(nn.Linear(512, 512), nn.ReLU(True), nn.Dropout(), nn.Linear(512, 512), nn.ReLU(True),
                                         nn.Dropout(), nn.Linear(512, classes))
    return model


def make_model(options):
    name, classes, channels = options["model"], options["classes"], options["channels"]
    if name == "pathnet_conv":
        return pathnet(options["modules"], classes, channels)
    if name in CIFAR_RESNETS or (name in OWN_MODELS and options["stem"] != "image"):
        return resnet(name, classes, channels)
    return torchvision_model(name, classes, channels, options["stem"] == "image")


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
        self.model = make_model(options).to(self.device, memory_format=torch.channels_last)
        self.images = torch.randn(batch, channels, size, size).to(self.device, memory_format=torch.channels_last)
        self.labels = torch.randint(classes, (batch,)).to(self.device)
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
                sum(2 * weight.nbytes for weight in self.model.parameters()) +
                sum(buffer.nbytes for buffer in self.model.buffers() if buffer.is_floating_point()))

    def loss(self, images, labels):
        # Weights change in every step, so a cache of their casts would only hold memory.
        with self.torch.autocast(self.device.type, dtype=self.torch.bfloat16, enabled=self.bf16, cache_enabled=False):
            return self.torch.nn.functional.cross_entropy(self.model(images), labels)

    def issue(self):
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
