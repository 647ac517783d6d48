"""Diagrams of tiles in arrays. What they show is recorded from kernels that run while the site is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from svg import FAINT, INK, PALETTE, Drawing, figure

import tilewright as ct
from tilewright.backends.registry import backend_names
from tilewright.transforms.pipelines import OPTIMIZE
from tilewright.viewer import Recorder
from tilewright.viewer.layout import shape_of
from tilewright.viewer.recorder import EVENT_COLUMNS, GROUP_COLUMNS, KINDS, Recording

_CELL = 18.0
_FEWEST = 8  # elements that make a picture of blocks


def touched(recording: Recording, array: str, kinds: tuple[str, ...]) -> np.ndarray[Any, Any]:
    """For each element of ``array`` the number of the last block that accessed it in one of these ways, or -1."""
    number = next(i for i, a in enumerate(recording.arrays) if a.name == array)
    shape = shape_of(recording.arrays[number])
    found = np.full(int(np.prod(shape)), -1)
    groups = np.array(recording.groups).reshape(-1, len(GROUP_COLUMNS))
    events = np.array(recording.events).reshape(-1, len(EVENT_COLUMNS))
    ends = [*events[1:, 5], len(groups)]
    for (kind, block, _, of, _, first), end in zip(events, ends):
        if of != number or KINDS[kind] not in kinds:
            continue
        for start, length, count, step in groups[first:end]:
            for k in range(count):
                found[start + k * step : start + k * step + length] = block
    return found.reshape(shape)


def recorded(kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...]) -> Recording:
    recorder = Recorder()
    with ct.sanitize(sinks=[recorder]):
        ct.launch(None, grid, kernel, arguments)
    (recording,) = recorder.finish()
    return recording


@ct.kernel
def _fill(out: Any, TY: ct.Constant[int], TX: ct.Constant[int]) -> None:
    ct.store(out, (ct.bid(0), ct.bid(1)), ct.full((TY, TX), 1.0, ct.float32))


def tile_space() -> str:
    """The tiles of an array, one for each block of a grid."""
    rows, columns, ty, tx = 10, 14, 4, 4
    grid = ct.cdiv(rows, ty), ct.cdiv(columns, tx)
    blocks = touched(recorded(_fill, grid, (np.zeros((rows, columns), np.float32), ty, tx)), "out", ("write",))
    left, top = 150.0, 52.0
    d = Drawing(
        left + grid[1] * tx * _CELL + 30,
        top + grid[0] * ty * _CELL + 30,
        f"An array of {rows} by {columns} elements under a grid of {grid[0]} by {grid[1]} tiles of {ty} by {tx}",
    )
    fills = [[PALETTE[b % 7] for b in row] for row in blocks]
    d.grid(left, top, rows, columns, _CELL, fills)
    for i in range(grid[0]):
        d.text(left - 16, top + (i + 0.5) * ty * _CELL, str(i), mono=True)
        for j in range(grid[1]):
            # ``grid`` counts blocks along its first axis first.
            d.box(left + j * tx * _CELL, top + i * ty * _CELL, tx * _CELL, ty * _CELL, thickness=1.6, dashed=True)
    for j in range(grid[1]):
        d.text(left + (j + 0.5) * tx * _CELL, top - 12, str(j), mono=True)
    d.text(left + grid[1] * tx * _CELL / 2, top - 34, "bid(1)", mono=True)
    d.text(left - 70, top + grid[0] * ty * _CELL / 2, "bid(0)", mono=True)
    return figure(d, "Each block of the grid has one tile. What sticks out of the array is not stored.")


@ct.kernel
def _padded(x: Any, out: Any, TILE: ct.Constant[int]) -> None:
    tile = ct.load(x, (ct.bid(0),), (TILE,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (ct.bid(0),), tile)


def padding() -> str:
    """What is loaded where a tile sticks out."""
    x, tile = np.array([3, 1, 4, 1, 5, 9], np.float32), 4
    out = np.full(8, np.nan, np.float32)
    ct.launch(None, (2,), _padded, (x, out, tile))
    cell, left = 40.0, 120.0
    d = Drawing(left + 8 * cell + 20, 190, "Six elements loaded as two tiles of four: the last two are padding")
    for k in range(8):
        inside = k < x.size
        fill = PALETTE[k // tile]
        d.box(left + k * cell, 20, cell, cell, fill=fill if inside else "none", opacity=0.6, dashed=not inside)
        if inside:
            d.text(left + (k + 0.5) * cell, 40, f"{x[k]:g}", mono=True)
        d.box(left + k * cell + (k // tile) * 14, 120, cell, cell, fill=fill, opacity=0.6 if inside else 0.15)
        d.text(left + (k + 0.5) * cell + (k // tile) * 14, 140, f"{out[k]:g}", mono=True)
    d.text(left - 12, 40, "array x", anchor="end")
    d.text(left - 12, 140, "two tiles", anchor="end")
    for t in range(2):
        middle = left + (t * tile + tile / 2) * cell
        d.arrow(middle, 66, middle + t * 14, 114)
        d.text(middle + t * 14, 176, f"load(x, ({t},), ({tile},))", mono=True, size=11)
    return figure(d, "With padding_mode=ZERO, elements outside of the array are loaded as 0. A store leaves them out.")


@ct.kernel
def _window(x: Any, out: Any, START: ct.Constant[int], STOP: ct.Constant[int]) -> None:
    ct.store(out, (0,), ct.sum(ct.load(x.slice(0, START, STOP), (ct.bid(0),), (4,)), keepdims=True))


def views() -> str:
    """A slice, and the tiles of it."""
    n, start, stop = 16, 3, 13
    arguments = np.zeros(n, np.float32), np.zeros(1, np.float32), start, stop
    reads = touched(recorded(_window, (3,), arguments), "x", ("read",))
    cell, left = 28.0, 150.0
    d = Drawing(left + n * cell + 20, 130, f"An array of {n} elements, and the tiles of its slice {start} to {stop}")
    for k in range(n):
        fill = PALETTE[reads[k]] if reads[k] >= 0 else "none"
        d.box(left + k * cell, 40, cell, cell, fill=fill, stroke=FAINT, opacity=0.7)
        d.text(left + (k + 0.5) * cell, 54, str(k), size=10, mono=True)
    d.box(left + start * cell, 34, (stop - start) * cell, cell + 12, thickness=1.6, dashed=True)
    d.text(left - 12, 54, "array x", anchor="end")
    d.text(left + (start + stop) / 2 * cell, 16, f"view = x.slice(0, {start}, {stop})", mono=True)
    for t in range(3):
        d.text(left + (start + 4 * t + min(4, stop - start - 4 * t) / 2) * cell, 100, f"tile {t}", fill=INK)
    return figure(d, "Tiles of a view count from its start, and end where it ends: the last one has padding.")


def pipeline() -> str:
    """From source to machine code."""
    d = Drawing(820, 300, "Front ends make Tile IR, passes rewrite it, and backends make code of it")
    sources = ("Python source", "Tile C++ source", "Tile IR bytecode")
    for k, name in enumerate(sources):
        d.box(10, 30 + 90 * k, 140, 50, fill=PALETTE[4], opacity=0.35, rounded=6)
        d.text(80, 55 + 90 * k, name)
        d.arrow(152, 55 + 90 * k, 218, 145)
    d.box(220, 115, 110, 60, fill=PALETTE[1], opacity=0.35, rounded=6)
    d.text(275, 138, "Tile IR", bold=True)
    d.text(275, 157, "typed SSA", size=11)
    d.arrow(332, 145, 388, 145)
    passes = list(dict.fromkeys(p.name for p in OPTIMIZE))
    d.box(390, 85, 150, 120, fill=PALETTE[2], opacity=0.3, rounded=6)
    d.text(465, 102, "passes", bold=True)
    for k, name in enumerate(passes):
        d.text(465, 122 + 16 * k, name, size=10, mono=True)
    made = {
        "cpu": "LLVM IR, SIMD, threads",
        "gpu": "LLVM IR, PTX",
        "triton": "TTIR, PTX",
        "tileir": "bytecode, tileiras",
    }
    targets = [(n, made[n]) for n in made if n in backend_names()]
    for k, (name, what) in enumerate(targets):
        d.box(610, 20 + 56 * k, 200, 44, fill=PALETTE[0], opacity=0.3, rounded=6)
        d.text(710, 35 + 56 * k, name, bold=True, mono=True)
        d.text(710, 52 + 56 * k, what, size=11)
        d.arrow(542, 145, 608, 42 + 56 * k)
    y = 20 + 56 * len(targets)
    d.box(610, y, 200, 44, fill=PALETTE[3], opacity=0.3, rounded=6)
    d.text(710, y + 15, "reference", bold=True, mono=True)
    d.text(710, y + 32, "NumPy, sanitizer: no passes", size=11)
    d.arrow(275, 177, 608, y + 28)
    return figure(d, "Every front end gives the same Tile IR; the reference runs it without passes, as the oracle.")


_HIERARCHIES = (
    (
        "CPU",
        ("registers: lanes of a tile", "L1 and L2 of a core: tiles of a block", "L3 of the cores", "memory: arrays"),
        "core",
    ),
    (
        "GPU",
        ("registers: tiles", "shared memory: tiles on their way", "L2 of the SMs", "device memory: arrays"),
        "SM",
    ),
)


def memory() -> str:
    """Where tiles live."""
    d = Drawing(820, 330, "The memory of a CPU and of a GPU, and where a tile is in each")
    for c, (title, levels, unit) in enumerate(_HIERARCHIES):
        x = 20 + 410 * c
        d.text(x + 185, 18, title, bold=True, size=15)
        for k, words in enumerate(levels):
            inset = 30 * (3 - k)
            d.box(x + inset, 40 + 70 * k, 370 - 2 * inset, 50, fill=PALETTE[(0, 4, 2, 1)[k]], opacity=0.35, rounded=6)
            d.text(x + 185, 65 + 70 * k, words)
            if k:
                d.arrow(x + 185, 38 + 70 * k, x + 185, 22 + 70 * k)
        d.text(x + 185, 318, f"one block runs on one {unit}", fill=INK, size=12)
    return figure(d, "A kernel says what is in a tile; the compiler decides at which level it is.")


def blocks_of(recording: Recording, array: str) -> Drawing | None:
    """Which block wrote which element of ``array``: a matrix as it is, a vector in rows; None without a
    write, and for arrays too small to be a picture."""
    blocks = touched(recording, array, ("write", "atomic"))
    if blocks.ndim > 2:
        blocks = blocks.reshape(-1, blocks.shape[-1])
    if blocks.ndim == 1:
        width = 64 if blocks.size > 64 else blocks.size
        blocks = np.pad(blocks, (0, -blocks.size % width), constant_values=-2).reshape(-1, width)
    rows, columns = blocks.shape
    if not (blocks >= 0).any() or blocks.size < _FEWEST:
        return None
    step_y, step_x = max(1, -(-rows // 48)), max(1, -(-columns // 96))
    shown = blocks[::step_y, ::step_x]
    size = min(12.0, 640 / shown.shape[1])
    down = max(size, min(24.0, 120 / shown.shape[0]))  # few rows are high enough to be seen
    d = Drawing(shown.shape[1] * size + 2, shown.shape[0] * down + 2, f"The blocks that wrote the elements of {array}")
    for i, row in enumerate(shown):
        j = 0
        while j < len(row):  # one box for each run of equal blocks
            k = j
            while k < len(row) and row[k] == row[j]:
                k += 1
            if row[j] >= -1:
                fill = PALETTE[row[j] % 7] if row[j] >= 0 else FAINT
                d.box(1 + j * size, 1 + i * down, (k - j) * size, down, fill=fill, stroke=fill, thickness=0.3)
            j = k
    return d


DIAGRAMS: dict[str, Callable[[], str]] = {
    "tile space": tile_space,
    "padding": padding,
    "views": views,
    "pipeline": pipeline,
    "memory": memory,
}
