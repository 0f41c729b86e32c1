class SGD:
    def __init__(self, parameters, lr, momentum, fused):
        pass

    def zero_grad(self, set_to_none):
        pass

    def step(self):
        pass
