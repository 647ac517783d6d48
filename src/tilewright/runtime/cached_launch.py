"""Launches that repeat an earlier one of their kernel with other addresses, numbers and extents, as most launches do:
by machine code, without a step in Python.

Describing every argument and looking the description up takes ten times as long as the launch itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilewright.backends import native
from tilewright.backends.base import DirectLaunch
from tilewright.backends.launch_arguments import ListTable
from tilewright.backends.native.body import Body
from tilewright.backends.native.code import function
from tilewright.frontend.signature import ArgumentSpec
from tilewright.runtime import backend_choice
from tilewright.runtime.arguments import RUNTIME_SLOT
from tilewright.runtime.grid import MAX_BLOCKS, MAX_GRID, checked_grid
from tilewright.runtime.guards import Guards, require_range
from tilewright.runtime.rules import Rule
from tilewright.runtime.streams import stream_handle
from tilewright.runtime.versions import Path
from tilewright.system.environment import lookup

# The variables that decide how a launch runs: keys, and where these are looked up.
_VARIABLES = [lookup(f"TILEWRIGHT_{name}") for name in ("BACKEND", "CHECK", "CHECK_OVERLAP")]
# Runs a launch on a stream, with a grid, arguments and what it asks for as its backend, if it is like the earlier one;
# False, and nothing has happened, if not.
CachedLaunch = Callable[[Any, Any, Any, "str | None"], bool]
_STREAM, _GRID, _ARGUMENTS, _BACKEND = range(4)


def cached_launch(
    backend: str | None,
    rules: Sequence[Rule],
    args: Sequence[Any],
    template: Sequence[Any],
    executable: DirectLaunch,
    device: int | None,
    tables: Sequence[ListTable] = (),
    written: Sequence[Path] = (),
    specs: Sequence[ArgumentSpec | None] = (),
) -> CachedLaunch | None:
    """Machine code for launches like that with ``args`` that ask for the same ``backend``, or none, where what else
    decides how they run is as it is now. None where it cannot check all that, or the backend cannot be entered by it.

    ``template`` has the values of the function parameters, with a RUNTIME_SLOT for each address, number and table.
    Behind addresses follow the extents and strides of arrays that ``specs``, what the kernel is specialised on, do not
    hold, and that may be others; without specs they are all as now. ``device`` is the index of the GPU, None for a CPU;
    ``written`` lead to the arguments whose version a launch increments.
    """
    if not native.available():
        return None
    stub = executable.launch_stub(device or 0, tables, {})
    if stub is None:
        return None
    body = Body()
    body.require_equal("i64", "%count", 4)
    if not _guard_settings(body, backend):
        return None
    memory = body.stack(f"[{max(len(template), 1)} x i64]")
    for i, value in enumerate(template):
        if value is not RUNTIME_SLOT:
            body.store("i64", body.number(value), memory, 8 * i)
    slots = (body.at(memory, 8 * i) for i, value in enumerate(template) if value is RUNTIME_SLOT)
    guards = Guards(body, _argument(body, _ARGUMENTS), slots)
    guards.emit(rules, args, [table.rows for table in tables], {path[0] for path in written}, specs)
    if not guards.able:
        return None
    x, y, z = _grid(body)
    stream = _no_stream(body) if device is None else _stream(body)
    enter, record = map(body.external, stub.addresses)
    given = f"ptr {record}, ptr {memory}, i64 {x}, i64 {y}, i64 {z}, i64 {stream}"
    code = body.let(f"call i32 {enter}({given})")
    body.branch(body.let(f"icmp eq i32 {code}, 2"), "interrupted", "entered")
    body.label("entered")
    body.require_equal("i32", code, 0)
    guards.note_writes()
    body.kept.append(stub)
    return function("launch", body)


def _argument(body: Body, which: int) -> str:
    return body.load("ptr", "%args", 8 * which)


def _guard_settings(body: Body, backend: str | None) -> bool:
    """Require that ``backend`` is asked for, and the context and the environment ask for what they do now. False where
    machine code cannot check that."""
    if backend_choice.FORCED or any(type(variables) is not dict for _, variables in _VARIABLES):
        return False
    body.require(body.equals(_argument(body, _BACKEND), backend))
    body.require_equal("i64", body.call("PyList_Size", body.reference(backend_choice.FORCED)), 0)
    found = body.stack("ptr")
    body.require_equal("i32", body.call("PyContextVar_Get", body.reference(backend_choice.CURRENT), "null", found), 0)
    body.require(body.equals(body.held(body.load("ptr", found)), backend_choice.CURRENT.get()))
    for key, variables in _VARIABLES:
        body.require_entry(variables, key, variables.get(key))
    return True


def _grid(body: Body) -> list[str]:
    """The extents of a grid, as ``checked_grid`` gives them, which is called for integers that are not Python's."""
    grid, checked = _argument(body, _GRID), body.stack("ptr")
    body.require_type(grid, tuple)
    require_range(body, body.call("PyTuple_Size", grid), 1, 3)
    body.store("ptr", grid, checked)
    plain = "1"
    for entry, _ in _entries(body, grid):
        plain = body.let(f"and i1 {plain}, {body.has_type(entry, int)}")
    body.branch(plain, "plain", "unusual")
    body.label("unusual")
    _store_result(body, checked_grid, grid, checked)
    body.jump("plain")
    body.label("plain")
    extents = []
    for entry, there in _entries(body, body.load("ptr", checked)):
        number = body.integer(entry)
        require_range(body, number, 1, MAX_GRID)
        extents.append(body.let(f"select i1 {there}, i64 {number}, i64 1"))
    wide = [body.let(f"zext i64 {extent} to i128") for extent in extents]
    total = functools.reduce(lambda some, extent: body.let(f"mul i128 {some}, {extent}"), wide)
    body.require(body.let(f"icmp ule i128 {total}, {MAX_BLOCKS}"))
    return extents


