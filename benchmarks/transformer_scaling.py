"""Time per step of the transformer of tile kernels on one device and on several, beside PyTorch's own operators.

    torchrun --nproc-per-node 2 benchmarks/transformer_scaling.py --compile --json two.json
    python benchmarks/transformer_scaling.py --plot scaling.svg two.json four.json

Each process has a GPU where there are enough, and else a CPU. The batch grows with the devices, so that the work of
each stays the same: efficiency is the time on one device over that on all. Each model is made, and compiled, once;
after that all take their steps in turns. The blocks are compiled by torch.compile with ``--compile``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "examples" / "transformer"
_WARM_UP = 6  # steps that compile, and those before repeated launches are made by machine code
_SIDES = ("tile kernels", "PyTorch's own")


def measure(args: argparse.Namespace) -> None:
    """The milliseconds of a step of each side on one device and on all."""
    sys.path.insert(0, str(FOLDER))
    import torch  # noqa: PLC0415  plots need none of these
    import torch.distributed as dist  # noqa: PLC0415
    import train_torch  # noqa: PLC0415
    from torch.distributed.tensor import init_device_mesh  # noqa: PLC0415

    processes, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
    gpus = torch.cuda.is_available() and torch.cuda.device_count() >= processes
    device = torch.device("cuda", rank) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpus else "gloo", device_id=device if gpus else None)
    mesh = init_device_mesh(device.type, (processes // args.tensor, args.tensor), mesh_dim_names=("data", "tensor"))
    sides = _SIDES if gpus else _SIDES[:1]  # DTensor knows no sharding of PyTorch's attention on CPUs
    kinds: dict[tuple[str, str], Any] = {}
    for count, where, share in (("1", None, 1), (str(processes), mesh, processes // args.tensor)):
        for side in sides:
            start = time.perf_counter()
            step = train_torch.stepper(args, side == _SIDES[0], where, device)
            data = [t.to(device) for t in train_torch.batches(1, args.batch * share, args.length)[0]]
            for _ in range(_WARM_UP):
                step(*data).item()
            kinds[side, count] = step, data
            if rank == 0:
                print(f"{side}, {count}: made in {time.perf_counter() - start:.1f} s", flush=True)
    found: dict[tuple[str, str], list[float]] = {kind: [] for kind in kinds}
    for _ in range(args.turns):
        for kind, (step, data) in kinds.items():
            dist.barrier()
            start = time.perf_counter()
            for _ in range(args.steps):
                step(*data).item()
            found[kind].append((time.perf_counter() - start) / args.steps * 1e3)
    copies = {kind: host_copies(step, data) if gpus else 0 for kind, (step, data) in kinds.items()}
    medians: dict[str, dict[str, float]] = {side: {} for side in sides}
    for (side, count), times in found.items():
        slowest = torch.tensor(statistics.median(times), device=device, dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        medians[side][count] = slowest.item()
    if dist.get_rank() == 0:
        name = torch.cuda.get_device_name() if gpus else "CPU"
        print(f"{processes} x {name}, torch {torch.__version__}; milliseconds per step")
        print(f"| side | 1 device | {processes} devices | efficiency | copies from or to the host in a step |")
        print("|---|---:|---:|---:|---:|")
        for side, each in medians.items():
            one, all_ = each["1"], each[str(processes)]
            both = ", ".join(str(copies[side, n]) for n in each)
            print(f"| {side} | {one:.1f} | {all_:.1f} | {one / all_:.0%} | {both} |")
        if args.json:
            Path(args.json).write_text(json.dumps(medians))
    dist.destroy_process_group()


def host_copies(step: Any, data: Any) -> int:
    """How many copies from and to the host a step on a GPU makes."""
    import torch  # noqa: PLC0415

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        step(*data)
        torch.cuda.synchronize()
    return sum(e.count for e in found.key_averages() if e.key.startswith(("Memcpy HtoD", "Memcpy DtoH")))


def plot(path: str, records: list[dict[str, dict[str, float]]]) -> None:
    """Efficiency over the number of devices as an SVG image."""
    points: dict[str, dict[int, float]] = {side: {1: 1.0} for side in _SIDES}
    for record in records:
        for side, each in record.items():
            points[side] |= {int(n): each["1"] / found for n, found in each.items()}
    devices = sorted({n for each in points.values() for n in each})
    width, height, left, top = 420, 260, 50, 20
    at = {n: left + i * (width - left - 30) / max(len(devices) - 1, 1) for i, n in enumerate(devices)}
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">']
    parts += [f'<text x="{x}" y="{height - 24}" font-size="12">{n}</text>' for n, x in at.items()]
    parts.append(f'<text x="{width / 2}" y="{height - 6}" font-size="12" text-anchor="middle">devices</text>')
    parts.append(f'<text x="{left}" y="12" font-size="12">parallel efficiency: time on one over time on all</text>')
    for share in (0, 0.5, 1):
        y = top + (1 - share) * (height - 60)
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y}" y2="{y}" stroke="#ccc"/>')
        parts.append(f'<text x="8" y="{y + 4}" font-size="12">{share:.0%}</text>')
    for i, (color, (name, each)) in enumerate(zip(("#1f77b4", "#d62728"), points.items())):
        line = " ".join(f"{at[n]},{top + (1 - v) * (height - 60):.1f}" for n, v in sorted(each.items()))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="{left + 8}" y="{height - 70 + 16 * i}" fill="{color}" font-size="12">{name}</text>')
    Path(path).write_text("\n".join([*parts, "</svg>"]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes: dict[str, Any] = {"batch": 16, "length": 256, "width": 512, "heads": 8, "layers": 4}
    for name, value in {**sizes, "tensor": 1, "steps": 10, "turns": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    parser.add_argument("--json", help="a file for the times")
    parser.add_argument("--plot", help="a file for a picture of the efficiency, from the records")
    parser.add_argument("records", nargs="*")
    args = parser.parse_args()
    if args.plot:
        plot(args.plot, [json.loads(Path(record).read_text()) for record in args.records])
    else:
        measure(args)


if __name__ == "__main__":
    main()
