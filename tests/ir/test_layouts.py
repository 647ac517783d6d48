"""Linear layouts against brute-force enumeration of their elements."""

from __future__ import annotations

import math
import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from tilewright.ir.layouts import LANE, OFFSET, REGISTER, WARP, LinearLayout, log2

SEEDS = range(60)


def random_layout(rng: random.Random, surjective: bool = False, shape: tuple[int, ...] | None = None) -> LinearLayout:
    """Any linear map; a surjective one is a change of basis with free bits mixed in."""
    if shape is None:
        shape = tuple(1 << rng.randrange(4) for _ in range(rng.randrange(1, 4)))
    bits = log2(math.prod(shape))
    if surjective:
        flat = [1 << i for i in range(bits)]
        for _ in range(3 * bits):
            i, j = rng.sample(range(bits), 2) if bits > 1 else (0, 0)
            if i != j:
                flat[i] ^= flat[j]
        flat += [rng.choice([0, rng.randrange(1 << bits)]) for _ in range(rng.randrange(3))]
    else:
        flat = [rng.randrange(1 << bits) for _ in range(rng.randrange(bits + 3))]
    rng.shuffle(flat)
    cut = sorted(rng.randrange(len(flat) + 1) for _ in range(2))
    parts = flat[: cut[0]], flat[cut[0] : cut[1]], flat[cut[1] :]
    return LinearLayout(shape, tuple((n, tuple(p)) for n, p in zip((REGISTER, LANE, WARP), parts)))


def enumerate_inputs(layout: LinearLayout) -> list[dict[str, int]]:
    return [dict(zip(layout.names, values)) for values in product(*(range(n) for n in layout.sizes))]


def element(layout: LinearLayout, inputs: dict[str, int]) -> tuple[int, ...]:
    """The definition, from the text form's numbers: exclusive or, coordinate by coordinate."""
    found = [0] * layout.rank
    for name, value in inputs.items():
        for i, image in enumerate(layout.images(name)):
            if value >> i & 1:
                found = [a ^ b for a, b in zip(found, image)]
    return tuple(found)


@pytest.fixture(params=SEEDS)
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def test_application(rng: random.Random) -> None:
    layout = random_layout(rng)
    inputs = enumerate_inputs(layout)
    expected = [element(layout, i) for i in inputs]
    assert [layout.apply(**i) for i in inputs] == expected
    arrays: dict[str, Any] = {name: np.array([i[name] for i in inputs]) for name in layout.names}
    assert list(zip(*(a.tolist() for a in layout.apply(**arrays)))) == expected
    assert layout.table.shape == layout.sizes
    assert layout.table.ravel().tolist() == [int(np.ravel_multi_index(e, layout.shape)) for e in expected]


def test_ranks(rng: random.Random) -> None:
    layout = random_layout(rng)
    held = [element(layout, i) for i in enumerate_inputs(layout)]
    assert layout.is_injective == (len(set(held)) == len(held))
    assert layout.is_surjective == (len(set(held)) == math.prod(layout.shape))
    free = sum(layout.free_mask(name).bit_count() for name in layout.names)
    assert len(held) == len(set(held)) << free
    # The inputs with free bits 0 hold each element once.
    owners = [i for i in enumerate_inputs(layout) if not any(v & layout.free_mask(n) for n, v in i.items())]
    assert sorted(element(layout, i) for i in owners) == sorted(set(held))


def test_pseudo_inverse(rng: random.Random) -> None:
    layout = random_layout(rng, surjective=True)
    inverse = layout.pseudo_inverse()
    for coordinates in product(*map(range, layout.shape)):
        place = inverse.apply(**{f"dim{i}": c for i, c in enumerate(coordinates)})
        assert layout.apply(**dict(zip(layout.names, place))) == coordinates
        assert not any(v & layout.free_mask(n) for n, v in zip(layout.names, place))


def test_conversion(rng: random.Random) -> None:
    source = random_layout(rng)
    target = random_layout(rng, surjective=True, shape=source.shape)
    conversion = target.invert_and_compose(source)
    for inputs in enumerate_inputs(source):
        place = dict(zip(target.names, conversion.apply(**inputs)))
        assert element(target, place) == element(source, inputs)


