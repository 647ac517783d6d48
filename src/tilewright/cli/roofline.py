"""A picture of one run below the roofs that the machine's levels of memory and its arithmetic make."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.backends.cpu.threads import thread_count
from tilewright.records import dataclass
from tilewright.system.forks import load

_WIDTH, _HEIGHT, _MARGIN = 720, 460, 64
_FONT = "font-family='system-ui, sans-serif'"
_COLORS = ("#0072b2", "#009e73", "#d55e00", "#cc79a7")  # of levels; Okabe and Ito's, which everyone can tell apart
_POINT = "#000000"


@dataclass(frozen=True)
class Run:
    """What a launch did, and the seconds that it took: operations, and the bytes that it has to move at least.

    Those are its arrays, once; or what it moves between arrays and registers, where that is less.
    """

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
class Level:
    """A cache, or the memory: the bytes that it holds, and bytes per second."""

    name: str
    holds: float
    bandwidth: float


@dataclass(frozen=True)
class Roof:
    """What the machine reaches, measured: ``levels`` of memory, the nearest first, and flops per second."""

    levels: tuple[Level, ...]
    peak: float

    @staticmethod
    def measure() -> Roof:
        """With as many threads as a launch has."""
        limits: Any = load("tilewright.backends.cpu.limits")
        threads = thread_count()
        levels = tuple(Level(found.name, found.holds, found.bandwidth) for found in limits.levels(threads))
        return Roof(levels, limits.peak(threads, "float"))

    def joined(self, other: Roof) -> Roof:
        """The better of two measurements, of which another program may have disturbed one."""
        pairs = zip(self.levels, other.levels)
        levels = tuple(max(pair, key=lambda level: level.bandwidth) for pair in pairs)
        return Roof(levels, max(self.peak, other.peak))

    def level_of(self, footprint: float) -> Level:
        """The nearest level that holds so many bytes."""
        return next((level for level in self.levels if footprint <= level.holds), self.levels[-1])

    def raised(self, run: Run) -> Roof:
        """This roof where it is not below ``run``; else the one that ``run`` shows to be within reach."""
        own = self.level_of(run.moved)
        reached = replace(own, bandwidth=max(own.bandwidth, run.moved / run.seconds))
        return Roof(tuple(reached if e is own else e for e in self.levels), max(self.peak, run.rate))

    def limit(self, run: Run) -> tuple[str, float]:
        """What bounds ``run``, and the seconds that it takes at least."""
        level = self.level_of(run.moved)
        memory, compute = run.moved / level.bandwidth, run.flops / self.peak
        if compute > memory:
            return f"arithmetic, {self.peak / 1e9:.0f} GFLOP/s", compute
        return f"{level.name}, {level.bandwidth / 1e9:.1f} GB/s", memory


def roof_above(run: Run, attempts: int = 3) -> Roof:
    """The roof, measured again where ``run`` is above it: then something else kept the machine busy.

    Where that goes on, what ``run`` reaches is the best measurement that there is.
    """
    roof = Roof.measure()
    for _ in range(attempts - 1):
        if roof.limit(run)[1] <= run.seconds:
            break
        roof = roof.joined(Roof.measure())
    return roof.raised(run)


def least_traffic(moved: float, args: Sequence[Any]) -> float:
    """The bytes that a launch moves at least: ``moved`` between arrays and registers, but no array twice."""
    return min(moved, float(sum(a.nbytes for a in args if isinstance(a, np.ndarray))))


def describe(run: Run, roof: Roof) -> str:
    """The run in numbers, and beside them what the machine can do."""
    what, least = roof.limit(run)
    lines = [f"time {run.seconds * 1e3:.3f} ms, {run.moved / run.seconds / 1e9:.1f} GB/s of its arrays, each once"]
    if run.flops and run.moved:
        lines[0] += f", {run.rate / 1e9:.1f} GFLOP/s at {run.intensity:.3g} flops a byte"
    lines.append(f"{least / run.seconds:.0%} of the limit of {what}")
    levels = ", ".join(f"{level.name} {level.bandwidth / 1e9:.1f} GB/s" for level in roof.levels)
    lines.append(f"this machine, measured: {levels}; {roof.peak / 1e9:.0f} GFLOP/s in float32")
    return "\n".join(lines)


def draw(run: Run, roof: Roof) -> str:
    """The roofline picture as SVG. ValueError for a run without floating-point operations or without traffic."""
    if not run.flops or not run.moved:
        raise ValueError("a roofline needs floating-point operations and array traffic; this kernel lacks one of them")
    return "\n".join(_elements(run, roof))


class _Axes:
    """Logarithmic axes that hold the point and every ridge."""

    def __init__(self, run: Run, roof: Roof) -> None:
        ridges = [roof.peak / level.bandwidth for level in roof.levels]
        self.low = math.floor(math.log10(min(run.intensity, *ridges) / 3))
        self.high = math.ceil(math.log10(max(run.intensity, *ridges) * 3))
        self.top = math.ceil(math.log10(max(roof.peak, run.rate) * 1.5))
        slowest = min(run.rate, roof.levels[-1].bandwidth * 10.0**self.low)
        self.bottom = math.floor(math.log10(slowest))

    def x(self, intensity: float) -> float:
        share = (math.log10(intensity) - self.low) / (self.high - self.low)
        return _MARGIN + share * (_WIDTH - 2 * _MARGIN)

    def y(self, rate: float) -> float:
        share = (math.log10(rate) - self.bottom) / (self.top - self.bottom)
        return _HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN)


def _elements(run: Run, roof: Roof) -> Iterator[str]:
    axes = _Axes(run, roof)
    what, least = roof.limit(run)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" {_FONT}>'
    yield f"<title>Roofline of {html.escape(run.name)}</title>"
    yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
    yield from _grid(axes)
    yield from _roofs(axes, run, roof)
    x, y = axes.x(run.intensity), axes.y(run.rate)
    yield _line(x, y, x, axes.y(run.flops / least), "#888", dashed=True)
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{_POINT}"><title>{html.escape(run.name)}</title></circle>'
    label = f"{run.name}: {run.rate / 1e9:.1f} GFLOP/s"
    aside, anchor = (-10, "end") if x > _WIDTH / 2 else (10, "start")
    yield _text(x + aside, y + 16, label, anchor, weight="bold")
    yield _text(_WIDTH / 2, 24, f"{run.name}: {least / run.seconds:.0%} of the limit of {what}", "middle", size=15)
    yield _text(_WIDTH / 2, _HEIGHT - 14, "floating-point operations per byte of its arrays", "middle")
    yield _text(8, _MARGIN - 14, "GFLOP/s", "start")
    yield "</svg>"


def _grid(axes: _Axes) -> Iterator[str]:
    for decade in range(axes.low, axes.high + 1):
        at = axes.x(10.0**decade)
        yield _line(at, _MARGIN, at, _HEIGHT - _MARGIN, "#e4e4e4")
        yield _text(at, _HEIGHT - _MARGIN + 18, f"{10.0**decade:g}", "middle")
    for decade in range(axes.bottom, axes.top + 1):
        at = axes.y(10.0**decade)
        yield _line(_MARGIN, at, _WIDTH - _MARGIN, at, "#e4e4e4")
        yield _text(_MARGIN - 6, at + 4, f"{10.0 ** (decade - 9):g}", "end")


def _roofs(axes: _Axes, run: Run, roof: Roof) -> Iterator[str]:
    """A slope for each level, the one that holds the arrays thick, and the peak; each with its name and number."""
    end = 10.0**axes.high
    nearest = roof.peak / max(level.bandwidth for level in roof.levels)
    yield _line(axes.x(nearest), axes.y(roof.peak), axes.x(end), axes.y(roof.peak), "black")
    peak = f"{roof.peak / 1e9:.0f} GFLOP/s, float32 multiply-adds"
    yield _text(axes.x(end) - 4, axes.y(roof.peak) - 8, peak, "end")
    own = roof.level_of(run.moved)
    names = [f"{level.name}: {level.bandwidth / 1e9:.1f} GB/s" for level in roof.levels]
    for number, (level, name) in enumerate(zip(roof.levels, names)):
        first = max(10.0**axes.low, 10.0**axes.bottom / level.bandwidth)
        color = _COLORS[number % len(_COLORS)]
        ridge = roof.peak / level.bandwidth
        width = 3 if level is own else 1.5
        yield _line(
            axes.x(first), axes.y(level.bandwidth * first), axes.x(ridge), axes.y(roof.peak), color, width=width
        )
        at = _HEIGHT - _MARGIN - 18 * (len(names) - number)
        mark = ", which holds the arrays" if level is own else ""
        yield _line(_WIDTH - _MARGIN - 290, at - 4, _WIDTH - _MARGIN - 266, at - 4, color, width=width)
        yield _text(_WIDTH - _MARGIN - 260, at, f"{name}{mark}", "start")


def _line(x1: float, y1: float, x2: float, y2: float, color: str, *, width: float = 1.5, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="4 4"' if dashed else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{color}" stroke-width="{width:g}"{dash}/>'


def _text(x: float, y: float, text: str, anchor: str, *, size: int = 13, weight: str = "normal") -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{html.escape(text)}</text>'
