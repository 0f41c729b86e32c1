#!/usr/bin/env python3
"""Trains the networks of pages of docs/cpp in PyTorch, and writes the losses of the first steps into the pages.

    tests/golden/pages.py [--check] [PAGE ...]

The program of a page compares its own losses with them, to 2e-6. Here everything is in f64, so that a comparison sees the errors
of one side only; the same in f32, which is printed, differs by 1e-7 to 2e-7. With --check, writes nothing and fails if a page has
other losses.

Weights, pictures and noise are drawn as the pages draw them: with Braid's generator (core/base/random.h), the weights by
their names (models/layers/layers.cpp). Exits with 77, which CTest reports as skipped, where PyTorch is missing.
"""

import argparse
import math
import pathlib
import re
import sys

from sweep import F, torch  # ends the program if there is none

PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs/cpp"
STEPS, BATCH = 8, 64
MASK = 2**64 - 1


class Generator:
    """braid::Generator: Philox4x32-10."""

    def __init__(self, seed, stream=0):
        self.seed, self.stream, self.counter, self.unused, self.spare = seed, stream, 0, [], None

    def next(self):
        if not self.unused:
            x = [self.counter & 0xFFFFFFFF, self.counter >> 32, self.stream & 0xFFFFFFFF, self.stream >> 32]
            k0, k1 = self.seed & 0xFFFFFFFF, self.seed >> 32
            for _ in range(10):
                a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
                x = [b >> 32 ^ x[1] ^ k0, b & 0xFFFFFFFF, a >> 32 ^ x[3] ^ k1, a & 0xFFFFFFFF]
                k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
            self.counter, self.unused = self.counter + 1, x[::-1]
        return self.unused.pop()

    def uniform(self):
        return (self.next() >> 8) * 2**-24

    def below(self, bound):
        while (product := self.next() * bound) & 0xFFFFFFFF < 2**32 % bound:
            pass
        return product >> 32

    def normal(self):
        if self.spare is None:
            radius = math.sqrt(-2 * math.log((self.next() + 1) * 2**-32))
            angle = 2 * math.pi * 2**-32 * self.next()
            self.spare = radius * math.sin(angle)
            return radius * math.cos(angle)
        spare, self.spare = self.spare, None
        return spare

    def tensor(self, draw, *shape):
        return torch.tensor([draw() for _ in range(math.prod(shape))]).reshape(shape)


def generator_of(name):
    """Context::generator in a session of seed 1: the stream is a hash of the name (core/base/hash.h)."""
    low = 0x9E3779B97F4A7C15
    for word in [*name.encode(), len(name)]:
        low ^= word
        low = (low ^ low >> 30) * 0xBF58476D1CE4E5B9 & MASK
        low = (low ^ low >> 27) * 0x94D049BB133111EB & MASK
        low = (low ^ low >> 31) + 0x9E3779B97F4A7C15 & MASK
    return Generator(1, low)


@torch.no_grad()
def start(tensors):
    """Fills parameters, given with their names in Braid, as Braid's layers do by default."""
    for name, tensor in tensors.items():
        random, weight = generator_of(name), tensors.get(f"{name.rpartition('.')[0]}.weight")
        if weight is None:  # positions of tokens
            tensor.copy_(0.02 * random.tensor(random.normal, *tensor.shape))
        elif weight.dim() == 2:
            tensor.copy_(random.tensor(lambda: 2 * random.uniform() - 1, *tensor.shape) / math.sqrt(weight.shape[1]))
        elif tensor.dim() == 4:
            k, c, r, s = tensor.shape
            values = random.tensor(random.normal, k, r, s, c) * math.sqrt(2 / (k * r * s))
            tensor.copy_(values.permute(0, 3, 1, 2))
        else:
            tensor.fill_(1 if weight is tensor else 0)


