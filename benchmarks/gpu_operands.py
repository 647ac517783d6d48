"""Products whose operands a step computes, or gathers by numbers that it loads, on both backends and the original.

    python benchmarks/gpu_operands.py [--size 4096] [--rows 16] [--dtype bfloat16] [--kernels NAME ...] [--turns 5]

Sides take turns in one process, each with tile sizes alone; TFLOP/s of medians, with a cold L2 cache. Results are
compared with those of PyTorch.
"""

from __future__ import annotations

import argparse
import functools
import statistics
from collections.abc import Callable

import torch
from gpu import Tile, median, relative, tile_sides

_TILES = (64, 64, 64), (64, 128, 64), (128, 64, 64), (128, 128, 32), (128, 128, 64), (128, 256, 64)
_FEW_ROWS = (16, 64, 128), (16, 128, 128), (32, 64, 128)
_TOLERANCE = 4e-3
_REPETITIONS = 12  # milliseconds
_Product = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
_silu = torch.nn.functional.silu
_FORMS: dict[str, _Product] = {  # of both operands, and what is read beside them
    "clamped": lambda a, more, b: a.clamp(min=0).float() @ b.float(),
    "scaled": lambda a, more, b: (a * more).float() @ b.float(),
    "activated": lambda a, more, b: _silu(a.float()).to(a.dtype).float() @ b.float(),
    "gated": lambda a, more, b: (a * more).float() @ b.float(),
    "right_clamped": lambda a, more, b: a.float() @ b.clamp(min=0).float(),
    "right_scaled": lambda a, more, b: a.float() @ (b * more[:, None]).float(),
    "right_activated_turned": lambda a, more, b: a.float() @ _silu(b.float()).to(b.dtype).float().T,
    "both_scaled": lambda a, more, b: (a * more).float() @ (b * more[:, None]).float(),
    "strided": lambda a, more, b: a[:, ::2].float() @ b.float(),
    "permuted": lambda a, more, b: a[:, more[: len(b)].long()].float() @ b.float(),
    "in_order": lambda a, more, b: a.float() @ b.float(),
    "right_rows_of_steps": lambda a, more, b: a.float() @ b[more[: len(b)].long()].float(),
    "right_bytes_of_steps": lambda a, more, b: a.float() @ b[more[: len(b)].long()].float(),
    "right_bytes_by_rows": lambda a, more, b: a.float() @ b[more[: len(b)].long()].float().T,
    "float16_accumulators": lambda a, more, b: a.float() @ b.float(),
}
_OF_BYTES = "right_bytes_of_steps", "right_bytes_by_rows"
_BY_NUMBERS = "permuted", "rows_of_steps", "right_rows_of_steps", *_OF_BYTES


_WEIGHTS = {"weights": torch.int8, "packed_weights": torch.int32, "halves_of_bytes": torch.uint8}


def weights_of(kernel: str, size: int, k: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random weights as ``kernel`` reads them, their scales, and what both stand for in the dtype of ``like``."""
    shape = {"weights": (size, size), "packed_weights": (size, size // 8), "halves_of_bytes": (size // 2, size)}[kernel]
    bits = torch.iinfo(_WEIGHTS[kernel])
    b = torch.randint(bits.min, bits.max + 1, shape, device="cuda", dtype=torch.int64).to(_WEIGHTS[kernel])
    if kernel == "halves_of_bytes":
        scales = (torch.rand(size // (2 * k), size, device="cuda") + 0.5).to(like.dtype)
        halves = [(part.to(like.dtype) - 8).reshape(-1, k, size) * scales[:, None] for part in (b & 15, b >> 4)]
        return b, scales, torch.cat(halves, 1).reshape(size, size)
    scales = (torch.rand(size, size // k, device="cuda") + 0.5).to(like.dtype)
    if kernel == "packed_weights":
        plain = (torch.stack([b >> 4 * n & 15 for n in range(8)], 2) - 8).reshape(size, size)
    else:
        plain = b
    return b, scales, (plain.to(like.dtype).reshape(size, -1, k) * scales[:, :, None]).reshape(size, size).T


def operands_of(kernel: str, size: int, rows: int, m: int, k: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """The left operand, what ``kernel`` reads beside both (scales, numbers of rows or a matrix), and the right one."""
    dtype = torch.float16 if kernel == "float16_accumulators" else dtype
    a, b = (torch.randn(count, size, device="cuda", dtype=dtype) / 8 for count in (rows, size))
    if kernel in _OF_BYTES:
        b = torch.randint(-8, 8, b.shape, device="cuda", dtype=torch.int8)
    if kernel in _BY_NUMBERS:
        more = torch.randint(0, size, ((size // m + size // k) * m,), device="cuda", dtype=torch.int32)
    elif kernel == "gated":
        more = torch.rand_like(a) + 0.5
    else:
        more = torch.rand(size, device="cuda").to(dtype) + 0.5
    return [torch.cat([a, a], 1) if kernel == "strided" else a, more, b]


def expected_of(kernel: str, a: torch.Tensor, more: torch.Tensor, b: torch.Tensor, m: int, k: int) -> torch.Tensor:
    """The product in float32."""
    if kernel != "rows_of_steps":
        return _FORMS[kernel](a, more, b)
    steps, rows = a.shape[1] // k, torch.arange(len(a), device="cuda")
    chosen = [a[more[rows + step * m].long(), step * k : (step + 1) * k] for step in range(steps)]
    return torch.cat(chosen, 1).float() @ b.float().T


def compare(
    sides: list[Tile], kernel: str, size: int, rows: int, dtype: torch.dtype, tile: tuple[int, int, int], turns: int
) -> dict[str, float]:
    """The TFLOP/s of each side that runs it, and is right."""
    m, n, k = tile
    torch.manual_seed(0)
    a, more, b = operands_of(kernel, size, rows, m, k, dtype)
    c, grid = torch.empty(rows, size, device="cuda", dtype=dtype), (-(-rows // m), size // n)
    if kernel in _WEIGHTS:
        b, more, right = weights_of(kernel, size, k, a)
        expected = a.float() @ right.float()
    else:
        expected = expected_of(kernel, a, more, b, m, k)
    runs: dict[str, Callable[[], None]] = {}
    for side in sides:
        run = functools.partial(side.launch, kernel, {}, grid, (a, more, b, c, *tile))
        try:
            run()
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - a side that has no room for it is left out
            print(f"{side.name}: {type(error).__name__}: {str(error)[:100]}")
            continue
        if relative(c, expected) <= _TOLERANCE:
            runs[side.name] = run
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            times[name].append(median(run, _REPETITIONS))
    return {name: 2 * rows * size**2 / statistics.median(found) / 1e9 for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rows", type=int, help="of the left operand, fewer than 64 for weights alone (default: SIZE)")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--kernels", nargs="+", default=[*_FORMS, "rows_of_steps", *_WEIGHTS])
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    rows, size = args.rows or args.size, args.size
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; {args.dtype}, {rows}x{size}x{size}")
    sides = tile_sides(options=False, kernels="gpu_operands_kernels.py")
    for kernel in args.kernels:
        for tile in _TILES if rows >= _TILES[0][0] else _FEW_ROWS:
            found = compare(sides, kernel, size, rows, getattr(torch, args.dtype), tile, args.turns)
            speeds = ", ".join(f"{name} {speed:.0f}" for name, speed in found.items())
            print(f"{kernel} {'x'.join(map(str, tile))}: {speeds}", flush=True)


if __name__ == "__main__":
    main()
