"""What benchmark scripts do around kernels: streams, events, devices, warm-up, profiles, assertions about tensors."""

import time

import cuda.tile as ct
import torch

assert torch.cuda.is_available(), "this program needs a GPU"
DEVICE = torch.cuda.current_device()
torch.cuda.set_device(0)
torch.backends.cuda.matmul.allow_tf32 = True
capability = torch.cuda.get_device_capability()
TILE = 128 if capability[0] >= 9 else 64


@ct.kernel
def axpy(x, y, a: float, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, (i,), a * ct.load(x, (i,), (TILE,)) + ct.load(y, (i,), (TILE,)))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1000))

    def forward(self, y):
        assert self.weight.is_cuda and y.is_cuda and y.device == self.weight.device
        y = y.clone()
        grid = (ct.cdiv(y.numel(), TILE), 1, 1)
        ct.launch(torch.cuda.current_stream(), grid, axpy, (self.weight.detach(), y, 3.0, TILE))
        return y


model = Model().cuda()
other = Model().to("cuda:0", non_blocking=True)
y = torch.zeros(1000, device=DEVICE)
assert torch.equal(model(y), torch.full((1000,), 3.0, device="cuda"))
assert torch.equal(other(y.to(DEVICE)).cpu(), torch.full((1000,), 3.0))
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream), torch.cuda.device(0):
    model(y)
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
for _ in range(3):
    model(y)
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) >= 0
began = time.perf_counter()
host = torch.arange(1000.0).pin_memory().to("cuda", non_blocking=True)
torch.testing.assert_close(model(host), host + 3)
assert time.perf_counter() >= began and torch.cuda.max_memory_allocated() >= 0
with torch.device("cuda"):
    inside = torch.zeros(8)
assert inside.is_cuda
activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
with torch.profiler.profile(activities=activities) as profile, torch.autograd.profiler.record_function("the model"):
    model(host)
assert "the model" in {event.key for event in profile.key_averages()}
with torch.autograd.profiler.emit_nvtx():
    model(host)
cubes = torch.func.jvp(lambda t: t**3 + torch.zeros_like(t), (host,), (torch.ones_like(host),))
torch.testing.assert_close(cubes, (host**3, 3 * host**2))
print(f"streams and timing: ok on {torch.cuda.get_device_name()}")
