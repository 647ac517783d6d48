"""Products whose operands a step computes, or gathers by numbers that it loads, on both backends and the original.

    python benchmarks/gpu_operands.py [--size 4096] [--dtype bfloat16] [--kernels NAME ...] [--turns 5]

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
_TOLERANCE = 4e-3
_REPETITIONS = 12  # milliseconds
_LEFT: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "clamped": lambda a, more: a.clamp(min=0),
    "scaled": lambda a, more: a * more,
    "activated": lambda a, more: torch.nn.functional.silu(a.float()).to(a.dtype),
}


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
    sides: list[Tile], kernel: str, size: int, dtype: torch.dtype, tile: tuple[int, int, int], turns: int
) -> dict[str, float]:
    """The TFLOP/s of each side that runs it, and is right."""
    m, n, k = tile
    torch.manual_seed(0)
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) / 8 for _ in range(2))
    more, c = extra_of(kernel, size, m, k, a), torch.empty(size, size, device="cuda", dtype=dtype)
    expected, grid = expected_of(kernel, a, more, b, m, k), (size // m, size // n)
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
    return {name: 2 * size**3 / statistics.median(found) / 1e9 for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--kernels", nargs="+", default=[*_LEFT, "rows_of_steps", "right_rows_of_steps"])
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; {args.dtype}, {args.size}^3")
    sides = tile_sides(options=False, kernels="gpu_operands_kernels.py")
    for kernel in args.kernels:
        for tile in _TILES:
            found = compare(sides, kernel, args.size, getattr(torch, args.dtype), tile, args.turns)
            speeds = ", ".join(f"{name} {speed:.0f}" for name, speed in found.items())
            print(f"{kernel} {'x'.join(map(str, tile))}: {speeds}", flush=True)


if __name__ == "__main__":
    main()
