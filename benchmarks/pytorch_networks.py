"""The networks that compare_pytorch.py trains in PyTorch, the same as Braid's: torchvision's where it has one."""
import collections
import itertools

CIFAR_RESNETS = ("resnet20", "resnet32", "resnet44", "resnet56", "resnet110")
OWN_MODELS = ("resnet18", *CIFAR_RESNETS, "pathnet_conv")  # written out below for small images
EXPORTED_MODELS = ("nasnet_a_mobile", "randwire", "unet", "lenet5", "mlp", "pathnet_linear", "pathnet_conv")  # torchvision has none of these


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


def exported(path):
    """The network in an ONNX file that `braid export` wrote, to be trained. Scalars are RandWire's gates, sigmoids of weights, but those that make a
    mean of a sum; NASNet's shifts are convolutions that do not learn."""
    import functools
    import operator
    import onnx
    import torch
    from torch import nn

    def layer_of(node, shapes, readers):
        """The module or function of a node, whose inputs that are no weights it takes."""
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        weight, bias = shapes.get("".join(node.input[1:2])), len(node.input) > 2
        stride, dilation, padding = attributes.get("strides"), attributes.get("dilations"), attributes.get("pads", [])[:2]
        window, ceil, groups = attributes.get("kernel_shape"), bool(attributes.get("ceil_mode")), attributes.get("group")
        make = {"Conv": lambda: nn.Conv2d(weight[1] * groups, weight[0], window, stride, padding, dilation, groups, bias).requires_grad_(
                    not node.input[1].endswith(".shift.filter")),
                "ConvTranspose": lambda: nn.ConvTranspose2d(weight[0], weight[1], window, stride, padding, bias=bias),
                "BatchNormalization": lambda: nn.BatchNorm2d(*weight, attributes["epsilon"]),
                "Gemm": lambda: nn.Linear(weight[1], weight[0]),
                "MaxPool": lambda: nn.MaxPool2d(window, stride, padding, ceil_mode=ceil),
                "AveragePool": lambda: nn.AvgPool2d(window, stride, padding, ceil, bool(attributes["count_include_pad"])),
                "GlobalAveragePool": lambda: nn.AdaptiveAvgPool2d(1),
                "Flatten": nn.Flatten,
                "Relu": lambda: nn.ReLU(inplace=readers[node.input[0]] == 1),
                "Concat": lambda: lambda *parts: torch.cat(parts, 1),
                "Add": lambda: operator.add,
                "Sum": lambda: lambda *terms: functools.reduce(operator.add, terms),
                "Mul": lambda: operator.mul,
                "Identity": lambda: lambda x: x}
        return make[node.op_type]()

    class Exported(nn.Module):
        def __init__(self):
            super().__init__()
            graph = onnx.load(path).graph
            shapes = {each.name: list(each.dims) for each in graph.initializer}
            sums = {node.output[0] for node in graph.node if node.op_type == "Sum"}
            self.means = {each.name: float(onnx.numpy_helper.to_array(each)) for each in graph.initializer
                          if any(node.input[0] in sums and node.input[1:] == [each.name] for node in graph.node)}
            self.gate_names = [name for name, shape in shapes.items() if not shape and name not in self.means]
            inputs = [[name for name in node.input if not shapes.get(name)] for node in graph.node]
            readers = collections.Counter(itertools.chain(*inputs))
            self.gates = nn.Parameter(torch.zeros(len(self.gate_names))) if self.gate_names else None
            layers = [layer_of(node, shapes, readers) for node in graph.node]
            self.modules_of_layers = nn.ModuleList(layer for layer in layers if isinstance(layer, nn.Module))
            self.first, self.last = graph.input[0].name, graph.output[0].name
            self.steps, kept = [], {self.last}
            for layer, node, names in reversed(list(zip(layers, graph.node, inputs))):
                self.steps.insert(0, (layer, names, node.output[0], set(names) - kept))  # the last are read no more after it
                kept.update(names)

        def forward(self, images):
            values = {self.first: images, **self.means}
            if self.gates is not None:
                values.update(zip(self.gate_names, torch.sigmoid(self.gates).unbind()))
            for layer, names, output, over in self.steps:
                values[output] = layer(*map(values.get, names))
                for name in over:
                    del values[name]
            return values[self.last]

    return Exported()


def siamese(channels):
    """models/zoo/tasks/siamese.cpp: takes pictures of two images side by side."""
    from torch import nn

    class Siamese(nn.Module):
        def __init__(self):
            super().__init__()
            widths = (channels, 16, 32, 64)
            self.encoder = nn.Sequential(*(layer for i in range(3) for layer in (
                nn.Conv2d(widths[i], widths[i + 1], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[i + 1]), nn.ReLU(inplace=True),
                nn.MaxPool2d(2) if i < 2 else nn.AdaptiveAvgPool2d(1))), nn.Flatten(), nn.Linear(64, 64), nn.Sigmoid())
            self.compare = nn.Linear(64, 2)

        def forward(self, pictures):
            first, second = (self.encoder(images) for images in pictures.chunk(2, 3))
            return self.compare((first - second).abs())

    return Siamese()


NOISE = 100  # numbers that DCGAN's generator makes an image of


def dcgan(image_size, channels, width=64):
    """models/zoo/tasks/dcgan.cpp, for an image size that is a power of two."""
    from torch import nn
    inner = image_size.bit_length() - 4
    widths = [width << stage for stage in range(inner + 1)]
    generator = [nn.ConvTranspose2d(NOISE, widths[-1], 4, bias=False)]
    for inputs, outputs in zip(widths[::-1], [*widths[-2::-1], channels]):
        generator += [nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False)]
    discriminator = []
    for inputs, outputs in zip([channels, *widths], widths):
        discriminator += [nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False), *[nn.BatchNorm2d(outputs)] * bool(discriminator),
                          nn.LeakyReLU(0.2, inplace=True)]
    discriminator += [nn.Conv2d(widths[-1], 1, 4, bias=False), nn.Flatten(0)]
    return nn.ModuleDict({"generator": nn.Sequential(*generator, nn.Tanh()), "discriminator": nn.Sequential(*discriminator)})


def gan_losses(model, images):
    """The losses of the discriminator and of the generator, each with the weights that learn from it."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits as loss
    generator, discriminator = model["generator"], model["discriminator"]
    noise = torch.randn(len(images), NOISE, 1, 1)
    real, generated = discriminator(images), discriminator(generator(noise))
    is_real, is_generated = torch.ones_like(real), torch.zeros_like(real)
    return ((loss(real, is_real) + loss(generated, is_generated), list(discriminator.parameters())),
            (loss(generated, is_real), list(generator.parameters())))


def is_written_out(options):
    name = options["model"]
    return name in ("dcgan", "siamese", *CIFAR_RESNETS) or (name in OWN_MODELS and options["stem"] != "image")


def packages(options):
    """What make_model imports for them."""
    return "torch, onnx" if options.get("onnx") else "torch" if is_written_out(options) else "torch, torchvision"


def make_model(options):
    name, classes, channels = options["model"], options["classes"], options["channels"]
    if options.get("onnx"):
        return exported(options["onnx"])
    if name == "siamese":
        return siamese(channels)
    if name == "dcgan":
        return dcgan(options["image_size"], channels)
    if name == "pathnet_conv":
        return pathnet(options["modules"], classes, channels)
    if is_written_out(options):
        return resnet(name, classes, channels)
    return torchvision_model(name, classes, channels, options["stem"] == "image")