def test_what_is_not_held_has_no_inverse() -> None:
    layout = LinearLayout.of((4, 4), {REGISTER: [[0, 1], [0, 2]], LANE: [[1, 0]]})
    with pytest.raises(ValueError, match="does not hold every element"):
        layout.pseudo_inverse()


def test_product(rng: random.Random) -> None:
    inner = random_layout(rng)
    outer = random_layout(rng, shape=tuple(1 << rng.randrange(3) for _ in inner.shape))
    whole = inner.product(outer)
    for i, o in product(enumerate_inputs(inner)[:16], enumerate_inputs(outer)[:16]):
        combined = {n: i[n] + o[n] * inner.size(n) for n in whole.names}
        expected = tuple(a + b * n for a, b, n in zip(element(inner, i), element(outer, o), inner.shape))
        assert element(whole, combined) == expected


def test_output_dimensions(rng: random.Random) -> None:
    layout = random_layout(rng)
    numbers = np.arange(math.prod(layout.shape)).reshape(layout.shape)
    held = numbers.ravel()[layout.table]
    axes = list(range(layout.rank))
    rng.shuffle(axes)
    assert (numbers.transpose(axes).ravel()[layout.permute(axes).table] == held).all()
    flat = layout.reshape((1, math.prod(layout.shape)))
    assert (numbers.ravel()[flat.table] == held).all()
    assert layout.expand(0).slice(0) == layout.without_free_registers()
    axis = rng.randrange(layout.rank)
    sliced = layout.slice(axis)
    for inputs in enumerate_inputs(sliced):
        threads = {n: inputs[n] for n in (LANE, WARP)}
        along = {element(layout, threads | {REGISTER: r}) for r in range(layout.size(REGISTER))}
        assert element(sliced, inputs) in {e[:axis] + e[axis + 1 :] for e in along}
    assert not any(sliced.with_bases(LANE, ()).with_bases(WARP, ()).free_mask(REGISTER) >> i & 1 for i in range(9))


@pytest.mark.parametrize(
    ("shape", "registers", "lanes", "warps", "order"),
    [
        ((64, 64), (1, 8), (4, 8), (4, 1), (1, 0)),
        ((64, 64), (8, 1), (8, 4), (1, 4), (0, 1)),
        ((8,), (4,), (32,), (4,), (0,)),  # smaller than what the threads hold
        ((1024,), (4,), (32,), (4,), (0,)),
        ((2, 4, 32), (1, 1, 4), (1, 4, 8), (2, 2, 1), (2, 1, 0)),
    ],
)
def test_blocked(shape: Any, registers: Any, lanes: Any, warps: Any, order: Any) -> None:
    layout = LinearLayout.blocked(shape, registers, lanes, warps, order)
    assert layout.is_surjective and layout.is_permutation
    assert layout.size(LANE) == 32 and layout.size(WARP) == 4
    fastest = order[0]
    run = min(registers[fastest], shape[fastest])
    first = [layout.apply(register=r)[fastest] for r in range(run)]
    assert first == list(range(run))
    held = layout.size(REGISTER) * layout.size(LANE) * layout.size(WARP)
    assert held == max(math.prod(shape), held if not layout.is_injective else 0)


def test_text_and_faults() -> None:
    layout = LinearLayout.of((2, 8), {REGISTER: [[0, 1], [0, 2]], LANE: [[1, 4]], WARP: []})
    assert str(layout) == "#layout<register = [[0,1],[0,2]], lane = [[1,4]], warp = []>"
    assert LinearLayout.row_major((2, 8)).images(OFFSET) == ((0, 1), (0, 2), (0, 4), (1, 0))
    assert hash(layout) == hash(LinearLayout.of((2, 8), {n: layout.images(n) for n in layout.names}))
    with pytest.raises(ValueError, match=r"lane has the basis \[2, 0\], outside of a tile of shape \(2, 8\)"):
        LinearLayout.of((2, 8), {LANE: [[2, 0]]})
    with pytest.raises(ValueError, match="3 is not a power of two"):
        LinearLayout((3,), ())
    with pytest.raises(ValueError, match="named twice"):
        LinearLayout((2,), ((LANE, ()), (LANE, ())))
    with pytest.raises(ValueError, match="has no dimension warps"):
        layout.apply(warps=1)
    with pytest.raises(ValueError, match="cannot reshape"):
        layout.reshape((4,))
    with pytest.raises(ValueError, match="no permutation"):
        layout.permute((0, 0))
