"""Forms of attention on a GPU: the backends of tilewright and cuDNN through PyTorch, in one process, in turns.

    python benchmarks/gpu_attention.py [--forms NAME ...] [--sides NAME ...] [--check] [--tiles TQxTK ...]
        [--occupancy N] [--turns N]

Each row is a form and a side: the median of the turns, and the error relative to PyTorch in float32 (of the first batch
and head). ``--check`` only compares, at small sizes.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import tilewright as ct

INF = math.inf
LOG2_E = 1 / math.log(2)


@ct.kernel
def attend(
    q, k, v, out, scale, inner,
    H: ct.Constant[int], GROUP: ct.Constant[int], D: ct.Constant[int], TQ: ct.Constant[int], TK: ct.Constant[int],
    CAUSAL: ct.Constant[bool], CAPPED: ct.Constant[bool], WINDOW: ct.Constant[int],
):  # fmt: skip
    """Forward attention; ``scale``, of the scores or of what ``tanh`` gives, includes log2(e). ``inner`` scales what it
    takes. ``GROUP`` heads of queries share those of keys."""
    block = ct.bid(0)
    if CAUSAL:
        block = ct.num_blocks(0) - 1 - block  # the longest rows first
    b, h = ct.bid(1) // H, ct.bid(1) % H
    queries = ct.load(q, (b, h, block, 0), (1, 1, TQ, D)).reshape((TQ, D))
    top = ct.full((TQ, 1), -INF, ct.float32)
    total = ct.zeros((TQ, 1), ct.float32)
    result = ct.zeros((TQ, D), ct.float32)
    rows = block * TQ + ct.arange(TQ, dtype=ct.int32)[:, None]
    columns = ct.arange(TK, dtype=ct.int32)[None, :]
    first, last = 0, k.shape[2] // TK
    if CAUSAL:
        last = ct.cdiv((block + 1) * TQ, TK)
    if WINDOW > 0:
        first = max(block * TQ - WINDOW + 1, 0) // TK
    full = block * TQ // TK if CAUSAL and WINDOW == 0 else (first if CAUSAL else last)
    for j in range(first, full):
        keys = ct.load(k, (b, h // GROUP, 0, j), (1, 1, D, TK), order=(0, 1, 3, 2)).reshape((D, TK))
        scores = ct.mma(queries, keys, ct.zeros((TQ, TK), ct.float32))
        if CAPPED:
            scores = ct.tanh(scores * inner, rounding_mode=ct.RoundingMode.APPROX)
        new_top = max(top, ct.max(scores, axis=1, keepdims=True) * scale)
        weights = ct.exp2(scores * scale - new_top, flush_to_zero=True)
        correction = ct.exp2(top - new_top, flush_to_zero=True)
        total = total * correction + ct.sum(weights, axis=1, keepdims=True)
        values = ct.load(v, (b, h // GROUP, j, 0), (1, 1, TK, D)).reshape((TK, D))
        result = ct.mma(weights.astype(q.dtype), values, result * correction)
        top = new_top
    if CAUSAL:
        for j in range(full, last):
            keys = ct.load(k, (b, h // GROUP, 0, j), (1, 1, D, TK), order=(0, 1, 3, 2)).reshape((D, TK))
            scores = ct.mma(queries, keys, ct.zeros((TQ, TK), ct.float32))
            if CAPPED:
                scores = ct.tanh(scores * inner, rounding_mode=ct.RoundingMode.APPROX)
            seen = rows >= j * TK + columns
            if WINDOW > 0:
                seen = seen & (rows < j * TK + columns + WINDOW)
            scores = ct.where(seen, scores, -1e6)
            new_top = max(top, ct.max(scores, axis=1, keepdims=True) * scale)
            weights = ct.exp2(scores * scale - new_top, flush_to_zero=True)
            correction = ct.exp2(top - new_top, flush_to_zero=True)
            total = total * correction + ct.sum(weights, axis=1, keepdims=True)
            values = ct.load(v, (b, h // GROUP, j, 0), (1, 1, TK, D)).reshape((TK, D))
            result = ct.mma(weights.astype(q.dtype), values, result * correction)
            top = new_top
    result = ct.truediv(result, total, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True)
    ct.store(out, (b, h, block, 0), result.reshape((1, 1, TQ, D)).astype(out.dtype))


@dataclass(frozen=True)
class Form:
    """One form of attention, of ``batch`` times ``heads`` of queries of ``length``; ``tiles`` are tried for it."""

    name: str
    width: int = 128
    causal: bool = False
    dtype: torch.dtype = torch.bfloat16
    cap: float = 0
    window: int = 0
    group: int = 1
    batch: int = 4
    heads: int = 32
    length: int = 4096
    tiles: tuple[tuple[int, int], ...] = ((128, 128), (128, 64))

    @property
    def tolerance(self) -> float:
        return 2e-2 if self.dtype.itemsize == 2 else 8e-2

    @property
    def work(self) -> float:
        """TFLOP of both products."""
        S = self.length
        pairs = S * S
        if self.window:
            pairs = sum(min(i + 1, self.window) for i in range(S))
        elif self.causal:
            pairs = S * S // 2
        return 4 * self.batch * self.heads * pairs * self.width / 1e12


_F16 = torch.float16
_WIDE = ((128, 64), (128, 32), (64, 64))
FORMS = [
    Form("D128"),
    Form("D128 causal", causal=True),
    Form("D64", 64),
    Form("D64 causal", 64, causal=True),
    Form("D256", 256, heads=16, tiles=_WIDE),
    Form("D256 causal", 256, heads=16, causal=True, tiles=_WIDE),
    Form("D128 f16", dtype=_F16),
    Form("D128 causal f16", causal=True, dtype=_F16),
    Form("D128 causal cap", causal=True, cap=50.0),
    Form("D256 causal cap", 256, causal=True, cap=50.0, heads=16, tiles=_WIDE),
    Form("D128 causal window", causal=True, window=1024),
    Form("D128 grouped", group=8),
    Form("D128 causal grouped", causal=True, group=8),
    Form("D128 e4m3", dtype=torch.float8_e4m3fn),
    Form("D128 causal e4m3", causal=True, dtype=torch.float8_e4m3fn),
    Form("D128 e5m2", dtype=torch.float8_e5m2),
]


class Work:
    """Arrays of a form, the sides that compute it, and what float32 gives."""

    def __init__(self, form: Form, device: str) -> None:
        self.form = form
        torch.manual_seed(0)

        def made(heads: int) -> torch.Tensor:
            size = form.batch, heads, form.length, form.width
            return torch.randn(size, device=device, dtype=torch.float32).to(form.dtype)

        self.q, self.k, self.v = made(form.heads), made(form.heads // form.group), made(form.heads // form.group)
        self.out = torch.empty_like(self.q, dtype=torch.bfloat16 if form.dtype.itemsize == 1 else form.dtype)

    def ours(self, backend: str, tile: tuple[int, int], kernel: Any) -> None:
        f, (tq, tk) = self.form, tile
        scale = 1 / math.sqrt(f.width)
        scales = (f.cap * LOG2_E, scale / f.cap) if f.cap else (scale * LOG2_E, 0.0)
        arguments = (
            self.q, self.k, self.v, self.out, *scales, f.heads, f.group, f.width, tq, tk, f.causal, f.cap > 0, f.window,
        )  # fmt: skip
        grid = f.length // tq, f.batch * f.heads
        ct.launch(torch.cuda.current_stream(), grid, kernel, arguments, backend=backend)

    def cudnn(self) -> torch.Tensor:
        backend = torch.nn.attention.SDPBackend.CUDNN_ATTENTION
        with torch.nn.attention.sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                self.q, self.k, self.v, is_causal=self.form.causal, enable_gqa=self.form.group > 1
            )

    def expected(self) -> torch.Tensor:
        """Of the last head of the first batch."""
        f = self.form
        q, k, v = (x[0, -1].float() for x in (self.q, self.k, self.v))
        scores = q @ k.T / math.sqrt(f.width)
        if f.cap:
            scores = torch.tanh(scores / f.cap) * f.cap
        if f.causal:
            ahead = torch.arange(f.length, device=q.device)[:, None] - torch.arange(f.length, device=q.device)[None, :]
            seen = (ahead >= 0) & ((ahead < f.window) if f.window else True)
            scores = scores.masked_fill(~seen, -INF)
        return torch.softmax(scores, -1) @ v

    def error(self, found: torch.Tensor) -> float:
        wanted = self.expected().double()
        return float((found[0, -1].double() - wanted).norm() / wanted.norm())


def sides_of(work: Work, options: argparse.Namespace) -> dict[str, Callable[[], object]]:
    """What is measured, by its name; what cannot be compiled is told and left out."""
    sides: dict[str, Callable[[], object]] = {}
    kernel = attend if options.occupancy is None else attend.replace_hints(occupancy=options.occupancy)
    for name in options.sides:
        if name == "torch":
            if not work.form.cap and not work.form.window and work.form.dtype.itemsize == 2:
                sides["torch"] = work.cudnn
            continue
        for tile in options.tiles or work.form.tiles:
            sides[f"{name} {tile[0]}x{tile[1]}"] = lambda name=name, tile=tile: work.ours(name, tile, kernel)
    return sides


def measure(form: Form, options: argparse.Namespace) -> None:
    work = Work(form, "cuda")
    times: dict[str, list[float]] = {}
    errors: dict[str, float] = {}
    running: dict[str, Callable[[], object]] = {}
    for name, run in sides_of(work, options).items():
        start = time.perf_counter()
        try:
            work.out.fill_(math.nan)
            found = run()
            torch.cuda.synchronize()
        except Exception as e:  # noqa: BLE001 - a side that cannot do it is told, and others are measured
            print(f"{form.name}, {name}: {type(e).__name__}: {str(e)[:300]}", flush=True)
            continue
        took = time.perf_counter() - start
        errors[name] = work.error(found if isinstance(found, torch.Tensor) else work.out)
        if options.check or not errors[name] < form.tolerance:
            print(f"{form.name}, {name}: error {errors[name]:.1e}, first run {took:.2f} s", flush=True)
        if errors[name] < form.tolerance:
            running[name], times[name] = run, []
    if options.check:
        return
    names = list(running)
    for turn in range(options.turns):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            running[name]()
            begin.record()
            for _ in range(3):
                running[name]()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) / 3)
    for name in names:
        ms = statistics.median(times[name])
        rate, best = work.form.work / ms * 1e3, work.form.work / min(times[name]) * 1e3
        print(f"{form.name}, {name}: {rate:.0f} TFLOP/s (best {best:.0f}), error {errors[name]:.1e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forms", nargs="*", default=[], help="names of forms; all without")
    parser.add_argument("--sides", nargs="*", default=["gpu", "triton", "torch"], help="gpu, triton, torch")
    parser.add_argument("--tiles", nargs="*", default=[], type=lambda t: tuple(map(int, t.split("x"))))
    parser.add_argument("--occupancy", type=int, help="a hint for kernels of tilewright")
    parser.add_argument("--check", action="store_true", help="only compare, at small sizes")
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    for form in FORMS:
        if not options.forms or form.name in options.forms:
            if options.check:
                form = Form(**{**form.__dict__, "batch": 1, "heads": 2 * form.group, "length": 1024})
            measure(form, options)


if __name__ == "__main__":
    main()
