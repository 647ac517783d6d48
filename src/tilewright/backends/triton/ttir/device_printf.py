"""Lowers print and assert to stores into the buffer that ``gpu_runtime.device_printf`` describes and reads."""

from __future__ import annotations

import math

from tilewright.analysis.gpu.lowering_plan import axes_kept
from tilewright.backends.triton.ttir.elements import pointer_bits
from tilewright.backends.triton.ttir.memory import offset
from tilewright.backends.triton.ttir.state import State
from tilewright.backends.triton.ttir.text import Shape, Val, Writer
from tilewright.ir.core import Value
from tilewright.ir.ops.memory import Assert, Print
from tilewright.ir.report_buffer import (
    FAILED_BLOCK,
    FAILED_ELEMENT,
    FAILED_SITE,
    FAILED_VALUES,
    HEADER,
    MOST_VALUES,
    RECORD,
    WORDS,
    record_words,
)

_CELL = "!tt.ptr<i64>"


def print_op(s: State, op: Print) -> None:
    """Takes room in the buffer and fills it; what does not fit is counted and lost."""
    w, words = s.w, record_words(op)
    assert s.report is not None
    always = w.constant(True, "i1")
    size = w.constant(words, "i64")
    text = f"tt.atomic_rmw add, relaxed, gpu, {s.report.name}, {size.name}, {always.name}"
    start = w.emit(f"{text} : ({_CELL}, i64, i1) -> i64", "i64")
    fits = w.compare("sle", start, w.constant(WORDS - HEADER - words, "i64"))
    at = offset(w, s.report, w.op("arith.addi", start, w.constant(HEADER, "i64")))
    for i, word in enumerate([w.constant(s.sites[op], "i64"), *_block(w)]):
        _put(w, at, i, word, fits)
    position = RECORD
    for value in op.operands:
        _put_tile(s, at, position, value, fits)
        position += value.tile.size


def _block(w: Writer) -> list[Val]:
    ids = [w.emit(f"tt.get_program_id {axis} : i32", "i32") for axis in "xyz"]
    return [w.convert("arith.extui", i, "i64") for i in ids]


def _put(w: Writer, base: Val, position: int, word: Val, condition: Val) -> None:
    at = offset(w, base, w.constant(position, "i32"))
    w.located(f"tt.store {at.name}, {word.name}, {condition.name} : {_CELL}")


def _put_tile(s: State, base: Val, position: int, value: Value, condition: Val) -> None:
    w = s.w
    bits = _bits(w, s[value])
    if not bits.shape:
        _put(w, base, position, bits, condition)
        return
    count = math.prod(bits.shape)
    flat = w.reshape(bits, (count,))
    first = w.splat(offset(w, base, w.constant(position, "i32")), (count,))
    at = offset(w, first, w.arange(count))
    w.located(f"tt.store {at.name}, {flat.name}, {w.splat(condition, (count,)).name} : {at.type}")


def _bits(w: Writer, x: Val) -> Val:
    """The bits of each element as an i64."""
    if x.element.startswith("!"):
        return pointer_bits(w, x)
    if x.element != "i1":
        x = w.bitcast(x, f"i{x.bits}")
    return w.convert("arith.extui", x, "i64")


def assert_op(s: State, op: Assert) -> None:
    """The first block that fails says where and why, and every block that fails ends."""
    w = s.w
    assert s.report is not None
    condition = s[op.condition]
    holds, element = _first_false(w, condition)
    failed = w.op("arith.xori", holds, w.constant(True, "i1"))
    w.line(f"scf.if {failed.name} {{")
    with w.region():
        zero, site = w.constant(0, "i64"), w.constant(s.sites[op] + 1, "i64")
        cell = offset(w, s.report, w.constant(FAILED_SITE, "i32"))
        text = f"tt.atomic_cas relaxed, gpu, {cell.name}, {zero.name}, {site.name}"
        old = w.emit(f"{text} : ({_CELL}, i64, i64) -> i64", "i64")
        first = w.compare("eq", old, zero)
        for i, word in enumerate(_block(w)):
            _put(w, s.report, FAILED_BLOCK + i, word, first)
        _put(w, s.report, FAILED_ELEMENT, w.convert("arith.extui", element, "i64"), first)
        for i, value in enumerate(op.values[:MOST_VALUES]):
            found = _element_of(s, value, op.condition.tile.shape, condition.shape, element)
            _put(w, s.report, FAILED_VALUES + i, found, first)
        w.located("gpu.barrier")
        w.end_block()
    w.located("}")


def _first_false(w: Writer, condition: Val) -> tuple[Val, Val]:
    """Whether all elements are true, and the row-major position of the first that is not."""
    if not condition.shape:
        return condition, w.constant(0, "i32")
    count = math.prod(condition.shape)
    flat = w.reshape(condition, (count,))
    positions = w.select(flat, w.constant(count, "i32", (count,)), w.arange(count))
    smallest = w.reduce("arith.minsi", positions, 0)
    return w.compare("eq", smallest, w.constant(count, "i32")), smallest


def _element_of(s: State, value: Value, shape: Shape, kept: Shape, element: Val) -> Val:
    """Element ``element`` of ``value`` repeated to ``shape``, as i64."""
    w = s.w
    signed = value.tile.element.is_signed and not value.tile.element.is_bool
    x = w.convert("arith.extsi" if signed else "arith.extui", s[value], "i64")
    if not kept:
        return x
    if x.shape != kept:
        axes = axes_kept(shape)
        padded = (1,) * (len(shape) - value.tile.rank) + value.tile.shape
        x = w.place(x, [i for i, axis in enumerate(axes) if padded[axis] != 1], kept)
    count = math.prod(kept)
    flat = w.reshape(x, (count,))
    here = w.compare("eq", w.arange(count), w.splat(element, (count,)))
    return w.reduce("arith.ori", w.select(here, flat, w.like(0, flat)), 0)
