"""Handlers of XLA's foreign function interface, made by LLVM: machine code that calls nothing of Python.

The layout of XLA's structures is that of ``xla/ffi/api/c_api.h``, API 0.1 and later: members are only ever added.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Sequence
from typing import Any

from tilewright.backends import native
from tilewright.backends.native import Embedded
from tilewright.backends.native.body import Body
from tilewright.backends.native.values import Record, Word
from tilewright.ir.types import TileType
from tilewright.runtime.abstract import RecordedLaunch
from tilewright.runtime.arrays import AbstractAddress

_EXECUTE = 3  # XLA_FFI_ExecutionStage_EXECUTE
_METADATA = 1  # XLA_FFI_Extension_Metadata
_COMMAND_BUFFER = 1  # XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE
_INVALID_ARGUMENT, _ABORTED, _INTERNAL = 3, 10, 13  # XLA_FFI_Error_Code
# Offsets in XLA_FFI_CallFrame, and of functions in XLA_FFI_Api.
_EXTENSION, _API, _CONTEXT, _STAGE, _ARGUMENTS, _RESULTS = 8, 16, 24, 32, 72, 112
_ERROR_CREATE, _ERROR_DESTROY, _STREAM_GET, _SCHEDULE, _NUM_THREADS = 48, 64, 80, 136, 144
_ALIGNMENT = 16  # of arrays, which kernels are compiled for
_CAPSULE = b"xla._CUSTOM_CALL_TARGET"


# What functions of XLA's are given: a size, an extension, the context or what else they are about, and more.
_GIVEN = "size", "extension", "about", "first", "second"


@functools.cache
def _helpers() -> str:
    """Functions that call those of the API."""
    return _error() + _failed() + _call() + _schedule() + _ask()


def _given(body: Body) -> Record:
    return Record(body, body.stack(f"[{len(_GIVEN)} x i64]"), _GIVEN)


def _called(body: Body, given: Record, api: str, offset: object, size: object, about: str) -> str:
    given["size"], given["extension"] = size, 0
    body.store("ptr", about, given.place("about"))
    return body.op(f"call ptr {body.load('ptr', body.element(api, offset))}(ptr {given.address})")


def _error() -> str:
    """A new error."""
    body = Body()
    given = _given(body)
    body.store("i32", "%code", given.place("first"))
    error = _called(body, given, "%api", _ERROR_CREATE, 28, "%message")
    return body.named("internal ptr @xla_error(ptr %api, ptr %message, i32 %code)", f"ret ptr {error}")


def _failed() -> str:
    """Whether there is an error, which is freed."""
    body = Body()
    body.require_object("%error")
    _called(body, _given(body), "%api", _ERROR_DESTROY, 24, "%error")
    return body.named("internal i32 @xla_failed(ptr %api, ptr %error)", "ret i32 1\nno:\nret i32 0")


def _call() -> str:
    """Whether a function of the API fails: what follows the context is there."""
    body = Body()
    api, context = (body.load("ptr", "%frame", at) for at in (_API, _CONTEXT))
    error = _called(body, Record(body, "%given", _GIVEN), api, "%offset", "%size", context)
    failed = body.op(f"call i32 @xla_failed(ptr {api}, ptr {error})")
    return body.named("internal i32 @xla_call(ptr %frame, i64 %offset, i64 %size, ptr %given)", f"ret i32 {failed}")


def _schedule() -> str:
    """Have task(data) called by a thread of XLA's; the pool is the call frame."""
    body = Body()
    given = _given(body)
    for name, value in (("first", "%task"), ("second", "%data")):
        body.store("ptr", value, given.place(name))
    failed = body.op(f"call i32 @xla_call(ptr %frame, i64 {_SCHEDULE}, i64 40, ptr {given.address})")
    return body.named("internal i32 @xla_schedule(ptr %frame, ptr %task, ptr %data)", f"ret i32 {failed}")


def _ask() -> str:
    """What a function of the API with one more argument, the output, says."""
    body = Body()
    given = _given(body)
    body.store("ptr", "%out", given.place("first"))
    failed = body.op(f"call i32 @xla_call(ptr %frame, i64 %offset, i64 32, ptr {given.address})")
    said = Word(body, failed, "i32").equals(0).choose(given["first"], "%otherwise")
    return body.named("internal i64 @xla_ask(ptr %frame, i64 %offset, ptr %out, i64 %otherwise)", f"ret i64 {said}")


class Handler:
    """An XLA FFI handler that makes ``launches``: array ``i`` of ``inputs + results`` is the abstract array ``i``.

    ``mutated`` maps the number of an input that is changed in place to that of the result which shares its memory.
    """

    def __init__(
        self, name: str, launches: Sequence[RecordedLaunch], inputs: int, mutated: dict[int, int], gpu: bool
    ) -> None:
        codes = [_embedded(name, launch, f"launch_{i}") for i, launch in enumerate(launches)]
        self.text, kept = _module(launches, codes, inputs, mutated, gpu, name)
        self._kept = [kept, *(code.kept for code in codes)]
        self._code = native.compiler().MachineCode(self.text)

    def capsule(self) -> Any:
        """What ``jax.ffi.register_ffi_target`` takes. The handler has to live as long as the process."""
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(self._code.address("handler"), _CAPSULE, None)


