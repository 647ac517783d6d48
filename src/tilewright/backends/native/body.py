"""The instructions of functions that Python calls, in LLVM IR."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any

# Functions of Python's C interface, which exist from 3.10 on -> the LLVM types of their result and of their arguments.
_API: dict[str, tuple[str, ...]] = {
    "PyCapsule_GetPointer": ("ptr", "ptr", "ptr"),
    "PyContextVar_Get": ("i32", "ptr", "ptr", "ptr"),
    "PyDict_GetItemWithError": ("ptr", "ptr", "ptr"),
    "PyErr_Clear": ("void",),
    "PyErr_Fetch": ("void", "ptr", "ptr", "ptr"),
    "PyErr_NormalizeException": ("void", "ptr", "ptr", "ptr"),
    "PyErr_Restore": ("void", "ptr", "ptr", "ptr"),
    "PyErr_ExceptionMatches": ("i32", "ptr"),
    "PyErr_Occurred": ("ptr",),
    "PyEval_RestoreThread": ("void", "ptr"),
    "PyEval_SaveThread": ("ptr",),
    "PyFloat_AsDouble": ("double", "ptr"),
    "PyList_GetItem": ("ptr", "ptr", "i64"),
    "PyList_Size": ("i64", "ptr"),
    "PyLong_AsLongLongAndOverflow": ("i64", "ptr", "ptr"),
    "PyLong_AsUnsignedLongLong": ("i64", "ptr"),
    "PyLong_AsVoidPtr": ("ptr", "ptr"),
    "PyObject_CallNoArgs": ("ptr", "ptr"),
    "PyObject_GetAttr": ("ptr", "ptr", "ptr"),
    "PyObject_HasAttr": ("i32", "ptr", "ptr"),
    "PyObject_RichCompareBool": ("i32", "ptr", "ptr", "i32"),
    "PyObject_VectorcallDict": ("ptr", "ptr", "ptr", "i64", "ptr"),
    "PyObject_VectorcallMethod": ("ptr", "ptr", "ptr", "i64", "ptr"),
    "PyThread_get_thread_ident": ("i64",),
    "PyTuple_GetItem": ("ptr", "ptr", "i64"),
    "PyTuple_GetSlice": ("ptr", "ptr", "i64", "i64"),
    "PyTuple_Size": ("i64", "ptr"),
    "Py_DecRef": ("void", "ptr"),
    "Py_IncRef": ("void", "ptr"),
}
_EQUAL = 2  # Py_EQ
_NOARGS, _O = 0x04, 0x08  # METH_NOARGS, METH_O
_NAME = re.compile(r"@([\w.]+)")
_TYPE = object.__basicsize__ - 8  # where an object has its class: the last of the fields of all objects
_flags, _function = ctypes.pythonapi.PyCFunction_GetFlags, ctypes.pythonapi.PyCFunction_GetFunction
_flags.argtypes = _function.argtypes = (ctypes.py_object,)
_function.restype = ctypes.c_void_p


class Body:
    """The instructions of a function, in the making. Where a requirement is not met, it goes to the label ``no``."""

    def __init__(self) -> None:
        self.kept: list[Any] = []  # the objects that the instructions refer to
        self.addresses: dict[str, int] = {}  # what names stand for: no number of this process is in the text itself
        self._stack: list[str] = []
        self._held: list[str] = []  # where references to be released are
        self._lines: list[str] = []
        self._count = 0

    def beside(self) -> Body:
        """The instructions of another function of the same module."""
        other = Body()
        other.kept, other.addresses = self.kept, self.addresses
        return other

    def __str__(self) -> str:
        return "\n".join((*self._stack, *self._lines))

    def function(self, head: str, result: str = "ret void") -> str:
        """The text of the function ``head`` with these instructions, and at the end ``result``."""
        return with_addresses(self.named(head, result), self.addresses)

    def named(self, head: str, result: str) -> str:
        """``function`` with names in place of ``addresses``."""
        return f"define {head} {{\n{self}\n{result}\n}}\n"

    def external(self, address: int) -> str:
        """An address of this process."""
        name = f"at.{len(self.addresses)}"
        self.addresses[name] = address
        return f"@{name}"

    def number(self, value: int) -> str:
        """A number of 64 bits that the same code may be used for others of."""
        return f"ptrtoint (ptr {self.external(value % (1 << 64))} to i64)"

    def do(self, instruction: str) -> None:
        self._lines.append(instruction)

    def let(self, instruction: str) -> str:
        """The name of the result of ``instruction``."""
        name = self._name()
        self._lines.append(f"{name} = {instruction}")
        return name

    def op(self, name: str, *operands: object) -> str:
        """The name of the result of an instruction with these operands."""
        return self.let(f"{name} {', '.join(map(str, operands))}")

    def stack(self, kind: str, alignment: int = 8) -> str:
        """The address of memory for one ``kind``."""
        name = self._name()
        self._stack.append(f"{name} = alloca {kind}, align {alignment}")
        return name

    def at(self, address: str, offset: int) -> str:
        return self.let(f"getelementptr i8, ptr {address}, i64 {offset}") if offset else address

    def element(self, address: str, number: object, size: int = 1) -> str:
        """The address of an element of so many bytes, by its number."""
        return self.let(f"getelementptr [{size} x i8], ptr {address}, i64 {number}")

    def store(self, kind: str, value: object, address: str, offset: int = 0) -> None:
        self.do(f"store {kind} {value}, ptr {self.at(address, offset)}")

    def load(self, kind: str, address: str, offset: int = 0) -> str:
        return self.let(f"load {kind}, ptr {self.at(address, offset)}")

    def call(self, name: str, *arguments: object) -> str:
        """A call of Python's C interface. The result is the callee's to judge, and to release."""
        result, *kinds = _API[name]
        given = ", ".join(f"{kind} {argument}" for kind, argument in zip(kinds, arguments))
        self.addresses[name] = c_function(name)
        text = f"call {result} @{name}({given})"
        if result != "void":
            return self.let(text)
        self.do(text)
        return ""

    def called(self, function: Any, *arguments: str) -> str:
        """What an object that can be called returns for at most one argument: a reference to be released, or null."""
        if arguments and isinstance(function, types.BuiltinFunctionType) and _flags(function) == _O:
            module, address = self.reference(function.__self__), self.external(_function(function))
            return self.let(f"call ptr {address}(ptr {module}, ptr {arguments[0]})")
        given = self.stack("ptr")
        for argument in arguments:
            self.store("ptr", argument, given)
        return self.call("PyObject_VectorcallDict", self.reference(function), given, len(arguments), "null")

    def method(self, bound: Any, value: str) -> str:
        """What the C function of ``bound``, a method without arguments of an object like ``value``, returns for that:
        one of the objects that always live, or null. Nothing is looked up for it at each call."""
        assert _flags(bound) == _NOARGS, bound
        found = self.let(f"call ptr {self.external(_function(bound))}(ptr {value}, ptr null)")
        self.call("Py_DecRef", found)
        return found

    def reference(self, value: Any) -> str:
        """A reference to ``value``, which lives as long as the function."""
        self.kept.append(value)
        return self.external(id(value))

    def memory(self, value: Any) -> str:
        """The address of a ``ctypes`` object, which lives as long as the function."""
        self.kept.append(value)
        return self.external(ctypes.addressof(value))

    def held(self, reference: str) -> str:
        """``reference``, to be released when the function ends. It may be null."""
        slot = self.stack("ptr")
        self._stack.append(f"store ptr null, ptr {slot}")
        self.store("ptr", reference, slot)
        self._held.append(slot)
        return reference

    def release(self) -> None:
        """Release what is held."""
        for slot in self._held:
            self.call("Py_DecRef", self.load("ptr", slot))

    def raised(self, kind: type[BaseException]) -> str:
        """Whether the exception that was raised, for there must be one, is of this kind."""
        return self.let(f"icmp ne i32 {self.call('PyErr_ExceptionMatches', self.reference(kind))}, 0")

    def note(self, function: str, arguments: str) -> None:
        """Call machine code with the exception that was raised, which stays raised, and ``arguments``."""
        kept = [self.stack("ptr") for _ in range(3)]  # type, value and traceback
        self.call("PyErr_Fetch", *kept)
        self.call("PyErr_NormalizeException", *kept)
        self.do(f"call void {function}(ptr {self.load('ptr', kept[1])}, {arguments})")
        self.call("PyErr_Restore", *(self.load("ptr", slot) for slot in kept))

    def label(self, name: str) -> None:
        self.do(f"{name}:")

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, condition: object, then: str, otherwise: str) -> None:
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def require(self, condition: object) -> None:
        self._count += 1
        self.branch(condition, f"l{self._count}", "no")
        self.label(f"l{self._count}")

    @contextlib.contextmanager
    def each(self, count: object) -> Iterator[str]:
        """A loop over the numbers below ``count``."""
        place, n = self.stack("i64"), self._count
        self.store("i64", 0, place)
        self.jump(f"next{n}")
        self.label(f"next{n}")
        i = self.load("i64", place)
        self.branch(self.let(f"icmp ult i64 {i}, {count}"), f"each{n}", f"end{n}")
        self.label(f"each{n}")
        yield i
        self.store("i64", self.let(f"add i64 {i}, 1"), place)
        self.jump(f"next{n}")
        self.label(f"end{n}")

    @contextlib.contextmanager
    def when(self, condition: object) -> Iterator[None]:
        """Instructions that are left out where ``condition`` does not hold."""
        self._count += 1
        n = self._count
        self.branch(condition, f"then{n}", f"past{n}")
        self.label(f"then{n}")
        yield
        self.jump(f"past{n}")
        self.label(f"past{n}")

    def unless(self, condition: object, label: str) -> None:
        """Go to ``label`` where ``condition`` holds."""
        self._count += 1
        self.branch(condition, label, f"l{self._count}")
        self.label(f"l{self._count}")

    def require_equal(self, kind: str, value: str, wanted: object) -> None:
        self.require(self.let(f"icmp eq {kind} {value}, {wanted}"))

    def has_type(self, value: str, kind: type) -> str:
        """Whether ``value`` is of this type, and of none derived from it."""
        return self.let(f"icmp eq ptr {self.load('ptr', value, _TYPE)}, {self.reference(kind)}")

    def require_entry(self, mapping: Any, key: Any, wanted: Any) -> None:
        """Require that a dictionary has this value for ``key``, or, for None, that it has no such key."""
        found = self.call("PyDict_GetItemWithError", self.reference(mapping), self.reference(key))
        if wanted is None:
            self.require_equal("ptr", found, "null")
        else:
            self.require_object(found)
            self.require(self.equals(found, wanted))

    def require_type(self, value: str, kind: type) -> None:
        self.require(self.has_type(value, kind))

    def equals(self, value: str, wanted: Any) -> str:
        """Whether the object ``value`` equals ``wanted``; nothing but itself equals None."""
        if wanted is None:
            return self.let(f"icmp eq ptr {value}, {self.reference(None)}")
        compared = self.call("PyObject_RichCompareBool", value, self.reference(wanted), _EQUAL)
        return self.let(f"icmp eq i32 {compared}, 1")

    def require_object(self, value: str) -> None:
        """Require that a call gave an object, and did not raise."""
        self.require(self.let(f"icmp ne ptr {value}, null"))

    def attribute(self, value: str, name: str) -> str:
        """An attribute of ``value``, which is held."""
        found = self.held(self.call("PyObject_GetAttr", value, self.reference(name)))
        self.require_object(found)
        return found

    def integer(self, value: str) -> str:
        """The number that ``value``, which must be an ``int``, holds, in 64 bits with a sign."""
        overflow = self.stack("i32")
        self.require_type(value, int)
        number = self.call("PyLong_AsLongLongAndOverflow", value, overflow)
        self.require_equal("i32", self.load("i32", overflow), 0)
        return number

    def _name(self) -> str:
        self._count += 1
        return f"%v{self._count}"


def pointer(address: int) -> str:
    """An address as LLVM IR has it."""
    return f"inttoptr (i64 {address} to ptr)" if address else "null"


def with_addresses(text: str, addresses: Mapping[str, int]) -> str:
    """A text of LLVM IR with the ``addresses`` themselves in place of their names."""
    return _NAME.sub(lambda found: pointer(addresses[found[1]]) if found[1] in addresses else found[0], text)


@functools.cache
def c_function(name: str) -> int:
    """Where a function of Python's C interface is."""
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address is not None
    return address
