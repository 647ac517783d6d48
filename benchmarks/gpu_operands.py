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
_LEFT: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "clamped": lambda a, more: a.clamp(min=0),
    "scaled": lambda a, more: a * more,
    "activated": lambda a, more: torch.nn.functional.silu(a.float()).to(a.dtype),
}


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


def extra_of(kernel: str, size: int, m: int, k: int, like: torch.Tensor) -> torch.Tensor:
    """What ``kernel`` reads beside its operands: scales, or numbers of rows."""
    if not kernel.endswith("of_steps"):
        return torch.rand(size, device="cuda").to(like.dtype) + 0.5
    return torch.randint(0, size, ((size // m + size // k) * m,), device="cuda", dtype=torch.int32)


def expected_of(kernel: str, a: torch.Tensor, more: torch.Tensor, b: torch.Tensor, m: int, k: int) -> torch.Tensor:
    """The product in float32."""
    if kernel == "right_rows_of_steps":
        return a.float() @ b[more[: len(b)].long()].float()
    if kernel in _LEFT:
        return _LEFT[kernel](a, more).float() @ b.float()
    steps, rows = a.shape[1] // k, torch.arange(len(a), device="cuda")
    chosen = [a[more[rows + step * m].long(), step * k : (step + 1) * k] for step in range(steps)]
    return torch.cat(chosen, 1).float() @ b.float().T


def compare(
    sides: list[Tile], kernel: str, size: int, rows: int, dtype: torch.dtype, tile: tuple[int, int, int], turns: int
) -> dict[str, float]:
    """The TFLOP/s of each side that runs it, and is right."""
    m, n, k = tile
    torch.manual_seed(0)
    a, b = (torch.randn(count, size, device="cuda", dtype=dtype) / 8 for count in (rows, size))
    c, grid = torch.empty(rows, size, device="cuda", dtype=dtype), (-(-rows // m), size // n)
    if kernel in _WEIGHTS:
        b, more, right = weights_of(kernel, size, k, a)
        expected = a.float() @ right.float()
    else:
        more = extra_of(kernel, size, m, k, a)
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
    parser.add_argument("--kernels", nargs="+", default=[*_LEFT, "rows_of_steps", "right_rows_of_steps", *_WEIGHTS])
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