def _embedded(name: str, launch: RecordedLaunch, function: str) -> Embedded:
    embed = launch.capabilities.embed
    if embed is None:
        raise NotImplementedError(f"{name}: {launch.kernel.name}() runs on a backend that only Python can call")
    try:
        return embed(launch.executable, function, launch.grid)
    except ValueError as e:
        raise NotImplementedError(f"{name}: XLA cannot launch {launch.kernel.name}(): {e}") from None


def _module(
    launches: Sequence[RecordedLaunch],
    codes: Sequence[Embedded],
    inputs: int,
    mutated: dict[int, int],
    gpu: bool,
    name: str,
) -> tuple[str, list[Any]]:
    """The LLVM module with the function ``@handler``, and what it needs to live."""
    body = Body()
    api = body.load("ptr", "%frame", _API)

    def fail_unless(condition: str, message: str, code: int) -> None:
        """Return an error of XLA's unless ``condition`` holds."""
        body.branch(condition, f"go{condition[1:]}", f"fail{condition[1:]}")
        body.label(f"fail{condition[1:]}")
        text = body.memory(ctypes.create_string_buffer(f"{name}: {message}".encode()))
        body.do(f"ret ptr {body.let(f'call ptr @xla_error(ptr {api}, ptr {text}, i32 {code})')}")
        body.label(f"go{condition[1:]}")

    _leave_unless_executed(body, api, gpu)
    arrays = [body.load("ptr", "%frame", at) for at in (_ARGUMENTS, _RESULTS)]
    used = sorted({int(v) for launch in launches for v in launch.values if isinstance(v, AbstractAddress)})
    addresses = {}
    for i in used:
        number = mutated.get(i, i)
        among, at = (arrays[0], number) if number < inputs else (arrays[1], number - inputs)
        addresses[i] = body.load("i64", body.load("ptr", among, 8 * at), 24)  # of what XLA calls a buffer
        rest = body.let(f"and i64 {addresses[i]}, {_ALIGNMENT - 1}")
        wrong = f"array {i} does not start at a multiple of {_ALIGNMENT} bytes"
        fail_unless(body.let(f"icmp eq i64 {rest}, 0"), wrong, _INVALID_ARGUMENT)
    stream, threads = "0", "1"
    if gpu:
        stream = body.let(f"call i64 @xla_ask(ptr %frame, i64 {_STREAM_GET}, ptr null, i64 -1)")
        fail_unless(body.let(f"icmp ne i64 {stream}, -1"), "XLA gives no stream", _INTERNAL)
    else:
        count = body.stack("i64")
        body.store("i64", 1, count)
        body.let(f"call i64 @xla_ask(ptr %frame, i64 {_NUM_THREADS}, ptr {count}, i64 0)")
        threads = body.load("i64", count)
    values = body.stack(f"[{max((len(launch.values) for launch in launches), default=0) + 1} x i64]", 64)
    for number, (launch, code) in enumerate(zip(launches, codes)):
        for i, (value, argument) in enumerate(zip(launch.values, launch.function.body.args)):
            word = addresses[int(value)] if isinstance(value, AbstractAddress) else _word(value, argument.tile)
            body.store("i64", word, values, 8 * i)
        grid = ", ".join(f"i64 {n}" for n in launch.grid)
        arguments = f"ptr {values}, {grid}, i64 {stream}, i64 {threads}, ptr @xla_schedule, ptr %frame"
        failed = body.let(f"call i64 @launch_{number}({arguments})")
        kernel = launch.kernel.name
        for site, said in enumerate(code.messages, 1):
            message = f"an assertion of {kernel}() failed: {said}"
            fail_unless(body.let(f"icmp ne i64 {failed}, {site}"), message, _ABORTED)
        fail_unless(body.let(f"icmp eq i64 {failed}, 0"), f"the launch of {kernel}() failed", _INTERNAL)
    texts = _helpers(), *dict.fromkeys(code.shared for code in codes), *(code.text for code in codes)
    handler = body.function("ptr @handler(ptr %frame)", "br label %done\ndone:\nret ptr null")
    return "\n".join((*texts, handler)), body.kept


def _leave_unless_executed(body: Body, api: str, gpu: bool) -> None:
    """Go to ``done`` in the other stages, and when asked for the version of the API and the traits of the handler."""
    extension = body.load("ptr", "%frame", _EXTENSION)
    body.unless(body.let(f"icmp eq ptr {extension}, null"), "stages")
    body.unless(body.let(f"icmp ne i32 {body.load('i32', extension, 8)}, {_METADATA}"), "stages")
    metadata = body.load("ptr", extension, 24)
    body.store("i64", body.load("i64", api, 32), metadata, 24)  # the version of the API
    body.store("i32", _COMMAND_BUFFER if gpu else 0, metadata, 32)
    body.jump("done")
    body.label("stages")
    body.unless(body.let(f"icmp ne i32 {body.load('i32', '%frame', _STAGE)}, {_EXECUTE}"), "done")


def _word(value: Any, kind: TileType) -> int:
    """A number as the 64 bits that kernels take."""
    if not kind.is_pointer and kind.element.is_floating:
        return int(struct.unpack("=q", struct.pack("=d", value))[0])
    return int(value)
