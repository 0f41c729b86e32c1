from types import SimpleNamespace


class Tensor:
    nbytes, requires_grad = 40, True

    def to(self, *_, **__):
        return self

    def backward(self):
        pass

    def item(self):
        return 1.0


class Module:
    def __init__(self, *_, **__):
        pass

    def __call__(self, *_):
        return Tensor()

    def to(self, *_, **__):
        return self

    def parameters(self):
        return [Tensor()]

    def modules(self):
        return []

    def buffers(self):
        return []


functional = SimpleNamespace(cross_entropy=lambda logits, labels: Tensor())


def __getattr__(name):
    return Module
