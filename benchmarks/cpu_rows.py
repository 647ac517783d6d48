"""What ``benchmarks/cpu.py`` compares: each row is a computation by a tile kernel, NumPy, torch and Numba."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cpu_kernels as kernels
import numpy as np
import torch
import torch.nn.functional as F
from cpu_patterns import Pattern, counting, gathering, transposition

import tilewright as ct


class _Absent:
    """A library that is not installed; so are its parts."""

    def __getattr__(self, name: str) -> _Absent:
        return self


loops: Any
jax: Any
try:
    import cpu_numba as loops
except ModuleNotFoundError:
    loops = _Absent()
try:
    import jax
    import jax.numpy as jnp
except ModuleNotFoundError:
    jax = jnp = _Absent()
ABSENT = frozenset(n for n, library in (("Numba", loops), ("JAX", jax)) if isinstance(library, _Absent))
N = 1 << 24
COMPILED = frozenset({"torch.compile", "JAX"})  # they allocate their results
Run = Callable[[], Any]


@dataclass(frozen=True)
class Work:
    """The same computation by each side. Every call returns its result; the first peer's is the right one.

    ``tolerance`` bounds the largest difference relative to the largest magnitude. ``fresh`` are the sides that allocate
    their result. ``double``: the operations are in float64. Rows that are not ``limited`` use instructions of which
    ``cpu.py`` knows no peak. ``pattern`` measures what the fastest known loop with the same accesses takes.
    """

    ours: Run
    peers: Mapping[str, Run]
    tolerance: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    fresh: frozenset[str] = frozenset()
    double: bool = False
    limited: bool = True
    pattern: Pattern | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "peers", {n: run for n, run in self.peers.items() if n not in ABSENT})


@dataclass(frozen=True)
class Row:
    """A computation by name."""

    name: str
    make: Callable[[], Work]


def compiled(function: Callable[..., Any], *tensors: torch.Tensor) -> Run:
    """``torch.compile`` of ``function``, called with ``tensors``."""
    made = torch.compile(function, dynamic=False)
    return lambda: made(*tensors)


def jitted(function: Callable[..., Any], *arrays: Any) -> Run:
    """``jax.jit`` of ``function``, called with ``arrays`` that JAX holds, until its result is there."""
    if "JAX" in ABSENT:
        return lambda: None
    made, held = jax.jit(function), [jnp.asarray(a) for a in arrays]
    return lambda: made(*held).block_until_ready()


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def launch(kernel: Any, grid: tuple[int, ...], *args: Any) -> Run:
    """Runs ``kernel``, bound once; the result is its last array argument."""
    out = [a for a in args if isinstance(a, (np.ndarray, torch.Tensor))][-1]
    bound = kernel.bind(grid, args)

    def run() -> Any:
        bound()
        return out

    return run


def streams(name: str, n: int = N, tile: int = 16384) -> Work:
    """Of n elements; few of them stay in the caches."""
    x, y, out, theirs = normal(n), normal(n, seed=1), np.empty(n, np.float32), np.empty(n, np.float32)
    tx, ty, to = map(torch.from_numpy, (x, y, np.empty_like(x)))
    grid = (n // tile,)
    if name == "copy":
        peers: dict[str, Run] = {
            "NumPy": lambda: np.copyto(theirs, x) or theirs,
            "torch": lambda: to.copy_(tx),
            "Numba": lambda: loops.copy(x, theirs),
            "JAX": jitted(jnp.copy, x),
        }
        return Work(launch(kernels.copy, grid, x, out, tile), peers, bytes=8 * n, fresh=frozenset({"JAX"}))
    if name == "add":
        peers = {
            "NumPy": lambda: np.add(x, y, out=theirs),
            "torch": lambda: torch.add(tx, ty, out=to),
            "Numba": lambda: loops.add(x, y, theirs),
            "torch.compile": compiled(torch.add, tx, ty),
            "JAX": jitted(jnp.add, x, y),
        }
        return Work(
            launch(kernels.add, grid, x, y, out, tile), peers, flops=n, bytes=12 * n, fresh=COMPILED, limited=n == N
        )
    factor = np.float32(1.5)
    peers = {
        "NumPy": lambda: np.add(np.multiply(x, factor, out=theirs), y, out=theirs),
        "torch": lambda: torch.add(ty, tx, alpha=1.5, out=to),
        "Numba": lambda: loops.scale_add(x, y, theirs, factor),
        "torch.compile": compiled(lambda x, y: 1.5 * x + y, tx, ty),
        "JAX": jitted(lambda x, y: factor * x + y, x, y),
    }
    return Work(launch(kernels.scale_add, grid, x, y, out, 1.5, tile), peers, 1e-6, 2 * n, 12 * n, COMPILED)


def transpose(*, on_lines: bool) -> Work:
    """``on_lines``: arrays begin with a cache line, as PyTorch's do; NumPy's begin within one."""
    n, tile = 4096, 64

    def array() -> np.ndarray:
        return torch.empty(n, n).numpy() if on_lines else np.empty((n, n), np.float32)

    x, out, theirs = array(), array(), array()
    x[:] = normal(n, n)
    tx, to = torch.from_numpy(x), torch.empty(n, n)
    peers = {
        "NumPy": lambda: np.copyto(theirs, x.T) or theirs,
        "torch": lambda: to.copy_(tx.T),
        "Numba": lambda: loops.transpose(x, theirs),
        "JAX": jitted(jnp.transpose, x),
    }
    ours = launch(kernels.transpose, (n // tile, n // tile), x, out, tile)
    return Work(ours, peers, bytes=8 * n * n, fresh=COMPILED, pattern=transposition(x, array()))


DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
_COARSE = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3}


def softmax(rows: int, columns: int, dtype: str = "f32") -> Work:
    x = torch.from_numpy(normal(rows, columns)).to(DTYPES[dtype])
    out, block = torch.empty_like(x), (4 if columns <= 1024 else 1)
    tile = 1 << (columns - 1).bit_length()
    given = torch.empty_like(x)
    peers: dict[str, Run] = {
        "torch": lambda: torch.softmax(x, dim=1, out=given),
        "torch.compile": compiled(lambda x: torch.softmax(x, dim=1), x),
    }
    if dtype == "f32":
        plain, theirs = x.numpy(), np.empty((rows, columns), np.float32)
        peers["JAX"] = jitted(lambda x: jax.nn.softmax(x, axis=1), plain)
        peers["NumPy"] = lambda: numpy_softmax(plain)
        peers["Numba"] = lambda: loops.softmax(plain, theirs)
    moved = 2 * x.element_size() * x.numel()
    ours = launch(kernels.softmax, (rows // block,), x, out, block, tile)
    return Work(ours, peers, _COARSE[dtype], bytes=moved, fresh=COMPILED | {"NumPy"})


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def norm(kind: str, dtype: str = "f32") -> Work:
    rows, columns, block, epsilon = 4096, 1024, 4, 1e-5
    x = torch.from_numpy(normal(rows, columns)).to(DTYPES[dtype])
    weight, bias = (torch.from_numpy(normal(columns, seed=s)).to(DTYPES[dtype]) for s in (1, 2))
    out, plain = torch.empty_like(x), (x.float().numpy(), weight.float().numpy(), bias.float().numpy())
    theirs, moved = np.empty((rows, columns), np.float32), 2 * x.element_size() * x.numel()
    if kind == "layer":
        ours = launch(kernels.layer_norm, (rows // block,), x, weight, bias, out, epsilon, block, columns)
        peers: dict[str, Run] = {
            "torch": lambda: F.layer_norm(x, (columns,), weight, bias, epsilon),
            "torch.compile": compiled(lambda x, w, b: F.layer_norm(x, (columns,), w, b, epsilon), x, weight, bias),
        }
        if dtype == "f32":
            peers["JAX"] = jitted(lambda x, w, b: numpy_layer_norm(x, w, b, epsilon), *plain)
            peers["NumPy"] = lambda: numpy_layer_norm(*plain, epsilon)
            peers["Numba"] = lambda: loops.layer_norm(*plain, theirs, epsilon)
    else:
        ours = launch(kernels.rms_norm, (rows // block,), x, weight, out, epsilon, block, columns)
        peers = {
            "torch": lambda: F.rms_norm(x, (columns,), weight, epsilon),
            "torch.compile": compiled(lambda x, w: F.rms_norm(x, (columns,), w, epsilon), x, weight),
        }
        if dtype == "f32":
            peers["JAX"] = jitted(lambda x, w: x / jnp.sqrt(jnp.mean(x**2, 1, keepdims=True) + epsilon) * w, *plain[:2])
            peers["NumPy"] = lambda: plain[0] / np.sqrt(np.mean(plain[0] ** 2, 1, keepdims=True) + epsilon) * plain[1]
            peers["Numba"] = lambda: loops.rms_norm(*plain[:2], theirs, epsilon)
    return Work(ours, peers, _COARSE[dtype], bytes=moved, fresh=COMPILED | {"NumPy", "torch"})


def softmax_backward(dtype: str = "f32") -> Work:
    rows, columns, block = 4096, 1024, 4
    gradient, y = (torch.from_numpy(normal(rows, columns, seed=s)).to(DTYPES[dtype]) for s in (0, 1))
    y = torch.softmax(y, 1)
    out, kind = torch.empty_like(y), y.dtype
    peers: dict[str, Run] = {
        "torch": lambda: torch.ops.aten._softmax_backward_data(gradient, y, 1, kind),
        "torch.compile": compiled(lambda g, y: y * (g - (g * y).sum(1, keepdim=True)), gradient, y),
    }
    ours = launch(kernels.softmax_backward, (rows // block,), gradient, y, out, block, columns)
    return Work(ours, peers, _COARSE[dtype], bytes=3 * y.element_size() * y.numel(), fresh=COMPILED | {"torch"})


def norm_backward(kind: str, dtype: str = "f32") -> Work:
    """The gradients of the input, and of the weight, and of the bias of a layer norm; the result is the first one."""
    rows, columns, block, parts = 4096, 1024, 1, 32
    gradient, x = (torch.from_numpy(normal(rows, columns, seed=s)).to(DTYPES[dtype]) for s in (0, 1))
    weight, bias = (torch.from_numpy(normal(columns, seed=s)).to(DTYPES[dtype]) for s in (2, 3))
    out, sums = torch.empty_like(x), [torch.empty(parts, columns) for _ in range(2)]
    totals = [torch.empty(columns) for _ in range(2)]
    wide, steps = x.float(), rows // (block * parts)
    mean = wide.mean(1, keepdim=True) if kind == "layer" else torch.zeros(rows, 1)
    rstd = torch.rsqrt((wide - mean).square().mean(1, keepdim=True) + 1e-5)
    sizes, row = (steps, block, columns), weight[None]
    if kind == "layer":
        main = launch(kernels.layer_norm_backward, (parts,), gradient, x, row, mean, rstd, *sums, out, *sizes)
        backward = torch.ops.aten.native_layer_norm_backward
        given = [mean.to(x.dtype), rstd.to(x.dtype)] if dtype != "f32" else [mean, rstd]
        peers: dict[str, Run] = {
            "torch": lambda: backward(gradient, x, [columns], *given, weight, bias, [True, True, True])[0],
            "torch.compile": compiled(_layer_norm_gradients, gradient, x, weight, mean, rstd),
        }
    else:
        main = launch(kernels.rms_norm_backward, (parts,), gradient, x, row, rstd, sums[0], out, *sizes)
        peers = {"torch.compile": compiled(_rms_norm_gradients, gradient, x, weight, rstd)}
    rest = [
        launch(kernels.column_sums, (1,), part, total, parts, columns)
        for part, total in list(zip(sums, totals))[: 2 if kind == "layer" else 1]
    ]

    def ours() -> torch.Tensor:
        main()
        for run in rest:
            run()
        return out

    peers = {name: (lambda run=run: _first(run())) for name, run in peers.items()}
    return Work(ours, peers, _COARSE[dtype], bytes=3 * x.element_size() * x.numel(), fresh=COMPILED | {"torch"})


def _first(found: Any) -> Any:
    return found[0] if isinstance(found, tuple) else found


def _layer_norm_gradients(gradient: Any, x: Any, weight: Any, mean: Any, rstd: Any) -> Any:
    given, normal = gradient.float(), (x.float() - mean) * rstd
    scaled = given * weight.float()
    along = (scaled * normal).mean(1, keepdim=True)
    found = (scaled - scaled.mean(1, keepdim=True) - normal * along) * rstd
    return found.to(x.dtype), (given * normal).sum(0), given.sum(0)


def _rms_norm_gradients(gradient: Any, x: Any, weight: Any, rstd: Any) -> Any:
    given, normal = gradient.float(), x.float() * rstd
    scaled = given * weight.float()
    found = (scaled - normal * (scaled * normal).mean(1, keepdim=True)) * rstd
    return found.to(x.dtype), (given * normal).sum(0)


def numpy_layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, epsilon: float) -> np.ndarray:
    centered = x - x.mean(axis=1, keepdims=True)
    variance = (centered * centered).mean(axis=1, keepdims=True)
    return centered / (variance + np.float32(epsilon)) ** np.float32(0.5) * weight + bias


def fold_rows(kind: str) -> Work:
    """Of 4096 x 4096, along rows."""
    n = 4096
    x = normal(n, n)
    tx, theirs = torch.from_numpy(x), np.empty((n, n), np.float32)
    ints, floats = np.empty(n, np.int32), np.empty(n, np.float32)
    if kind == "cumsum":
        peers: dict[str, Run] = {
            "NumPy": lambda: np.cumsum(x, axis=1, out=theirs),
            "torch": lambda: torch.cumsum(tx, dim=1),
            "Numba": lambda: loops.row_cumsum(x, theirs),
        }
        out = np.empty_like(x)
        return Work(launch(kernels.row_cumsum, (n // 16,), x, out, 16, n), peers, 1e-4, bytes=8 * n * n)
    kernel, out, loop = {
        "sum": (kernels.row_sum, floats, loops.row_sum),
        "max": (kernels.row_max, floats, loops.row_max),
        "argmax": (kernels.row_argmax, ints, loops.row_argmax),
    }[kind]
    result = np.empty_like(out)
    torch_fold = {"sum": torch.sum, "max": torch.amax, "argmax": torch.argmax}[kind]
    peers = {
        "NumPy": lambda: getattr(x, kind)(axis=1),
        "torch": lambda: torch_fold(tx, 1),
        "Numba": lambda: loop(x, result),
    }
    return Work(launch(kernel, (n // 4,), x, out, 4, n), peers, 1e-4, bytes=4 * n * n)


def fold_whole(kind: str) -> Work:
    """Of 16M numbers: parts by one launch, then what remains by another."""
    x = normal(N)
    tx, parts = torch.from_numpy(x), 1024
    size = N // parts
    partial, place, out = np.empty(parts, np.float32), np.empty(parts, np.int32), np.empty(1, np.float32)
    scratch = np.empty(parts, np.float32)
    if kind == "cumsum":
        start, sums, theirs = np.empty(parts, np.float32), np.empty_like(x), np.empty_like(x)

        steps = (
            launch(kernels.row_sum, (parts,), x.reshape(parts, size), partial, 1, size),
            launch(kernels.exclusive_cumsum, (1,), partial, start, parts),
            launch(kernels.cumsum_parts, (parts,), x, start, sums, 64, size // 64),
        )

        def cumsum() -> np.ndarray:
            for step in steps:
                step()
            return sums

        peers: dict[str, Run] = {
            "torch": lambda: torch.cumsum(tx, 0),
            "NumPy": lambda: np.cumsum(x, out=theirs),
            "Numba": lambda: loops.cumsum(x, theirs, scratch),
        }
        return Work(cumsum, peers, 1e-2, bytes=8 * N)
    if kind == "argmax":
        index = np.empty(1, np.int32)

        first = launch(kernels.part_argmax, (parts,), x, partial, place, size)
        last = launch(kernels.pick_argmax, (1,), partial, place, index, parts)

        def argmax() -> np.ndarray:
            first()
            return last()[0]

        peers = {
            "NumPy": lambda: np.argmax(x),
            "torch": lambda: torch.argmax(tx),
            "Numba": lambda: loops.argmax(x, scratch, place),
        }
        return Work(argmax, peers, bytes=4 * N)
    kernel, loop = {"sum": (kernels.row_sum, loops.total), "max": (kernels.row_max, loops.largest)}[kind]

    each = launch(kernel, (parts,), x.reshape(parts, size), partial, 1, size)
    rest = launch(kernel, (1,), partial.reshape(1, parts), out, 1, parts)

    def fold() -> np.ndarray:
        each()
        return rest()[0]

    peers = {
        "NumPy": lambda: getattr(x, kind)(),
        "torch": lambda: {"sum": torch.sum, "max": torch.amax}[kind](tx),
        "Numba": lambda: loop(x, scratch),
    }
    return Work(fold, peers, 1e-3, bytes=4 * N)


def matmul(m: int, n: int, k: int, dtype: str = "f32", tile: tuple[int, int, int] | None = None) -> Work:
    if tile is None:
        tile = (128, 64, 256) if m * n <= 512 * 512 else (256, 128, 256)  # the small one needs blocks enough to share
    kind = np.float64 if dtype == "f64" else np.float32
    a, b = normal(m, k).astype(kind), normal(k, n, seed=1).astype(kind)
    c = np.empty((m, n), kind)
    ta, tb, tc, theirs = torch.from_numpy(a), torch.from_numpy(b), torch.from_numpy(np.empty_like(c)), np.empty_like(c)
    acc = ct.float64 if dtype == "f64" else ct.float32
    ours = launch(kernels.matmul, (ct.cdiv(m, tile[0]), ct.cdiv(n, tile[1])), a, b, c, *tile, acc)
    peers = {
        "NumPy": lambda: np.matmul(a, b, out=theirs),
        "torch": lambda: torch.matmul(ta, tb, out=tc),
    }
    if dtype == "f32":
        peers["JAX"] = jitted(jnp.matmul, a, b)
    moved = a.itemsize * (m * k + k * n + m * n)
    return Work(ours, peers, 1e-4, 2.0 * m * n * k, moved, frozenset({"JAX"}), double=dtype == "f64")


def batched_matmul(batches: int, m: int, n: int, k: int, tile: tuple[int, int, int]) -> Work:
    """In tiles as kernels for GPUs have them."""
    a, b = normal(batches * m, k).reshape(batches, m, k), normal(batches * k, n, seed=1).reshape(batches, k, n)
    c, theirs = np.empty((batches, m, n), np.float32), np.empty((batches, m, n), np.float32)
    ta, tb, tc = map(torch.from_numpy, (a, b, np.empty_like(c)))
    ours = launch(kernels.batched_matmul, (ct.cdiv(m, tile[0]), ct.cdiv(n, tile[1]), batches), a, b, c, *tile)
    peers = {"NumPy": lambda: np.matmul(a, b, out=theirs), "torch": lambda: torch.bmm(ta, tb, out=tc)}
    return Work(ours, peers, 1e-4, 2.0 * batches * m * n * k, a.nbytes + b.nbytes + c.nbytes)


def transposed_matmul(m: int, n: int) -> Work:
    """Of few rows with the transpose of a square matrix."""
    a, b, tile = normal(m, n), normal(n, n, seed=1), (m, 128, 128)
    c, theirs = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    ta, tb, tc = map(torch.from_numpy, (a, b, np.empty_like(c)))
    ours = launch(kernels.transposed_matmul, (1, n // tile[1]), a, b, c, *tile)
    peers = {"NumPy": lambda: np.matmul(a, b.T, out=theirs), "torch": lambda: torch.mm(ta, tb.T, out=tc)}
    return Work(ours, peers, 1e-4, 2.0 * m * n * n, b.nbytes)


def dot_matmul(n: int) -> Work:
    """Of bfloat16 by the instructions for it, which kernels must be asked to use; no peer where there are none."""
    a, b = (torch.from_numpy(normal(n, n, seed=s)).bfloat16() for s in (0, 1))
    c, theirs, tile = torch.empty_like(a), torch.empty_like(a), (128, 128, 64)
    os.environ["TILEWRIGHT_BF16_DOT"] = "1"
    try:
        ours = launch(kernels.matmul, (n // tile[0], n // tile[1]), a, b, c, *tile, ct.float32)
    except ct.SettingError:
        return Work(list, {})
    finally:
        del os.environ["TILEWRIGHT_BF16_DOT"]
    peers = {"torch": lambda: torch.mm(a, b, out=theirs)}
    return Work(ours, peers, 1e-2, flops=2.0 * n**3, limited=False)


def narrow_matmul(dtype: str) -> Work:
    """Against our own rate in float32."""
    n, tile = 1024, (128, 128, 256)
    a, b = (torch.from_numpy(normal(n, n, seed=s)).to(DTYPES[dtype]) for s in (0, 1))
    c, wide = torch.empty(n, n), [t.float() for t in (a, b)]
    grid = (n // tile[0], n // tile[1])
    ours = launch(kernels.matmul, grid, a, b, c, *tile, ct.float32)
    f32 = launch(kernels.matmul, grid, *wide, torch.empty(n, n), *tile, ct.float32)
    return Work(ours, {"tilewright f32": f32}, 1e-4, flops=2.0 * n**3)


def byte_matmul() -> Work:
    n, tile = 1024, (128, 128, 256)
    draw = np.random.default_rng(0).integers
    a, b = (draw(-128, 128, (n, n), dtype=np.int8) for _ in range(2))
    c, ta, tb = np.empty((n, n), np.int32), torch.from_numpy(a), torch.from_numpy(b)
    ours = launch(kernels.matmul, (n // tile[0], n // tile[1]), a, b, c, *tile, ct.int32)
    peers = {"torch": lambda: torch._int_mm(ta, tb)}
    return Work(ours, peers, flops=2.0 * n**3, fresh=frozenset({"torch"}), limited=False)


def linear_gelu() -> Work:
    n, tile = 1024, (128, 128, 256)
    a, b, bias, c = normal(n, n), normal(n, n, seed=1) * 0.05, normal(n, seed=2), np.empty((n, n), np.float32)
    ta, tb, tbias = map(torch.from_numpy, (a, b, bias))
    peers = {
        "torch": lambda: F.gelu(torch.addmm(tbias, ta, tb), approximate="tanh"),
        "torch.compile": compiled(lambda a, b, c: F.gelu(torch.addmm(c, a, b), approximate="tanh"), ta, tb, tbias),
        "JAX": jitted(lambda a, b, c: jax.nn.gelu(a @ b + c, approximate=True), a, b, bias),
    }
    ours = launch(kernels.linear_gelu, (n // tile[0], n // tile[1]), a, b, bias, c, *tile)
    return Work(ours, peers, 1e-4, flops=2.0 * n**3, fresh=COMPILED | {"torch"})


def attention(heads: int, length: int, width: int, causal: bool) -> Work:
    q, k, v = (torch.from_numpy(normal(heads, length, width, seed=s)) for s in range(3))
    out, tq, tk = torch.empty_like(q), 128, 128 if causal else 256
    grid = (length // tq, heads)
    ours = launch(kernels.attention, grid, q, k, v, out, width**-0.5, width, tq, tk, causal)
    peers = {"torch": lambda: F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]}
    flops = 4.0 * heads * length * length * width / (2 if causal else 1)
    return Work(ours, peers, 1e-4, flops=flops, fresh=frozenset({"torch"}))


def gather() -> Work:
    entries, count, width, block = 100_000, 65536, 512, 8
    table = normal(entries, width)
    rows = np.random.default_rng(1).integers(0, entries, count, dtype=np.int32)
    out, theirs = np.empty((count, width), np.float32), np.empty((count, width), np.float32)
    t, r, to = torch.from_numpy(table), torch.from_numpy(rows), torch.empty(count, width)
    peers = {
        "NumPy": lambda: np.take(table, rows, axis=0, out=theirs, mode="clip"),
        "torch": lambda: torch.index_select(t, 0, r, out=to),
        "Numba": lambda: loops.gather_rows(table, rows, theirs),
    }
    ours = launch(kernels.gather_rows, (count // block,), table, rows, out, block, width)
    return Work(ours, peers, bytes=8 * count * width, pattern=gathering(table, rows, np.empty_like(out)))


def histogram() -> Work:
    bins, blocks = 256, 16
    values = np.random.default_rng(0).integers(0, bins, N, dtype=np.int32)
    parts, out = np.empty((blocks, bins), np.int32), np.empty(bins, np.int32)
    t = torch.from_numpy(values)

    def ours() -> np.ndarray:
        parts.fill(0)
        ct.launch(None, (blocks,), kernels.count, (values, parts, 4096, bins))
        ct.launch(None, (1,), kernels.column_sums, (parts, out, blocks, bins))
        return out

    peers = {
        "NumPy": lambda: np.bincount(values, minlength=bins),
        "torch": lambda: torch.bincount(t, minlength=bins),
        "Numba": lambda: loops.histogram(values, bins),
    }
    return Work(ours, peers, bytes=4 * N, pattern=counting(values, bins))


def unary(name: str) -> Work:
    x, out, theirs = normal(N) * np.float32(3), np.empty(N, np.float32), np.empty(N, np.float32)
    tx, to, tile = torch.from_numpy(x), torch.empty(N), 8192
    peers: dict[str, Run] = {
        "NumPy": lambda: getattr(np, name)(x, out=theirs),
        "torch": lambda: getattr(torch, name)(tx, out=to),
        "Numba": lambda: getattr(loops, name)(x, theirs),
        "torch.compile": compiled(getattr(torch, name), tx),
        "JAX": jitted(getattr(jnp, name), x),
    }
    return Work(launch(getattr(kernels, name), (N // tile,), x, out, tile), peers, 1e-5, bytes=8 * N, fresh=COMPILED)


def power() -> Work:
    x, y = np.abs(normal(N)) + np.float32(0.1), normal(N, seed=1)
    out, theirs, tile = np.empty_like(x), np.empty_like(x), 8192
    tx, ty, to = torch.from_numpy(x), torch.from_numpy(y), torch.empty(N)
    peers: dict[str, Run] = {
        "NumPy": lambda: np.power(x, y, out=theirs),
        "torch": lambda: torch.pow(tx, ty, out=to),
        "Numba": lambda: loops.power(x, y, theirs),
        "torch.compile": compiled(torch.pow, tx, ty),
        "JAX": jitted(jnp.power, x, y),
    }
    return Work(launch(kernels.power, (N // tile,), x, y, out, tile), peers, 1e-5, bytes=12 * N, fresh=COMPILED)


def rows() -> Iterator[Row]:
    """Every comparison."""
    for name in ("copy", "add", "scale-add"):
        yield Row(f"{name} 16M", lambda name=name: streams(name))
    for size, name in ((1 << 16, "64K"), (1 << 18, "256K"), (1 << 20, "1M")):  # where launches count
        yield Row(f"add {name}", lambda n=size: streams("add", n, 4096))
    yield Row("transpose 4096^2", lambda: transpose(on_lines=False))
    yield Row("transpose 4096^2 on cache lines", lambda: transpose(on_lines=True))
    yield Row("softmax 4096x1024", lambda: softmax(4096, 1024))
    yield Row("softmax 512x32000", lambda: softmax(512, 32000))
    yield Row("layer norm 4096x1024", lambda: norm("layer"))
    yield Row("RMS norm 4096x1024", lambda: norm("rms"))
    for dtype in ("bf16", "f16"):
        yield Row(f"softmax 4096x1024 {dtype}", lambda d=dtype: softmax(4096, 1024, d))
        yield Row(f"softmax 512x32000 {dtype}", lambda d=dtype: softmax(512, 32000, d))
        yield Row(f"layer norm 4096x1024 {dtype}", lambda d=dtype: norm("layer", d))
        yield Row(f"RMS norm 4096x1024 {dtype}", lambda d=dtype: norm("rms", d))
    for dtype in ("f32", "bf16"):
        suffix = "" if dtype == "f32" else f" {dtype}"
        yield Row(f"softmax backward 4096x1024{suffix}", lambda d=dtype: softmax_backward(d))
        yield Row(f"layer norm backward 4096x1024{suffix}", lambda d=dtype: norm_backward("layer", d))
        yield Row(f"RMS norm backward 4096x1024{suffix}", lambda d=dtype: norm_backward("rms", d))
    for kind in ("sum", "max", "argmax", "cumsum"):
        yield Row(f"{kind} of rows 4096^2", lambda k=kind: fold_rows(k))
        yield Row(f"{kind} of 16M", lambda k=kind: fold_whole(k))
    for n in (512, 1024, 2048):
        yield Row(f"matmul {n}", lambda n=n: matmul(n, n, n))
    for tile in ((64, 64, 32), (128, 128, 64)):  # as kernels for GPUs have them
        name = f"matmul 1024 in tiles of {'x'.join(map(str, tile))}"
        yield Row(name, lambda tile=tile: matmul(1024, 1024, 1024, tile=tile))
    yield Row("matmul 1000x1003x997", lambda: matmul(1000, 1003, 997))
    yield Row("matmul 768x3072x768 in tiles of 128x128x64", lambda: matmul(768, 3072, 768, tile=(128, 128, 64)))
    yield Row("16 matmuls 512x512x256", lambda: batched_matmul(16, 512, 512, 256, (128, 128, 64)))
    yield Row("64 matmuls 128x128x64", lambda: batched_matmul(64, 128, 128, 64, (64, 64, 64)))
    for m in (1, 16):
        yield Row(f"matmul {m}x4096x4096 transposed", lambda m=m: transposed_matmul(m, 4096))
    yield Row("matmul 1024 f64", lambda: matmul(1024, 1024, 1024, "f64"))
    for dtype in ("bf16", "f16"):
        yield Row(f"matmul 1024 {dtype}, of our f32", lambda d=dtype: narrow_matmul(d))
    for n in (1024, 2048):
        yield Row(f"matmul {n} bf16 by dot instructions", lambda n=n: dot_matmul(n))
    yield Row("matmul 1024 int8", byte_matmul)
    for length, width in ((1024, 64), (4096, 128)):
        for causal in (False, True):
            name = f"attention 1x8x{length}x{width}{' causal' * causal}"
            yield Row(name, lambda a=(8, length, width, causal): attention(*a))
    yield Row("gather 64K rows of 512", gather)
    yield Row("histogram 16M into 256", histogram)
    yield Row("GELU(x @ W + b) 1024^3", linear_gelu)
    for name in ("exp", "tanh", "sin"):
        yield Row(f"{name} 16M", lambda n=name: unary(n))
    yield Row("pow 16M", power)