def _entries(body: Body, grid: str) -> Iterator[tuple[str, str]]:
    """Three entries of a grid, and whether each is there: beyond the end stands the first one, to be ignored."""
    size = body.call("PyTuple_Size", grid)
    for axis in range(3):
        there = body.let(f"icmp sgt i64 {size}, {axis}")
        yield body.call("PyTuple_GetItem", grid, body.let(f"select i1 {there}, i64 {axis}, i64 0")), there


def _store_result(body: Body, function: Callable[[Any], Any], argument: str, address: str) -> None:
    """Store what a function of Python returns, which must not raise."""
    found = body.held(body.called(function, argument))
    body.require_object(found)
    body.store("ptr", found, address)


def _no_stream(body: Body) -> str:
    body.require_equal("ptr", _argument(body, _STREAM), body.reference(None))
    return "0"


def _stream(body: Body) -> str:
    """The handle of a stream, as ``stream_handle`` gives it, which is not called for the most common ones."""
    stream, handle, number = _argument(body, _STREAM), body.stack("i64"), body.stack("ptr")
    body.store("i64", 0, handle)
    body.branch(body.let(f"icmp eq ptr {stream}, {body.reference(None)}"), "known", "some")
    body.label("some")
    body.store("ptr", stream, number)
    body.branch(body.has_type(stream, int), "number", "torch")
    body.label("torch")
    found = body.held(body.call("PyObject_GetAttr", stream, body.reference("cuda_stream")))
    body.store("ptr", found, number)
    body.branch(body.let(f"icmp eq ptr {found}, null"), "missing", "found")
    body.label("found")
    body.branch(body.has_type(found, int), "number", "other")
    body.label("missing")
    body.require(body.raised(AttributeError))
    body.call("PyErr_Clear")
    body.jump("other")
    body.label("other")
    _store_result(body, stream_handle, stream, number)
    body.jump("number")
    body.label("number")
    value = body.call("PyLong_AsUnsignedLongLong", body.load("ptr", number))
    body.require(body.let(f"icmp ne i64 {value}, -1"))
    body.store("i64", value, handle)
    body.jump("known")
    body.label("known")
    return body.load("i64", handle)
