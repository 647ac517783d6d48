"""Cached launches in machine code: the guards and the launch, without a step in Python."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.backends import environment, native
from tilewright.backends.base import DirectLaunch
from tilewright.backends.native.body import Body, pointer
from tilewright.ir.dtypes import int32, int64
from tilewright.runtime import backend_choice, dlpack, numpy_memory
from tilewright.runtime.arguments import RUNTIME_SLOT
from tilewright.runtime.arrays import several_gpus
from tilewright.runtime.grid import MAX_BLOCKS, MAX_GRID, checked_grid
from tilewright.runtime.guards import emit_guards
from tilewright.runtime.rules import Rule
from tilewright.runtime.streams import stream_handle

# In the order of the arguments of ``CachedLaunch.launch``.
_STREAM, _GRID, _ARGUMENTS, _BACKEND = range(4)


class _GuardBuilder:
    """Writes guards of the arguments of a launch, and collects their addresses and numbers."""

    def __init__(self, body: Body, count: int) -> None:
        self.body = body
        tuple_of_them = _argument(body, _ARGUMENTS)
        _require_size(body, tuple_of_them, count)
        self._arguments = [body.call("PyTuple_GetItem", tuple_of_them, i) for i in range(count)]
        self.able = True  # whether machine code can check all that
        self.numbers: list[tuple[str, str]] = []  # what fills the slots, in order: LLVM type and value

    def constant(self, i: int, value: float) -> None:
        argument, body = self._arguments[i], self.body
        if isinstance(value, bool):
            self.object(i, value)
        elif isinstance(value, int):
            self.able &= int64.min <= value <= int64.max
            body.require_equal("i64", body.integer(argument), value)
        else:
            body.require_type(argument, float)
            bits = body.let(f"bitcast double {body.call('PyFloat_AsDouble', argument)} to i64")
            body.require_equal("i64", bits, np.float64(value).view(np.int64))

    def object(self, i: int, value: object) -> None:
        self.body.require_equal("ptr", self._arguments[i], self.body.reference(value))

    def number(self, i: int, value: float) -> None:
        argument, body = self._arguments[i], self.body
        if isinstance(value, bool):
            true = body.let(f"icmp eq ptr {argument}, {body.reference(True)}")
            false = body.let(f"icmp eq ptr {argument}, {body.reference(False)}")
            body.require(body.let(f"or i1 {true}, {false}"))
            self.numbers.append(("i64", body.let(f"zext i1 {true} to i64")))
        elif isinstance(value, int):
            number = body.integer(argument)
            _require_range(body, number, int32.min, int32.max)
            self.numbers.append(("i64", number))
        else:
            body.require_type(argument, float)
            self.numbers.append(("double", body.call("PyFloat_AsDouble", argument)))

    def numpy(self, i: int, array: np.ndarray[Any, Any]) -> None:
        argument, body, at = self._arguments[i], self.body, numpy_memory.offset
        self.able &= numpy_memory.FIELDS_ARE_KNOWN
        body.require_type(argument, np.ndarray)
        body.require_equal("ptr", body.load("ptr", argument, at("dtype")), body.reference(array.dtype))
        body.require_equal("i32", body.load("i32", argument, at("rank")), array.ndim)
        for field in ("shape", "strides") if array.ndim else ():
            numbers = body.load("ptr", argument, at(field))
            for axis, wanted in enumerate(getattr(array, field)):
                body.require_equal("i64", body.load("i64", numbers, 8 * axis), wanted)
        writeable = body.let(f"and i32 {body.load('i32', argument, at('flags'))}, {numpy_memory.WRITEABLE}")
        body.require_equal("i32", writeable, numpy_memory.WRITEABLE if array.flags.writeable else 0)
        self._address(body.load("i64", argument, at("address")), numpy_memory.address_of(array))

    def cupy(self, i: int, array: Any) -> None:
        argument, body = self._arguments[i], self.body
        body.require_type(argument, type(array))
        for name in ("dtype", "shape", "strides"):
            self._require_attribute(argument, name, getattr(array, name))
        memory = body.attribute(argument, "data")
        self._require_attribute(memory, "device_id", array.data.device_id)
        self._address_of(body.attribute(memory, "ptr"), array.data.ptr)

    def interface(self, i: int, array: Any, name: str) -> None:
        argument, body, known = self._arguments[i], self.body, getattr(array, name)
        self.able &= type(known) is dict
        self.able &= all(type(known.get(key)) in (tuple, type(None)) for key in ("shape", "strides"))
        body.require_type(argument, type(array))
        if name == "__cuda_array_interface__":
            self._require_device(argument, array)
        interface = body.attribute(argument, name)
        body.require_type(interface, dict)
        for key in ("typestr", "shape", "strides", "mask"):
            found = self._item(interface, key)
            if known.get(key) is None:  # as where there is no such entry
                missing, none = body.let(f"icmp eq ptr {found}, null"), body.equals(found, None)
                body.require(body.let(f"or i1 {missing}, {none}"))
            else:
                body.require_object(found)
                body.require(body.equals(found, known[key]))
        data = self._item(interface, "data")
        body.require_object(data)
        _require_size(body, data, 2)
        body.require(body.equals(body.call("PyTuple_GetItem", data, 1), known["data"][1]))
        self._address_of(body.call("PyTuple_GetItem", data, 0), known["data"][0])

    def _item(self, interface: str, key: str) -> str:
        """``interface[key]``, which is held, as comparing may run code that changes the dict; it may be null."""
        found = self.body.call("PyDict_GetItemWithError", interface, self.body.reference(key))
        self.body.call("Py_IncRef", found)
        return self.body.held(found)

    def _require_device(self, argument: str, array: Any) -> None:
        """Require that the GPU is that of ``array``, which may not tell it."""
        body, device = self.body, getattr(array, "device", None)
        if device is None and several_gpus():
            self.able = False
        elif device is None:
            body.require_equal("i32", body.call("PyObject_HasAttr", argument, body.reference("device")), 0)
        elif not isinstance(getattr(device, "id", None), int):
            self.able = False
        else:
            self._require_attribute(body.attribute(argument, "device"), "id", device.id)

    def exported(self, i: int, array: Any) -> None:
        argument, body = self._arguments[i], self.body
        try:
            capsule, versions = dlpack.export(array)
        except BufferError:  # it lets itself be exported once
            self.able = False
            return
        name, known, writable = dlpack.header(capsule)
        body.require_type(argument, type(array))
        given = body.stack("[2 x ptr]")
        body.store("ptr", argument, given)
        body.store("ptr", body.reference(dlpack.MAX_VERSION), given, 8)
        names = body.reference(("max_version",)) if versions else "null"
        exported = body.call("PyObject_VectorcallMethod", body.reference("__dlpack__"), given, 1, names)
        body.require_object(exported)
        tensor = body.call("PyCapsule_GetPointer", body.held(exported), body.memory(ctypes.create_string_buffer(name)))
        body.require_object(tensor)
        if name == dlpack.VERSIONED:
            flags = body.let(f"and i64 {body.load('i64', tensor, dlpack.Versioned.flags.offset)}, {dlpack.READ_ONLY}")
            body.require_equal("i64", flags, 0 if writable else dlpack.READ_ONLY)
            tensor = body.at(tensor, dlpack.Versioned.tensor.offset)
        self._require_tensor(tensor, known)

    def _require_tensor(self, tensor: str, known: dlpack.Tensor) -> None:
        """Require that a tensor of DLPack is like ``known``, apart from its address."""
        body = self.body
        for name, bits in (
            ("device_type", 32),
            ("device_id", 32),
            ("ndim", 32),
            ("code", 8),
            ("bits", 8),
            ("lanes", 16),
        ):
            body.require_equal(f"i{bits}", body.load(f"i{bits}", tensor, _offset(name)), getattr(known, name))
        for name in ("shape", "strides") if known.ndim else ():
            numbers, wanted = body.load("ptr", tensor, _offset(name)), getattr(known, name)
            if not wanted:
                body.require_equal("ptr", numbers, "null")
                continue
            body.require_object(numbers)
            for axis in range(known.ndim):
                body.require_equal("i64", body.load("i64", numbers, 8 * axis), wanted[axis])
        start, offset = (body.load("i64", tensor, _offset(name)) for name in ("data", "byte_offset"))
        self._address(body.let(f"add i64 {start}, {offset}"), (known.data or 0) + known.byte_offset)

    def tensor(self, i: int, tensor: Any, changed: bool) -> None:
        argument, body, fill = self._arguments[i], self.body, dlpack.exchange(type(tensor))
        known = None if fill is None else dlpack.filled(fill, tensor)
        if fill is None or known is None:
            self.able = False
            return
        body.require_type(argument, type(tensor))
        body.require_equal("ptr", _called(body, type(tensor).is_neg, argument), body.reference(False))
        if changed:
            inference, enabled = tensor.is_inference(), sys.modules["torch"].is_inference_mode_enabled
            body.require_equal("ptr", _called(body, type(tensor).is_inference, argument), body.reference(inference))
            if inference:
                body.require_equal("ptr", _called(body, enabled), body.reference(True))
        found = body.stack(f"[{ctypes.sizeof(dlpack.Tensor)} x i8]")
        body.require_equal("i32", body.let(f"call i32 {pointer(fill)}(ptr {argument}, ptr {found})"), 0)
        self._require_tensor(found, known)

    def entries(self, i: int, entries: Sequence[int]) -> bool:
        return False

    def table(self, i: int, entries: Sequence[int]) -> None:
        raise AssertionError("lists have no guards")

    def _require_attribute(self, value: str, name: str, wanted: Any) -> None:
        self.body.require(self.body.equals(self.body.attribute(value, name), wanted))

    def _address_of(self, number: str, known: int) -> None:
        address = self.body.call("PyLong_AsUnsignedLongLong", number)
        self.body.require(self.body.let(f"icmp ne i64 {address}, -1"))
        self._address(address, known)

    def _address(self, address: str, known: int) -> None:
        self.body.require_equal("i64", self.body.let(f"and i64 {address}, 15"), known & 15)
        if known:  # the array has elements, if not always
            self.body.require(self.body.let(f"icmp ne i64 {address}, 0"))
        self.numbers.append(("i64", address))


def _offset(field: str) -> int:
    return int(getattr(dlpack.Tensor, field).offset)


def native_launch(
    settings: tuple[Any, ...],
    rules: Sequence[Rule],
    args: Sequence[Any],
    template: Sequence[Any],
    executable: DirectLaunch,
    device: int | None,
    changed: Collection[int] = (),
) -> Callable[..., bool] | None:
    """``CachedLaunch.launch`` for launches like that with ``args``; they write to those ``changed``. None where machine
    code cannot check all that, or the backend cannot be entered by it."""
    stub = executable.launch_stub(device or 0, {})
    if stub is None:
        return None
    body = Body()
    body.require_equal("i64", "%count", 4)
    if not _guard_settings(body, settings):
        return None
    guards = _GuardBuilder(body, len(args))
    if not emit_guards(rules, args, guards, changed) or not guards.able:
        return None
    memory = body.stack(f"[{max(len(template), 1)} x i64]")
    numbers = iter(guards.numbers)
    for i, value in enumerate(template):
        kind, text = next(numbers) if value is RUNTIME_SLOT else ("i64", value)
        body.store(kind, text, memory, 8 * i)
    x, y, z = _grid(body)
    stream = _no_stream(body) if device is None else _stream(body)
    code = body.let(f"call i32 @enter(ptr {memory}, i64 {x}, i64 {y}, i64 {z}, i64 {stream})")
    body.branch(body.let(f"icmp eq i32 {code}, 2"), "interrupted", "entered")
    body.label("entered")
    body.require_equal("i32", code, 0)
    body.kept += stub.kept
    return native.maker().function("launch", body, stub.text)


def _argument(body: Body, which: int) -> str:
    return body.load("ptr", "%args", 8 * which)


def _require_size(body: Body, value: str, size: int) -> None:
    body.require_type(value, tuple)
    body.require_equal("i64", body.call("PyTuple_Size", value), size)


def _require_range(body: Body, number: str, low: int, high: int) -> None:
    body.require(body.let(f"icmp sge i64 {number}, {low}"))
    body.require(body.let(f"icmp sle i64 {number}, {high}"))


def _guard_settings(body: Body, settings: tuple[Any, ...]) -> bool:
    """Require what ``backend_choice.settings`` says to be ``settings``. False where machine code cannot check that."""
    explicit, current, forced, *state = settings
    variables = environment.STATE_VALUES
    if forced is not None or type(variables) is not dict:
        return False
    body.require(body.equals(_argument(body, _BACKEND), explicit))
    body.require_equal("i64", body.call("PyList_Size", body.reference(backend_choice.FORCED)), 0)
    found = body.stack("ptr")
    body.require_equal("i32", body.call("PyContextVar_Get", body.reference(backend_choice.CURRENT), "null", found), 0)
    body.require(body.equals(body.held(body.load("ptr", found)), current))
    for key, wanted in zip(environment.STATE_KEYS, state):
        value = body.call("PyDict_GetItemWithError", body.reference(variables), body.reference(key))
        if wanted is None:
            body.require_equal("ptr", value, "null")
        else:
            body.require_object(value)
            body.require(body.equals(value, wanted))
    return True


def _grid(body: Body) -> list[str]:
    """The extents of a grid, as ``checked_grid`` gives them, which is called for integers that are not Python's."""
    grid, checked = _argument(body, _GRID), body.stack("ptr")
    body.require_type(grid, tuple)
    _require_range(body, body.call("PyTuple_Size", grid), 1, 3)
    body.store("ptr", grid, checked)
    plain = "1"
    for entry, _ in _entries(body, grid):
        plain = body.let(f"and i1 {plain}, {body.has_type(entry, int)}")
    body.branch(plain, "plain", "unusual")
    body.label("unusual")
    body.store("ptr", _called(body, checked_grid, grid), checked)
    body.jump("plain")
    body.label("plain")
    extents = []
    for entry, there in _entries(body, body.load("ptr", checked)):
        number = body.integer(entry)
        _require_range(body, number, 1, MAX_GRID)
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


def _called(body: Body, function: Callable[..., Any], *arguments: str) -> str:
    """What a function of Python returns for at most one argument."""
    given = body.stack("ptr")
    for argument in arguments:
        body.store("ptr", argument, given)
    count = len(arguments)
    found = body.held(body.call("PyObject_VectorcallDict", body.reference(function), given, count, "null"))
    body.require_object(found)
    return found


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
    body.store("ptr", _called(body, stream_handle, stream), number)
    body.jump("number")
    body.label("number")
    value = body.call("PyLong_AsUnsignedLongLong", body.load("ptr", number))
    body.require(body.let(f"icmp ne i64 {value}, -1"))
    body.store("i64", value, handle)
    body.jump("known")
    body.label("known")
    return body.load("i64", handle)
