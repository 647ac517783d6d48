"""Kernels over rows with more and more rows a block, on one thread: what the compiler gains by taking them one by one.

    python benchmarks/cpu_row_blocks.py            # rows of 1024 numbers, in float32 and bfloat16
    python benchmarks/cpu_row_blocks.py --columns 4096

Every kernel is compiled as it is, and with rows taken together (``SplitRows`` switched off). All versions take turns;
the numbers are medians of processor time in ms, together -> one by one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

Pair = tuple[Callable[[], Any], ...]  # together, and one by one

ROWS, BLOCKS, ROUNDS = 4096, (1, 2, 4, 8, 16), 25


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--columns", type=int, default=1024)
    options = parser.parse_args()
    os.environ["TILEWRIGHT_NUM_THREADS"] = "1"
    print(f"{'work':28}" + "".join(f"{f'{rows} a block':>16}" for rows in BLOCKS))
    for dtype in ("f32", "bf16"):
        for name, launches in works(options.columns, dtype):
            cells = [f"{together:.2f} -> {split:.2f}" for together, split in times(launches)]
            print(
                f"{f'{name} {ROWS}x{options.columns} {dtype}':28}" + "".join(f"{cell:>16}" for cell in cells),
                flush=True,
            )


def works(columns: int, dtype: str) -> Iterator[tuple[str, list[Pair]]]:
    """Each kernel's launches, by rows a block: with rows taken together, and one by one."""
    import cpu_kernels as kernels  # noqa: PLC0415
    import torch  # noqa: PLC0415

    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    x, y = torch.randn(ROWS, columns).to(kind), torch.randn(ROWS, columns).to(kind)
    weight, bias, out = torch.randn(columns).to(kind), torch.randn(columns).to(kind), torch.empty_like(x)
    for name, kernel, arguments in (
        ("softmax", kernels.softmax, (x, out)),
        ("softmax backward", kernels.softmax_backward, (x, y, out)),
        ("layer norm", kernels.layer_norm, (x, weight, bias, out, 1e-5)),
        ("RMS norm", kernels.rms_norm, (x, weight, out, 1e-5)),
    ):
        yield name, [compiled(kernel, (ROWS // rows,), (*arguments, rows, columns)) for rows in BLOCKS]


def compiled(kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...]) -> Pair:
    """Launches of ``kernel`` without and with ``SplitRows``."""
    import tilewright as ct  # noqa: PLC0415
    from tilewright.backends.cpu.loops import split_rows  # noqa: PLC0415
    from tilewright.transforms.instrumentation import observed_passes  # noqa: PLC0415

    found, longest = [], split_rows._LONGEST
    with observed_passes(lambda name, function: None):  # so that nothing comes from the disk cache
        for split_rows._LONGEST in (0, longest):
            found.append(ct.kernel(kernel.function).bind(grid, arguments))
    return tuple(found)


def times(launches: list[Pair]) -> list[tuple[float, ...]]:
    """Medians in ms."""
    taken: dict[Callable[[], Any], list[float]] = {run: [] for pair in launches for run in pair}
    for _ in range(ROUNDS):
        for run, found in taken.items():
            run()
            before = time.process_time()
            run()
            found.append(time.process_time() - before)
    return [tuple(statistics.median(taken[run]) * 1e3 for run in pair) for pair in launches]


if __name__ == "__main__":
    main()
