"""Kernels that wait for memory as strangers write them, beside PyTorch, eager and compiled, and the original.

    python benchmarks/gpu_forms.py [--rows TEXT ...] [--without SIDE ...] [--turns N] [--json FILE]

As ``gpu_memory.py``, whose measuring these have; the grids are those that come to mind first, and no option is given.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import gpu_forms_kernels as kernels
import gpu_memory
import torch
from gpu_memory import BYTES, DEVICE, Row, bf16, f16, f32, name_of, normal
from torch.nn import functional as F

ANY = math.inf  # results that accumulate, are random, or have no one value: tests compare them, not this
Function = Callable[..., Any]
N = BYTES // 2  # elements of 16 bits


@functools.cache
def compiled(function: Function) -> Function:
    return torch.compile(function, dynamic=False)


def row(
    name: str, moved: int, grid: tuple[int, ...], arguments: tuple[Any, ...], out: torch.Tensor, function: Function,
    *inputs: torch.Tensor, tolerance: float = 6e-3, peer: Function | None = None,
) -> Row:  # fmt: skip
    """That of the kernel with which ``name`` begins. ``function`` of ``inputs`` is what it computes; ``peer`` stands
    for it where PyTorch has another way, which is not compiled."""
    both = functools.partial(function, *inputs), lambda: compiled(function)(*inputs)
    expected, fast = (both[0], None if peer else both[1])
    return Row(
        name, moved, name.split()[0], grid, arguments, None, out, expected, peer or both[0], tolerance, compiled=fast,
        kernels=kernels,
    )  # fmt: skip


def integers(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.randint(low, high, shape, device=DEVICE, dtype=dtype)


def halves(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x is (tokens, heads * D)."""
    a, b = x.view(len(x), -1, 2, cos.shape[1]).float().unbind(2)
    c, s = cos[:, None], sin[:, None]
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(bf16).view(x.shape)


def pairs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.view(len(x), -1, cos.shape[1], 2).float().unbind(-1)
    c, s = cos[:, None], sin[:, None]
    return torch.stack((a * c - b * s, b * c + a * s), -1).to(bf16).view(x.shape)


