"""Kernels as others write them for GPUs, on a CPU, beside PyTorch, eager and compiled, NumPy, JAX and Numba.

    python benchmarks/cpu_forms.py [--rows REGEX] [--output FOLDER]

Hot, as ``cpu.py`` measures: the median of the calls of each side in blocks of its own. Peers allocate their results,
of at most 16 MiB, for which the C library keeps memory: that of 32 MiB it gives back, and gets anew at each call.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cpu_forms_kernels as kernels
import cpu_numba as loops
import jax
import numpy as np
import torch
import torch.nn.functional as F
from cpu import described_setting
from cpu_rows import DTYPES, compiled, jitted, launch, normal
from cpu_timing import hot

Run = Callable[[], Any]
Sides = tuple[Run, torch.Tensor, dict[str, Run]]  # ours, its result, and the peers, the first of which is right
_TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}


def tensor(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.from_numpy(normal(math.prod(shape), seed=seed).reshape(shape)).to(dtype)


def both(function: Callable[..., Any], *arguments: torch.Tensor) -> dict[str, Run]:
    """``function`` by PyTorch, eager and compiled."""
    return {"torch": lambda: function(*arguments), "torch.compile": compiled(function, *arguments)}


def group_norm(dtype: torch.dtype) -> Sides:
    x, out = tensor(16, 256, 1024, dtype=dtype), torch.empty(16, 256, 1024, dtype=dtype)
    weight, bias = tensor(256, seed=1), tensor(256, seed=2)
    peers = both(lambda x, w, b: F.group_norm(x, 32, w.to(dtype), b.to(dtype)), x, weight, bias)
    return launch(kernels.group_norm, (16, 32), x, weight, bias, out, 1e-5, 8, 1024), out, peers


def log_softmax(dtype: torch.dtype) -> Sides:
    x, out = tensor(4194, 1000, dtype=dtype), torch.empty(4194, 1000, dtype=dtype)
    return launch(kernels.log_softmax, (4194,), x, out, 1024), out, both(lambda x: torch.log_softmax(x, 1), x)


def geglu_backward(dtype: torch.dtype) -> Sides:
    gradient, a, b = (tensor(1024, 2816, seed=s, dtype=dtype) for s in range(3))
    da, db = torch.empty_like(a), torch.empty_like(b)

    def peer(gradient: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What autograd calls for ``gelu(a, approximate="tanh") * b``."""
        da = torch.ops.aten.gelu_backward(gradient * b, a, approximate="tanh")
        return da, gradient * F.gelu(a, approximate="tanh")

    return launch(kernels.geglu_backward, (1024,), gradient, a, b, db, da, 4096), da, both(peer, gradient, a, b)


