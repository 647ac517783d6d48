"""Kernels that wait for memory: the backends gpu and triton beside hand-written Triton and PyTorch, in one process.

    python benchmarks/gpu_memory.py [--rows TEXT ...] [--without SIDE ...] [--turns N] [--warps] [--json FILE]

Ours are compiled as they stand, with no option; the hand-written ones have the best of 4, 8 and 16 warps. Where the
original ``cuda.tile`` can be imported, it runs the same source. All take turns; the numbers are medians, each run with
a cold L2 cache. ``copy`` is PyTorch's copy of as many bytes. ``--warps`` also measures what the backend gpu would reach
with each number of warps. Results are compared with PyTorch's. First a few processes fill the caches of the compilers,
and each side is launched a few times: the first launches of a kernel take several times as long on the CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))
sys.path.insert(0, str(FOLDER.parent / "src"))

import gpu_memory_kernels as ours  # noqa: E402
import gpu_memory_triton as theirs  # noqa: E402

import tilewright as ct  # noqa: E402

DEVICE = os.environ.get("BENCHMARK_DEVICE", "cuda")  # with cpu, the rows are only made
TURNS, RUNS = 5, 6
WARPS = (4, 8, 16)
WARM = 8  # launches of a side before it is timed: after five its launches are machine code
COLUMNS = ["gpu", "triton", "Triton by hand", "torch", "cuda.tile"]
BYTES = 1 << 28  # of the largest array, where nothing else is said

SLOW_TO_COMPILE = ("x32768", "x65536", "x131072", "softmax f32")  # rows for which the original takes up to a minute

bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32


@dataclass
class Row:
    """One piece of work: what it moves in bytes, and what computes it. ``out`` and ``expected`` are compared."""

    name: str
    moved: int
    kernel: str
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    hand: Callable[[int], None] | None  # with this number of warps
    out: torch.Tensor
    expected: Callable[[], torch.Tensor]
    peer: Callable[[], Any] | None = None  # PyTorch
    tolerance: float = 4e-3
    compiled: Callable[[], Any] | None = None  # by torch.compile
    kernels: ModuleType = ours
    errors: dict[str, str] = field(default_factory=dict)


def launched(kernel: Any, grid: tuple[int, ...], *arguments: Any) -> Callable[[int], None]:
    """The launch of a hand-written kernel."""
    return lambda warps: kernel[grid](*arguments, num_warps=warps)


def normal(*shape: int, dtype: torch.dtype = bf16) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


def processors() -> int:
    return torch.cuda.get_device_properties(0).multi_processor_count if DEVICE == "cuda" else 132


def name_of(dtype: torch.dtype) -> str:
    return {bf16: "bf16", f16: "f16", f32: "f32"}[dtype]


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


# -- rows


def softmax_rows() -> Iterator[Row]:
    for n in (8192, 16384, 32768, 65536, 131072, 1000, 1024, 2048, 4096):
        for dtype in (bf16, f32):
            m = BYTES // dtype.itemsize // n
            x, T = normal(m, n, dtype=dtype), theirs.whole(n)
            out = torch.empty_like(x)
            moved = 2 * x.numel() * dtype.itemsize
            peer = functools.partial(torch.softmax, x, 1, out=out)
            expected = functools.partial(torch.softmax, x, 1)

            def make(
                form: str, grid: int, T: int, hand: Any, x: Any = x, out: Any = out, moved: int = moved,
                peer: Any = peer, expected: Any = expected, dtype: Any = dtype,
            ) -> Row:  # fmt: skip
                name = f"{form} {name_of(dtype)} {x.shape[0]}x{x.shape[1]}"
                return Row(name, moved, form, (grid,), (x, out, T), hand, out, expected, peer)

            yield make("softmax", m, T, launched(theirs.softmax, (m,), x, out, m, n, T, 1))
            blocks = processors() * max(1, min(8, 32768 // T))
            if n in (1024, 8192, 32768):
                hand = launched(theirs.softmax, (blocks,), x, out, m, n, T, 2)
                yield make("softmax_persistent", blocks, T, hand)
            if n in (1000, 8192) and dtype is bf16:
                hand = launched(theirs.softmax, (blocks,), x, out, m, n, T, 2)
                yield make("softmax_gather", blocks, T, hand)
            if n in (8192, 32768, 131072) and dtype is bf16:
                hand = launched(theirs.softmax_in_steps, (m,), x, out, n, 4096)
                yield make("softmax_in_steps", m, 4096, hand)


def gated_rows() -> Iterator[Row]:
    n = 14336
    m = BYTES // 2 // n
    g, u, d = normal(m, n), normal(m, n), normal(m, n)
    out, other = torch.empty_like(g), torch.empty_like(g)
    silu = torch.nn.functional.silu
    for T in (1024, 2048):
        grid = (m, n // T)
        for kernel, hand, function in (
            ("swiglu", theirs.swiglu, silu),
            ("geglu", theirs.geglu, functools.partial(torch.nn.functional.gelu, approximate="tanh")),
        ):
            yield Row(
                f"{kernel} bf16 {m}x{n} tiles of {T}", 6 * m * n, kernel, grid, (g, u, out, T),
                launched(hand, grid, g, u, out, n, T), out, lambda f=function: f(g.float()) * u.float(),
                (lambda f=function: f(g) * u),
            )  # fmt: skip
    sigmoid = functools.partial(torch.sigmoid, g.float())
    yield Row(
        f"swiglu_backward bf16 {m}x{n}", 10 * m * n, "swiglu_backward", grid, (g, u, d, out, other, T),
        launched(theirs.swiglu_backward, grid, g, u, d, out, other, n, T), out,
        lambda: d.float() * u.float() * sigmoid() * (1 + g.float() * (1 - sigmoid())),
    )  # fmt: skip


def norm_rows() -> Iterator[Row]:
    for n in (4096, 1024, 8192, 16384, 65536, 131072):
        m = BYTES // 2 // n
        x, w, b, out = normal(m, n), normal(n), normal(n), normal(m, n)
        grid, T = (m,), theirs.whole(n)
        expected = functools.partial(torch.nn.functional.layer_norm, x, (n,), w, b)
        yield Row(
            f"layer_norm bf16 {m}x{n}", 4 * m * n, "layer_norm", grid, (x, w, b, out, 1e-5, T),
            launched(theirs.layer_norm, grid, x, w, b, out, n, 1e-5, T), out, expected, expected,
        )  # fmt: skip
        expected = functools.partial(torch.nn.functional.rms_norm, x, (n,), w, 1e-5)
        yield Row(
            f"rms_norm bf16 {m}x{n}", 4 * m * n, "rms_norm", grid, (x, w, out, 1e-5, T),
            launched(theirs.rms_norm, grid, x, w, out, n, 1e-5, T), out, expected, expected,
        )  # fmt: skip


def small_rows() -> Iterator[Row]:
    """Batches that leave SMs idle, or put one block on each."""
    for m, n in ((16, 4096), (128, 8192), (32, 131072)):
        x, w, out, T = normal(m, n, dtype=f16), normal(n, dtype=f16), normal(m, n, dtype=f16), theirs.whole(n)
        softmax = functools.partial(torch.softmax, x, 1)
        yield Row(
            f"softmax f16 {m}x{n}", 4 * m * n, "softmax", (m,), (x, out, T),
            launched(theirs.softmax, (m,), x, out, m, n, T, 1), out, softmax, functools.partial(softmax, out=out),
        )  # fmt: skip
        rms_norm = functools.partial(torch.nn.functional.rms_norm, x, (n,), w, 1e-5)
        yield Row(
            f"rms_norm f16 {m}x{n}", 4 * m * n, "rms_norm", (m,), (x, w, out, 1e-5, T),
            launched(theirs.rms_norm, (m,), x, w, out, n, 1e-5, T), out, rms_norm, rms_norm,
        )  # fmt: skip


def gradient(function: Callable[..., torch.Tensor], x: torch.Tensor, grad: torch.Tensor, *more: Any) -> torch.Tensor:
    """That of x in float32."""
    x = x.float().requires_grad_()
    return torch.autograd.grad(function(x, *more), x, grad.float())[0]


def norm_backward_rows() -> Iterator[Row]:
    for n in (4096, 8192):
        m = BYTES // 2 // n
        x, w, b, g, dx = normal(m, n), normal(n), normal(n), normal(m, n), normal(m, n)
        T, blocks = theirs.whole(n), processors() * (16384 // n)
        dw, db = normal(blocks, n, dtype=f32), normal(blocks, n, dtype=f32)
        mean = x.float().mean(1)
        scale = torch.rsqrt(x.float().var(1, unbiased=False) + 1e-5)
        backward = torch.ops.aten.native_layer_norm_backward
        peer = functools.partial(backward, g, x, [n], mean[:, None], scale[:, None], w, b, [True] * 3)
        yield Row(
            f"layer_norm_backward bf16 {m}x{n}", 6 * m * n, "layer_norm_backward", (blocks,),
            (x, w, g, mean, scale, dx, dw, db, T),
            launched(theirs.layer_norm_backward, (blocks,), x, w, g, mean, scale, dx, dw, db, m, n, T),
            dx, functools.partial(gradient, torch.nn.functional.layer_norm, x, g, (n,), w.float(), b.float()), peer,
        )  # fmt: skip
        root = torch.rsqrt(x.float().square().mean(1) + 1e-5)
        peer = functools.partial(torch.ops.aten._fused_rms_norm_backward, g, x, [n], root[:, None], w, [True] * 2)
        yield Row(
            f"rms_norm_backward bf16 {m}x{n}", 6 * m * n, "rms_norm_backward", (blocks,), (x, w, g, root, dx, dw, T),
            launched(theirs.rms_norm_backward, (blocks,), x, w, g, root, dx, dw, m, n, T),
            dx, functools.partial(gradient, torch.nn.functional.rms_norm, x, g, (n,), w.float(), 1e-5), peer,
        )  # fmt: skip


def entropy_rows() -> Iterator[Row]:
    n = 128256
    for m in (16, BYTES // 2 // n // 16 * 16):
        x = normal(m, n)
        labels = torch.randint(0, n, (m,), device=DEVICE, dtype=torch.int32)
        loss = torch.empty(m, device=DEVICE)
        entropy = functools.partial(torch.nn.functional.cross_entropy, target=labels.long(), reduction="none")
        for T in (4096, 16384):
            yield Row(
                f"cross_entropy bf16 {m}x{n} tiles of {T}", 2 * m * n, "cross_entropy", (m,), (x, labels, loss, T),
                launched(theirs.cross_entropy, (m,), x, labels, loss, n, T), loss,
                functools.partial(lambda x, entropy: entropy(x.float()), x, entropy), functools.partial(entropy, x),
            )  # fmt: skip


def flat_rows() -> Iterator[Row]:
    for dtype, T in ((bf16, 1024), (bf16, 4096), (f32, 1024), (f32, 4096)):
        n = BYTES // dtype.itemsize
        x, y, out = normal(n + 8, dtype=dtype), normal(n + 8, dtype=dtype), normal(n + 8, dtype=dtype)
        for shift, note in ((0, ""), (1, " unaligned")):
            a, b, c = x[shift : n + shift], y[shift : n + shift], out[shift : n + shift]
            grid = (n // T,)
            yield Row(
                f"copy {name_of(dtype)} tiles of {T}{note}", 2 * BYTES, "copy", grid, (a, c, T),
                launched(theirs.copy, grid, a, c, n, T), c, lambda a=a: a, lambda a=a, c=c: c.copy_(a), 0,
            )  # fmt: skip
            yield Row(
                f"add {name_of(dtype)} tiles of {T}{note}", 3 * BYTES, "add", grid, (a, b, c, T),
                launched(theirs.add, grid, a, b, c, n, T), c, lambda a=a, b=b: a + b,
                lambda a=a, b=b, c=c: torch.add(a, b, out=c),
            )  # fmt: skip


def other_rows() -> Iterator[Row]:
    for dtype in (f32, bf16):
        n = math.isqrt(BYTES // dtype.itemsize) // 128 * 128
        x, out = normal(n, n, dtype=dtype), normal(n, n, dtype=dtype)
        for tile in (32, 64, 128):
            grid = (n // tile, n // tile)
            yield Row(
                f"transpose {name_of(dtype)} {n}^2 tiles of {tile}^2", 2 * n * n * dtype.itemsize, "transpose", grid,
                (x, out, tile, tile), launched(theirs.transpose, grid, x, out, n, n, tile, tile), out,
                lambda x=x: x.T, lambda x=x, out=out: out.copy_(x.T), 0,
            )  # fmt: skip
    m = BYTES // 4096
    table, out = normal(2 * m, 2048), normal(m, 2048)
    rows = torch.randint(0, 2 * m, (m,), device=DEVICE, dtype=torch.int32)
    yield Row(
        f"gather_rows bf16 {m}x2048", 2 * out.numel() * 2, "gather_rows", (m,), (table, rows, out, 2048),
        launched(theirs.gather_rows, (m,), table, rows, out, 2048, 2048), out, lambda: table[rows.long()],
        lambda: torch.index_select(table, 0, rows, out=out), 0,
    )  # fmt: skip
    tokens, H, D = BYTES // 8192 // 2, 32, 64
    x, cos, sin = normal(tokens, H, 2 * D), normal(tokens, D, dtype=f32), normal(tokens, D, dtype=f32)
    out = torch.empty_like(x)

    def turned(x: Any = x) -> torch.Tensor:
        a, b = x.float().split(D, 2)
        c, s = cos[:, None], sin[:, None]
        return torch.cat([a * c - b * s, b * c + a * s], 2)

    yield Row(
        f"rotary bf16 {tokens}x{H}x{2 * D}", 4 * x.numel(), "rotary", (tokens,), (x, cos, sin, out, H, D),
        launched(theirs.rotary, (tokens,), x, cos, sin, out, H, D), out, turned,
    )  # fmt: skip
    n = BYTES // 2
    x, out = normal(n), normal(n)
    for T in (1024, 4096):
        hand = launched(theirs.dropout, (n // T,), x, out, n, 7, T)
        yield Row(
            f"dropout bf16 tiles of {T}", 4 * n, "dropout", (n // T,), (x, out, 7, T), hand, out,
            lambda hand=hand, out=out: [hand(4), out.clone()][1], lambda: torch.nn.functional.dropout(x, 1 / 8),
        )  # fmt: skip
    m, n = BYTES // 16384, 8192
    q = torch.randint(-128, 128, (m, n), device=DEVICE, dtype=torch.int8)
    out = normal(m, n)
    for T in (128, 1024):
        scales = torch.rand(m, n // T, device=DEVICE)
        grid = (m, n // T)
        yield Row(
            f"dequantize int8 {m}x{n} groups of {T}", 3 * m * n, "dequantize", grid, (q, scales, out, T),
            launched(theirs.dequantize, grid, q, scales, out, n, T), out,
            lambda scales=scales, T=T: (q.view(m, -1, T).float() * scales[:, :, None]).view(m, n),
        )  # fmt: skip


GROUPS: tuple[Callable[[], Iterator[Row]], ...] = (
    softmax_rows, gated_rows, norm_rows, small_rows, norm_backward_rows, entropy_rows, flat_rows, other_rows,
)  # fmt: skip


def rows_of(wanted: list[str]) -> Iterator[Row]:
    for group in GROUPS:
        for row in group():
            if not wanted or any(text in row.name for text in wanted):
                yield row


# -- measuring


def ours_with(row: Row, backend: str, warps: int | None = None) -> Callable[[], None]:
    kernel = getattr(row.kernels, row.kernel)
    if warps is not None:
        kernel = kernel.replace_options(backend, num_warps=warps)
    stream = torch.cuda.current_stream()
    return lambda: ct.launch(stream, row.grid, kernel, row.arguments, backend=backend)


@functools.cache
def original(kernels: ModuleType) -> ModuleType | None:
    """The kernels as those of the original ``cuda.tile``; None where that cannot be imported."""
    with contextlib.suppress(ImportError):
        importlib.import_module("cuda.tile")
        assert kernels.__file__ is not None
        module = ModuleType(f"original_{kernels.__name__}")
        module.__file__ = kernels.__file__
        sys.modules[module.__name__] = module
        text = Path(kernels.__file__).read_text().replace("import tilewright as ct", "import cuda.tile as ct")
        exec(compile(text, kernels.__file__, "exec"), module.__dict__)
        return module
    return None


def launched_by_original(row: Row) -> Callable[[], None]:
    module = original(row.kernels)
    assert module is not None
    kernel, stream = getattr(module, row.kernel), torch.cuda.current_stream()
    return lambda: module.ct.launch(stream, row.grid, kernel, row.arguments)


def sides_of(row: Row, warps: bool, without: Sequence[str]) -> dict[str, Callable[[], Any]]:
    sides: dict[str, Callable[[], Any]] = {"gpu": ours_with(row, "gpu"), "triton": ours_with(row, "triton")}
    for w in WARPS if row.hand is not None else ():
        sides[f"hand {w}"] = functools.partial(row.hand, w)
    if row.peer is not None:
        sides["torch"] = row.peer
    if row.compiled is not None:
        sides["compiled"] = row.compiled
    slow = "in_steps" not in row.name and any(text in row.name for text in SLOW_TO_COMPILE)
    if not slow and original(row.kernels) is not None:
        sides["cuda.tile"] = launched_by_original(row)
    if warps:
        for w in (1, 2, *WARPS, 32):
            sides[f"gpu {w}"] = ours_with(row, "gpu", w)
    return {name: run for name, run in sides.items() if name.split()[0] not in without}


@functools.cache
def flusher() -> torch.Tensor:
    return torch.empty(1 << 27, device=DEVICE, dtype=torch.int8)


@functools.cache
def buffers(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(size, device=DEVICE, dtype=torch.int8), torch.zeros(size, device=DEVICE, dtype=torch.int8)


def time_of(run: Callable[[], Any], runs: int = RUNS) -> float:
    """Milliseconds, with a cold L2 cache: the median of a few."""
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    for start, end in events:
        flusher().zero_()
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events)


THEIRS = ("torch", "compiled")  # which may have results of their own, and are right


def working(row: Row, sides: dict[str, Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    """The sides whose results are right; why others are left out is added to the row's errors."""
    expected = None if math.isinf(row.tolerance) else row.expected().double()
    found = {}
    for name, run in sides.items():
        try:
            compares = expected is not None and name not in THEIRS
            if compares:
                row.out.fill_(math.nan if row.out.is_floating_point() else -1)
            run()
            torch.cuda.synchronize()
            error = float((row.out.double() - expected).norm() / expected.norm()) if compares else 0.0
            if not error <= row.tolerance:
                raise ArithmeticError(f"error {error:.2e}")
            for _ in range(WARM):
                run()
            found[name] = run
        except Exception as e:  # noqa: BLE001 - a side that cannot run it is none
            row.errors[name] = f"{type(e).__name__}: {str(e)[:200]}"
    return found


