"""Kernels that wait for memory in further forms: gradients, rows of odd lengths, in steps and of few rows.

    python benchmarks/gpu_memory_forms.py [--rows TEXT ...] [--warps] [--json FILE]

As ``gpu_memory.py``, whose sides and measuring these have.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import gpu_memory
import gpu_memory_triton as theirs
import torch
from gpu_memory import BYTES, DEVICE, Row, bf16, f16, launched, normal, processors
from torch.nn import functional as F


def row_of(
    name: str, moved: int, grid: tuple[int, ...], arguments: tuple[Any, ...], by_hand: tuple[Any, ...],
    out: torch.Tensor, expected: Callable[[], torch.Tensor], peer: Callable[[], Any] | None = None,
    tolerance: float = 4e-3,
) -> Row:  # fmt: skip
    """That of the kernel with which ``name`` begins; the one by hand has the same name, and arguments ``by_hand``."""
    kernel = name.split()[0]
    hand = launched(getattr(theirs, kernel if kernel != "softmax_gather" else "softmax"), grid, *by_hand)
    return Row(name, moved, kernel, grid, arguments, hand, out, expected, peer, tolerance)


def gradients() -> Iterator[Row]:
    for n in (4096, 8192, 1000, 16384, 128256):
        m, T = BYTES // 2 // n, theirs.whole(n)
        y, g, dx = torch.softmax(normal(m, n), 1), normal(m, n), normal(m, n)

        def exact(y: torch.Tensor = y, g: torch.Tensor = g) -> torch.Tensor:
            p, d = y.float(), g.float()
            return p * (d - (p * d).sum(1, keepdim=True))

        peer = functools.partial(torch.ops.aten._softmax_backward_data, g, y, 1, bf16)
        name = f"softmax_backward bf16 {m}x{n}"
        yield row_of(name, 6 * m * n, (m,), (y, g, dx, T), (y, g, dx, n, T), dx, exact, peer)
    n, T = 14336, 2048
    m = BYTES // 2 // n
    gate, up, grad, dgate, dup = (normal(m, n) for _ in range(5))
    grid = (m, n // T)

    def gated() -> torch.Tensor:
        x = gate.float().requires_grad_()
        return torch.autograd.grad(F.gelu(x, approximate="tanh") * up.float(), x, grad.float())[0]

    arguments = gate, up, grad, dgate, dup
    name = f"geglu_backward bf16 {m}x{n}"
    yield row_of(name, 10 * m * n, grid, (*arguments, T), (*arguments, n, T), dgate, gated)
    n, m = 128256, 1040
    x, dx = normal(m, n), normal(m, n)
    labels = torch.randint(0, n, (m,), device=DEVICE, dtype=torch.int32)

    def entropy() -> torch.Tensor:
        p = torch.softmax(x.float(), 1)
        p[torch.arange(m, device=DEVICE), labels.long()] -= 1
        return p

    for T in (4096, 16384):
        name = f"cross_entropy_backward bf16 {m}x{n} tiles of {T}"
        yield row_of(name, 4 * m * n, (m,), (x, labels, dx, T), (x, labels, dx, n, T), dx, entropy)


def odd_lengths() -> Iterator[Row]:
    for n in (5000, 1000):
        m, T = BYTES // 2 // n, theirs.whole(n)
        x, w, b, out = normal(m, n), normal(n), normal(n), normal(m, n)
        shape = f"bf16 {m}x{n}"
        norm = functools.partial(F.layer_norm, x, (n,), w, b)
        arguments = x, w, b, out
        yield row_of(
            f"layer_norm {shape}", 4 * m * n, (m,), (*arguments, 1e-5, T), (*arguments, n, 1e-5, T), out, norm, norm
        )
        norm = functools.partial(F.rms_norm, x, (n,), w, 1e-5)
        for form, blocks in (("rms_norm", m), ("rms_norm_persistent", processors() * (16384 // T))):
            extents = (n,) if form == "rms_norm" else (m, n)
            by_hand = x, w, out, *extents, 1e-5, T
            yield row_of(f"{form} {shape}", 4 * m * n, (blocks,), (x, w, out, 1e-5, T), by_hand, out, norm, norm)
    n, T = 5000, 8192
    m = BYTES // 2 // n
    x, out = normal(m, n), normal(m, n)
    softmax = functools.partial(torch.softmax, x, 1)
    for form, blocks, stages in (("softmax", m, 1), ("softmax_gather", processors() * 4, 2)):
        by_hand = x, out, m, n, T, stages
        yield row_of(f"{form} bf16 {m}x{n}", 4 * m * n, (blocks,), (x, out, T), by_hand, out, softmax, softmax)
    for n in (5000, 4096):
        m, T = BYTES // 2 // n, theirs.whole(n)
        x, out = normal(m, n), normal(m, n)
        softmax = functools.partial(torch.log_softmax, x, 1)
        yield row_of(f"log_softmax bf16 {m}x{n}", 4 * m * n, (m,), (x, out, T), (x, out, n, T), out, softmax, softmax)


def norms() -> Iterator[Row]:
    for n in (4096, 16384):
        m = BYTES // 2 // n
        x, w, out = normal(m, n, dtype=f16), normal(n, dtype=f16), normal(m, n, dtype=f16)
        norm = functools.partial(F.rms_norm, x, (n,), w, 1e-5)
        shape = f"f16 {m}x{n}"
        by_hand: tuple[Any, ...] = (x, w, out, n, 1e-5, 1024)
        name = f"rms_norm_in_steps {shape}"
        yield row_of(name, 4 * m * n, (m,), (x, w, out, 1e-5, 1024), by_hand, out, norm, norm)
        blocks, by_hand = processors() * (16384 // n), (x, w, out, m, n, 1e-5, n)
        name = f"rms_norm_persistent {shape}"
        yield row_of(name, 4 * m * n, (blocks,), (x, w, out, 1e-5, n), by_hand, out, norm, norm)
        zeros, residual = torch.zeros_like(x), normal(m, n, dtype=f16)
        norm = functools.partial(F.rms_norm, residual, (n,), w, 1e-5)
        arguments = zeros, residual, w, out  # what is added is zero: it is added in each run
        name = f"add_rms_norm {shape}"
        yield row_of(name, 8 * m * n, (m,), (*arguments, 1e-5, n), (*arguments, n, 1e-5, n), out, norm)


def others() -> Iterator[Row]:
    n = 14336
    m = BYTES // 2 // n
    x, out = normal(m, 2 * n, dtype=f16), normal(m, n, dtype=f16)
    for T in (1024, 2048):
        name, grid = f"silu_and_mul f16 {m}x{n} tiles of {T}", (m, n // T)
        expected = functools.partial(lambda x, n: F.silu(x[:, :n].float()) * x[:, n:].float(), x, n)
        yield row_of(name, 6 * m * n, grid, (x, out, n, T), (x, out, n, T), out, expected)
    for n in (2048, 5000):
        m, T = BYTES // 2 // n, theirs.whole(n)
        table, out = normal(2 * m, n), normal(m, n)
        rows = torch.randint(0, 2 * m, (m,), device=DEVICE, dtype=torch.int32)
        select, by_hand = functools.partial(torch.index_select, table, 0, rows), (table, rows, out, m, n, T)
        peer, grid = functools.partial(select, out=out), (processors() * 8,)
        yield row_of(f"embedding bf16 {m}x{n}", 4 * m * n, grid, (table, rows, out, T), by_hand, out, select, peer, 0)
    for n in (4096, 5000):
        m, T = BYTES // 2 // n, theirs.whole(n)
        q = torch.randint(-128, 128, (m, n), device=DEVICE, dtype=torch.int8)
        scales, out = torch.rand(m, device=DEVICE), normal(m, n)
        expected = functools.partial(lambda q, s: q.float() * s[:, None], q, scales)
        name = f"dequantize_rows int8 {m}x{n}"
        yield row_of(name, 3 * m * n, (m,), (q, scales, out, T), (q, scales, out, n, T), out, expected)
    n = 4096
    m = BYTES // 2 // n
    x, scales, bytes_ = normal(m, n), torch.rand(m, 1, device=DEVICE), torch.zeros(m, n, device=DEVICE).to(torch.int8)
    expected = functools.partial(lambda x: x.float().abs().amax(1, keepdim=True) / 127, x)
    name = f"quantize_rows bf16 {m}x{n}"
    yield row_of(name, 3 * m * n, (m,), (x, scales, bytes_, n), (x, scales, bytes_, n, n), scales, expected)


def few_rows() -> Iterator[Row]:
    for m, n in ((1, 128256), (132, 4096), (64, 5000), (8, 16384)):
        x, w, b, out, T = normal(m, n), normal(n), normal(n), normal(m, n), theirs.whole(n)
        softmax = functools.partial(torch.softmax, x, 1)
        name, by_hand = f"softmax bf16 {m}x{n}", (x, out, m, n, T, 1)
        yield row_of(name, 4 * m * n, (m,), (x, out, T), by_hand, out, softmax, softmax)
        norm, arguments = functools.partial(F.layer_norm, x, (n,), w, b), (x, w, b, out)
        name, by_hand = f"layer_norm bf16 {m}x{n}", (*arguments, n, 1e-5, T)
        yield row_of(name, 4 * m * n, (m,), (*arguments, 1e-5, T), by_hand, out, norm, norm, 1e-2)


gpu_memory.GROUPS = (gradients, odd_lengths, norms, others, few_rows)

if __name__ == "__main__":
    gpu_memory.main()
