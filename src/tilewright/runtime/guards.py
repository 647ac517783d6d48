"""Guards of a cached launch: conditions under which arguments differ from those of the earlier launch by numbers only,
addresses, extents and strides among them, as machine code that also collects these."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Union

import numpy as np

from tilewright.backends.native.body import Body
from tilewright.backends.native.code import machine_code
from tilewright.backends.native.values import Record, Variable, Word
from tilewright.frontend.signature import ArgumentSpec, ArraySpec, PointerSpec
from tilewright.ir.dtypes import DType, float32, float64, int32, int64
from tilewright.language.dtypes import to_dtype
from tilewright.runtime import arrays, dlpack, numpy_memory, tensor_memory
from tilewright.runtime.layout import contiguous_strides, divisors_of
from tilewright.runtime.rules import Rule
from tilewright.runtime.versions import incrementer

_ROW = "least", "span", "unlike", "divisor", "greater", "place"  # the words of one, see ``_rows``
_MOST = 256  # arguments and entries of lists: machine code for more takes long to make
_ENTRY = Rule()
_NUMBERS = (int, bool, float)
_ArraySpec = Union[ArraySpec, PointerSpec, None]


class Guards:
    """Writes guards of the arguments of a launch, which are those of the tuple ``given``, and stores their addresses
    and numbers at ``slots``, in order. ``able``: machine code can check all that."""

    def __init__(self, body: Body, given: str, slots: Iterator[str]) -> None:
        self.body, self._given, self._slots = body, given, slots
        self.able = True
        self._tensors: list[str] = []  # what holds those that are written, to be iterated over

    def emit(
        self,
        rules: Sequence[Rule],
        args: Sequence[Any],
        tables: Sequence[np.ndarray[Any, Any]],
        changed: Collection[int],
        specs: Sequence[ArgumentSpec | None] = (),
    ) -> None:
        """Write all guards of arguments like ``args``; a launch writes to the tensors or lists ``changed``. ``tables``
        are the rows of the lists among them, without addresses. Of arrays with ``specs`` the extents and strides that
        these do not hold are stored, too, behind the address."""
        body, rows = self.body, iter(tables)
        require_size(body, self._given, len(args))
        self.able = len(args) + sum(len(value) for value in args if type(value) is list) <= _MOST
        for i, (rule, known) in enumerate(zip(rules, args) if self.able else ()):
            argument = body.call("PyTuple_GetItem", self._given, i)
            given = specs[i] if specs else None
            spec = given if isinstance(given, (ArraySpec, PointerSpec)) else None
            if type(known) is list and not rule.constant and rule.declared is None:
                self._list(argument, known, next(rows), i in changed)
            else:
                self._argument(rule, argument, known, i in changed, spec)
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
        elif isinstance(known, np.generic) and not rule.constant and rule.declared is None:
            self._scalar(argument, known)
        elif isinstance(rule.declared, DType) and type(known) is (float if rule.declared.is_floating else int):
            self._declared(argument, rule.declared)
        else:
            self.able = False

    def _list(self, argument: str, known: list[Any], rows: np.ndarray[Any, Any], changed: bool) -> None:
        """A list of arrays. The addresses of these become one number: that of the rows of its table."""
        body = self.body
        body.require_type(argument, list)
        body.require_equal("i64", body.call("PyList_Size", argument), len(known))
        torch = sys.modules.get("torch")
        tensors = [torch is not None and isinstance(array, torch.Tensor) for array in known]
        self.able &= all(tensors) or not (changed and any(tensors))
        table = body.stack(f"[{rows.size} x i64]")
        self._store("ptr", table)
        for i, (array, row) in enumerate(zip(known, rows.tolist())):
            entry = body.call("PyList_GetItem", argument, i)
            body.call("Py_IncRef", entry)  # another thread may take it out of the list
            places = [body.at(table, 8 * (i * len(row) + k)) for k in range(len(row))]
            entries = Guards(body, argument, iter(places))
            entries._argument(_ENTRY, body.held(entry), array, changed)
            self.able &= entries.able
            for place, number in zip(places[1:], row[1:]):
                body.store("i64", body.number(number), place)
        if changed and any(tensors):
            self._tensors.append(argument)

    def _store(self, kind: str, value: str) -> None:
        self.body.store(kind, value, next(self._slots))

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
            self._store("i64", body.let(f"zext i1 {true} to i64"))
        elif isinstance(value, int):
            number = body.integer(argument)
            require_range(body, number, int32.min, int32.max)
            self._store("i64", number)
        else:
            body.require_type(argument, float)
            self._store("double", body.call("PyFloat_AsDouble", argument))

    def _scalar(self, argument: str, known: np.generic) -> None:
        """A number of NumPy, whose type says what the kernel takes."""
        body, dtype = self.body, to_dtype(known.dtype)
        body.require_type(argument, type(known))
        if dtype is not None and dtype.is_floating:
            self._store("double", body.call("PyFloat_AsDouble", argument))
        else:
            self.able &= dtype is not None and dtype.is_integer and dtype.max <= int64.max
            self._store("i64", body.call("PyLong_AsLongLongAndOverflow", argument, body.stack("i32")))

    def _declared(self, argument: str, dtype: DType) -> None:
        """A number for a parameter of a declared type, as ``describe_declared`` gives it."""
        body = self.body
        if not dtype.is_floating:
            self.able &= not dtype.is_bool
            number = body.integer(argument)
            require_range(body, number, max(dtype.min, int64.min), min(dtype.max, int64.max))
            self._store("i64", number)
            return
        self.able &= dtype in (float32, float64)
        body.require_type(argument, float)
        number = body.call("PyFloat_AsDouble", argument)
        if dtype is float32:
            most = float(np.finfo(np.float32).max)
            body.require(body.let(f"fcmp oge double {number}, {-most!r}"))
            body.require(body.let(f"fcmp ole double {number}, {most!r}"))
            number = body.let(f"fpext float {body.let(f'fptrunc double {number} to float')} to double")
        self._store("double", number)

    def _numpy(self, argument: str, array: np.ndarray[Any, Any], changed: bool, spec: _ArraySpec) -> None:
        body, at, item = self.body, numpy_memory.offset, array.itemsize
        self.able &= numpy_memory.FIELDS_ARE_KNOWN and type(array) is np.ndarray
        body.require_type(argument, np.ndarray)
        body.require_equal("ptr", body.load("ptr", argument, at("dtype")), body.reference(array.dtype))
        body.require_equal("i32", body.load("i32", argument, at("rank")), array.ndim)
        writeable = body.let(f"and i32 {body.load('i32', argument, at('flags'))}, {numpy_memory.WRITEABLE}")
        body.require_equal("i32", writeable, numpy_memory.WRITEABLE if array.flags.writeable else 0)
        start, known = body.load("i64", argument, at("address")), numpy_memory.address_of(array)
        found = [body.load("ptr", argument, at(field)) for field in ("shape", "strides")]
        self._array(start, found, known, array.shape, [n // item for n in array.strides], spec, item)

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
        body, rank = self.body, known.ndim
        for at in (_offset("device_type"), _offset("ndim")):  # which the index of the device and the dtype follow
            word = int.from_bytes(bytes(known)[at : at + 8], sys.byteorder, signed=True)
            body.require_equal("i64", body.load("i64", tensor, at), body.number(word))
        found = [body.load("ptr", tensor, _offset(name)) for name in ("shape", "strides")]
        start, offset = (body.load("i64", tensor, _offset(name)) for name in ("data", "byte_offset"))
        shape = tuple(known.shape[:rank]) if rank else ()
        strides = known.strides[:rank] if rank and known.strides else contiguous_strides(shape)
        address = (known.data or 0) + known.byte_offset
        self._array(body.let(f"add i64 {start}, {offset}"), found, address, shape, strides, spec)

    def _tensor(self, argument: str, tensor: Any, changed: bool, spec: _ArraySpec) -> None:
        body, fill = self.body, dlpack.exchange(type(tensor))
        known = None if fill is None else dlpack.filled(fill, tensor)
        if fill is None or known is None:
            self.able = False
            return
        body.require_type(argument, type(tensor))
        inference, torch = changed and tensor.is_inference(), sys.modules["torch"]
        if (keys := tensor_memory.dispatch_keys()) is not None:
            bits = keys.negated | (keys.inference if changed else 0)
            found = body.load("i64", body.load("ptr", argument, keys.tensor), keys.keys)
            wanted = keys.of(tensor) & bits & ~keys.negated
            body.require_equal("i64", body.let(f"and i64 {found}, {bits}"), wanted)
        else:
            body.require_equal("ptr", body.method(tensor.is_neg, argument), body.reference(False))
            if changed:
                body.require_equal("ptr", body.method(tensor.is_inference, argument), body.reference(inference))
        if inference:
            body.require_equal("ptr", body.held(body.called(torch.is_inference_mode_enabled)), body.reference(True))
        found = body.stack(f"[{ctypes.sizeof(dlpack.Tensor)} x i8]")
        body.require_equal("i32", body.let(f"call i32 {body.external(fill)}(ptr {argument}, ptr {found})"), 0)
        self._require_tensor(found, known, spec)

    def _array(
        self,
        start: str,
        found: Sequence[str],
        address: int,
        shape: Sequence[int],
        strides: Sequence[int],
        spec: _ArraySpec,
        unit: int = 1,
    ) -> None:
        """Require that the address ``start`` and the extents and strides at ``found``, these in ``unit`` bytes, are as
        kernels with ``spec`` take them, and like those that are known."""
        rows = _rows(shape, strides, spec)
        head = len(shape), int(address != 0), address & 15, unit.bit_length() - 1
        words = (ctypes.c_int64 * (len(head) + len(_ROW) * len(rows)))(*head, *(word for row in rows for word in row))
        code, known, out = _array_code(), self.body.memory(words), next(self._slots)
        self.body.kept.append(code)
        given = f"i64 {start}, ptr {found[0]}, ptr {found[1]}, ptr {known}, ptr {out}"
        self.body.require(self.body.let(f"call i1 {self.body.external(code.address('array'))}({given})"))

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
        self._store("i64", address)


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


@functools.cache
def _array_code() -> Any:
    """``i1 array(i64 address, ptr shape, ptr strides, ptr known, ptr out)``: whether an array with these extents and
    strides is as the words at ``known`` say. Its address goes to ``out``, and what kernels take of the others to the
    places behind it that their rows name: those that they do not take have the first one, which the address overwrites.
    Without ``strides`` it is contiguous. Code that is not optimized keeps values in registers within blocks only, so
    that what an axis takes is one.
    """
    body = Body()
    known = Record(body, "%known", ("rank", "least", "bits", "shift"))
    rank, steps, address = known["rank"], body.stack("ptr"), Word(body, "%address")
    body.require(known["least"].at_most(address) & (address & 15).equals(known["bits"]))
    body.store("ptr", "%strides", steps)
    with body.when(body.op("icmp eq ptr", "%strides", "null")):
        computed, count = body.op("alloca i64,", f"i64 {rank}", "align 8"), Variable(body, 1)
        body.store("ptr", computed, steps)
        with body.each(rank) as i:
            axis = rank - 1 - i
            body.store("i64", count.value, body.element(computed, axis, 8))
            count.set(count.value * body.load("i64", body.element("%shape", axis, 8)))
    with body.each(rank) as i:
        extent = Word(body, body.load("i64", body.element("%shape", i, 8)))
        found = Word(body, body.load("i64", body.element(body.load("ptr", steps), i, 8)))
        stride = Word(body, body.op("ashr i64", found, known["shift"]))
        suits = _suits(body, known, extent, i) & _suits(body, known, stride, Word(body, i) + rank)
        body.require(suits & (stride << known["shift"]).equals(found))
    body.store("i64", address, "%out")
    head = "i1 @array(i64 %address, ptr %shape, ptr %strides, ptr %known, ptr %out)"
    return machine_code(("array",), body.named(head, "ret i1 true\nno:\nret i1 false"), {})


def _suits(body: Body, known: Record, number: Word, i: object) -> Word:
    """Whether a number is as a row of ``_rows`` says, which also says where it goes."""
    row = Record(body, body.element(known.end(), i, 8 * len(_ROW)), _ROW)
    body.store("i64", number, body.element("%out", row["place"], 8))
    within = (number - row["least"]).at_most(row["span"])
    other = row["greater"].equals(0) | (number & row["greater"]).differs(0)
    return within & other & number.differs(row["unlike"]) & (number & row["divisor"]).equals(0)


def _signed(word: int) -> int:
    return word - (1 << 64) if word > int64.max else word


def _rows(shape: Sequence[int], strides: Sequence[int], spec: _ArraySpec) -> list[tuple[int, ...]]:
    """For each extent, and each stride after them: the least that there may be and how far beyond, what it must not be,
    which bits are 0, and which are not all 0, unless there are none; and the place of it behind the address, or 0."""
    known = *shape, *strides
    if isinstance(spec, PointerSpec) and 0 not in shape:  # such kernels know the address only
        return [(0, -1, int64.min, 0, 0, 0)] * len(known)
    if not isinstance(spec, ArraySpec) or 0 in shape:  # without elements it may have any address
        return [(n, 0, int64.min, 0, 0, 0) for n in known]
    rows, index, place = list[tuple[int, ...]](), spec.index_dtype, 0
    for n, extent in zip(known, spec.extents()):
        if extent.known is not None:
            rows.append((n, 0, int64.min, 0, 0, 0))
            continue
        place += 1
        is_shape = extent.role == "shape"
        unlike = int64.min if (spec.constant_shape if is_shape else spec.constant_strides) else 1
        divisors = divisors_of(extent.role, spec.dtype, spec.strides[extent.axis])
        greater = min((d for d in divisors if d > extent.divisor), default=1)
        masks = extent.divisor - 1, greater - 1
        least = 0 if is_shape else index.min
        rows.append((least, _signed(index.max - least), unlike, *masks, place))
    return rows


def require_size(body: Body, value: str, size: int) -> None:
    body.require_type(value, tuple)
    body.require_equal("i64", body.call("PyTuple_Size", value), size)


def require_range(body: Body, number: str, low: int, high: int) -> None:
    body.require(body.let(f"icmp sge i64 {number}, {low}"))
    body.require(body.let(f"icmp sle i64 {number}, {high}"))
