"""All-gather with matmul in one kernel over symmetric memory, beside NCCL's all-gather and cuBLAS after it.

    torchrun --nproc-per-node 2 benchmarks/gather_matmul.py

Each process has ``rows`` x ``depth`` of A, and all rows times its own ``depth`` x ``columns`` of B is computed, in
bfloat16. Times are medians over turns in which the sides alternate, of the slowest process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "symmetric_memory"))
from torch_gather_matmul import GatherMatmul  # the example is no package

_TURNS, _CALLS = 10, 10
Sides = dict[str, tuple[Callable[[], Any], "GatherMatmul | None"]]


def in_turns(sides: Sides) -> dict[str, float]:
    """The seconds of a call of each side, of the slowest process. A side's second entry watches over it."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(_TURNS + 2):
        for name, (side, ours) in sides.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            dist.barrier()
            torch.cuda.synchronize()
            start.record()
            for _ in range(_CALLS):
                side()
            end.record()
            if ours is not None:
                ours.synchronize()
            end.synchronize()
            if turn >= 2:
                found[name].append(start.elapsed_time(end) / _CALLS / 1e3)
    medians = torch.tensor([statistics.median(times) for times in found.values()], device="cuda")
    dist.all_reduce(medians, dist.ReduceOp.MAX)
    return dict(zip(found, medians.tolist()))


def compare(rows: int, depth: int, columns: int, device: Any, copiers: list[int]) -> None:
    size = dist.get_world_size()
    mine = torch.randn(rows, depth, device=device, dtype=torch.bfloat16)
    b = torch.randn(depth, columns, device=device, dtype=torch.bfloat16)
    gathered = torch.empty(size * rows, depth, device=device, dtype=torch.bfloat16)

    def gather() -> None:
        dist.all_gather_into_tensor(gathered, mine)

    def both() -> None:
        gather()
        torch.matmul(gathered, b)

    narrow = b[:, :128].contiguous()
    sides: Sides = {"NCCL": (gather, None), "NCCL, cuBLAS": (both, None), "cuBLAS": (lambda: gathered @ b, None)}
    for wide in (False, True):
        for count in copiers:
            ours = GatherMatmul((rows, depth), torch.bfloat16, device, dist.group.WORLD, count, wide)
            gather()
            found = ours(mine, b)
            ours.synchronize()
            if not torch.allclose(found.float(), (gathered @ b).float(), rtol=2e-2, atol=1.0):
                raise SystemExit(f"the results with {count} copiers are wrong (wide tiles: {wide})")
            size_of = "128 x 256" if wide else "128 x 128"
            name = f"one kernel, {count} copiers, tiles {size_of}"
            sides[name] = (lambda ours=ours: ours(mine, b)), ours  # type: ignore[misc]
            if not wide:
                sides[f"{name}, 128 columns"] = (lambda ours=ours: ours(mine, narrow)), ours  # type: ignore[misc]
    times = in_turns(sides)
    if dist.get_rank() == 0:
        received = (size - 1) * mine.nbytes
        print(f"\n{size} x {rows} rows, {depth} deep, {columns} columns: {received / 1e6:.0f} MB for each GPU\n")
        print("| side | us | GB/s | TFLOP/s |\n|---|---:|---:|---:|")
        for name, seconds in times.items():
            work = 2 * size * rows * depth * (128 if "128 columns" in name else columns)
            speed = "" if name == "NCCL" else f"{work / seconds / 1e12:.0f}"
            rate = "" if name == "cuBLAS" else f"{received / seconds / 1e9:.0f}"
            print(f"| {name} | {seconds * 1e6:.0f} | {rate} | {speed} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["4096x4096x4096", "2048x8192x8192"])
    parser.add_argument("--copiers", type=int, nargs="+", default=[16, 32, 48])
    args = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device, timeout=timedelta(seconds=60))
    if dist.get_rank() == 0:
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, NCCL {torch.cuda.nccl.version()}")
    for shape in args.shapes:
        compare(*map(int, shape.split("x")), device=device, copiers=args.copiers)  # type: ignore[misc]
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