def embeddings() -> Iterator[Row]:
    m, H, D = N // 4096, 32, 64
    x, out, c, s = normal(m, H * 2 * D), normal(m, H * 2 * D), normal(m, D, dtype=f32), normal(m, D, dtype=f32)
    moved, shape = 4 * x.numel(), f"bf16 {m}x{H}x{2 * D}"
    y, z = x.view(m, H, D, 2), out.view(m, H, D, 2)
    yield row(f"rotary_pairs bf16 {m}x{H}x{D}x2", moved, (m,), (y, c, s, z, H, D), z, pairs, y, c, s)
    yield row(f"rotary_gather {shape}", moved, (m, H), (x, c, s, out, H, D), out, halves, x, c, s)
    yield row(f"rotary_interleaved {shape}", moved, (m, H), (x, c, s, out, 2 * D), out, pairs, x, c, s)
    yield row(f"rotary_heads {shape}", moved, (m,), (x, c, s, out, H, 2 * D), out, halves, x, c, s)
    n = 1024
    m = N // 2 // n
    k, v, cache, other = normal(m, n), normal(m, n), normal(m // 8, 16, n), normal(m // 8, 16, n)
    slots = torch.randperm(m, device=DEVICE).to(torch.int32)

    def copied() -> None:
        cache.view(-1, n)[slots.long()] = k
        other.view(-1, n)[slots.long()] = v

    arguments = k, v, slots, cache, other, 16, n
    yield row(f"cache_copy bf16 {m}x{n}", 8 * m * n, (m,), arguments, other, lambda v: v, v, tolerance=ANY, peer=copied)
    n = 2048
    m = N // 2 // n
    grad, table, rows = normal(m, n), torch.zeros(m, n, device=DEVICE), integers(0, m, m)
    yield row(
        f"embedding_backward f32 {m}x{n}", 10 * m * n, (m,), (rows, grad, table, n), table, lambda g: g, grad,
        tolerance=ANY, peer=lambda: table.index_add_(0, rows, grad.float()),
    )  # fmt: skip


def low_precision() -> Iterator[Row]:
    m, n = N // 8192, 8192
    q, scales = integers(-128, 128, m, n // 2, dtype=torch.int8), torch.rand(m, n // 1024, device=DEVICE)
    out = normal(m, n // 2, 2)

    def nibbles(q: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        b, s = q.int(), scales.repeat_interleave(512, 1)
        return torch.stack((((b & 15) - 8).float() * s, (((b >> 4) & 15) - 8).float() * s), -1).to(bf16)

    moved = m * n * 5 // 2
    yield row(f"int4_rows bf16 {m}x{n}", moved, (m, n // 1024), (q, scales, out, 512), out, nibbles, q, scales)
    s, z = torch.rand(m, n // 128, device=DEVICE, dtype=f16), integers(0, 16, m, n // 128).to(f16)
    out = normal(m, n)

    def parts(q: torch.Tensor, s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        b = q.int()
        v = torch.cat((b & 15, (b >> 4) & 15), 1).float().view(len(q), -1, 128)
        return ((v - z.float()[:, :, None]) * s.float()[:, :, None]).view(len(q), -1).to(bf16)

    yield row(f"int4_halves bf16 {m}x{n}", moved, (m, 4), (q, s, z, out, 128, 8), out, parts, q, s, z)
    e4m3 = torch.float8_e4m3fn
    w, s = normal(m, n).to(e4m3), torch.rand(m // 128, n // 128, device=DEVICE)

    def by_blocks(w: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        v = w.float().view(s.shape[0], -1, s.shape[1], 128)
        return (v * s[:, None, :, None]).to(bf16).view(w.shape)

    grid = m // 128, n // 128
    yield row(f"fp8_blocks bf16 {m}x{n}", 3 * m * n, grid, (w, s, out, 128), out, by_blocks, w, s)
    s, grid = torch.rand(m, n // 128, device=DEVICE), (m // 16, n // 128)
    yield row(f"fp8_groups bf16 {m}x{n} 16x128", 3 * m * n, grid, (w, s, out, 16, 128), out, by_blocks, w, s)
    n = 4096
    m = N // n
    x, out, s = normal(m, n), torch.zeros(m, n, device=DEVICE).to(e4m3), normal(m, n // 128, dtype=f32)

    def scales_of(x: torch.Tensor) -> torch.Tensor:
        return x.float().view(len(x), -1, 128).abs().amax(2).clamp(min=1e-8) / 448

    for T in (1024, 4096):
        yield row(f"fp8_rows bf16 {m}x{n} tiles of {T}", 3 * m * n, (m, n // T), (x, s, out, T), s, scales_of, x)


def reductions() -> Iterator[Row]:
    for n, dtype in ((4096, bf16), (1024, f32)):
        m, size = BYTES // dtype.itemsize // n, dtype.itemsize
        x, out = normal(m, n, dtype=dtype), normal(m, n, dtype=dtype)
        name = f"row_cumsum {name_of(dtype)} {m}x{n}"
        cumsum = functools.partial(torch.cumsum, dim=1, dtype=f32)
        yield row(name, 2 * size * m * n, (m,), (x, out, n), out, lambda x, f=cumsum: f(x).to(x.dtype), x)
    m, n = N // 8192, 8192
    x, mean, var = normal(m, n), normal(m, dtype=f32), normal(m, dtype=f32)
    for T, note in ((1024, ""), (4096, " tiles of 4096")):
        name = f"welford bf16 {m}x{n}{note}"
        variance = functools.partial(torch.var_mean, dim=1, correction=0)
        yield row(name, 2 * m * n, (m,), (x, mean, var, T), var, lambda x, f=variance: f(x.float())[0], x)
    m, n = N // 16384, 16384
    x, out = normal(m, n), normal(n, dtype=f32)
    name = f"column_mean bf16 {m}x{n}"
    yield row(name, 2 * m * n, (n // 64,), (x, out, 64, 64), out, lambda x: x.mean(0, dtype=f32), x)
    m, n = N // 4096, 4096
    x, out = normal(m, n), torch.zeros(n, device=DEVICE)
    name, grid = f"sum_axis0 bf16 {m}x{n} 64x128", (m // 64, n // 128)
    yield row(name, 2 * m * n, grid, (x, out, 64, 128), out, lambda x: x.sum(0, dtype=f32), x, tolerance=ANY)
    x, out = x.view(m, n), integers(0, 1, m)
    argmax = functools.partial(torch.argmax, dim=1)
    yield row(f"argmax_rows bf16 {m}x{n} by 4", 2 * m * n, (m // 4,), (x, out, 4, n), out, argmax, x, tolerance=ANY)
    for m, n in ((16, 128256), (1040, 128256)):
        x, out = normal(m, n), integers(0, 1, m)
        yield row(f"argmax_steps bf16 {m}x{n}", 2 * m * n, (m,), (x, out, 4096), out, argmax, x, tolerance=ANY)
    m = N // 128
    x, values, numbers = normal(m, 128), torch.empty(m, 8, device=DEVICE), integers(0, 1, m, 8)
    name, arguments = f"top_experts bf16 {m}x128 by 16", (x, values, numbers, 16, 128, 8)
    yield row(name, 2 * N + 64 * m, (m // 16,), arguments, values, lambda x: torch.topk(x, 8, 1)[0].float(), x)
    n = BYTES // 4
    for bins in (256, 1 << 20):
        x, out = integers(0, bins, n), integers(0, 1, bins)
        count = functools.partial(torch.bincount, x, minlength=bins)
        for T in (1024, 4096):
            name = f"histogram i32 {bins} bins tiles of {T}"
            yield row(name, 4 * n, (n // T,), (x, out, T), out, lambda x: x, x, tolerance=ANY, peer=count)


def norms() -> Iterator[Row]:
    for n in (4096, 5120):
        m, T = N // n, 1 << (n - 1).bit_length()
        zeros, x, w, out = torch.zeros(m, n, device=DEVICE, dtype=bf16), normal(m, n), normal(n), normal(m, n)

        def added(x: torch.Tensor, residual: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            v = x.float() + residual.float()
            residual.copy_(v.to(bf16))
            return (v * torch.rsqrt(v.square().mean(1, keepdim=True) + 1e-5) * w.float()).to(bf16)

        arguments = zeros, x, w, out, 1e-5, n, T  # what is added is zero: it is added in each run
        yield row(f"add_rms_gather bf16 {m}x{n}", 8 * m * n, (m,), arguments, out, added, zeros, x, w)
    n = 4096
    for m, rows in ((64, 1), (256, 1), (1024, 1), (4096, 4), (N // n, 4)):
        x, w, b, out = normal(m, n), normal(n), normal(n), normal(m, n)
        layer_norm = functools.partial(lambda x, w, b, n: F.layer_norm(x, (n,), w, b), n=n)
        name, arguments = f"layer_norm_rows bf16 {m}x{n} by {rows}", (x, w, b, out, 1e-5, rows, n)
        yield row(name, 4 * m * n, (m // rows,), arguments, out, layer_norm, x, w, b)
    m, D = N // 128, 128
    x, w, out = normal(m, D), normal(D), normal(m, D)
    name, arguments = f"rms_norm_heads bf16 {m}x{D} by 16", (x, w, out, 1e-5, 16, D)
    yield row(name, 4 * N, (m // 16,), arguments, out, lambda x, w: F.rms_norm(x, (128,), w, 1e-5), x, w)
    B, S, G, C = N // (1024 * 512), 1024, 32, 16
    x, w, b, out = normal(B, S, G, C), normal(G, C), normal(G, C), normal(B, S, G, C)

    def group_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        v = x.float()
        d = v - v.mean((1, 3), keepdim=True)
        return (d * torch.rsqrt(d.square().mean((1, 3), keepdim=True) + 1e-5) * w.float() + b.float()).to(bf16)

    name, arguments = f"group_norm_last bf16 {B}x{S}x{G}x{C}", (x, w, b, out, 1e-5, S, C)
    yield row(name, 4 * N, (B, G), arguments, out, group_norm, x, w, b)


def losses() -> Iterator[Row]:
    n = 128256
    for m in (16, 1040):
        x, dx, loss, labels = normal(m, n), normal(m, n), torch.empty(m, device=DEVICE), integers(0, n, m)

        def gradient(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            p = torch.softmax(x.float(), 1)
            hit = torch.arange(x.shape[1], device=DEVICE)[None] == labels[:, None]
            return torch.where(hit, p - 1.0, p).to(bf16)

        for T in (4096, 16384):
            name, arguments = f"entropy_loss_grad bf16 {m}x{n} tiles of {T}", (x, labels, loss, dx, T)
            yield row(name, 4 * m * n, (m,), arguments, dx, gradient, x, labels, tolerance=1e-2)
    entropy = functools.partial(F.cross_entropy, reduction="none")
    yield row(
        f"entropy_gathers bf16 {m}x{n}", 2 * m * n, (m,), (x, labels, loss, 4096), loss,
        lambda x, labels: entropy(x.float(), labels.long()), x, labels,
    )  # fmt: skip
    n = 131072
    for m in (32, 1024):
        x, out = normal(m, n), normal(m, n)
        softmax = functools.partial(torch.softmax, dim=1)
        yield row(f"softmax_online bf16 {m}x{n}", 4 * m * n, (m,), (x, out, 4096), out, softmax, x)


def elementwise() -> Iterator[Row]:
    m, n = N // 4096, 4096
    x, out, mask = normal(m, n), normal(m, n), integers(0, 2, m, n, dtype=torch.int8)

    def filled(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.where(mask != 0, -1e4, x)

    for T in (1024, 4096):
        name, grid = f"masked_fill bf16 {m}x{n} tiles of {T}", (m, n // T)
        yield row(name, 5 * m * n, grid, (x, mask, out, T), out, filled, x, mask)
    y, gate = normal(m, n), normal(m, dtype=f32)

    def gated(x: torch.Tensor, gate: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.float() + torch.sigmoid(gate)[:, None] * y.float()).to(bf16)

    name, arguments = f"residual_gate bf16 {m}x{n}", (x, gate, y, out, 1024)
    yield row(name, 6 * m * n, (m, 4), arguments, out, gated, x, gate, y)
    out = normal(m, 2 * n)
    name, cat = f"concat bf16 {m}x{2 * n} tiles of 1024", lambda x, y: torch.cat((x, y), 1)
    yield row(name, 8 * m * n, (m,), (x, y, out, 1024), out, cat, x, y, tolerance=0)
    x, out = normal(N), normal(N)
    name, arguments = "dropout_rounds bf16 tiles of 1024", (x, out, 12345, 1024)
    yield row(name, 4 * N, (N // 1024,), arguments, out, lambda x: F.dropout(x, 0.125), x, tolerance=ANY)
    n = 14336
    m = N // n // 8 * 8
    x, out = normal(m, 2 * n), normal(m, n)

    def silu(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, 1)
        return (F.silu(a.float()) * b.float()).to(bf16)

    def gelu(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, 1)
        return (F.gelu(a.float()) * b.float()).to(bf16)

    yield row(f"silu_mul_row bf16 {m}x{n}", 6 * m * n, (m,), (x, out, n, 16384), out, silu, x)
    grid = m // 4, n // 512
    yield row(f"silu_mul_2d bf16 {m}x{n} 4x512", 6 * m * n, grid, (x, out, 4, 512), out, silu, x)
    yield row(f"geglu_erf bf16 {m}x{n}", 6 * m * n, (m, n // 1024), (x, out, n, 1024), out, gelu, x)


def axes() -> Iterator[Row]:
    B, M, H = N // (2048 * 32 * 128), 2048, 32
    x, out = normal(B, M, H, 128), normal(B, H, M, 128)

    def permuted(*order: int) -> Function:
        return lambda x: x.permute(order).contiguous()

    for T in ((16, 4), (1, 32)):
        name = f"swap_axes bf16 {B}x{M}x{H}x128 {T[0]}x{T[1]}"
        yield row(name, 4 * N, (B, M // T[0], H // T[1]), (x, out, *T), out, permuted(0, 2, 1, 3), x, tolerance=0)
    name, grid = f"heads_first bf16 {B}x{M}x{H}x128", (B, M // 64, H)
    yield row(name, 4 * N, grid, (x, out, 64, 128), out, permuted(0, 2, 1, 3), x, tolerance=0)
    B = N // (1024 * 512)
    x, out, name = normal(B, 1024, 512), normal(B, 512, 1024), f"batched_transpose bf16 {B}x1024x512"
    yield row(name, 4 * N, (B, 16, 8), (x, out, 64, 64), out, permuted(0, 2, 1), x, tolerance=0)
    n = 16384
    q = integers(-128, 128, n, n, dtype=torch.int8)
    y, turned = torch.zeros_like(q), permuted(1, 0)
    for t in (64, 128):
        name = f"transpose_tiles i8 {n}^2 {t}^2"
        yield row(name, 2 * n * n, (n // t, n // t), (q, y, t, t), y, turned, q, tolerance=0)
    m = N // n
    x, out = normal(m, n), normal(n, m)
    for T in ((64, 64), (32, 128), (128, 64)):
        name = f"transpose_tiles bf16 {m}x{n} {T[0]}x{T[1]}"
        yield row(name, 4 * N, (m // T[0], n // T[1]), (x, out, *T), out, turned, x, tolerance=0)
    B = N // (256 * 64 * 128)
    x, out = normal(B, 256, 64, 128), normal(B, 64, 128, 256)
    name = f"channels_last bf16 {B}x256x64x128"
    yield row(name, 4 * N, (B, 64, 2), (x, out, 64, 64), out, permuted(0, 2, 3, 1), x, tolerance=0)
    m = N // (64 * 64 * 128)
    x, out = normal(m, 64, 64, 128), normal(128, 64, 64, m)
    name, grid = f"permute_3210 bf16 {m}x64x64x128", (64, 64, 2 * m // 64)
    yield row(name, 4 * N, grid, (x, out, 64), out, permuted(3, 2, 1, 0), x, tolerance=0)


gpu_memory.GROUPS = (embeddings, low_precision, reductions, norms, losses, elementwise, axes)
gpu_memory.COLUMNS[:] = ["gpu", "torch", "compiled", "cuda.tile"]

if __name__ == "__main__":
    gpu_memory.main()
