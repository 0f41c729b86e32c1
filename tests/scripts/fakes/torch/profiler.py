from types import SimpleNamespace

from trouble import trouble

ProfilerActivity = SimpleNamespace(CPU="CPU", CUDA="CUDA")


class profile:
    def __init__(self, activities):
        trouble("torch.profiler")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def key_averages(self):
        def event(key, device, time):
            return SimpleNamespace(key=key, count=10, device_type=device, self_device_time_total=time, self_cpu_time_total=time)
        return [event("aten::relu", 0, 100.0), event("aten::cudnn_convolution", 0, 500.0), event("cudaLaunchKernel", 0, 0),
                event("relu_kernel", 1, 100.0), event("conv_kernel", 1, 500.0)]