def named(prefix, module):
    """The parameters of a module that has Braid's names."""
    return {f"{prefix}.{name}": tensor for name, tensor in module.named_parameters()}


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def vit():
    patches = torch.nn.Conv2d(1, 32, 4, stride=4)
    positions = torch.nn.Parameter(torch.empty(16, 32))
    blocks = [torch.nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(2)]
    norm, head = torch.nn.LayerNorm(32), torch.nn.Linear(32, 2)
    tensors = {**named("net.patches", patches), "net.positions": positions, **named("net.norm", norm), **named("net.head", head)}
    names = {"self_attn.in_proj_": "attention.qkv.", "self_attn.out_proj": "attention.out", "linear": "fc"}
    for i, block in enumerate(blocks, 1):
        for name, tensor in named(f"net.block{i}", block).items():
            for theirs, ours in names.items():
                name = name.replace(theirs, ours)
            tensors[name] = tensor
    start(tensors)
    decayed = [tensor for tensor in tensors.values() if tensor.dim() > 1 and tensor is not positions]
    others = [tensor for tensor in tensors.values() if tensor.dim() == 1 or tensor is positions]
    adam = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0}], lr=2e-3)
    random = Generator(1)
    for _ in range(STEPS):
        images = random.tensor(random.normal, BATCH, 16, 16) * 0.2
        labels = []
        for image in images:
            first = random.below(16)
            second, kind, same = (first + 1 + random.below(15)) % 16, random.below(2), random.below(2)
            for patch, striped in ((first, kind), (second, kind if same else 1 - kind)):
                stripes = torch.tensor([1.0, -1.0, 1.0, -1.0])
                top, left = patch // 4 * 4, patch % 4 * 4
                image[top : top + 4, left : left + 4] += stripes if striped else stripes[:, None]
            labels.append(same)
        tokens = patches(images[:, None]).flatten(2).mT + positions
        for block in blocks:
            tokens = block(tokens)
        yield update(adam, F.cross_entropy(head(norm(tokens).mean(1)), torch.tensor(labels)))


def perceptron(*widths, activation):
    layers = []
    for i in range(len(widths) - 1):
        layers += [torch.nn.Linear(*widths[i : i + 2]), activation]
    return torch.nn.Sequential(*layers[:-1])


def named_perceptron(prefix, net):
    """In Braid the linear layers are fc1, fc2, …"""
    return {re.sub(r"\d+", lambda i: f"fc{int(i[0]) // 2 + 1}", name): tensor for name, tensor in named(prefix, net).items()}


def vae():
    encoder, decoder = (perceptron(*widths, activation=torch.nn.ReLU()) for widths in ((144, 64, 8), (4, 64, 144)))
    start({**named_perceptron("net.encoder", encoder), **named_perceptron("net.decoder", decoder)})
    adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=3e-3)
    random = Generator(1)
    rows = torch.arange(12)
    for _ in range(STEPS):
        images = []
        for _ in range(BATCH):
            radius, y, x = 2 + 2 * random.uniform(), 4 + 3 * random.uniform(), 4 + 3 * random.uniform()
            images.append((((rows - y) ** 2)[:, None] + (rows - x) ** 2 < radius**2).to(torch.get_default_dtype()).flatten())
        images, noise = torch.stack(images), random.tensor(random.normal, BATCH, 4)
        mean, log_variance = encoder(images).chunk(2, 1)
        latent = torch.distributions.Normal(mean, (log_variance / 2).exp())
        error = F.binary_cross_entropy_with_logits(decoder(latent.mean + latent.stddev * noise), images, reduction="sum")
        divergence = torch.distributions.kl_divergence(latent, torch.distributions.Normal(0.0, 1.0)).sum()
        yield update(adam, (error + divergence) / BATCH)


def simclr():
    net = torch.nn.ModuleDict({
        "encoder": torch.nn.ModuleDict({
            name: torch.nn.ModuleDict({
                "conv": torch.nn.Conv2d(*channels, 3, stride, 1, bias=False),
                "bn": torch.nn.BatchNorm2d(channels[1]),
            }) for name, channels, stride in (("conv1", (1, 8), 1), ("conv2", (8, 16), 2))
        }),
        "fc1": torch.nn.Linear(16, 16),
        "fc2": torch.nn.Linear(16, 8),
    })
    start(named("net", net))
    adam = torch.optim.Adam(net.parameters(), lr=3e-3)
    random = Generator(1)
    y, x = torch.meshgrid(torch.arange(12), torch.arange(12), indexing="ij")
    places = (y, x, x + y, x + 12 - y)
    for _ in range(STEPS):
        images, kinds = [], []
        for i in range(2 * BATCH):
            kinds.append(random.below(4) if i < BATCH else kinds[i - BATCH])
            phase, contrast, brightness = random.below(4), 0.5 + random.uniform(), random.uniform() - 0.5
            stripes = contrast * (1 - 2 * ((places[kinds[-1]] + phase) % 4 >= 2))
            images.append(brightness + stripes + 0.5 * random.tensor(random.normal, 12, 12))
        features = torch.stack(images)[:, None]
        for layer in net["encoder"].values():
            features = F.relu(layer["bn"](layer["conv"](features)))
        outputs = net["fc2"](F.relu(net["fc1"](features.mean((2, 3)))))
        similarities = F.cosine_similarity(outputs[:, None], outputs[None], dim=-1) / 0.2
        similarities = similarities.masked_fill(torch.eye(2 * BATCH, dtype=torch.bool), -math.inf)
        yield update(adam, F.cross_entropy(similarities, (torch.arange(2 * BATCH) + BATCH) % (2 * BATCH)))


