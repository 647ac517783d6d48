"""From LLVM IR to functions of Python. Importing this module loads LLVM."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm

from tilewright.backends.native import LaunchStub
from tilewright.backends.native.body import Body
from tilewright.system.forks import CODE, fork_aware_lock

_FASTCALL, _NOARGS = 0x80, 0x04  # flags of a PyMethodDef
_LOCK = fork_aware_lock(CODE)  # LLVM's global context is not thread-safe


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


def dispose_with(owner: object, engine: llvm.ExecutionEngine, context: llvm.ContextRef) -> None:
    """Keep ``engine`` and the context of its modules as long as ``owner``. Collected with it, they would be disposed of
    in any order, and the engine has to be the first one."""
    weakref.finalize(owner, _dispose, engine, context).atexit = False


def _dispose(engine: llvm.ExecutionEngine, context: llvm.ContextRef) -> None:
    engine.close()
    context.close()


class MachineCode:
    """The machine code of the LLVM module ``text``; with ``forever``, until the process ends, for threads that never
    leave it."""

    def __init__(self, text: str, *, forever: bool = False) -> None:
        with _LOCK:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            # The time goes into calls, which optimizing makes no faster.
            target = llvm.Target.from_default_triple().create_target_machine(opt=0, jit=True)
            context = llvm.create_context()
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text, context), target)
            if forever:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object((self._engine, context)))
            else:
                dispose_with(self, self._engine, context)
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """The address of a function."""
        return self._engine.get_function_address(name)


class _Code:
    """The machine code of one function, ``@call`` in the LLVM module ``text``."""

    def __init__(self, name: str, text: str, flags: int) -> None:
        self._code = MachineCode(text)
        self.method = _Method(name.encode(), self._code.address("call"), flags, None)

    def function(self, *kept: Any) -> Callable[..., Any]:
        """A function of Python that runs this code with a tuple as ``self``: ``kept``, and what the code lives on."""
        made: Callable[..., Any] = _new_function(ctypes.byref(self.method), _Kept((*kept, self)), None)
        return made


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
    module = body.function("ptr @call(ptr %self, ptr %args, i64 %count)", f"ret ptr {found}")
    return _Code(name, module, _FASTCALL).function(*body.kept)


def bound(
    stub: LaunchStub, values: bytes, grid: Sequence[int], stream: int, otherwise: Callable[[], None]
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
    return _Code("launch", body.function("ptr @call(ptr %self, ptr %nothing)", f"ret ptr {done}"), _NOARGS)
