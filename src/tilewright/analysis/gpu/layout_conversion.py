"""What it takes to bring a distributed tile from one layout to another, and bank conflicts of shared memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence

from tilewright.ir.layouts import LANE, OFFSET, REGISTER, WARP, LinearLayout, log2
from tilewright.ir.ops.gpu.memory import is_vector
from tilewright.ir.span import Span

BANKS = 32
BANK_BYTES = 4
_VECTOR_BYTES = 16


@functools.lru_cache(maxsize=1024)
def within_warp(source: LinearLayout, target: LinearLayout) -> LinearLayout | None:
    """For each register, lane and warp of ``target`` where in the same warp the element is in ``source``.

    A layout whose shape is (registers, lanes, warps) of ``source``. None when a warp needs elements of others. If a
    thread needs nothing of other threads, its lane is its own.
    """
    if source.bases(LANE) == () or len(source.bases(LANE)) != len(target.bases(LANE)):
        return None
    registers, lanes, warps = (len(source.bases(dim)) for dim in (REGISTER, LANE, WARP))
    if warps != len(target.bases(WARP)):
        return None
    tags = [1 << (i + lanes + warps) for i in range(registers)]
    own = Span(source.bases(REGISTER), tags)
    for shuffles in (False, True):
        span = own
        if shuffles:
            tags += [1 << (i + warps) for i in range(lanes)]
            span = Span((*source.bases(REGISTER), *source.bases(LANE)), tags)
        found: dict[str, tuple[int, ...]] = {}
        for dim, first in ((REGISTER, None), (LANE, warps), (WARP, 0)):
            images: list[int] = []
            for i, b in enumerate(target.bases(dim)):
                same = 0 if first is None else 1 << (first + i)
                held = 0 if first is None else source.bases(dim)[i]
                solved = own.solve(b ^ held)
                if solved is not None:
                    images.append(solved | same)
                    continue
                solved = span.solve(b if dim == LANE else b ^ held)
                if solved is None:
                    break
                images.append(solved ^ (0 if dim == LANE else same))
            else:
                found[dim] = tuple(images)
        if len(found) == 3:
            return LinearLayout((1 << registers, 1 << lanes, 1 << warps), tuple(found.items()))
    return None


def is_within_thread(conversion: LinearLayout) -> bool:
    """Whether a conversion that ``within_warp`` gives takes only other registers of the same thread."""
    lanes = conversion.images(LANE)
    own = all(image[1] == 1 << i and not image[0] for i, image in enumerate(lanes))
    return own and not any(image[1] for dim in (REGISTER, WARP) for image in conversion.images(dim))


@functools.lru_cache(maxsize=1024)
def shared_layout(source: LinearLayout, target: LinearLayout, element_bytes: int) -> tuple[LinearLayout, int]:
    """A layout in shared memory to which ``source`` stores, and from which ``target`` loads, without bank conflicts.

    Also returns how many elements one access of a thread has: registers that both layouts have in common make vectors
    of up to 16 bytes.
    """
    common = [b for b in source.bases(REGISTER) if b and b in target.bases(REGISTER)]
    run = Span().add_all(common)[: log2(max(_VECTOR_BYTES // element_bytes, 1))]
    vector = 1 << len(run)
    found = _swizzled(source, target, element_bytes, run, len(run))
    if is_vector(found, source, vector) and is_vector(found, target, vector):
        return found, vector
    return _swizzled(source, target, element_bytes, [], 0), 1


@functools.lru_cache(maxsize=1024)
def copy_layout(source: LinearLayout, target: LinearLayout, element_bytes: int, vector: int) -> LinearLayout:
    """As ``shared_layout``; ``source`` stores ``vector`` registers side by side, and ``target`` loads these where a
    thread has them, too, else single elements, or 8 rows of 16 bytes at once, where ``ldmatrix`` transposes them."""
    run = source.bases(REGISTER)[: log2(vector)]
    if _is_across(run, target, element_bytes):
        rows = (REGISTER, run), (LANE, (target.bases(REGISTER)[0], *target.bases(LANE)[:2]))
        return _swizzled(source, LinearLayout(target.shape, rows), element_bytes, run, len(run))
    return _swizzled(source, target, element_bytes, run, len(run) if set(run) <= set(target.bases(REGISTER)) else 0)


def in_rows(source: LinearLayout, vector: int, wider: int) -> LinearLayout | None:
    """The layout of threads that have ``wider`` elements side by side, where those of ``source`` have ``vector``; None
    where there are too few elements for that."""
    registers, lanes, run = source.bases(REGISTER), source.bases(LANE), log2(vector)
    more = log2(wider) - run
    beside = *registers[:run], *lanes[:more]
    moved = registers[run : run + more]
    if len(moved) < more or any(b != beside[0] << k for k, b in enumerate(beside)):
        return None
    bases = {REGISTER: (*beside, *registers[run + more :]), LANE: (*lanes[more:], *moved), WARP: source.bases(WARP)}
    return LinearLayout(source.shape, tuple(bases.items()))


def is_transposed(source: LinearLayout, target: LinearLayout, element_bytes: int) -> bool:
    """Whether ``source`` has rows of 16 bytes in the registers of a thread that ``ldmatrix`` transposes for ``target``,
    four matrices at once."""
    run, registers = source.bases(REGISTER)[: log2(_VECTOR_BYTES // element_bytes)], target.bases(REGISTER)
    moved = 2 + 2 // element_bytes  # bits of the registers that an instruction loads
    return _is_across(run, target, element_bytes) and len(registers) >= moved and 0 not in registers


def _is_across(run: Sequence[int], target: LinearLayout, element_bytes: int) -> bool:
    """Whether lanes of ``target`` are along the ``run`` of elements that lie side by side; of bytes pairs are."""
    beside, along = run[: 2 - element_bytes], run[2 - element_bytes :]
    return element_bytes <= 2 and along == target.bases(LANE)[2:] and set(beside) <= set(target.bases(REGISTER))


def _swizzled(
    source: LinearLayout, target: LinearLayout, element_bytes: int, run: Sequence[int], target_bits: int
) -> LinearLayout:
    """A layout whose lowest offset bits are ``run``, the vector of ``source``; ``target`` has ``target_bits`` of these.

    The next bits choose the bank; the highest ones, the row, are directions in which no two lanes of a warp differ that
    are served at once, neither in ``source`` nor in ``target``. So these lie in different banks, or in one word.
    """
    size = log2(math.prod(source.shape))
    span = Span(run)
    offsets = list(run)

    def take(vectors: Iterable[int], count: int) -> None:
        for v in vectors:
            if len(offsets) < count and span.add(v):
                offsets.append(v)

    # What lies in one word does not conflict: fill the word with lanes that differ in both layouts, else in one.
    word = log2(max(BANK_BYTES // element_bytes, 1))
    lanes = [b for b in source.bases(LANE) if b], [b for b in target.bases(LANE) if b]
    take([b for b in lanes[0] if b in lanes[1]], word)
    take([*lanes[0], *lanes[1], *(1 << i for i in range(size))], word)
    at_once = []
    for layout, bits in ((source, len(run)), (target, target_bits)):
        own = offsets[: max(bits, word)] if layout is target else offsets
        # Wider accesses are served by halves or quarters of a warp.
        served = 5 - log2(max((element_bytes << bits) // BANK_BYTES, 1))
        at_once.append([*own, *Span(own).add_all(layout.bases(LANE)[:served])])
    rows = _rows(at_once[0], at_once[1], run, size)
    count = max(size - log2(BANKS * BANK_BYTES // element_bytes), 0)
    rows = rows[:count]
    complement = Span((*offsets, *rows))
    offsets += complement.add_all((*at_once[0], *at_once[1], *(1 << i for i in range(size))))
    return LinearLayout(source.shape, ((OFFSET, (*offsets, *rows)),))


def _rows(a: Sequence[int], b: Sequence[int], run: Sequence[int], size: int) -> list[int]:
    """Directions that span nothing that ``a`` spans and nothing that ``b`` spans, the best first.

    With I spanned by both, a vector of ``a`` beyond I plus one of ``b`` beyond I is in neither, and neither are sums of
    several of these; nor is anything outside of what both span together. None of these may have a part of ``run``,
    which would change the order of elements in a vector: where that leaves too few directions, some of ``b`` are last.
    """
    common = Span((*_intersection(a, b), *run)).basis
    beyond_a, beyond_b = (Span(common).add_all(vectors) for vectors in (a, b))
    outside = Span((*a, *b)).add_all(1 << i for i in range(size))
    pairs = [x ^ y for x, y in zip(beyond_a, beyond_b)]
    return [*outside, *pairs, *beyond_b[len(pairs) :], *beyond_a[len(pairs) :]]


def _intersection(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """A basis of what both ``a`` and ``b`` span (Zassenhaus)."""
    span = Span(a, a)
    found: list[int] = []
    seen = Span()
    for v in b:
        tag = span.solve(v)
        if tag is None:
            span.add(v, 0)
        elif seen.add(tag):
            found.append(tag)
    return found