def gru():
    net, head = torch.nn.GRU(2, 24, batch_first=True), torch.nn.Linear(24, 1)
    names = {"ih": "from_input", "hh": "from_state"}
    tensors = named("net.head", head)
    for name, tensor in net.named_parameters():
        kind, side, _ = name.split("_")
        tensors[f"net.gru.{names[side]}.{kind}"] = tensor
    start(tensors)
    adam = torch.optim.Adam(tensors.values(), lr=1e-2)
    adam.register_step_pre_hook(lambda *_: torch.nn.utils.clip_grad_norm_(tensors.values(), 1.0) and None)
    random = Generator(1)
    for _ in range(STEPS):
        inputs, sums = torch.zeros(BATCH, 12, 2), torch.zeros(BATCH, 1)
        for sequence, total in zip(inputs, sums):
            sequence[:, 0] = random.tensor(random.uniform, 12)
            for half in range(2):
                marked = half * 6 + random.below(6)
                sequence[marked, 1] = 1
                total += sequence[marked, 0]
        yield update(adam, F.mse_loss(head(net(inputs)[0][:, -1]), sums))


def wgan_gp():
    generator, critic = (perceptron(inputs, 64, 64, outputs, activation=torch.nn.LeakyReLU(0.2)) for inputs, outputs in ((4, 2), (2, 1)))
    start({**named_perceptron("generator", generator), **named_perceptron("critic", critic)})
    adams = [torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.0, 0.9)) for net in (generator, critic)]
    random, batch = Generator(1), 128
    for step in range(STEPS):
        real = []
        for _ in range(batch):
            angle = 2 * math.pi * random.uniform()
            real.append([math.cos(angle) + 0.02 * random.normal(), math.sin(angle) + 0.02 * random.normal()])
        real, noise = torch.tensor(real), random.tensor(random.normal, batch, 4)
        shares = random.tensor(random.uniform, batch, 1)
        fake = generator(noise).detach()
        between = (shares * real + (1 - shares) * fake).requires_grad_()
        slopes = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0].norm(dim=1)
        yield update(adams[1], critic(fake).mean() - critic(real).mean() + ((slopes - 1) ** 2).mean())
        if step % 5 == 4:
            update(adams[0], -critic(generator(random.tensor(random.normal, batch, 4))).mean())


def losses(train, dtype):
    torch.set_default_dtype(dtype)
    return list(train())


def difference(found, expected):
    return max(abs(a / b - 1) for a, b in zip(found, expected)) if len(found) == len(expected) else math.inf


def main():
    trainings = {"gru": gru, "simclr": simclr, "vae": vae, "vit": vit, "wgan-gp": wgan_gp}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a page has other losses")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=", ".join(trainings))
    arguments = parser.parse_args()
    failed = False
    for name in arguments.pages or trainings:
        expected = losses(trainings[name], torch.float64)
        path = PAGES / f"{name}.md"
        head, given, tail = re.split(r"(?<=kPyTorch\[\] = \{)(.*?)(?=\};)", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        off = difference([float(loss) for loss in given.split(",") if loss.strip()], expected)
        if arguments.check:
            print(f"{name}: the page differs by {off:.1e}")
            failed |= off > 1e-8
        else:
            print(f"{name}: f32 differs by {difference(losses(trainings[name], torch.float32), expected):.1e}")
            path.write_text(head + "\n    " + ", ".join(f"{loss:.9g}" for loss in expected) + tail, encoding="utf-8")
    sys.exit(failed)


if __name__ == "__main__":
    main()