def measure(row: Row, warps: bool, without: Sequence[str], turns: int) -> dict[str, float]:
    """GB/s of each side."""
    sides = working(row, sides_of(row, warps, without))
    source, target = buffers(row.moved // 2)
    sides["copy"] = lambda: target.copy_(source)
    times: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for turn in range(turns):
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            times[name].append(time_of(sides[name]))
    return {name: row.moved / statistics.median(found) / 1e6 for name, found in times.items()}


def report(row: Row, rates: dict[str, float], warps: bool) -> None:
    hand = max((rate for name, rate in rates.items() if name.startswith("hand")), default=math.nan)
    shown = {name: hand if name == "Triton by hand" else rates.get(name, math.nan) for name in COLUMNS}
    best = max((r for name, r in shown.items() if name != "gpu" and not math.isnan(r)), default=math.nan)
    cells = ["" if math.isnan(rate) else f"{rate:.0f}" for rate in shown.values()]
    cells += [f"{shown['gpu'] / other:.3f}" for other in (best, rates["copy"])]
    print(f"| {row.name} | {' | '.join(cells)} |", flush=True)
    if warps:
        tried = ", ".join(f"{n} {r / best:.3f}" for n, r in rates.items() if n[:4] in ("gpu ", "hand"))
        print(f"    {tried}", flush=True)
    for name, error in row.errors.items():
        print(f"    {name}: {error}", flush=True)


def fill_caches(count: int) -> None:
    """Run this program's rows once, divided among processes."""
    command = [sys.executable, *sys.argv, "--share"]
    running = [subprocess.Popen([*command, f"{i}/{count}"], stderr=subprocess.DEVNULL) for i in range(count)]
    for process in running:
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="*", default=[], help="those whose name contains one of these")
    parser.add_argument("--without", nargs="*", default=[], help="sides, such as hand or cuda.tile, to leave out")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--warps", action="store_true", help="also try each number of warps")
    parser.add_argument("--filled", action="store_true", help="the caches of the compilers are filled")
    parser.add_argument("--json", help="write all rates here")
    parser.add_argument("--share", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.share:
        mine, count = map(int, arguments.share.split("/"))
        for number, row in enumerate(rows_of(arguments.rows)):
            if number % count == mine:
                for run in sides_of(row, arguments.warps, arguments.without).values():
                    with contextlib.suppress(Exception):  # what fails is told when it is measured
                        run()
                        torch.cuda.synchronize()
        return
    start = time.perf_counter()
    if not arguments.filled:
        fill_caches(min(16, os.cpu_count() or 1))
    print(f"caches filled in {time.perf_counter() - start:.0f} s")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, GB/s\n")
    COLUMNS[:] = [name for name in COLUMNS if name.split()[-1] not in arguments.without]
    print(f"| work | {' | '.join(COLUMNS)} | gpu to best | gpu to copy |")
    print(f"|---|{'---:|' * (len(COLUMNS) + 2)}", flush=True)
    found = []
    for row in rows_of(arguments.rows):
        rates = measure(row, arguments.warps, arguments.without, arguments.turns)
        report(row, rates, arguments.warps)
        found.append({"name": row.name, "rates": rates, "errors": row.errors})
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
