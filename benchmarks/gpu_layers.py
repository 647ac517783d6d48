"""Kernels of serving and training code that wait for memory, beside PyTorch, eager and compiled, and the original.

    python benchmarks/gpu_layers.py [--rows TEXT ...] [--without SIDE ...] [--turns N] [--json FILE]

As ``gpu_forms.py``, whose rows these have: quantization, caches, losses, images, an optimizer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpu_forms
import gpu_layers_kernels as kernels
import gpu_memory
import torch
from gpu_forms import ANY, N, integers
from gpu_memory import DEVICE, Row, bf16, f16, f32, normal, processors
from torch import Tensor
from torch.nn import functional as F

E4M3 = torch.float8_e4m3fn


def row(*args: Any, **named: Any) -> Row:
    made = gpu_forms.row(*args, **named)
    made.kernels = kernels
    return made


def serving() -> Iterator[Row]:
    for n, T in ((5120, 8192), (4096, 4096)):
        m = N // n
        x, y, w = normal(m, n), normal(m, n), normal(n)
        norm = lambda x, y, w, n=n: (F.rms_norm(x + y, (n,), w, 1e-5), x + y)  # noqa: E731
        name = f"fused_add_rms_norm bf16 {m}x{n}"
        yield row(name, 8 * m * n, (m,), (x, y, w, 1e-5, n, T), x, norm, x, y, w, tolerance=ANY)
    n = 4096
    m = N // n
    x, q, s = normal(m, n), integers(0, 1, m, n, dtype=torch.int8), normal(m, dtype=f32)
    rounded = lambda x: torch.floor(x.float() * (127 / x.float().abs().amax(1, keepdim=True)) + 0.5).to(torch.int8)  # noqa: E731
    yield row(f"int8_per_token bf16 {m}x{n}", 3 * m * n, (m,), (x, q, s, n), q, rounded, x)
    out, s = torch.zeros(m, n, device=DEVICE, dtype=E4M3), normal(m, 1, dtype=f32)

    def fp8(x: Tensor) -> Tensor:
        v = x.float()
        return (v / (v.abs().amax(1, keepdim=True) / 448)).clamp(-448, 448).to(E4M3)

    yield row(f"fp8_per_token bf16 {m}x{n}", 3 * m * n, (m,), (x, out, s, n), out, fp8, x)
    n = 14336
    m = N // n
    x, out = normal(m, 2 * n), normal(m, n)
    gated = lambda x, n=n: (F.silu(x[:, :n].float()) * x[:, n:]).to(bf16)  # noqa: E731
    yield row(f"swiglu_flat bf16 {m}x{n}", 6 * m * n, (processors() * 8,), (x, out, n, 1024), out, gated, x)
    t, H, K, D = N // 40 // 128, 32, 8, 64
    q, k, p = normal(t, H, 2 * D), normal(t, K, 2 * D), integers(0, 8192, t)
    c, s = torch.ones(8192, D, device=DEVICE, dtype=bf16), torch.zeros(8192, D, device=DEVICE, dtype=bf16)

    def turned(q: Tensor, k: Tensor, p: Tensor, c: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        c, s = c[p.long()].float()[:, None], s[p.long()].float()[:, None]
        for x in (q, k):
            a, b = x.float().chunk(2, -1)
            x.copy_(torch.cat((a * c - b * s, b * c + a * s), -1))
        return q, k

    size = 4 * (q.numel() + k.numel())
    arguments, inputs = (q, k, p, c, s, H, K, D), (q, k, p, c, s)
    yield row(f"rope_cached bf16 {t}x{H}+{K}x{2 * D}", size, (t,), arguments, q, turned, *inputs, tolerance=ANY)
    v, n = 1 << 17, 2048
    m = N // n
    table, tokens, out = normal(v, n), integers(0, v, m), normal(m, n)
    looked_up = lambda t, i: torch.where(i[:, None] == 5, 0.0, t[i.long()].float() * 2.5).to(bf16)  # noqa: E731
    yield row(
        f"embedding_padded bf16 {m}x{n}", 4 * m * n, (m, n // 512), (table, tokens, out, 5, 2.5, 512), out, looked_up,
        table, tokens,
    )  # fmt: skip
    m, n = 1024, 32000
    p, out = torch.sort(torch.softmax(normal(m, n, dtype=f32) * 4, 1), 1, descending=True)[0], normal(m, n, dtype=f32)

    def kept(p: Tensor) -> Tensor:
        v = torch.where(p.cumsum(1) - p <= 0.9, p, 0.0)
        return v / v.sum(1, keepdim=True)

    yield row(f"top_p f32 {m}x{n}", 8 * m * n, (m,), (p, out, 0.9, 32768), out, kept, p)


def training() -> Iterator[Row]:
    n = 32000
    m = N // n
    x, labels, loss = normal(m, n), integers(0, n, m), normal(m, dtype=f32)
    smooth = lambda x, t: F.cross_entropy(x.float(), t.long(), reduction="none", label_smoothing=0.1)  # noqa: E731
    yield row(f"smooth_loss bf16 {m}x{n}", 2 * m * n, (m,), (x, labels, loss, 0.1, n, 32768), loss, smooth, x, labels)
    b, h, S = 2, 16, 2048
    x, bias, out = normal(b * h, S, S), normal(h, S, S), normal(b * h, S, S)

    def masked(x: Tensor, bias: Tensor) -> Tensor:
        mask = torch.ones(S, S, device=x.device, dtype=torch.bool).tril()
        v = x.float() * 0.125 + bias.float().repeat(b, 1, 1)
        return torch.softmax(v.masked_fill(~mask, -torch.inf), -1).to(bf16)

    size = 2 * S * S * h * (2 * b + 1)
    yield row(f"bias_softmax bf16 {b * h}x{S}x{S}", size, (S, b * h), (x, bias, out, 0.125, S), out, masked, x, bias)
    m, n = 8192, 8192
    x, out = normal(m, n, dtype=f32), normal(n)
    total = lambda x: x.sum(0).to(bf16)  # noqa: E731
    yield row(f"column_sums f32 {m}x{n} 32x64", 4 * m * n, (n // 64,), (x, out, 32, 64), out, total, x)
    m, n = N // 8192, 8192
    x, bias, out = normal(m, n), normal(n), normal(m, n)
    gelu = lambda x, b: F.gelu(x.float() + b.float(), approximate="tanh").to(bf16)  # noqa: E731
    arguments = x, bias, out, 4, 256
    yield row(f"bias_gelu bf16 {m}x{n} 4x256", 4 * m * n, (m // 4, n // 256), arguments, out, gelu, x, bias)
    n = N // 4
    p, g, m1, m2 = normal(n, dtype=f32), normal(n), normal(n, dtype=f32), torch.rand(n, device=DEVICE)

    def step(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> None:
        d = g.float()
        m.mul_(0.9).add_(0.1 * d)
        v.mul_(0.999).add_(0.001 * d * d)
        p.sub_(1e-3 * (m * 1.1 / (torch.sqrt(v * 1.2) + 1e-8) + 0.01 * p))

    arguments = p, g, m1, m2, 1e-3, 0.9, 0.999, 1e-8, 0.01, 1.1, 1.2, 1024
    yield row(f"adamw f32 {n}", 26 * n, (n // 1024,), arguments, p, step, p, g, m1, m2, tolerance=ANY)


def images() -> Iterator[Row]:
    b, h, w, pad = 512, 510, 510, 1
    x = normal(b, h, w)
    out = normal(b, h + 2 * pad, w + 2 * pad)
    around = lambda x: F.pad(x, (pad,) * 4)  # noqa: E731
    yield row(f"padded_images bf16 {b}x{h}x{w}", 4 * x.numel(), (h + 2, b), (x, out, pad, 512), out, around, x)
    x, out = normal(b, h, w), normal(b, 448, 448)
    middle = lambda x: x[:, 31:479, 31:479].contiguous()  # noqa: E731
    yield row(f"cropped_images bf16 {b}x{h}x{w}", 4 * out.numel(), (112, b), (x, out, 31, 4, 512), out, middle, x)
    b, s, d = 64, 2048, 1024
    x, lengths, out = normal(b, s, d), integers(1500, s, b), normal(b, d)

    def mean(x: Tensor, n: Tensor) -> Tensor:
        mask = torch.arange(s, device=x.device) < n[:, None]
        return ((x.float() * mask[..., None]).sum(1) / n[:, None]).to(bf16)

    moved, arguments = 2 * d * int(lengths.sum()), (x, lengths, out, 32, 128)
    yield row(f"masked_mean bf16 {b}x{s}x{d} 32x128", moved, (b, d // 128), arguments, out, mean, x, lengths)
    b, c, p = 64, 320, 4096
    x, out, w, h_ = normal(b, c, p, dtype=f16), normal(b, c, p, dtype=f16), normal(c, dtype=f16), normal(c, dtype=f16)
    normed = lambda x, w, h: F.group_norm(x, 32, w, h, 1e-5)  # noqa: E731
    yield row(
        f"group_norm f16 {b}x{c}x{p} by 32", 4 * b * c * p, (b, 32), (x, w, h_, out, 1e-5, c // 32, 1024), out, normed,
        x, w, h_,
    )  # fmt: skip


gpu_memory.GROUPS = (serving, training, images)

if __name__ == "__main__":
    gpu_memory.main()
