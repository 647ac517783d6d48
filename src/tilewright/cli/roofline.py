"""A picture of one run below the roof that the machine's memory and arithmetic make."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tilewright.backends.cpu.threads import thread_count

_WIDTH, _HEIGHT, _MARGIN = 640, 420, 56
_DECADES = (-2, 3)  # of flops per byte
_LEAST_COPY = 1 << 16  # bytes: less is over before the clock ticks


@dataclass(frozen=True)
class Run:
    """What a launch did, and the seconds that it took."""

    name: str
    flops: float
    moved: float
    seconds: float

    @property
    def intensity(self) -> float:
        """Flops per byte."""
        return self.flops / self.moved

    @property
    def rate(self) -> float:
        """Flops per second."""
        return self.flops / self.seconds


@dataclass(frozen=True)
class Roof:
    """What the machine reaches, found with NumPy: bytes per second of a copy, flops per second of a matrix product."""

    bandwidth: float
    peak: float

    @staticmethod
    def measure(footprint: int) -> Roof:
        """The copy reads and writes ``footprint`` bytes: few of them stay in caches, as they do for a kernel.

        One thread does it, or as many as a launch has, whichever is faster.
        """
        count = max(_LEAST_COPY, footprint) // 2
        source, target = np.ones(count, np.uint8), np.empty(count, np.uint8)
        threads = thread_count()
        parts = list(zip(np.array_split(target, threads), np.array_split(source, threads)))
        a, c = np.ones((1024, 1024), np.float32), np.empty((1024, 1024), np.float32)
        with ThreadPoolExecutor(threads) as pool:
            together = seconds(lambda: list(pool.map(lambda part: np.copyto(*part), parts)))
        copy = min(together, seconds(lambda: np.copyto(target, source)))
        return Roof(2 * count / copy, 2 * 1024**3 / seconds(lambda: np.matmul(a, a, out=c)))

    def at(self, intensity: float) -> float:
        return min(self.peak, self.bandwidth * intensity)


def seconds(run: Callable[[], object], rounds: int = 9) -> float:
    """The least time of a call, after one that does not count."""
    run()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def describe(run: Run, roof: Roof) -> str:
    """The run in numbers."""
    lines = [f"time {run.seconds * 1e3:.3f} ms, {run.moved / run.seconds / 1e9:.1f} GB/s of array traffic"]
    if run.flops and run.moved:
        share = run.rate / roof.at(run.intensity)
        lines.append(f"{run.rate / 1e9:.1f} GFLOP/s at {run.intensity:.3g} flops a byte: {share:.0%} of the roof")
    lines.append(f"roof: {roof.bandwidth / 1e9:.1f} GB/s, {roof.peak / 1e9:.0f} GFLOP/s (NumPy's copy and matmul)")
    return "\n".join(lines)


def draw(run: Run, roof: Roof) -> str:
    """The roofline picture as SVG. ValueError for a run without floating-point operations or without traffic."""
    if not run.flops or not run.moved:
        raise ValueError("a roofline needs floating-point operations and array traffic; this kernel lacks one of them")
    return "\n".join(_elements(run, roof))


def _elements(run: Run, roof: Roof) -> Iterator[str]:
    low, high = _DECADES
    top = math.ceil(math.log10(max(roof.peak, run.rate)))

    def x(intensity: float) -> float:
        place = (math.log10(intensity) - low) / (high - low)
        return _MARGIN + min(1.0, max(0.0, place)) * (_WIDTH - 2 * _MARGIN)

    def y(rate: float) -> float:
        place = (math.log10(rate) - (top - 5)) / 5
        return _HEIGHT - _MARGIN - min(1.0, max(0.0, place)) * (_HEIGHT - 2 * _MARGIN)

    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif">'
    yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
    for decade in range(low, high + 1):
        at = x(10.0**decade)
        yield _line(at, _MARGIN, at, _HEIGHT - _MARGIN, "#ddd")
        yield _text(at, _HEIGHT - _MARGIN + 18, f"{10.0**decade:g}", "middle")
    for decade in range(top - 5, top + 1):
        at = y(10.0**decade)
        yield _line(_MARGIN, at, _WIDTH - _MARGIN, at, "#ddd")
        yield _text(_MARGIN - 6, at + 4, f"{10.0 ** (decade - 9):g}", "end")
    ridge = roof.peak / roof.bandwidth
    first = 10.0**low
    yield _line(x(first), y(roof.at(first)), x(ridge), y(roof.peak), "black")
    yield _line(x(ridge), y(roof.peak), x(10.0**high), y(roof.peak), "black")
    yield f'<circle cx="{x(run.intensity):.1f}" cy="{y(run.rate):.1f}" r="6" fill="#1f77b4"/>'
    label = f"{run.name}: {run.rate / 1e9:.1f} GFLOP/s, {run.rate / roof.at(run.intensity):.0%} of the roof"
    yield _text(_WIDTH / 2, _MARGIN - 20, label, "middle")
    yield _text(_WIDTH / 2, _HEIGHT - 12, "floating-point operations per byte", "middle")
    yield _text(8, _MARGIN - 8, "GFLOP/s", "start")
    yield "</svg>"


def _line(x1: float, y1: float, x2: float, y2: float, color: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="1.5"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="13" text-anchor="{anchor}">{text}</text>'
