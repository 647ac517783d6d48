"""One of several processes over gloo, or NCCL where each has a GPU: operators on DTensors.

Usage: dtensor_program.py RANK PROCESSES FILE, where the processes meet in FILE.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist
from support.operators import add, matmul, norm, scale
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh


def check(found: Any, expected: torch.Tensor, placements: tuple[Any, ...]) -> None:
    assert isinstance(found, DTensor), type(found)
    assert found.placements == placements, (found.placements, placements)
    torch.testing.assert_close(found.full_tensor(), expected, rtol=1e-4, atol=1e-4)


def gradients(mesh: Any, left: torch.Tensor, right: torch.Tensor, compiled: bool) -> None:
    """A column-parallel and a row-parallel product, as in a transformer, forward and backward."""

    def program(x: Any, up: Any, down: Any) -> Any:
        return matmul(matmul(x, up), down)

    function = torch.compile(program, fullgraph=True, backend="aot_eager") if compiled else program
    whole = [t.detach().clone().requires_grad_() for t in (left, right, right.T.contiguous())]
    expected = (whole[0] @ whole[1]) @ whole[2]
    expected.square().sum().backward()
    kinds = [Replicate(), Shard(1), Shard(0)]
    parts = [distribute_tensor(t.detach(), mesh, [kind]).requires_grad_() for t, kind in zip(whole, kinds)]
    found = function(*parts)
    check(found, expected.detach(), (Partial(),))
    found.redistribute(placements=[Replicate()]).square().sum().backward()
    for one, other in zip(parts, whole):
        torch.testing.assert_close(one.grad.full_tensor(), other.grad, rtol=1e-3, atol=1e-2)


def forward_mode(a: Any, b: Any, ta: Any, tb: Any) -> None:
    """Tangents as gradients of gradients: PyTorch makes no dual tensors of DTensors."""
    primals = [x.requires_grad_() for x in (a, b)]
    out = matmul(*primals)
    weights = torch.zeros_like(out, requires_grad=True)
    gradients = torch.autograd.grad(out, primals, weights, create_graph=True)
    (tangent,) = torch.autograd.grad(gradients, weights, (ta, tb))
    expected = ta.full_tensor() @ b.full_tensor() + a.full_tensor() @ tb.full_tensor()
    check(tangent, expected.detach(), (Shard(0),))


def main(rank: int, processes: int, file: str) -> None:
    gpus = torch.cuda.is_available() and torch.cuda.device_count() >= processes
    device = "cuda" if gpus else "cpu"
    if gpus:
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if gpus else "gloo", init_method=f"file://{file}", rank=rank, world_size=processes)
    torch.manual_seed(0)
    mesh = init_device_mesh(device, (processes,))
    a, b = torch.randn(64, 48, device=device), torch.randn(48, 32, device=device)
    x, w = torch.randn(12, 40, device=device), torch.randn(40, device=device)

    def on(tensor: torch.Tensor, *placements: Any) -> Any:
        return distribute_tensor(tensor, mesh, placements)

    check(matmul(on(a, Shard(0)), on(b, Replicate())), a @ b, (Shard(0),))
    check(matmul(on(a, Replicate()), on(b, Shard(1))), a @ b, (Shard(1),))
    check(matmul(on(a, Shard(1)), on(b, Shard(0))), a @ b, (Partial(),))
    check(scale(on(x[0], Shard(0)), 3.0), x[0] * 3, (Shard(0),))
    check(add(on(x[0], Shard(0)), on(x[1], Replicate())), x[0] + x[1], (Shard(0),))
    check(scale(on(x[0, :5], Shard(0)), 3.0), x[0, :5] * 3, (Shard(0),))  # of four processes, one has nothing
    normed, inverse = norm(x, w)
    out, factors = norm(on(x, Shard(0)), on(w, Replicate()))
    check(out, normed, (Shard(0),))
    check(factors, inverse, (Shard(0),))
    out, _ = norm(on(x, Shard(1)), on(w, Shard(0)))  # the columns have to stay whole: they are gathered
    torch.testing.assert_close(out.full_tensor(), normed)
    for compiled in (False, True):
        gradients(mesh, a, b, compiled)
    compiled_scale = torch.compile(lambda x, factor: scale(x, factor), fullgraph=True, backend="aot_eager")
    for factor in (3.0, 2.0):  # the second one, which is not fixed, goes in a tensor
        check(compiled_scale(on(x[0], Shard(0)), factor), x[0] * factor, (Shard(0),))
    forward_mode(on(a, Shard(0)), on(b, Replicate()), on(a + 1, Shard(0)), on(b - 1, Replicate()))
    dist.barrier()
    dist.destroy_process_group()
    print("done", rank)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
