"""Microseconds of a launch beside the original's, in one process and in turns.

    python benchmarks/gpu_launches.py [--rounds 50]

Of kernels with one block, the host's time: least and median of rounds of 150 launches, on PyTorch's current stream and
on another. Then what each of 300 launches takes with the device, of kernels that follow each other.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import statistics
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "src"))

Call = Callable[[], None]
_TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 0.02}  # relative to one more


class Side:
    """One implementation, and the kernels as it has them."""

    def __init__(self, module: str) -> None:
        self.name, self.ct = module.replace("tilewright", "gpu backend"), importlib.import_module(module)
        path = FOLDER / "gpu_launches_kernels.py"
        self.kernels = types.ModuleType(f"kernels of {module}")
        self.kernels.__dict__.update(ct=self.ct, __file__=str(path))
        sys.modules[self.kernels.__name__] = self.kernels
        exec(compile(path.read_text(), str(path), "exec"), self.kernels.__dict__)

    def calls(
        self, kernel: str, stream: torch.cuda.Stream, grid: tuple[int, ...], args: Sequence[Any]
    ) -> dict[str, Call]:
        """A launch that has run often enough for machine code to make it, and a bound one, where there are such."""
        made = getattr(self.kernels, kernel)
        found = {self.name: functools.partial(self.ct.launch, stream, grid, made, args)}
        for _ in range(8):
            found[self.name]()
        if hasattr(made, "bind"):
            found["bound"] = made.bind(grid, args, stream=stream)
        return found


def in_turns(calls: Mapping[str, Call], rounds: int, count: int, *, device: bool) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                call()
            if device:
                torch.cuda.synchronize()
            found[name].append((time.perf_counter() - start) / count * 1e6)
    return found


def check(calls: Mapping[str, Call], out: torch.Tensor, expected: Callable[[], torch.Tensor]) -> None:
    for name, call in calls.items():
        wanted = expected()
        call()
        torch.cuda.synchronize()
        error = ((out.double() - wanted).abs() / (1 + wanted.abs())).max().item()
        assert error <= _TOLERANCES[out.dtype], f"{name} is wrong by {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    sides = [Side("tilewright")]
    if importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.tile") is not None:
        sides.append(Side("cuda.tile"))
    normal = functools.partial(torch.randn, device="cuda")
    x, y, counted, *others = (normal(1024) for _ in range(10))
    numbers = (0.5, 1.5, 2.5, 3.5, 4.5)
    a, b, c = (normal(128, 128, dtype=torch.bfloat16) for _ in range(3))
    cases: dict[str, tuple[tuple[int, ...], tuple[Any, ...], torch.Tensor, Callable[[], torch.Tensor]]] = {
        "one": ((1,), (counted, 1024), counted, lambda: counted.double() + 1),
        "three": ((1,), (x, y, others[0], 1024), others[0], lambda: x.double() + y),
        "many": ((1,), (*others, *numbers, 1024), others[6], lambda: summed(others, (*numbers, 1.0))),
        "product": ((1, 1), (a, b, c, 128, 128, 64), c, lambda: a.double() @ b.double()),
    }
    streams = {"current": torch.cuda.current_stream(), "other": torch.cuda.Stream()}
    heads = [*[side.name for side in sides], "bound"]
    print(f"| launch, stream | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
    for (where, stream), (name, (grid, args, out, expected)) in (
        (s, k) for s in streams.items() for k in cases.items()
    ):
        calls = {n: call for side in sides for n, call in side.calls(name, stream, grid, args).items()}
        check(calls, out, expected)
        found = in_turns(calls, rounds, 150, device=False)
        cells = " | ".join(f"{min(found[n]):.2f} ({statistics.median(found[n]):.2f})" for n in heads)
        print(f"| {name}, {where} | {cells} |", flush=True)
    for size in (1 << 16, 1 << 20, 1 << 22, 1 << 24):
        arrays = [normal(size) for _ in range(3)]
        given = streams["current"], (size // 1024,), (*arrays, 1024)
        calls = {n: call for side in sides for n, call in side.calls("three", *given).items()}
        check(calls, arrays[2], lambda arrays=arrays: arrays[0].double() + arrays[1])  # type: ignore[misc]
        found = in_turns(calls, 9, 300, device=True)
        cells = " | ".join(f"{statistics.median(found[n]):.2f}" for n in heads)
        print(f"| with the device, {size >> 8} KiB an array | {cells} |", flush=True)


def summed(arrays: Sequence[torch.Tensor], factors: Sequence[float]) -> torch.Tensor:
    return torch.stack([factor * array.double() for factor, array in zip(factors, arrays)]).sum(0)


if __name__ == "__main__":
    main()
