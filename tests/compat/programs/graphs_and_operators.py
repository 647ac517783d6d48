"""Operators registered for CUDA, autocast, and CUDA graphs that are captured and replayed."""

from __future__ import annotations

import cuda.tile as ct
import torch
from cuda.tile import launch
from torch.utils import benchmark


@ct.kernel
def scale_kernel(x, out, factor: float, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), (ct.load(x, (i,), (TILE,)) * factor).astype(out.dtype))


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    out = torch.empty_like(x)
    launch(torch.cuda.current_stream(), (ct.cdiv(x.numel(), 64),), scale_kernel, (x.view(-1), out.view(-1), factor, 64))
    return out


@torch.library.custom_op("tilewright_program::scale", mutates_args=(), device_types="cuda")
def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return scaled(x, factor)


@scale.register_fake
def _(x, factor):
    return torch.empty_like(x)


scale.register_autograd(
    lambda ctx, grad: (scale(grad.contiguous(), ctx.factor), None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
)


@torch.library.custom_op("tilewright_program::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError


@twice.register_kernel(("cuda",))
def _(x):
    return scaled(x, 2.0)


library = torch.library.Library("tilewright_program_library", "DEF")
library.define("thrice(Tensor x) -> Tensor")
library.impl("thrice", lambda x: scaled(x, 3.0), "CUDA")


class Halved(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
    def forward(ctx, x):
        return scaled(x, 0.5)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        return scaled(grad.contiguous(), 0.5)


def operators() -> None:
    x = torch.randn(128, device="cuda", requires_grad=True)
    scale(x, 2.5).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 2.5))
    torch.testing.assert_close(twice(x.detach()), 2 * x)
    torch.testing.assert_close(torch.ops.tilewright_program_library.thrice(x.detach()), 3 * x)
    with torch.autocast("cuda", dtype=torch.float16):
        half = Halved.apply(x)
    assert half.dtype == torch.float16
    timer = benchmark.Timer("f(x, 2.0)", globals={"f": scaled, "x": x.detach()}, num_threads=1)
    assert timer.timeit(2).mean > 0


def graphs() -> None:
    x, total = torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
    for _ in range(20):  # so that launches are repeated by machine code
        scaled(x, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        result = scale(x, 2.0) + 1
        total += scaled(result, 1.0)
    assert not total.any() and not torch.cuda.is_current_stream_capturing()
    for times in (1, 2):
        x.fill_(3)
        graph.replay()
        torch.cuda.synchronize()
        assert (result == 7).all() and (total == 7 * times).all()


def training() -> None:
    model = torch.nn.Linear(64, 8, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data, target = torch.randn(4, 64, device="cuda"), torch.randn(4, 8, device="cuda")

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = ((scale(model(data), 2.0) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    start = model.weight.detach().clone(), model.bias.detach().clone()
    expected = [step().item() for _ in range(4)]
    with torch.no_grad():
        model.weight.copy_(start[0])
        model.bias.copy_(start[1])
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    loss = step()
    graph.capture_end()
    assert torch.equal(model.weight, start[0])
    for value in expected:
        graph.replay()
        torch.testing.assert_close(loss.item(), value, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    operators()
    graphs()
    training()
    print("ok")
