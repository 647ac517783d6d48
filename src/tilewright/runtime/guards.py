"""Guards of a cached launch: conditions under which arguments differ from those of the earlier launch by numbers only,
addresses, extents and strides among them, as machine code that also collects these."""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Union

import numpy as np

from tilewright.backends.native.body import Body
from tilewright.frontend.signature import ArgumentSpec, ArraySpec, PointerSpec
from tilewright.ir.dtypes import DType, float32, float64, int32, int64
from tilewright.language.dtypes import to_dtype
from tilewright.runtime import arrays, dlpack, numpy_memory
from tilewright.runtime.layout import contiguous_strides, divisors_of
from tilewright.runtime.rules import Rule
from tilewright.runtime.versions import incrementer

_MOST = 256  # arguments and entries of lists: machine code for more takes long to make
_ENTRY = Rule()
_NUMBERS = (int, bool, float)
_ArraySpec = Union[ArraySpec, PointerSpec, None]


class Guards:
    """Writes guards of the arguments of a launch, which are those of the tuple ``given``, and collects their addresses
    and numbers. ``able``: machine code can check all that."""

    def __init__(self, body: Body, given: str) -> None:
        self.body, self._given = body, given
        self.able = True
        self.numbers: list[tuple[str, str]] = []  # what fills the slots, in order: LLVM type and value
        self._tensors: list[str] = []  # what holds those that are written, to be iterated over

    def emit(
        self,
        rules: Sequence[Rule],
        args: Sequence[Any],
        tables: Sequence[np.ndarray[Any, Any]],
        changed: Collection[int],
        specs: Sequence[ArgumentSpec | None] = (),
        extents: Sequence[int] = (),
    ) -> None:
        """Write all guards of arguments like ``args``; a launch writes to the tensors or lists ``changed``. ``tables``
        are the rows of the lists among them, without addresses. Of arrays with ``specs`` the ``extents`` and strides
        that these do not hold are numbers of a launch as well."""
        body, rows, unknown = self.body, iter(tables), iter(extents)
        require_size(body, self._given, len(args))
        self.able = len(args) + sum(len(value) for value in args if type(value) is list) <= _MOST
        for i, (rule, known) in enumerate(zip(rules, args) if self.able else ()):
            argument = body.call("PyTuple_GetItem", self._given, i)
            given = specs[i] if specs else None
            spec = given if isinstance(given, (ArraySpec, PointerSpec)) else None
            if type(known) is list and not rule.constant and rule.declared is None:
                self._list(argument, known, next(rows), i in changed)
            else:
                count = len(self.numbers) + 1  # with the address of an array
                self._argument(rule, argument, known, i in changed, spec)
                array = spec.extents() if isinstance(spec, ArraySpec) else ()
                numbers = [next(unknown) for extent in array if extent.known is None]
                if len(self.numbers) == count:  # the same ones at each launch
                    self.numbers += [("i64", body.number(n)) for n in numbers]
                if i in changed:
                    self._tensors.append(body.held(body.call("PyTuple_GetSlice", self._given, i, i + 1)))
                    body.require_object(self._tensors[-1])

    def note_writes(self) -> None:
        """Increment the versions of the tensors that the launch has written."""
        body = self.body
        for tensors in self._tensors:
            made = body.held(body.called(incrementer(), tensors))
            body.branch(body.let(f"icmp eq ptr {made}, null"), "interrupted", f"noted{made[1:]}")
            body.label(f"noted{made[1:]}")

    def _argument(self, rule: Rule, argument: str, known: Any, changed: bool, spec: _ArraySpec = None) -> None:
        number = type(known) in _NUMBERS
        array = None if rule.constant else _ARRAYS.get(arrays.array_describer(known))
        if rule.constant and number and known == known:  # no NaN
            self._constant(argument, known)
        elif rule.declared is None and to_dtype(known) is not None:
            self._object(argument, known)
        elif array is not None:
            array(self, argument, known, changed, spec)
        elif number and not rule.constant and rule.declared is None:
            self._number(argument, known)
        elif isinstance(rule.declared, DType) and type(known) is (float if rule.declared.is_floating else int):
            self._declared(argument, rule.declared)
        else:
            self.able = False

    def _list(self, argument: str, known: list[Any], rows: np.ndarray[Any, Any], changed: bool) -> None:
        """A list of arrays. The addresses of these become one number: that of the rows of its table."""
        body, first = self.body, len(self.numbers)
        body.require_type(argument, list)
        body.require_equal("i64", body.call("PyList_Size", argument), len(known))
        torch = sys.modules.get("torch")
        tensors = [torch is not None and isinstance(array, torch.Tensor) for array in known]
        self.able &= all(tensors) or not (changed and any(tensors))
        for i, array in enumerate(known):
            entry = body.call("PyList_GetItem", argument, i)
            body.call("Py_IncRef", entry)  # another thread may take it out of the list
            self._argument(_ENTRY, body.held(entry), array, changed)
        if changed and any(tensors):
            self._tensors.append(argument)
        table = body.stack(f"[{rows.size} x i64]")
        addresses, self.numbers[first:] = self.numbers[first:], [("ptr", table)]
        for i, ((kind, address), row) in enumerate(zip(addresses, rows.tolist())):
            extents = [("i64", body.number(number)) for number in row[1:]]
            for k, (type_, value) in enumerate([(kind, address), *extents]):
                body.store(type_, value, table, 8 * (i * len(row) + k))

    def _constant(self, argument: str, value: float) -> None:
        """0.0 and -0.0 are different."""
        body = self.body
        if isinstance(value, bool):
            self._object(argument, value)
        elif isinstance(value, int):
            self.able &= int64.min <= value <= int64.max
            body.require_equal("i64", body.integer(argument), body.number(value))
        else:
            body.require_type(argument, float)
            bits = body.let(f"bitcast double {body.call('PyFloat_AsDouble', argument)} to i64")
            body.require_equal("i64", bits, body.number(int(np.float64(value).view(np.int64))))

    def _object(self, argument: str, value: object) -> None:
        self.body.require_equal("ptr", argument, self.body.reference(value))

    def _number(self, argument: str, value: float) -> None:
        body = self.body
        if isinstance(value, bool):
            true = body.let(f"icmp eq ptr {argument}, {body.reference(True)}")
            false = body.let(f"icmp eq ptr {argument}, {body.reference(False)}")
            body.require(body.let(f"or i1 {true}, {false}"))
            self.numbers.append(("i64", body.let(f"zext i1 {true} to i64")))
        elif isinstance(value, int):
            number = body.integer(argument)
            require_range(body, number, int32.min, int32.max)
            self.numbers.append(("i64", number))
        else:
            body.require_type(argument, float)
            self.numbers.append(("double", body.call("PyFloat_AsDouble", argument)))

    def _declared(self, argument: str, dtype: DType) -> None:
        """A number for a parameter of a declared type, as ``describe_declared`` gives it."""
        body = self.body
        if not dtype.is_floating:
            self.able &= not dtype.is_bool
            number = body.integer(argument)
            require_range(body, number, max(dtype.min, int64.min), min(dtype.max, int64.max))
            self.numbers.append(("i64", number))
            return
        self.able &= dtype in (float32, float64)
        body.require_type(argument, float)
        number = body.call("PyFloat_AsDouble", argument)
        if dtype is float32:
            most = float(np.finfo(np.float32).max)
            body.require(body.let(f"fcmp oge double {number}, {-most!r}"))
            body.require(body.let(f"fcmp ole double {number}, {most!r}"))
            number = body.let(f"fpext float {body.let(f'fptrunc double {number} to float')} to double")
        self.numbers.append(("double", number))

    def _numpy(self, argument: str, array: np.ndarray[Any, Any], changed: bool, spec: _ArraySpec) -> None:
        body, at, extents = self.body, numpy_memory.offset, list[str]()
        self.able &= numpy_memory.FIELDS_ARE_KNOWN and type(array) is np.ndarray
        body.require_type(argument, np.ndarray)
        body.require_equal("ptr", body.load("ptr", argument, at("dtype")), body.reference(array.dtype))
        body.require_equal("i32", body.load("i32", argument, at("rank")), array.ndim)
        for field, unit in (("shape", 1), ("strides", array.itemsize)) if array.ndim else ():
            numbers = body.load("ptr", argument, at(field))
            for axis in range(array.ndim):
                number = body.load("i64", numbers, 8 * axis)
                if unit > 1:
                    body.require_equal("i64", body.let(f"and i64 {number}, {unit - 1}"), 0)
                    number = body.let(f"sdiv i64 {number}, {unit}")
                extents.append(number)
        strides = (n // array.itemsize for n in array.strides)
        writeable = body.let(f"and i32 {body.load('i32', argument, at('flags'))}, {numpy_memory.WRITEABLE}")
        body.require_equal("i32", writeable, numpy_memory.WRITEABLE if array.flags.writeable else 0)
        self._address(body.load("i64", argument, at("address")), numpy_memory.address_of(array))
        self._extents(extents, (*array.shape, *strides), spec)

    def _cupy(self, argument: str, array: Any, changed: bool, spec: _ArraySpec) -> None:
        body = self.body
        body.require_type(argument, type(array))
        for name in ("dtype", "shape", "strides"):
            self._require_attribute(argument, name, getattr(array, name))
        memory = body.attribute(argument, "data")
        self._require_attribute(memory, "device_id", array.data.device_id)
        self._address_of(body.attribute(memory, "ptr"), array.data.ptr)

    def _interface(self, argument: str, array: Any, changed: bool, spec: _ArraySpec) -> None:
        on_gpu = arrays.array_describer(array) is arrays.describe_cuda_interface
        name = arrays.CUDA_INTERFACE if on_gpu else arrays.INTERFACE
        body, known = self.body, getattr(array, name)
        self.able &= type(known) is dict
        self.able &= all(type(known.get(key)) in (tuple, type(None)) for key in ("shape", "strides"))
        body.require_type(argument, type(array))
        if on_gpu:
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
        require_size(body, data, 2)
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
        if device is None and arrays.several_gpus():
            self.able = False
        elif device is None:
            body.require_equal("i32", body.call("PyObject_HasAttr", argument, body.reference("device")), 0)
        elif not isinstance(getattr(device, "id", None), int):
            self.able = False
        else:
            self._require_attribute(body.attribute(argument, "device"), "id", device.id)

    def _exported(self, argument: str, array: Any, changed: bool, spec: _ArraySpec) -> None:
        body = self.body
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
        self._require_tensor(tensor, known, spec)

    def _require_tensor(self, tensor: str, known: dlpack.Tensor, spec: _ArraySpec) -> None:
        """Require that a tensor of DLPack is like ``known``, apart from its address and what ``spec`` does not hold."""
        body, found, extents = self.body, list[str](), list[int]()
        for name, bits in _widths():
            body.require_equal(f"i{bits}", body.load(f"i{bits}", tensor, _offset(name)), getattr(known, name))
        for name in ("shape", "strides") if known.ndim else ():
            numbers, wanted = body.load("ptr", tensor, _offset(name)), getattr(known, name)
            if not wanted:  # it is contiguous
                body.require_equal("ptr", numbers, "null")
                products = itertools.accumulate(found[:0:-1], lambda n, m: body.let(f"mul i64 {n}, {m}"), initial="1")
                found += [*products][::-1]
                extents += contiguous_strides(tuple(extents))
                continue
            body.require_object(numbers)
            found += [body.load("i64", numbers, 8 * axis) for axis in range(known.ndim)]
            extents += wanted[: known.ndim]
        start, offset = (body.load("i64", tensor, _offset(name)) for name in ("data", "byte_offset"))
        self._address(body.let(f"add i64 {start}, {offset}"), (known.data or 0) + known.byte_offset)
        self._extents(found, extents, spec)

    def _tensor(self, argument: str, tensor: Any, changed: bool, spec: _ArraySpec) -> None:
        body, fill = self.body, dlpack.exchange(type(tensor))
        known = None if fill is None else dlpack.filled(fill, tensor)
        if fill is None or known is None:
            self.able = False
            return
        body.require_type(argument, type(tensor))
        body.require_equal("ptr", body.method(tensor.is_neg, argument), body.reference(False))
        if changed:
            inference, enabled = tensor.is_inference(), sys.modules["torch"].is_inference_mode_enabled
            body.require_equal("ptr", body.method(tensor.is_inference, argument), body.reference(inference))
            if inference:
                body.require_equal("ptr", body.held(body.called(enabled)), body.reference(True))
        found = body.stack(f"[{ctypes.sizeof(dlpack.Tensor)} x i8]")
        body.require_equal("i32", body.let(f"call i32 {body.external(fill)}(ptr {argument}, ptr {found})"), 0)
        self._require_tensor(found, known, spec)

    def _extents(self, found: Sequence[str], known: Sequence[int], spec: _ArraySpec) -> None:
        """Require extents and strides as kernels with ``spec`` take them, which come to the numbers of the launch; or
        those that are ``known``, where there is no spec, or no element, and so any address."""
        body = self.body
        if isinstance(spec, PointerSpec) and 0 not in known[: len(known) // 2]:
            return  # such kernels know the address only
        if not isinstance(spec, ArraySpec) or 0 in known[: spec.ndim]:
            for number, wanted in zip(found, known):
                body.require_equal("i64", number, body.number(wanted))
            return
        index = spec.index_dtype
        for number, extent in zip(found, spec.extents()):
            if extent.known is not None:
                body.require_equal("i64", number, body.number(extent.known))
                continue
            require_range(body, number, 0 if extent.role == "shape" else index.min, index.max)
            if not (spec.constant_shape if extent.role == "shape" else spec.constant_strides):
                body.require(body.let(f"icmp ne i64 {number}, 1"))
            for divisor in divisors_of(extent.role, spec.dtype, spec.strides[extent.axis]):
                divides = body.let(f"icmp eq i64 {body.let(f'and i64 {number}, {divisor - 1}')}, 0")
                body.require_equal("i1", divides, int(divisor == extent.divisor))
                if divisor == extent.divisor:
                    break
            self.numbers.append(("i64", number))

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


# How arrays are described -> what writes their guards, given whether the launch writes to them, and what is known of
# their extents.
_ARRAYS: dict[arrays.Describe | None, Callable[[Guards, str, Any, bool, _ArraySpec], None]] = {
    arrays.describe_numpy: Guards._numpy,
    arrays.describe_cupy: Guards._cupy,
    arrays.describe_torch: Guards._tensor,
    arrays.describe_interface: Guards._interface,
    arrays.describe_cuda_interface: Guards._interface,
    arrays.describe_dlpack: Guards._exported,
}


def _offset(field: str) -> int:
    return int(getattr(dlpack.Tensor, field).offset)


def _widths() -> Iterator[tuple[str, int]]:
    """What tells tensors of DLPack apart but for their layout, and how many bits each has."""
    for name, kind, *_ in dlpack.Tensor._fields_[1:7]:
        yield name, 8 * ctypes.sizeof(kind)


def require_size(body: Body, value: str, size: int) -> None:
    body.require_type(value, tuple)
    body.require_equal("i64", body.call("PyTuple_Size", value), size)


def require_range(body: Body, number: str, low: int, high: int) -> None:
    body.require(body.let(f"icmp sge i64 {number}, {low}"))
    body.require(body.let(f"icmp sle i64 {number}, {high}"))
