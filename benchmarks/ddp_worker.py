"""A rank of PyTorch's DistributedDataParallel in compare_ddp.py: trains on request, like bench_ddp. Started by mpirun, which hands the
lines to all ranks: ddp_worker.py OPTIONS, a JSON object."""
import json
import os
import struct
import sys
import time

from pytorch_worker import Training


def read_weights(path):
    """The tensors of a safetensors file of f32, in its order, but for running statistics."""
    import torch
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    entries = sorted((entry["data_offsets"], name, entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return [torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).view(shape)
            for (begin, end), name, shape in entries if not name.endswith(("running_mean", "running_var", "num_batches_tracked"))]


class RankTraining(Training):
    def __init__(self, options):
        super().__init__(options)
        torch = self.torch
        from torch.nn.parallel import DistributedDataParallel
        weights, own = read_weights(options["weights"]), list(self.model.parameters())
        with torch.no_grad():
            for parameter, weight in zip(own, weights, strict=True):
                if parameter.shape != weight.shape:
                    raise ValueError(f"not the same network: {tuple(parameter.shape)} here, {tuple(weight.shape)} in Braid")
                parameter.copy_(weight)
        self.rank, ranks, part = torch.distributed.get_rank(), torch.distributed.get_world_size(), options["batch_size"]
        with open(options["data"], "rb") as file:
            data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
        pixels = options["channels"] * options["image_size"]**2
        samples = len(data) // (pixels + 1)
        images = data[:samples * pixels].view(-1, ranks, part, options["image_size"], options["image_size"], options["channels"])
        labels = data[samples * pixels:].view(-1, ranks, part)
        # Channels are last in the file, and in memory.
        self.batches = [(((batch.float() - 127.5) / 64).permute(0, 3, 1, 2), label.long())
                        for batch, label in zip(images[:, self.rank], labels[:, self.rank])]
        self.model = DistributedDataParallel(self.model, **options["data_parallel"])

    def set_dropout(self, on):
        for module in self.model.modules():
            if isinstance(module, self.torch.nn.Dropout):
                module.train(on)

    def losses(self, steps):
        values = []
        for step in range(steps):
            self.images, self.labels = self.batches[step % len(self.batches)]
            values.append(self.step().item())
        return values

    def mean_losses(self, steps):
        self.set_dropout(False)
        values = self.torch.tensor(self.losses(steps), dtype=self.torch.float64)
        self.set_dropout(True)
        self.torch.distributed.all_reduce(values)
        return (values / self.torch.distributed.get_world_size()).tolist()

    def run(self, steps):
        begin = time.perf_counter()
        self.losses(steps)
        return {"seconds": time.perf_counter() - begin, "host_seconds": 0}


def main():
    rank, size = os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]
    import torch
    torch.distributed.init_process_group("gloo", rank=int(rank), world_size=int(size))
    training = RankTraining(json.loads(sys.argv[1]))

    def write(answer):
        if training.rank == 0:
            print(json.dumps(answer), flush=True)

    write({"ready": True, "version": torch.__version__})
    for line in sys.stdin:
        request, *steps = line.split()
        if request == "setting":
            write(training.setting())
        else:
            write({"run": training.run, "losses": training.mean_losses}[request](int(steps[0])))


if __name__ == "__main__":
    main()
