"""Functions of Python, and what launches begin with, from LLVM IR."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.backends import native
from tilewright.backends.native.body import Body, with_addresses
from tilewright.backends.native.image import Image, LoadedImage, can_load

_FASTCALL, _NOARGS = 0x80, 0x04  # flags of a PyMethodDef
_MOST_IMAGES = 256  # that a process remembers: launches with other numbers and addresses have the same code


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.argtypes = (ctypes.POINTER(_Method), ctypes.py_object, ctypes.c_void_p)
_new_function.restype = ctypes.py_object


class _Kept(tuple[Any, ...]):
    """What a function needs to live; errors and logs that show the function do not show all that."""

    def __repr__(self) -> str:
        return "machine code"


def machine_code(symbols: tuple[str, ...], text: str, addresses: Mapping[str, int]) -> Any:
    """The machine code of an LLVM module with the functions ``text``, of which ``symbols`` are called: an object with
    the method ``address``. ``addresses`` are what names in ``text`` stand for.

    Where images can be loaded, it is compiled once for all processes with the same disk cache. NotCompiled where that
    has not happened and LLVM is not loaded.
    """
    if can_load():
        declared = "".join(f"@{name} = extern_weak global i8\n" for name in addresses)
        return LoadedImage(_image(symbols, declared + text), addresses)
    _require_llvm()
    return native.compiler().MachineCode(with_addresses(text, addresses))


@functools.lru_cache(_MOST_IMAGES)
def _image(symbols: tuple[str, ...], text: str) -> Image:
    return Image.from_bytes(native.kept(text, functools.partial(_compiled, symbols, text)))


def _compiled(symbols: tuple[str, ...], text: str) -> bytes:
    _require_llvm()
    return native.compiler().image(symbols, text).to_bytes()


def _require_llvm() -> None:
    if not native.loaded():
        raise native.NotCompiled


def stub_code(body: Body, result: str, others: str = "") -> Any:
    """The code of a ``LaunchStub`` that has the instructions ``body`` and returns ``result``, with ``others``, the text
    of functions that they call."""
    head = "i32 @enter(ptr %record, ptr %values, i64 %x, i64 %y, i64 %z, i64 %stream)"
    return machine_code(("enter",), body.named(head, f"ret i32 {result}\nno:\nret i32 1") + others, body.addresses)


class _Code:
    """The machine code of the function ``@call`` with the parameters ``taken`` and the instructions ``body``."""

    def __init__(self, name: str, body: Body, taken: str, result: str, flags: int) -> None:
        self._code = machine_code(("call",), body.named(f"ptr @call({taken})", result), body.addresses)
        self.method = _Method(name.encode(), self._code.address("call"), flags, None)

    def function(self, *kept: Any) -> Callable[..., Any]:
        """A function of Python that runs this code with a tuple as ``self``: ``kept``, and what the code lives on."""
        return _new_function(ctypes.byref(self.method), _Kept((*kept, self)), None)


def function(name: str, body: Body) -> Callable[..., bool]:
    """A function of ``i64 %count`` arguments at ``ptr %args``: False where ``body`` requires what is not so, or raises
    an Exception, and True otherwise. Only what is no Exception, such as KeyboardInterrupt, gets out, or what ``body``
    raises that goes to the label ``interrupted``."""
    result = body.stack("ptr")
    body.store("ptr", body.reference(True), result)
    body.jump("end")
    body.label("no")
    body.store("ptr", body.reference(False), result)
    body.branch(body.let(f"icmp eq ptr {body.call('PyErr_Occurred')}, null"), "end", "failed")
    body.label("failed")
    body.branch(body.raised(Exception), "mistaken", "interrupted")
    body.label("mistaken")
    body.call("PyErr_Clear")
    body.jump("end")
    body.label("interrupted")
    body.store("ptr", "null", result)
    body.jump("end")
    body.label("end")
    body.release()
    found = body.load("ptr", result)
    body.call("Py_IncRef", found)
    taken = "ptr %self, ptr %args, i64 %count"
    return _Code(name, body, taken, f"ret ptr {found}", _FASTCALL).function(*body.kept)


def bound(
    stub: native.LaunchStub, values: bytes, grid: Sequence[int], stream: int, otherwise: Callable[[], None]
) -> Callable[[], None]:
    """A function that makes the launch with these ``values`` by ``stub``, or calls ``otherwise`` where that had no
    effect. The stub must not change the values."""
    memory = ctypes.create_string_buffer(values)
    return caller(_enter, (*stub.addresses, ctypes.addressof(memory), *grid, stream), otherwise, memory, stub)


def _enter(body: Body, record: str) -> None:
    function, given, values = (body.load("ptr", record, 8 * i) for i in range(3))
    numbers = ", ".join(f"i64 {body.load('i64', record, 8 * i)}" for i in range(3, 7))
    code = body.let(f"call i32 {function}(ptr {given}, ptr {values}, {numbers})")
    body.require(body.let(f"icmp ne i32 {code}, 1"))


def caller(
    instructions: Callable[[Body, str], None], words: Sequence[int], otherwise: Callable[[], None], *kept: Any
) -> Callable[[], None]:
    """A function that runs ``instructions``, given the address of 64-bit ``words`` that they may change, and then
    ``otherwise`` where these require what is not so. It raises what is raised then, and keeps the objects ``kept``
    alive."""
    record = (ctypes.c_uint64 * len(words))(*words)
    return _caller(instructions).function(ctypes.addressof(record), otherwise, record, *kept)


@functools.cache
def _caller(instructions: Callable[[Body, str], None]) -> _Code:
    body = Body()
    instructions(body, body.call("PyLong_AsVoidPtr", body.call("PyTuple_GetItem", "%self", 0)))
    none = body.let(f"icmp eq ptr {body.call('PyErr_Occurred')}, null")
    result = body.let(f"select i1 {none}, ptr {body.reference(None)}, ptr null")
    body.call("Py_IncRef", result)  # which may be null
    body.do(f"ret ptr {result}")
    body.label("no")
    done = body.call("PyObject_CallNoArgs", body.call("PyTuple_GetItem", "%self", 1))
    return _Code("launch", body, "ptr %self, ptr %nothing", f"ret ptr {done}", _NOARGS)