def rope(dtype: torch.dtype) -> Sides:
    q, cos, sin = tensor(1024, 32, 128, dtype=dtype), tensor(1024, 64, seed=1), tensor(1024, 64, seed=2)
    out = torch.empty_like(q)

    def peer(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """In the dtype of ``q``, as models of vLLM have it without kernels of their own."""
        a, b = q.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    given = [v[:, None].to(dtype) for v in (cos, sin)]
    return launch(kernels.rope, (1024,), q, cos, sin, out, 32, 64), out, both(peer, q, *given)


def rms_norm_residual(dtype: torch.dtype) -> Sides:
    x, weight = tensor(2048, 1536, dtype=dtype), tensor(1536, seed=1, dtype=dtype)
    ours, theirs, out = torch.zeros_like(x), torch.zeros_like(x), torch.empty_like(x)
    bound = launch(kernels.rms_norm_residual, (2048,), x, ours, weight, out, 1e-5, 2048)

    def peer(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x.float() + residual.float()
        scaled = h * torch.rsqrt(h.square().mean(1, keepdim=True) + 1e-5) * weight.float()
        return scaled.to(dtype), h.to(dtype)

    return bound, out, both(peer, x, theirs, weight)


def layer_norm_backward(dtype: torch.dtype) -> Sides:
    gradient, x = (tensor(4096, 1024, seed=s, dtype=dtype) for s in (0, 1))
    weight, bias = (tensor(1024, seed=s, dtype=dtype) for s in (2, 3))
    mean, rstd = x.float().mean(1), torch.rsqrt(x.float().var(1, unbiased=False) + 1e-5)
    dx, dw, db = torch.empty_like(x), torch.zeros(1024), torch.zeros(1024)
    bound = launch(kernels.layer_norm_backward, (16,), gradient, x, weight, mean, rstd, dw, db, dx, 4096, 1024)

    def ours() -> torch.Tensor:
        dw.zero_()
        db.zero_()
        return bound()

    given = [v[:, None].to(dtype) for v in (mean, rstd)]
    backward = torch.ops.aten.native_layer_norm_backward
    return ours, dx, {"torch": lambda: backward(gradient, x, [1024], *given, weight, bias, [True] * 3)[0]}


def quantization(dtype: torch.dtype) -> Sides:
    x, out, scale = tensor(4096, 1024, dtype=dtype), torch.empty(4096, 1024, dtype=torch.int8), torch.empty(4096)

    def peer(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scale = x.abs().amax(1, keepdim=True).float() * (1 / 127)
        return torch.floor(x / scale + 0.5).to(torch.int8), scale

    return launch(kernels.quantization, (4096,), x, scale, out, 1024), out, both(peer, x)


def dequantization(dtype: torch.dtype) -> Sides:
    q = torch.from_numpy(np.random.default_rng(0).integers(-(2**31), 2**31, (256, 2048)).astype(np.int32))
    scale, out = tensor(16, 2048, seed=1), torch.empty(2048, 2048, dtype=dtype)

    def peer(q: torch.Tensor, scale: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """As layers of GPTQ have it: numbers of 8 bits, and weights in the dtype of the scales."""
        numbers = torch.bitwise_right_shift(q[:, None], places).to(torch.int8) & 15
        return ((numbers - 8).reshape(16, 128, 2048) * scale[:, None]).reshape(2048, 2048)

    given = scale.to(dtype), torch.arange(0, 32, 4, dtype=torch.int32)[None, :, None]
    return launch(kernels.dequantization, (16, 16), q, scale, out, 128, 128), out, both(peer, q, *given)


def embedding(dtype: torch.dtype) -> Sides:
    table, out = tensor(50000, 768, dtype=dtype), torch.empty(8192, 768, dtype=dtype)
    rows = torch.from_numpy(np.random.default_rng(0).integers(0, 50000, 8192, dtype=np.int32))
    return launch(kernels.embedding, (8192, 3), table, rows, out, 256), out, both(F.embedding, rows, table)


def argmax(dtype: torch.dtype) -> Sides:
    x, out = tensor(4096, 1000, dtype=dtype), torch.empty(4096, dtype=torch.int32)
    peers = both(lambda x: torch.argmax(x, 1), x)
    return launch(kernels.argmax, (1024,), x, out, 4, 1024), out, peers


def gating(dtype: torch.dtype) -> Sides:
    x, expert, out = tensor(65536, 64), torch.empty(65536, 2, dtype=torch.int32), torch.empty(65536, 2)
    peers = both(lambda x: torch.topk(torch.softmax(x, 1), 2)[0], x)
    return launch(kernels.gating, (2048,), x, expert, out, 32, 64), out, peers


def convolution(dtype: torch.dtype) -> Sides:
    x, weight = tensor(2048, 2048), tensor(2048, 4, seed=1)
    out = torch.empty_like(x)
    peers = both(lambda x, w: F.silu(F.conv1d(x[None], w[:, None], padding=3, groups=2048)[0, :, :2048]), x, weight)
    return launch(kernels.convolution, (2048, 2), x, weight, out, 4, 1024), out, peers


def pooling(dtype: torch.dtype) -> Sides:
    x, out = tensor(64, 256, 256), torch.empty(64, 128, 128)
    return launch(kernels.pooling, (64, 8, 1), x, out, 16, 128), out, both(lambda x: F.max_pool2d(x[None], 2)[0], x)


def column_sums(dtype: torch.dtype) -> Sides:
    x = tensor(2048, 2048)
    out, plain, theirs = torch.empty_like(x), x.numpy(), np.empty((2048, 2048), np.float32)
    peers = {**both(lambda x: torch.cumsum(x, 0), x), "NumPy": lambda: np.cumsum(plain, axis=0, out=theirs)}
    return launch(kernels.column_sums, (16,), x, out, 32, 128), out, peers


def small_matmuls(dtype: torch.dtype) -> Sides:
    a, b = tensor(4096, 32, 32), tensor(4096, 32, 32, seed=1)
    out, x, y = torch.empty_like(a), a.numpy(), b.numpy()
    peers: dict[str, Run] = {"torch": lambda: torch.bmm(a, b), "NumPy": lambda: np.matmul(x, y)}
    return launch(kernels.small_matmuls, (4096,), a, b, out, 32), out, peers


def matrix_vector(dtype: torch.dtype) -> Sides:
    a, x, out = tensor(4096, 4096), tensor(4096, seed=1), torch.empty(4096)
    m, v = a.numpy(), x.numpy()
    peers: dict[str, Run] = {"torch": lambda: torch.mv(a, x), "NumPy": lambda: m @ v}
    return launch(kernels.matrix_vector, (256,), a, x, out, 16, 256), out, peers


def top_k(dtype: torch.dtype) -> Sides:
    x, out = tensor(4096, 1024), torch.empty(4096, 8)
    peers = {**both(lambda x: torch.topk(x, 8)[0], x), "JAX": jitted(lambda x: jax.lax.top_k(x, 8)[0], x.numpy())}
    return launch(kernels.top_k, (4096,), x, out, 8, 1024), out, peers


def cross_entropy(dtype: torch.dtype) -> Sides:
    vocabulary = 131072
    x, labels, out = tensor(64, vocabulary, dtype=dtype), torch.arange(64) * 2000, torch.empty(64)
    peers = both(lambda x, labels: F.cross_entropy(x.float(), labels, reduction="none"), x, labels)
    return launch(kernels.cross_entropy, (64,), x, labels.int(), out, vocabulary, 4096), out, peers


def dropout(dtype: torch.dtype) -> Sides:
    """Peers have other random numbers: compared is how much is left."""
    x = torch.ones(1 << 22)
    out, share = torch.empty_like(x), torch.empty(())
    bound = launch(kernels.dropout, (4096,), x, out, 0.5, 7, 1024)
    bound()
    share.copy_(out.mean())
    first, *others = both(lambda x: F.dropout(x, 0.5), x).items()
    return bound, share.round(), {first[0]: lambda: first[1]().mean().round(), **dict(others)}


def running_mean(dtype: torch.dtype) -> Sides:
    x, count = tensor(4096, 1024), torch.arange(1, 1025).float()
    out, plain, counts = torch.empty_like(x), x.numpy(), count.numpy()
    peers = {
        **both(lambda x, n: torch.cumsum(x, 1) / n, x, count),
        "NumPy": lambda: np.cumsum(plain, axis=1) / counts,
        "JAX": jitted(lambda x, n: jax.numpy.cumsum(x, axis=1) / n, plain, counts),
    }
    return launch(kernels.running_mean, (4096,), x, out, 1024), out, peers


def integral_image(dtype: torch.dtype) -> Sides:
    x = tensor(64, 256, 256)
    out, plain = torch.empty_like(x), x.numpy()
    peers = {**both(lambda x: x.cumsum(2).cumsum(1), x), "NumPy": lambda: plain.cumsum(2).cumsum(1)}
    return launch(kernels.integral_image, (64,), x, out, 256, 256), out, peers


def embedding_backward(dtype: torch.dtype) -> Sides:
    gradient, table = tensor(8192, 768), torch.zeros(5000, 768)
    rows = torch.from_numpy(np.random.default_rng(0).integers(0, 5000, 8192))
    bound = launch(kernels.embedding_backward, (8192,), gradient, rows.int(), table, 1024)

    def ours() -> torch.Tensor:
        table.zero_()
        return bound()

    backward = torch.ops.aten.embedding_dense_backward
    return ours, table, both(lambda gradient, rows: backward(gradient, rows, 5000, -1, False), gradient, rows)


def bias_gelu(dtype: torch.dtype) -> Sides:
    x, bias = tensor(2048, 2048, dtype=dtype), tensor(2048, seed=1, dtype=dtype)
    out = torch.empty_like(x)
    peers = both(lambda x, bias: F.gelu(x + bias, approximate="tanh"), x, bias)
    return launch(kernels.bias_gelu, (64, 16), x, bias, out, 32, 128), out, peers


def box_blur(dtype: torch.dtype) -> Sides:
    x = tensor(2048, 2048)
    out, plain, theirs = torch.empty_like(x), x.numpy(), np.zeros((2048, 2048), np.float32)
    peers = {**both(lambda x: F.avg_pool2d(x[None], 3, 1, 1)[0], x), "Numba": lambda: loops.box_blur(plain, theirs)}
    return launch(kernels.box_blur, (64, 16), x, out, 32, 128), out, peers


def masked_softmax(dtype: torch.dtype) -> Sides:
    x, mask = tensor(4096, 1024), tensor(4096, 1024, seed=1) > -0.5
    out = torch.empty_like(x)
    peers = both(lambda x, mask: torch.softmax((x * 0.125).masked_fill(~mask, -math.inf), 1), x, mask)
    return launch(kernels.masked_softmax, (4096,), x, mask, out, 0.125, 1024), out, peers


def rope_of_pairs(dtype: torch.dtype) -> Sides:
    q, cos, sin = tensor(1024, 32, 128, dtype=dtype), tensor(1024, 64, seed=1), tensor(1024, 64, seed=2)
    out = torch.empty_like(q)

    def peer(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        a, b = q.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)

    given = [v[:, None].to(dtype) for v in (cos, sin)]
    return launch(kernels.rope_of_pairs, (1024,), q, cos, sin, out, 32, 64), out, both(peer, q, *given)


def group_norm_channels_last(dtype: torch.dtype) -> Sides:
    x, weight, bias = tensor(16, 1024, 32, 8, dtype=dtype), tensor(32, 8, seed=1), tensor(32, 8, seed=2)
    out = torch.empty_like(x)

    def peer(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        channels = x.flatten(2).transpose(1, 2).unflatten(2, (32, 32))  # as an image in channels_last
        return F.group_norm(channels, 32, weight.to(dtype), bias.to(dtype)).permute(0, 2, 3, 1).reshape(x.shape)

    peers = both(peer, x, weight.flatten(), bias.flatten())
    return launch(kernels.group_norm_channels_last, (16, 32), x, weight, bias, out, 1024, 8, 64), out, peers


def channels_to_last(dtype: torch.dtype) -> Sides:
    x, out = tensor(16, 64, 4096, dtype=dtype), torch.empty(16, 4096, 64, dtype=dtype)
    peers = both(lambda x: x.transpose(1, 2).contiguous(), x)
    return launch(kernels.channels_to_last, (16, 64), x, out, 64, 64), out, peers


def complex_product(dtype: torch.dtype) -> Sides:
    a, b, out = tensor(1 << 20, 2), tensor(1 << 20, 2, seed=1), torch.empty(1 << 20, 2)
    x, y = (v.numpy().view(np.complex64) for v in (a, b))
    as_complex = torch.view_as_complex
    peers: dict[str, Run] = {
        "torch": lambda: torch.view_as_real(as_complex(a) * as_complex(b)),
        "NumPy": lambda: x * y,
    }
    return launch(kernels.complex_product, (1024,), a, b, out, 1024), out, peers


_TWO = (group_norm, log_softmax, geglu_backward, rope, rms_norm_residual, layer_norm_backward, quantization)
_TWO += (dequantization, embedding, argmax, cross_entropy, bias_gelu, rope_of_pairs, group_norm_channels_last)
_TWO += (channels_to_last,)
_ONE = (gating, convolution, pooling, column_sums, small_matmuls, matrix_vector, top_k, dropout, running_mean)
_ONE += (integral_image, embedding_backward, box_blur, masked_softmax, complex_product)
_PEERS = ("torch", "torch.compile", "NumPy", "JAX", "Numba")
ROWS = {f"{f.__name__} {short}": (f, DTYPES[short]) for f in _TWO for short in ("f32", "bf16")}
ROWS |= {f.__name__: (f, torch.float32) for f in _ONE}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default="", metavar="REGEX", help="only the rows whose names match")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write cpu_forms.md there, too")
    options = parser.parse_args()
    lines = [
        f"{described_setting(os.cpu_count() or 1)}. Made by `python benchmarks/cpu_forms.py`. Medians in ms, hot; "
        "*ratio*: the time of the fastest peer over ours.",
        "",
        f"| kernel | ratio | tilewright | spread | {' | '.join(_PEERS)} |",
        "|---|" + "--:|" * (3 + len(_PEERS)),
    ]
    print(*lines, sep="\n", flush=True)
    for name, (make, dtype) in ROWS.items():
        if re.search(options.rows, name):
            lines.append(_row(name, *make(dtype), _TOLERANCE[dtype]))
            print(lines[-1], flush=True)
    if options.output is not None:
        (options.output / "cpu_forms.md").write_text("\n".join(lines) + "\n")


def _row(name: str, ours: Run, out: torch.Tensor, peers: dict[str, Run], tolerance: float) -> str:
    ours()
    wanted, *_ = [run() for run in peers.values()]
    wanted = torch.as_tensor(wanted[0] if isinstance(wanted, tuple) else wanted).double()
    error = float((out.double() - wanted).abs().max() / wanted.abs().max())
    if error > tolerance:
        raise SystemExit(f"{name}: wrong by {error:.1e}")
    times = hot({"tilewright": ours, **peers})
    mine = times["tilewright"]
    ratio = min(times[peer].median for peer in peers) / mine.median
    others = (f"{times[n].median * 1e3:.3f}" if n in times else "" for n in _PEERS)
    return f"| {name} | {ratio:.2f} | {mine.median * 1e3:.3f} | {mine.spread:.0%} | {' | '.join(others)} |"


if __name__ == "__main__":
    main()
