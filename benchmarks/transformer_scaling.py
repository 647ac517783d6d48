"""Time per step of the transformer of tile kernels on 1, 2, ... devices, beside PyTorch's own operators.

    python benchmarks/transformer_scaling.py --devices 1 2 --plot scaling.svg -- --width 768 --heads 12 --layers 12

What follows ``--`` goes to ``examples/transformer/train_torch.py``. Each process has a GPU where there are enough, and
else a CPU. The batch grows with the devices, so that the work of each stays the same: efficiency is the time on one
device over that on so many. The sides alternate.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "examples" / "transformer"
_WARM_UP = 3  # steps that compile


def seconds_per_step(devices: int, batch: int, own: bool, rest: list[str]) -> float:
    """The median of a run. CalledProcessError when the losses differ."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.json"
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(devices)]
        options = ["--batch", str(batch * devices), "--json", str(record), *(["--own"] if own else []), *rest]
        subprocess.run([sys.executable, *torchrun, "train_torch.py", *options], cwd=FOLDER, check=True)
        return statistics.median(json.loads(record.read_text())["seconds"][_WARM_UP:])


def plot(path: str, devices: list[int], lines: dict[str, list[float]]) -> None:
    """Efficiency over the number of devices as an SVG image."""
    width, height, left, top = 420, 260, 50, 20
    at = [left + i * (width - left - 30) / max(len(devices) - 1, 1) for i in range(len(devices))]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">']
    parts += [f'<text x="{x}" y="{height - 10}" font-size="12">{n}</text>' for x, n in zip(at, devices)]
    for share in (0, 0.5, 1):
        y = top + (1 - share) * (height - 60)
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y}" y2="{y}" stroke="#ccc"/>')
        parts.append(f'<text x="8" y="{y + 4}" font-size="12">{share:.0%}</text>')
    for color, (name, values) in zip(("#1f77b4", "#d62728"), lines.items()):
        points = " ".join(f"{x},{top + (1 - v) * (height - 60)}" for x, v in zip(at, values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        y = top + 14 * (1 + list(lines).index(name))
        parts.append(f'<text x="{left + 8}" y="{y}" fill="{color}" font-size="12">{name}</text>')
    Path(path).write_text("\n".join([*parts, "</svg>"]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch", type=int, default=8, help="sequences for each device")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plot", help="a file for a picture of the efficiency")
    parser.add_argument("rest", nargs="*", help="options of train_torch.py, after --")
    args = parser.parse_args()
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(args.repeats):
        for devices in args.devices:
            for name in ("tile kernels", "PyTorch's own"):
                found = seconds_per_step(devices, args.batch, name != "tile kernels", args.rest)
                times.setdefault((name, devices), []).append(found)
    medians = {key: statistics.median(values) for key, values in times.items()}
    lines = {}
    for name in ("tile kernels", "PyTorch's own"):
        first = medians[name, args.devices[0]]
        lines[name] = [first / medians[name, devices] for devices in args.devices]
        shown = (f"{n}: {medians[name, n] * 1e3:.1f} ms ({e:.0%})" for n, e in zip(args.devices, lines[name]))
        print(f"{name}: " + ", ".join(shown))
    if args.plot:
        plot(args.plot, args.devices, lines)


if __name__ == "__main__":
    main()
