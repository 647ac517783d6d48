"""Kernels that wait for memory in further shapes, beside PyTorch, eager and compiled, and the original.

    python benchmarks/gpu_shapes.py [--rows TEXT ...] [--without SIDE ...] [--turns N] [--json FILE]

As ``gpu_forms.py``, whose rows these have: strides, odd sizes, several passes, and loops over the grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpu_forms
import gpu_memory
import gpu_shapes_kernels as kernels
import torch
from gpu_forms import ANY, N, integers
from gpu_memory import BYTES, DEVICE, Row, bf16, f16, f32, normal, processors
from torch import Tensor
from torch.nn import functional as F


def row(*args: Any, **named: Any) -> Row:
    made = gpu_forms.row(*args, **named)
    made.kernels = kernels
    return made


def moves() -> Iterator[Row]:
    n = 2880
    m = N // n
    x, out, w = normal(m, n), normal(m, n), torch.rand(m, device=DEVICE)
    places = torch.randperm(m, device=DEVICE).to(torch.int32)

    def moved(x: Tensor, places: Tensor, w: Tensor) -> Tensor:
        out = torch.empty_like(x)
        out[places.long()] = (x.float() * w[:, None]).to(bf16)
        return out

    yield row(
        f"permute_tokens bf16 {m}x{n}",
        4 * m * n,
        (processors() * 4,),
        (x, places, w, out, 4096),
        out,
        moved,
        x,
        places,
        w,
    )
    m, n = 8192, 16384
    q, s, out = integers(-128, 128, m, n, dtype=torch.int8), torch.rand(m, device=DEVICE), normal(n, m)
    yield row(
        f"dequantize_turned int8 {m}x{n} 64x64",
        3 * m * n,
        (m // 64, n // 64),
        (q, s, out, 64, 64),
        out,
        lambda q, s: (q.float() * s[:, None]).to(bf16).T.contiguous(),
        q,
        s,
    )
    x, out, s = normal(N), torch.zeros(N, device=DEVICE).to(torch.float8_e4m3fn), torch.full((1,), 0.01, device=DEVICE)

    def fp8(x: Tensor, s: Tensor) -> Tensor:
        return (x.float() * (1 / s)).clamp(-448, 448).to(torch.float8_e4m3fn)

    yield row(
        "quantize_fp8 bf16 grid of 4 an SM",
        3 * N,
        (processors() * 4,),
        (x, s, out, 2048),
        out.view(torch.int8),
        lambda x, s: fp8(x, s).view(torch.int8),
        x,
        s,
        tolerance=ANY,
    )
    t, H, D = 10922, 32, 64
    qkv, cos, sin = normal(t, 3, H, 2, D), torch.ones(t, D, device=DEVICE), torch.zeros(t, D, device=DEVICE)

    def turned(qkv: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b = qkv[:, :2].float().unbind(3)
        c, s = cos[:, None, None], sin[:, None, None]
        qkv[:, :2] = torch.stack((a * c - b * s, b * c + a * s), 3).to(bf16)
        return qkv

    yield row(
        f"rotary_in_place bf16 {t}x3x{H}x{2 * D}",
        8 * t * H * 2 * D,
        (t, 2),
        (qkv, cos, sin, H, D),
        qkv,
        turned,
        qkv,
        cos,
        sin,
        tolerance=ANY,
    )
    v, n, k = 1 << 17, 768, 16
    m = 16384
    table, rows, out = normal(v, n, dtype=f16), integers(0, v, m, k), normal(m, n, dtype=f16)
    yield row(
        f"embedding_bag f16 {m}x{k}x{n}",
        2 * m * n * (k + 1),
        (m,),
        (table, rows, out, k, 1024),
        out,
        lambda t, r: F.embedding_bag(r, t, mode="sum"),
        table,
        rows,
    )


def norms() -> Iterator[Row]:
    b, c, p = 64, 768, 2704
    x, out, w, h = normal(b, c, p), normal(b, c, p), normal(c), normal(c)

    def over_channels(x: Tensor, w: Tensor, h: Tensor) -> Tensor:
        v = x.float()
        m = v.mean(1, keepdim=True)
        d = v - m
        return (d * torch.rsqrt((d * d).mean(1, keepdim=True) + 1e-5) * w[:, None] + h[:, None]).to(bf16)

    yield row(
        f"channel_norm bf16 {b}x{c}x{p}",
        4 * b * c * p,
        (b, p // 16),
        (x, w, h, out, 1e-5, c, 1024, 16),
        out,
        over_channels,
        x,
        w,
        h,
    )
    x = normal(b, c, p, dtype=f16)
    sums, squares = torch.zeros(c, device=DEVICE), torch.zeros(c, device=DEVICE)

    def stats(x: Tensor) -> tuple[Tensor, Tensor]:
        v = x.float()
        return (v * v).sum((0, 2)), v.sum((0, 2))

    yield row(
        f"batch_stats f16 {b}x{c}x{p}", 2 * b * c * p, (c,), (x, sums, squares, 1024), squares, lambda x: stats(x)[0], x
    )
    n = 1544
    m = N // n
    x, y, out, w, h = normal(m, n), normal(m, n), normal(m, n), normal(n), normal(n)
    yield row(
        f"dropout_add_norm bf16 {m}x{n}",
        6 * m * n,
        (m,),
        (x, y, w, h, out, 7, 1e-5, n, 2048),
        out,
        lambda x, y, w, h: F.layer_norm(x + F.dropout(y, 1 / 8), (n,), w, h),
        x,
        y,
        w,
        h,
        tolerance=ANY,
    )
    g, d = 8, 512
    m = N // (g * d)
    x, z, w, out = normal(m, g, d), normal(m, g, d), normal(g, d), normal(m, g, d)

    def gated(x: Tensor, z: Tensor, w: Tensor) -> Tensor:
        v = x.float() * F.silu(z.float())
        return (v * torch.rsqrt((v * v).mean(-1, keepdim=True) + 1e-5) * w).to(bf16)

    yield row(
        f"gated_group_norm bf16 {m}x{g}x{d}", 6 * m * g * d, (m,), (x, z, w, out, 1e-5, g, d), out, gated, x, z, w
    )
    n = 28672
    m = N // n
    x, w, h, out = normal(m, n), normal(n), normal(n), normal(m, n)
    yield row(
        f"norm_two_passes bf16 {m}x{n}",
        4 * m * n,
        (m,),
        (x, w, h, out, 1e-5, 2048),
        out,
        lambda x, w, h: F.layer_norm(x, (n,), w, h),
        x,
        w,
        h,
    )


def others() -> Iterator[Row]:
    heads, S = 32, 2048
    x, out = normal(heads, S, S, dtype=f16), normal(heads, S, S, dtype=f16)

    def causal(x: Tensor) -> Tensor:
        mask = torch.ones(S, S, device=x.device, dtype=torch.bool).tril()
        return torch.softmax((x.float() * 0.125).masked_fill(~mask, -torch.inf), -1).to(f16)

    yield row(f"masked_softmax f16 {heads}x{S}x{S}", 4 * heads * S * S, (heads, S), (x, out, 0.125, S), out, causal, x)
    n = 500
    m = BYTES // 4 // n // 8 * 8
    x, out = normal(m, n + 1, dtype=f32)[:, :n], normal(m, n, dtype=f32)
    yield row(
        f"softmax_block f32 {m}x{n} of {n + 1} by 8",
        8 * m * n,
        (m // 8,),
        (x, out, 8, 512),
        out,
        lambda x: torch.softmax(x, 1),
        x,
    )
    n = 11008
    m = N // n // 2
    x, g, out = normal(m, 2 * n), normal(m, n), normal(m, 2 * n)

    def gradient(x: Tensor, g: Tensor) -> Tensor:
        a, b = x.float().chunk(2, 1)
        s = torch.sigmoid(a)
        d = g.float()
        return torch.cat((d * b * s * (1 + a * (1 - s)), d * a * s), 1).to(bf16)

    yield row(f"swiglu_packed_backward bf16 {m}x{n}", 10 * m * n, (m,), (x, g, out, n, 2048), out, gradient, x, g)
    m, n = 4096, 32768
    x, out = normal(m, n), normal(m, n)
    yield row(
        f"column_cumsum bf16 {m}x{n} 64x32",
        4 * m * n,
        (n // 32,),
        (x, out, 64, 32),
        out,
        lambda x: x.float().cumsum(0).to(bf16),
        x,
        tolerance=1e-2,
    )


gpu_memory.GROUPS = (moves, norms, others)

if __name__ == "__main__":
    gpu_memory.main()
