# ruff: noqa: B023 - each row is measured before the next one is made
"""Kernels on a GPU beside the original implementation, hand-written Triton and PyTorch, in one process.

    python benchmarks/gpu.py [--rows NAME ...] [--products TYPE:MxNxK ...] [--sides NAME ...] [--no-options]

Every side gets a few configurations (tile sizes, warps, stages, hints) and the fastest one counts; the gpu backend gets
tile sizes alone, and with ``--no-options`` the triton backend does, too. Numbers are medians; results are checked
against PyTorch in higher precision. The original runs where ``cuda.tile`` can be imported; ``tileir`` is our front end
with NVIDIA's compiler, where ``tileiras`` is installed; ``triton`` is written by hand. First a process per core
compiles its share of the kernels into the caches of their compilers, and runs each once: those that do not end are
left out. ``--json FILE`` has all numbers. With ``--each --no-options`` both
backends run each configuration in turns: by that it is decided which of them takes a class of kernels.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import itertools
import json
import math
import os
import select
import statistics
import subprocess
import sys
import time
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import triton

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))
sys.path.insert(0, str(FOLDER.parent / "src"))

import gpu_triton as peer  # noqa: E402

import tilewright as ours  # noqa: E402
from tilewright.backends.registry import get_backend  # noqa: E402

LOG2_E = 1 / math.log(2)
_PATIENCE = 60  # seconds until a configuration, with its compilation, is taken to have no end
_SHARE_BYTES = 10 << 30  # of the GPU's memory for a process that fills caches: cross entropy in float64 takes most


def kernels_for(ct: types.ModuleType, file: str = "gpu_kernels.py") -> types.ModuleType:
    """The kernels of ``file`` written in the dialect of ``ct``."""
    path = FOLDER / file
    module = types.ModuleType(f"{path.stem}_{ct.__name__.replace('.', '_')}")
    module.__file__ = str(path)
    module.ct = ct
    sys.modules[module.__name__] = module
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


@dataclass
class Side:
    """One competitor: configurations, and how to run one of them."""

    name: str
    configs: list[Any]
    run: Callable[[Any], Any]  # gives the result where it is in memory of its own


@dataclass
class Row:
    """One piece of work. ``work`` is what a run moves or computes, in units of 1e9 (GB) or 1e12 (TFLOP). Its results
    are in ``out``, of which a ``part`` is compared with what is ``expected``."""

    name: str
    unit: str
    work: float
    sides: list[Side]
    out: torch.Tensor
    expected: torch.Tensor
    tolerance: float
    part: Callable[[torch.Tensor], torch.Tensor] = lambda out: out
    found: dict[str, tuple[float, Any]] = field(default_factory=dict)
    candidates: dict[str, dict[str, float]] = field(default_factory=dict)  # side, configuration: milliseconds
    errors: dict[str, str] = field(default_factory=dict)


def median(run: Callable[[], None], repetitions: int) -> float:
    """Milliseconds, with a cold L2 cache."""
    return triton.testing.do_bench(run, warmup=10, rep=repetitions, quantiles=[0.5])


def measure(row: Row, harmful: Collection[str]) -> None:
    """The two best configurations of each side take turns in the end, each time after a pause and with another one to
    begin: the clock of a hot GPU sinks, and a slow kernel cools it for the one that follows."""
    finalists: list[tuple[Side, Any]] = []
    for side in row.sides:
        candidates = []
        for config in side.configs:
            if key_of(row, side, config) in harmful:
                row.errors[f"{side.name} {config}"] = "does not end, or ends the process"
                continue
            try:
                row.out.fill_(math.nan)
                made = side.run(config)
                torch.cuda.synchronize()
                error = relative(row.part(made if isinstance(made, torch.Tensor) else row.out), row.expected)
                if not error <= row.tolerance:
                    raise ArithmeticError(f"error {error:.2e}")
                candidates.append((median(lambda: side.run(config), 15), config))
            except Exception as e:  # noqa: BLE001 - a configuration that does not fit is no candidate
                row.errors[f"{side.name} {config}"] = f"{type(e).__name__}: {str(e)[:200]}"
        candidates.sort(key=lambda c: c[0])
        finalists += [(side, config) for _, config in candidates[:2]]
        row.candidates[side.name] = {repr(config): ms for ms, config in candidates}
    times: list[list[float]] = [[] for _ in finalists]
    order = list(range(len(finalists)))
    for turn in range(5):
        for i in order[turn:] + order[:turn]:
            side, config = finalists[i]
            time.sleep(0.05)
            times[i].append(median(lambda: side.run(config), 15))
    for (side, config), found in zip(finalists, times):
        ms = statistics.median(found)
        if ms < row.found.get(side.name, (math.inf,))[0]:
            row.found[side.name] = ms, config


def compare(row: Row) -> None:
    """Print, for every configuration that both backends have, how long each one takes, in turns; for the gpu backend
    also in pairs that share loads (``num_ctas=2``)."""
    ours_of = {side.name: side for side in row.sides}
    for config in ours_of[_GPU].configs:
        if config not in ours_of[_BY_TRITON].configs:
            continue
        *shape, options = config
        runs = {
            _GPU: functools.partial(ours_of[_GPU].run, config),
            "in pairs": functools.partial(ours_of[_GPU].run, (*shape, {**options, "num_ctas": 2})),
            _BY_TRITON: functools.partial(ours_of[_BY_TRITON].run, config),
        }
        times: dict[str, list[float]] = {name: [] for name in runs}
        try:
            for _, (name, run) in itertools.product(range(5), runs.items()):
                row.out.fill_(math.nan)
                run()
                error = relative(row.part(row.out), row.expected) if len(times[name]) == 0 else 0.0
                if not error <= row.tolerance:
                    raise ArithmeticError(f"{name}: error {error:.2e}")
                times[name].append(median(run, 10))
        except Exception as e:  # noqa: BLE001 - a configuration that does not fit is told, and left out
            print(f"| {row.name} | {shape} | {type(e).__name__}: {str(e)[:150]} |", flush=True)
            continue
        found = {name: statistics.median(each) for name, each in times.items()}
        rates = " | ".join(f"{row.work / ms * 1e3:.0f}" for ms in found.values())
        ratio = found[_BY_TRITON] / found[_GPU]
        print(f"| {row.name} | {shape} | {row.unit} | {rates} | {ratio:.3f} |", flush=True)


def fill_caches() -> set[str]:
    """Run every configuration once: this program again, with the same arguments, in a process per core, as far as the
    GPU's memory goes. Gives those that must not be run, since they did not end, or ended the process."""
    free, _ = torch.cuda.mem_get_info()
    count = max(1, min(os.cpu_count() or 1, 16, free // _SHARE_BYTES))
    with ThreadPoolExecutor(count) as pool:
        return set().union(*pool.map(lambda share: watch_share(share, count), range(count)))


def watch_share(share: int, count: int) -> set[str]:
    """Run a share of the configurations in other processes."""
    harmful: set[str] = set()
    begin = 0
    while True:
        command = [sys.executable, *sys.argv, "--share", f"{share}/{count}/{begin}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
        assert process.stdout is not None
        last, ended = "", False
        while not ended and select.select([process.stdout], [], [], _PATIENCE)[0]:
            line = process.stdout.readline().decode().strip()
            last, ended = line or last, not line
        if not ended:
            process.kill()
        if process.wait() == 0:
            return harmful
        if not last:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode} before its first configuration")
        number, key = last.split(" ", 1)
        print(f"{key}: {'ended the process' if ended else 'does not end'}", file=sys.stderr, flush=True)
        harmful.add(key)
        begin = int(number) + 1


def run_share(rows: Iterator[Row], share: str) -> None:
    """Run each configuration of a share of them once, and say which before; what fails here is told when it is
    measured."""
    mine, count, begin = map(int, share.split("/"))
    runs = ((row, side, config) for row in rows for side in row.sides for config in side.configs)
    for number, (row, side, config) in itertools.islice(enumerate(runs), mine, None, count):
        if number >= begin:
            print(number, key_of(row, side, config), flush=True)
            with contextlib.suppress(Exception):
                side.run(config)
                torch.cuda.synchronize()


def key_of(row: Row, side: Side, config: Any) -> str:
    return f"{row.name}, {side.name} {config}"


def relative(out: torch.Tensor, expected: torch.Tensor) -> float:
    return float((out.double() - expected.double()).norm() / expected.double().norm())


# -- how the two tile implementations launch


class Tile:
    """A backend of tilewright, or the original, which takes hints where the backend triton takes options.

    With ``backend`` our front end uses that backend: ``tileir`` is NVIDIA's compiler, and takes hints, too; ``gpu``
    is one that ``decides`` for itself.
    """

    def __init__(
        self, name: str, ct: types.ModuleType, kernels: str, backend: str | None = None, *, decides: bool = False
    ) -> None:
        self.name = name
        self.decides = decides
        self.ct = ct
        self.where = {} if backend is None else {"backend": backend}
        self.kernels = kernels_for(ct, kernels)
        self._variants: dict[Any, Any] = {}

    def launch(self, kernel: str, options: dict[str, Any], grid: tuple[int, ...], args: tuple[Any, ...]) -> None:
        key = kernel, tuple(options.items())
        variant = self._variants.get(key)
        if variant is None:
            variant = getattr(self.kernels, kernel)
            if options:
                if self.name == _BY_TRITON:
                    variant = variant.replace_options("triton", **options)
                else:
                    variant = variant.replace_hints(**options)
            self._variants[key] = variant
        self.ct.launch(torch.cuda.current_stream(), grid, variant, args, **self.where)

    def options(self, ours: list[Any], theirs: list[Any]) -> list[Any]:
        """Of configurations, which are options or end with them, those for this side."""
        if self.decides:
            return [c for c in theirs if not (c if isinstance(c, dict) else c[-1])]
        return ours if self.name == _BY_TRITON else theirs


_GPU, _BY_TRITON = "gpu backend", "triton backend"
_SIDES = (_GPU, _BY_TRITON, "tileir", "cuda.tile", "triton", "torch")


def tile_sides(options: bool, kernels: str) -> list[Tile]:
    """Those that launch what is in the file ``kernels``."""
    sides = [
        Tile(_GPU, ours, kernels, "gpu", decides=True),
        Tile(_BY_TRITON, ours, kernels, "triton", decides=not options),
    ]
    if get_backend("tileir").unavailable() is None:
        sides.append(Tile("tileir", ours, kernels, "tileir"))
    with contextlib.suppress(ImportError):
        sides.append(Tile("cuda.tile", importlib.import_module("cuda.tile"), kernels))
    return sides


WARPS = [{"num_warps": n} for n in (4, 8, 16)]
HINTS = [{}, {"occupancy": 2}, {"occupancy": 4}]


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


# -- rows


def memory_rows(tiles: list[Tile]) -> Iterator[Row]:
    n = 1 << 28
    x, y = (torch.randn(n, device="cuda", dtype=torch.float16) for _ in range(2))
    out = torch.empty_like(x)

    def flat(kernel: str, *arrays: torch.Tensor) -> list[Side]:
        return [
            Side(
                t.name,
                [(T, o) for T in (1024, 2048, 4096, 8192) for o in t.options([{}, *WARPS], HINTS)],
                lambda c, t=t: t.launch(kernel, c[1], (cdiv(n, c[0]),), (*arrays, out, c[0])),
            )
            for t in tiles
        ]

    torch_side = Side("torch", [None], lambda c: out.copy_(x))
    yield Row("copy f16", "GB/s", 4 * n / 1e9, [*flat("copy", x), torch_side], out, x, 0)
    torch_side = Side("torch", [None], lambda c: torch.add(x, y, out=out))
    yield Row("vadd f16", "GB/s", 6 * n / 1e9, [*flat("vadd", x, y), torch_side], out, x + y, 1e-3)


def transpose_row(tiles: list[Tile]) -> Iterator[Row]:
    n = 16384
    x = torch.randn(n, n, device="cuda")
    out = torch.empty_like(x)
    sides = [
        Side(
            t.name,
            [
                (m, k, o)
                for m, k in ((32, 32), (64, 32), (64, 64), (128, 32), (32, 128), (128, 64))
                for o in t.options(WARPS[:2], HINTS)
            ],
            lambda c, t=t: t.launch("transpose", c[2], (n // c[0], n // c[1]), (x, out, c[0], c[1])),
        )
        for t in tiles
    ]
    sides.append(Side("torch", [None], lambda c: out.copy_(x.T)))
    yield Row("transpose f32 16384^2", "GB/s", 8 * n * n / 1e9, sides, out, x.T, 0)


def row_rows(tiles: list[Tile]) -> Iterator[Row]:
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    for dtype, m, n in ((torch.float16, 32768, 4096), (torch.float32, 32768, 4096), (torch.float32, 4096, 32768)):
        x = torch.randn(m, n, device="cuda", dtype=dtype)
        out = torch.empty_like(x)
        warps = (4, 8, 16, 32) if n <= 4096 else (8, 16, 32)
        expected = torch.softmax(x.float(), 1)
        sides = [
            Side(
                t.name,
                [
                    (b, o)
                    for b in (m, processors * 2, processors * 4)
                    for o in t.options([{"num_warps": w} for w in warps], HINTS)
                ],
                lambda c, t=t: t.launch("softmax", c[1], (c[0],), (x, out, n)),
            )
            for t in tiles
        ]
        sides.append(
            Side(
                "triton",
                [(w, s, p) for w in warps for s, p in ((1, 0), (2, 2), (2, 4))],
                lambda c: peer.softmax(x, out, c),
            )
        )
        sides.append(Side("torch", [None], lambda c: torch.softmax(x, 1, out=out)))
        name = f"softmax {str(dtype)[6:]} {m}x{n}"
        yield Row(name, "GB/s", 2 * x.numel() * x.element_size() / 1e9, sides, out, expected, 1e-3)
    for dtype, m, n in ((torch.float16, 32768, 4096), (torch.float32, 16384, 8192)):
        x = torch.randn(m, n, device="cuda", dtype=dtype)
        w, b = torch.randn(n, device="cuda", dtype=dtype), torch.randn(n, device="cuda", dtype=dtype)
        out = torch.empty_like(x)
        bytes_ = 2 * x.numel() * x.element_size() / 1e9
        norm = torch.nn.functional.layer_norm(x.float(), (n,), w.float(), b.float())
        options = [{"num_warps": k} for k in (4, 8, 16)]
        sides = [
            Side(
                t.name,
                t.options(options, HINTS),
                lambda c, t=t: t.launch("layer_norm", c, (m,), (x, w, b, out, 1e-5, n, n)),
            )
            for t in tiles
        ]
        sides.append(Side("triton", [4, 8, 16], lambda c: peer.layer_norm(x, w, b, out, c)))
        sides.append(Side("torch", [None], lambda c: torch.nn.functional.layer_norm(x, (n,), w, b)))
        kind = str(dtype)[6:]
        yield Row(f"layer norm {kind} {m}x{n}", "GB/s", bytes_, sides, out, norm, 2e-3)
        if dtype is torch.float16:
            rms = torch.nn.functional.rms_norm(x.float(), (n,), w.float(), 1e-5)
            sides = [
                Side(
                    t.name,
                    t.options(options, HINTS),
                    lambda c, t=t: t.launch("rms_norm", c, (m,), (x, w, out, 1e-5, n, n)),
                )
                for t in tiles
            ]
            sides.append(Side("torch", [None], lambda c: torch.nn.functional.rms_norm(x, (n,), w, 1e-5)))
            yield Row(f"RMS norm {kind} {m}x{n}", "GB/s", bytes_, sides, out, rms, 2e-3)


def gather_row(tiles: list[Tile]) -> Iterator[Row]:
    table = torch.randn(262144, 2048, device="cuda", dtype=torch.bfloat16)
    rows = torch.randint(0, 262144, (131072,), device="cuda", dtype=torch.int32)
    out = torch.empty(131072, 2048, device="cuda", dtype=torch.bfloat16)
    sides = [
        Side(
            t.name,
            t.options([{"num_warps": w} for w in (1, 2, 4, 8)], HINTS),
            lambda c, t=t: t.launch("gather_rows", c, (131072,), (table, rows, out, 2048)),
        )
        for t in tiles
    ]
    sides.append(Side("torch", [None], lambda c: torch.index_select(table, 0, rows, out=out)))
    yield Row("row gather bf16", "GB/s", 2 * out.numel() * 2 / 1e9, sides, out, table[rows.long()], 0)


@dataclass(frozen=True)
class Product:
    """A product of matrices: the type, and m, n and k."""

    dtype: torch.dtype
    m: int
    n: int
    k: int

    def __str__(self) -> str:
        name = "tf32" if self.dtype is torch.float32 else str(self.dtype)[6:]
        return f"{name} {self.m}x{self.n}x{self.k}"


_PRODUCTS = (
    Product(torch.bfloat16, 8192, 8192, 8192),
    Product(torch.float16, 4096, 4096, 4096),
    Product(torch.float32, 4096, 4096, 4096),
    Product(torch.bfloat16, 8192, 8192, 1024),
    Product(torch.float32, 8192, 8192, 1024),
    Product(torch.float16, 1024, 1024, 1024),
    Product(torch.float16, 1000, 1000, 1000),
    Product(torch.float16, 3000, 3000, 3000),
    Product(torch.bfloat16, 3072, 3072, 3072),
    Product(torch.float16, 5120, 5120, 5120),
    Product(torch.float16, 4104, 4104, 4104),
    Product(torch.bfloat16, 4097, 4097, 4097),
    Product(torch.float32, 4097, 4097, 4097),
    Product(torch.float16, 1025, 1025, 1025),
)
_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "tf32": torch.float32}


# How many blocks work on a number of tiles: one each, one per processor, or the fewest pairs that need no more rounds.
_SPREADS: dict[str, Callable[[int, int], int]] = {
    "tiles": lambda count, processors: count,
    "processors": min,
    "even": lambda count, processors: 2 * cdiv(count, 2 * cdiv(count, processors)),
}
# A spread, and how many rows of tiles are done together (none in a grid of two dimensions), for many and for few tiles.
_ORDERS = (("tiles", 8), ("processors", 8), ("even", 8))
_SMALL_ORDERS = (("grid", 0), ("even", 8))
# Tiles with warps and stages of tilewright: those for many tiles, and those for few. What was measured and was never
# within 3 % of the best is left out.
_LARGE = {
    16: (((128, 256, 64), 8, 3), ((128, 256, 64), 8, 4), ((256, 128, 64), 8, 4)),
    32: (((256, 128, 32), 8, 4), ((128, 256, 32), 8, 4)),
}
_SMALL = {
    16: (
        ((64, 64, 64), 4, 6),
        ((64, 64, 128), 4, 4),
        ((64, 128, 64), 4, 8),
        ((128, 64, 64), 4, 8),
        ((64, 128, 128), 4, 4),
        ((128, 128, 64), 4, 5),
    ),
    32: (
        ((128, 64, 64), 4, 4),
        ((128, 64, 32), 4, 6),
        ((64, 64, 64), 4, 6),
        ((64, 64, 32), 4, 8),
        ((256, 64, 32), 4, 5),
    ),
}
# Tiles whose sizes are no powers of two: of so many rows and columns of parts. Those for many tiles, and those for few.
_LARGE_OF_PARTS = (((128, 64, 64, 1, 3), 4, 4), ((128, 64, 64, 1, 3), 4, 5))
_SMALL_OF_PARTS = (((64, 64, 64, 1, 3), 4, 6), ((64, 32, 64, 3, 3), 4, 5), ((128, 32, 64, 1, 5), 4, 5))
# Large tiles with small ones for what is no whole round, one for each block at most, and, where little is left at the
# edges, with parts of strips: their length, their width and the steps along K. The steps of small ones are divided into
# so many splits at most.
_WHOLE = {16: (128, 256, 64), 32: (256, 128, 32)}
_PARTS = {16: ((128, 64, 128), (128, 128, 64)), 32: ((128, 128, 32),)}
_STRIP = {16: (128, 16, 128), 32: (128, 16, 64)}
_MOST_SPLITS = 16
_FEW_ROUNDS = 8  # of large tiles, up to which it matters whether the last one is whole


def mixed_configs(product: Product, processors: int) -> list[Any]:
    """Orders, large and small tiles, and the splits of the latter; the group of "strips" is how many rounds of parts
    those blocks do that have one large tile less than the others."""
    bits = torch.finfo(product.dtype).bits
    whole, strip = _WHOLE[bits], _STRIP[bits]
    left = max(product.m % whole[0], product.n % whole[1])
    rest = cdiv(product.m, whole[0]) * cdiv(product.n, whole[1]) % processors
    found: list[Any] = []
    for part in _PARTS[bits]:
        pairs = cdiv(rest * (whole[0] // part[0]) * (whole[1] // part[1]), 2)
        if 2 * pairs <= processors:
            found.append((("shares", 8), (*whole, *part, min(processors // 2 // pairs, _MOST_SPLITS))))
    if 0 < left <= strip[1]:
        parts = cdiv(product.m, strip[0]) + product.n // strip[0]
        idle = -(product.m // whole[0]) * (product.n // whole[1]) % processors
        for rounds in range(5 if idle else 1):
            others = max(parts - idle * rounds, 1)
            splits = max(min((processors - idle) // others, _MOST_SPLITS), 1)
            found.append((("strips", rounds), (*whole, *strip, splits)))
    return found


def product_configs(product: Product, tile: Tile, processors: int) -> list[Any]:
    """Orders, tiles and options. Small tiles are tried where large ones are few, alone where those would leave most of
    the processors without one, and next to large ones where the last round of those is not whole."""
    bits = torch.finfo(product.dtype).bits
    whole = _WHOLE[bits]
    count = cdiv(product.m, whole[0]) * cdiv(product.n, whole[1])
    ours: list[Any] = []
    theirs: list[Any] = []
    if 2 * count >= processors:
        ours += [(o, s, w, n) for o in _ORDERS for s, w, n in _LARGE[bits]]
        theirs += [(o, s, h) for o in _ORDERS for s in shapes(_LARGE[bits]) for h in ({}, {"num_ctas": 2})]
        if count % processors and count < _FEW_ROUNDS * processors:
            mixed = mixed_configs(product, processors)
            ours += [(*m, 8, 4) for m in mixed]
            # Without splits: what the original makes of strips in splits does not end.
            theirs += [(o, s, {}) for o, s in dict.fromkeys((o, (*s[:-1], 1)) for o, s in mixed)]
        if bits == 16:
            ours += [(("parts", 4), s, w, n) for s, w, n in _LARGE_OF_PARTS]
            theirs += [(("parts", 4), s, {}) for s in shapes(_LARGE_OF_PARTS)]
    if count < 2 * processors:
        ours += [(o, s, w, n) for o in _SMALL_ORDERS for s, w, n in _SMALL[bits]]
        theirs += [(o, s, {}) for o in _SMALL_ORDERS for s in shapes(_SMALL[bits])]
        if bits == 16:
            few = [(s, w, n) for s, w, n in _SMALL_OF_PARTS if math.prod(grid_of_parts(product, s)) <= processors]
            ours += [(("parts", 0), s, w, n) for s, w, n in few]
            theirs += [(("parts", 0), s, {}) for s in shapes(few)]
    return tile.options([(o, s, {"num_warps": w, "num_stages": n}) for o, s, w, n in ours], theirs)


@functools.cache
def partial_sums(rows: int, columns: int, splits: int, processors: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for what the splits of small tiles find, and zeros to count them."""
    parts = 2 * processors // splits if splits > 1 else 1
    return (
        torch.empty(parts, splits, rows, columns, device="cuda"),
        torch.zeros(parts, device="cuda", dtype=torch.int32),
    )


def grid_of_parts(product: Product, shape: tuple[int, ...]) -> tuple[int, int]:
    """How many tiles of parts there are along the rows and the columns."""
    TM, TN, _, rows, columns = shape
    return cdiv(product.m, rows * TM), cdiv(product.n, columns * TN)


def shapes(configs: Sequence[tuple[tuple[int, ...], int, int]]) -> list[tuple[int, ...]]:
    """Those of tiles with warps and stages."""
    return list(dict.fromkeys(s for s, *_ in configs))


def product_rows(tiles: list[Tile], products: Sequence[Product] = _PRODUCTS) -> Iterator[Row]:
    torch.backends.cuda.matmul.allow_tf32 = True
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    for product in products:
        dtype, m, n, k = product.dtype, product.m, product.n, product.k
        a, b = torch.randn(m, k, device="cuda", dtype=dtype), torch.randn(k, n, device="cuda", dtype=dtype)
        c = torch.empty(m, n, device="cuda", dtype=dtype)
        expected = a.double() @ b.double()
        tf32 = dtype is torch.float32
        bits = 32 if tf32 else 16

        def run(
            cfg: Any, t: Tile, a: Any = a, b: Any = b, c: Any = c, product: Product = product, tf32: bool = tf32
        ) -> None:
            (spread, group), shape, options = cfg
            if spread in ("strips", "shares"):
                sums = partial_sums(*shape[3:5], shape[-1], processors)
                order = (group, *shape, 8) if spread == "strips" else (*shape, group)
                t.launch(f"matmul_{spread}", options, (processors,), (a, b, c, *sums, *order, tf32))
                return
            if spread == "parts":
                grid = grid_of_parts(product, shape)
                if math.prod(grid) <= processors:
                    t.launch("matmul_parts_grid", options, grid, (a, b, c, *shape))
                else:
                    t.launch("matmul_parts", options, (processors,), (a, b, c, *shape, group))
                return
            TM, TN, TK = shape
            if spread == "grid":
                t.launch(
                    "matmul_grid", options, (cdiv(product.m, TM), cdiv(product.n, TN)), (a, b, c, TM, TN, TK, tf32)
                )
                return
            blocks = cdiv(product.m, TM) * cdiv(product.n, TN)
            kernel = "matmul" if spread == "tiles" else "matmul_persistent"
            grid = _SPREADS[spread](blocks, processors)
            t.launch(kernel, options, (grid,), (a, b, c, TM, TN, TK, group, tf32))

        sides = [
            Side(t.name, product_configs(product, t, processors), lambda cfg, t=t, run=run: run(cfg, t)) for t in tiles
        ]
        if all(x * a.element_size() % 16 == 0 for x in (k, n)):
            tried = dict.fromkeys(
                [*(s for side in sides[:1] for _, s, _ in side.configs if len(s) == 3), (128, 128, 1024 // bits)]
            )
            configs = [(*s, w, st) for s in tried for w, st in ((8, 3), (8, 4), (4, 4))]
            sides.append(Side("triton", configs, lambda cfg, a=a, b=b, c=c: peer.matmul(a, b, c, cfg)))
        sides.append(Side("torch", [None], lambda cfg, a=a, b=b, c=c: torch.mm(a, b, out=c)))
        tolerance = 1e-3 if dtype is not torch.bfloat16 else 4e-3
        yield Row(f"matmul {product}", "TFLOP/s", 2 * m * n * k / 1e12, sides, c, expected, tolerance)


def other_product_rows(tiles: list[Tile]) -> Iterator[Row]:
    """Products of 8-bit floats, the right operand along K, beside cuBLAS with fast accumulation; and of batches."""
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    for n in (4096, 8192):
        a, b = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
        out, one = torch.empty(n, n, device="cuda", dtype=torch.bfloat16), torch.ones((), device="cuda")
        expected = a[:512].double() @ b.double().T
        found = [
            Side(
                t.name,
                [((8,), s, {}) for s in ((128, 256, 128), (256, 128, 128), (128, 128, 128))],
                lambda c, t=t: t.launch("matmul_by_rows", c[2], (processors,), (a, b, out, *c[1], *c[0])),
            )
            for t in tiles
        ]
        multiply = functools.partial(torch._scaled_mm, out_dtype=out.dtype, use_fast_accum=True)
        found.append(Side("torch", [None], lambda c: multiply(a, b.T, one, one)))
        name = f"matmul f8e4m3 {n}^3, b.T"
        yield Row(name, "TFLOP/s", 2 * n**3 / 1e12, found, out, expected, 4e-3, lambda found: found[:512])
    batches, n = 16, 2048
    for dtype, name, steps in ((torch.float16, "f16", 64), (torch.float8_e4m3fn, "f8e4m3", 128)):
        a, b = (torch.randn(batches, n, n, device="cuda").to(dtype) for _ in range(2))
        out = torch.empty(batches, n, n, device="cuda", dtype=torch.float16 if steps == 64 else torch.bfloat16)
        found = [
            Side(
                t.name,
                [((0,), (128, columns, steps), {}) for columns in (256, 128)],
                lambda c, t=t: t.launch(
                    "matmul_of_batches", c[2], (n // c[1][0], n // c[1][1], batches), (a, b, out, *c[1])
                ),
            )
            for t in tiles
        ]
        if dtype is torch.float16:
            found.append(Side("torch", [None], lambda c: torch.bmm(a, b, out=out)))
        expected = a[0].double() @ b[0].double()
        work, most = 2 * batches * n**3 / 1e12, 1e-3 if steps == 64 else 4e-3
        name = f"batched {name} {batches}x{n}^3"
        yield Row(name, "TFLOP/s", work, found, out, expected, most, lambda found: found[0])


def attention_rows(tiles: list[Tile]) -> Iterator[Row]:
    B, H, S = 4, 32, 4096
    for D in (128, 64):
        q, k, v = (torch.randn(B, H, S, D, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        out = torch.empty_like(q)
        for causal in (False, True):
            scale = 1 / math.sqrt(D)
            attend = torch.nn.functional.scaled_dot_product_attention
            small = attend(q[:1, :2].float(), k[:1, :2].float(), v[:1, :2].float(), is_causal=causal)
            ours_configs = [
                (tq, tk, o) for tq, tk in ((64, 128), (64, 64), (128, 64), (128, 128)) for o in ({}, {"num_stages": 2})
            ]
            theirs = [
                (tq, tk, o)
                for tq, tk in ((64, 128), (64, 64), (128, 128), (128, 64), (256, 64))
                for o in ({}, {"occupancy": 2})
            ]
            sides = [
                Side(
                    t.name,
                    t.options(ours_configs, theirs),
                    lambda c, t=t, q=q, k=k, v=v, out=out, D=D, causal=causal: t.launch(
                        "attention", c[2], (S // c[0], B * H), (q, k, v, out, scale * LOG2_E, H, D, c[0], c[1], causal)
                    ),
                )
                for t in tiles
            ]
            configs = [
                (tq, tk, w, s) for tq, tk, w in ((128, 128, 8), (128, 64, 8), (128, 64, 4), (64, 64, 4)) for s in (2, 3)
            ]
            sides.append(
                Side(
                    "triton",
                    configs,
                    lambda c, q=q, k=k, v=v, out=out, causal=causal: peer.attention(
                        q, k, v, out, scale * LOG2_E, causal, c
                    ),
                )
            )
            sides.append(Side("torch", [None], lambda c, q=q, k=k, v=v, causal=causal: cudnn(q, k, v, causal)))
            work = 4 * B * H * S * S * D / 1e12 / (2 if causal else 1)
            name = f"attention bf16 B{B} H{H} S{S} D{D}{' causal' if causal else ''}"
            yield Row(name, "TFLOP/s", work, sides, out, small, 1e-2, lambda found: found[:1, :2])


def other_rows(tiles: list[Tile]) -> Iterator[Row]:
    """Kernels as people write them, which leave everything but the sizes of tiles to tilewright."""

    def sides(kernel: str, grid: Callable[[Any], tuple[int, ...]], arrays: Sequence[Any], sizes: Sequence[Any]) -> Any:
        return [
            Side(
                t.name,
                [(size, o) for size in sizes for o in t.options([{}], HINTS)],
                lambda c, t=t: t.launch(kernel, c[1], grid(c[0]), (*arrays, *c[0])),
            )
            for t in tiles
        ]

    x, bf16 = torch.randn(16384, 16384, device="cuda", dtype=torch.bfloat16), torch.bfloat16
    out = torch.empty_like(x)
    found = sides("transpose", lambda s: (16384 // s[0], 16384 // s[1]), (x, out), ((64, 64), (128, 64), (128, 128)))
    found.append(Side("torch", [None], lambda c: out.copy_(x.T)))
    yield Row("transpose bf16 16384^2", "GB/s", 2 * x.numel() * 2 / 1e9, found, out, x.T, 0)

    x = torch.randn(131072, 1024, device="cuda", dtype=torch.float16)
    w, b = (torch.randn(1024, device="cuda", dtype=torch.float16) for _ in range(2))
    out, norm = torch.empty_like(x), functools.partial(torch.nn.functional.layer_norm, normalized_shape=(1024,))
    found = sides("layer_norm_in_steps", lambda s: (131072,), (x, w, b, out, 1e-5), ((256,), (512,), (1024,)))
    expected = norm(x.float(), weight=w.float(), bias=b.float())
    yield Row("layer norm in steps f16 131072x1024", "GB/s", 2 * x.numel() * 2 / 1e9, found, out, expected, 2e-3)

    x = torch.randn(4096, 131072, device="cuda", dtype=bf16)
    labels = torch.randint(0, 131072, (4096,), device="cuda", dtype=torch.int32)
    out, entropy = torch.empty(4096, device="cuda"), torch.nn.functional.cross_entropy
    found = sides("cross_entropy", lambda s: (4096,), (x, labels, out), ((2048,), (4096,), (8192,)))
    expected = torch.cat(
        [entropy(x[i : i + 256].float(), labels[i : i + 256].long(), reduction="none") for i in range(0, 4096, 256)]
    )
    yield Row("cross entropy bf16 4096x131072", "GB/s", x.numel() * 2 / 1e9, found, out, expected, 1e-3)

    n = 4096
    x, gate, up = (torch.randn(n, n, device="cuda", dtype=bf16) / 8 for _ in range(3))
    out, silu = torch.empty_like(x), torch.nn.functional.silu
    shapes = ((128, 128, 64, 8), (256, 64, 64, 8), (128, 64, 64, 8))
    found = sides("gated", lambda s: (cdiv(n, s[0]) * cdiv(n, s[1]),), (x, gate, up, out), shapes)
    expected = silu(x.double() @ gate.double()) * (x.double() @ up.double())
    yield Row("gated product bf16 4096^3", "TFLOP/s", 4 * n**3 / 1e12, found, out, expected, 1e-2)

    rows, columns, depth = 64, 8192, 4096
    a, b = (torch.randn(s, device="cuda", dtype=bf16) for s in ((rows, depth), (depth, columns)))
    out = torch.empty(rows, columns, device="cuda", dtype=bf16)
    shapes = ((64, 64, 64, False), (64, 128, 64, False), (64, 64, 128, False))
    found = sides("matmul_grid", lambda s: (cdiv(rows, s[0]), cdiv(columns, s[1])), (a, b, out), shapes)
    found.append(Side("torch", [None], lambda c: torch.mm(a, b, out=out)))
    moved = 2 * (a.numel() + b.numel() + out.numel()) / 1e9
    yield Row("product of 64 rows bf16 64x8192x4096", "GB/s", moved, found, out, a.double() @ b.double(), 1e-2)

    a, b = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    a_scales, b_scales = torch.rand(n, n // 128, device="cuda"), torch.rand(n // 128, n // 128, device="cuda")
    out = torch.empty(n, n, device="cuda", dtype=bf16)
    shapes = ((128, 128, 128, 8), (64, 128, 128, 8), (128, 64, 128, 8))
    found = sides("scaled_blocks", lambda s: (cdiv(n, s[0]) * cdiv(n, s[1]),), (a, b, a_scales, b_scales, out), shapes)
    wide = b_scales.repeat_interleave(128, 0).repeat_interleave(128, 1)
    expected = (a.double() * a_scales.repeat_interleave(128, 1)) @ (b.double() * wide).T
    yield Row("scaled blocks f8 4096^3", "TFLOP/s", 2 * n**3 / 1e12, found, out, expected, 1e-2)


def cudnn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
        )


# -- launches


def launch_costs(tiles: list[Tile]) -> None:
    """Microseconds of host time per launch of one block, and seconds until a new kernel has run for the first time."""
    x, y, out, *long = (torch.randn(n, device="cuda") for n in [1024] * 3 + [1 << 16] * 3)
    q = torch.randn(1, 1, 4096, 128, device="cuda", dtype=torch.bfloat16)
    heads = (q, q, q, torch.empty_like(q), 0.1, 1, 128, 64, 64, False)
    names = [t.name for t in tiles]
    print(f"\n| {'launches':38} | unit | {' | '.join(names)} |\n|---|---|{'---:|' * len(names)}")
    costs: dict[str, dict[str, float]] = {}
    calls: dict[str, Callable[[], None]] = {}
    any_length: dict[str, Callable[[], None]] = {}
    for t in tiles:
        vadd, stream = t.kernels.vadd, torch.cuda.current_stream()
        launch = functools.partial(t.ct.launch, **t.where)
        calls[t.name] = functools.partial(launch, stream, (1,), vadd, (x, y, out, 1024))
        any_length[t.name] = longer_at_each(functools.partial(launch, stream, (1,), vadd), long)
        if hasattr(vadd, "bind"):
            bound = vadd.bind((1,), (x, y, out, 1024), stream=stream, **t.where)
            costs.setdefault("bound launch", {}).update(per_call({t.name: bound}))
        fresh = kernels_for(t.ct)
        for name, first in {
            "first launch of vadd": functools.partial(launch, stream, (2,), fresh.vadd, (x, y, out, 512)),
            "first launch of attention": functools.partial(launch, stream, (64, 1), fresh.attention, heads),
        }.items():
            costs.setdefault(name, {})[t.name] = once(first)
    launches = {"launch": per_call(calls), "launch of a length not met, and slices": per_call(any_length)}
    for name, found in {**launches, **costs}.items():
        unit = "s" if name.startswith("first") else "us"
        cells = " | ".join(f"{found[t]:.2f}" if t in found else "" for t in names)
        print(f"| {name:38} | {unit} | {cells} |", flush=True)


def longer_at_each(launch: Callable[[Any], None], arrays: list[torch.Tensor]) -> Callable[[], None]:
    """Launches with arrays of a length that none had before."""
    lengths = itertools.count(1024)

    def call() -> None:
        n = next(lengths)
        launch((*[array[:n] for array in arrays], 1024))

    return call


def per_call(calls: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Microseconds: the least of a few rounds that take turns, each short enough for the queue of the device."""
    rounds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(20):
        for name, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                call()
            rounds[name].append((time.perf_counter() - start) / 200)
    return {name: min(found) * 1e6 for name, found in rounds.items()}


def once(call: Callable[[], None]) -> float:
    """Seconds until the first call has ended."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


GROUPS = {
    "memory": memory_rows,
    "transpose": transpose_row,
    "rows": row_rows,
    "gather": gather_row,
    "matmul": product_rows,
    "products": other_product_rows,
    "attention": attention_rows,
    "others": other_rows,
}


def parse_product(text: str) -> Product:
    kind, _, sizes = text.partition(":")
    m, n, k = map(int, sizes.split("x"))
    return Product(_TYPES[kind], m, n, k)


def parse_sides(text: str) -> str:
    if text not in _SIDES:
        raise argparse.ArgumentTypeError(f"there is no side {text!r}; there are {', '.join(map(repr, _SIDES))}")
    return text


def main(
    doc: str = __doc__,
    groups: dict[str, Callable[[list[Tile]], Iterator[Row]]] = GROUPS,
    kernels: str = "gpu_kernels.py",
) -> None:
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--rows", nargs="*", choices=groups, default=list(groups))
    parser.add_argument("--only", nargs="*", default=[""], help="rows whose names contain one of these")
    if groups is GROUPS:
        parser.add_argument("--products", nargs="*", type=parse_product, help="these only, such as f16:4096x4096x1024")
    parser.add_argument("--sides", nargs="*", type=parse_sides, default=list(_SIDES), help="these only, such as torch")
    parser.add_argument("--no-options", action="store_true", help="the triton backend, too, gets tile sizes alone")
    parser.add_argument("--each", action="store_true", help="every configuration of both backends, in turns")
    parser.add_argument("--json", help="write all numbers here")
    parser.add_argument("--share", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if groups is GROUPS and arguments.products:
        arguments.rows = ["matmul"]
        groups["matmul"] = functools.partial(product_rows, products=arguments.products)
    tiles = [t for t in tile_sides(not arguments.no_options, kernels) if t.name in arguments.sides]

    def rows() -> Iterator[Row]:
        for group in arguments.rows:
            for row in groups[group](tiles):
                if any(text in row.name for text in arguments.only):
                    row.sides = [side for side in row.sides if side.name in arguments.sides]
                    yield row

    if arguments.share:
        run_share(rows(), arguments.share)
        return
    harmful = fill_caches()
    if arguments.each:
        print(f"| work | configuration | unit | {_GPU} | in pairs | {_BY_TRITON} | ratio |\n|---|---|---|{'---:|' * 4}")
        for row in rows():
            compare(row)
        return
    for name in arguments.sides:
        if name not in ("triton", "torch") and name not in [t.name for t in tiles]:
            print(f"without {name}: {get_backend(name).unavailable() if name == 'tileir' else 'it cannot be imported'}")
    table(rows(), arguments.sides, harmful, arguments.json)
    if groups is GROUPS:
        launch_costs(tiles)


def table(rows: Iterator[Row], sides: Collection[str], harmful: Collection[str], file: str | None) -> None:
    """Measure and print ``rows``, and write all numbers of them to ``file``."""
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}\n")
    names = [name for name in _SIDES if name in sides]
    ours_of = [name for name in names if name in (_GPU, _BY_TRITON)]
    ratios = " | ".join(f"{name} to best" for name in ours_of)
    print(f"| {'work':38} | unit | {' | '.join(names)} | {ratios} |")
    print(f"|---|---|{'---:|' * (len(names) + len(ours_of))}")
    found = []
    for row in rows:
        measure(row, harmful)
        rates = {name: row.work / ms * 1e3 for name, (ms, _) in row.found.items()}
        others = [rate for name, rate in rates.items() if name not in (*ours_of, "tileir")]
        best = max(others, default=math.nan)
        cells = [f"{rates[n]:.0f}" if n in rates else "" for n in names]
        cells += [f"{rates.get(n, 0) / best:.2f}" for n in ours_of]
        print(f"| {row.name:38} | {row.unit} | {' | '.join(cells)} |", flush=True)
        found.append(
            {
                "name": row.name,
                "rates": rates,
                "configs": {n: repr(c) for n, (_, c) in row.found.items()},
                "candidates": row.candidates,
                "errors": row.errors,
            }
        )
        torch.cuda.empty_cache()
        if file:
            Path(file).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
