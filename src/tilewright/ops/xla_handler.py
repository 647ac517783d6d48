"""Handlers of XLA's foreign function interface, made by LLVM: machine code that calls nothing of Python.

The layout of XLA's structures is that of ``xla/ffi/api/c_api.h``, API 0.1 and later: members are only ever added.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from tilewright.backends import native
from tilewright.backends.native import Embedded
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

_HELPERS = f"""

define internal ptr @xla_error(ptr %api, ptr %message, i32 %code) {{
  %args = alloca [4 x i64], align 8
  %extension = getelementptr i64, ptr %args, i64 1
  %message.at = getelementptr i64, ptr %args, i64 2
  %code.at = getelementptr i64, ptr %args, i64 3
  store i64 28, ptr %args
  store ptr null, ptr %extension
  store ptr %message, ptr %message.at
  store i32 %code, ptr %code.at
  %create.at = getelementptr i8, ptr %api, i64 {_ERROR_CREATE}
  %create = load ptr, ptr %create.at
  %error = call ptr %create(ptr %args)
  ret ptr %error
}}

define internal i32 @xla_failed(ptr %api, ptr %error) {{
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %end, label %destroy
destroy:
  %args = alloca [3 x i64], align 8
  %extension = getelementptr i64, ptr %args, i64 1
  %error.at = getelementptr i64, ptr %args, i64 2
  store i64 24, ptr %args
  store ptr null, ptr %extension
  store ptr %error, ptr %error.at
  %destroy.at = getelementptr i8, ptr %api, i64 {_ERROR_DESTROY}
  %function = load ptr, ptr %destroy.at
  call void %function(ptr %args)
  ret i32 1
end:
  ret i32 0
}}

; Whether a function of the API failed, whose arguments are {{size, extension, context, ...}}: those behind are there.
define internal i32 @xla_call(ptr %frame, i64 %offset, i64 %size, ptr %args) {{
  %api.at = getelementptr i8, ptr %frame, i64 {_API}
  %api = load ptr, ptr %api.at
  %context.at = getelementptr i8, ptr %frame, i64 {_CONTEXT}
  %context = load ptr, ptr %context.at
  %a1 = getelementptr i64, ptr %args, i64 1
  %a2 = getelementptr i64, ptr %args, i64 2
  store i64 %size, ptr %args
  store ptr null, ptr %a1
  store ptr %context, ptr %a2
  %function.at = getelementptr i8, ptr %api, i64 %offset
  %function = load ptr, ptr %function.at
  %error = call ptr %function(ptr %args)
  %failed = call i32 @xla_failed(ptr %api, ptr %error)
  ret i32 %failed
}}

; The pool is the call frame. Calls task(data) on a thread of XLA's.
define internal i32 @xla_schedule(ptr %frame, ptr %task, ptr %data) {{
  %args = alloca [5 x i64], align 8
  %a3 = getelementptr i64, ptr %args, i64 3
  %a4 = getelementptr i64, ptr %args, i64 4
  store ptr %task, ptr %a3
  store ptr %data, ptr %a4
  %failed = call i32 @xla_call(ptr %frame, i64 {_SCHEDULE}, i64 40, ptr %args)
  ret i32 %failed
}}

; What a function of the API, with the arguments {{size, extension, context, out}}, says.
define internal i64 @xla_ask(ptr %frame, i64 %offset, ptr %out, i64 %otherwise) {{
  %args = alloca [4 x i64], align 8
  %a3 = getelementptr i64, ptr %args, i64 3
  store ptr %out, ptr %a3
  %failed = call i32 @xla_call(ptr %frame, i64 %offset, i64 32, ptr %args)
  %fine = icmp eq i32 %failed, 0
  %inline = load i64, ptr %a3
  %result = select i1 %fine, i64 %inline, i64 %otherwise
  ret i64 %result
}}

define internal ptr @xla_metadata(ptr %frame, ptr %extension, i32 %traits) {{
  %metadata.at = getelementptr i8, ptr %extension, i64 24
  %metadata = load ptr, ptr %metadata.at
  %api.at = getelementptr i8, ptr %frame, i64 {_API}
  %api = load ptr, ptr %api.at
  %from = getelementptr i8, ptr %api, i64 32
  %version = load i64, ptr %from
  %to = getelementptr i8, ptr %metadata, i64 24
  store i64 %version, ptr %to
  %traits.at = getelementptr i8, ptr %metadata, i64 32
  store i32 %traits, ptr %traits.at
  ret ptr null
}}
"""


class Handler:
    """An XLA FFI handler that makes ``launches``: array ``i`` of ``inputs + results`` is the abstract array ``i``.

    ``mutated`` maps the number of an input that is changed in place to that of the result which shares its memory.
    """

    def __init__(
        self, name: str, launches: Sequence[RecordedLaunch], inputs: int, mutated: dict[int, int], gpu: bool
    ) -> None:
        codes = [_embedded(name, launch, f"launch_{i}") for i, launch in enumerate(launches)]
        self.text = _module(launches, codes, inputs, mutated, gpu, name)
        self._kept = [code.kept for code in codes]
        self._code = native.maker().MachineCode(self.text)

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
) -> str:
    """The LLVM module with the function ``@handler``."""
    texts, lines = _Strings(), _Lines()
    used = sorted({int(v) for launch in launches for v in launch.values if isinstance(v, AbstractAddress)})
    addresses = {i: _address(lines, mutated.get(i, i), inputs) for i in used}
    for i, address in addresses.items():
        rest = lines.let(f"and i64 {address}, {_ALIGNMENT - 1}")
        message = texts.add(f"{name}: array {i} does not start at a multiple of {_ALIGNMENT} bytes")
        lines.fail_unless(lines.let(f"icmp eq i64 {rest}, 0"), message, _INVALID_ARGUMENT)
    stream, threads = "0", "1"
    if gpu:
        stream = lines.let(f"call i64 @xla_ask(ptr %frame, i64 {_STREAM_GET}, ptr null, i64 -1)")
        lines.fail_unless(lines.let(f"icmp ne i64 {stream}, -1"), texts.add(f"{name}: XLA gives no stream"), _INTERNAL)
    else:
        lines.do("store i64 1, ptr %threads.at")
        lines.let(f"call i64 @xla_ask(ptr %frame, i64 {_NUM_THREADS}, ptr %threads.at, i64 0)")
        threads = lines.let("load i64, ptr %threads.at")
    most = max((len(launch.values) for launch in launches), default=0)
    for number, (launch, code) in enumerate(zip(launches, codes)):
        for i, (value, kind) in enumerate(zip(launch.values, _kinds(launch))):
            word = addresses[int(value)] if isinstance(value, AbstractAddress) else str(_word(value, kind))
            lines.do(f"store i64 {word}, ptr {lines.let(f'getelementptr i64, ptr %values, i64 {i}')}")
        grid = ", ".join(f"i64 {n}" for n in launch.grid)
        arguments = f"ptr %values, {grid}, i64 {stream}, i64 {threads}, ptr @xla_schedule, ptr %frame"
        failed = lines.let(f"call i64 @launch_{number}({arguments})")
        kernel = launch.kernel.name
        for site, said in enumerate(code.messages, 1):
            message = texts.add(f"{name}: an assertion of {kernel}() failed: {said}")
            lines.fail_unless(lines.let(f"icmp ne i64 {failed}, {site}"), message, _ABORTED)
        message = texts.add(f"{name}: the launch of {kernel}() failed")
        lines.fail_unless(lines.let(f"icmp eq i64 {failed}, 0"), message, _INTERNAL)
    shared = "\n".join(dict.fromkeys(code.shared for code in codes))
    functions = "\n".join(code.text for code in codes)
    return f"{_HELPERS}\n{texts}\n{shared}\n{functions}\n{_handler(lines, most, gpu)}"


def _handler(lines: _Lines, most: int, gpu: bool) -> str:
    return f"""
define ptr @handler(ptr %frame) {{
  %values = alloca [{max(most, 1)} x i64], align 64
  %threads.at = alloca i64, align 8
  %extension.at = getelementptr i8, ptr %frame, i64 {_EXTENSION}
  %extension = load ptr, ptr %extension.at
  %extended = icmp ne ptr %extension, null
  br i1 %extended, label %asked, label %stages
asked:
  %kind.at = getelementptr i8, ptr %extension, i64 8
  %kind = load i32, ptr %kind.at
  %wanted = icmp eq i32 %kind, {_METADATA}
  br i1 %wanted, label %tell, label %stages
tell:
  %told = call ptr @xla_metadata(ptr %frame, ptr %extension, i32 {_COMMAND_BUFFER if gpu else 0})
  ret ptr %told
stages:
  %stage.at = getelementptr i8, ptr %frame, i64 {_STAGE}
  %stage = load i32, ptr %stage.at
  %execute = icmp eq i32 %stage, {_EXECUTE}
  br i1 %execute, label %run, label %done
done:
  ret ptr null
run:
  %api.at = getelementptr i8, ptr %frame, i64 {_API}
  %api = load ptr, ptr %api.at
  %inputs.at = getelementptr i8, ptr %frame, i64 {_ARGUMENTS}
  %inputs = load ptr, ptr %inputs.at
  %results.at = getelementptr i8, ptr %frame, i64 {_RESULTS}
  %results = load ptr, ptr %results.at
{lines}
  ret ptr null
}}
"""


def _address(lines: _Lines, number: int, inputs: int) -> str:
    """The address of an array, which XLA calls a buffer."""
    array, index = ("%inputs", number) if number < inputs else ("%results", number - inputs)
    buffer = lines.let(f"load ptr, ptr {lines.let(f'getelementptr ptr, ptr {array}, i64 {index}')}")
    return lines.let(f"load i64, ptr {lines.let(f'getelementptr i8, ptr {buffer}, i64 24')}")


def _kinds(launch: RecordedLaunch) -> list[TileType]:
    return [argument.tile for argument in launch.function.body.args]


def _word(value: Any, kind: TileType) -> int:
    """A number as the 64 bits that kernels take."""
    if not kind.is_pointer and kind.element.is_floating:
        return int(struct.unpack("=q", struct.pack("=d", value))[0])
    return int(value)


class _Lines:
    """The instructions of a function, in the making."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __str__(self) -> str:
        return "\n".join(f"  {line}" for line in self._lines)

    def do(self, instruction: str) -> None:
        self._lines.append(instruction)

    def let(self, instruction: str) -> str:
        """The name of the result of ``instruction``."""
        name = f"%v{len(self._lines)}"
        self._lines.append(f"{name} = {instruction}")
        return name

    def fail_unless(self, condition: str, message: str, code: int) -> None:
        """Return an error of XLA's unless ``condition`` holds."""
        n = len(self._lines)
        self.do(f"br i1 {condition}, label %go{n}, label %fail{n}")
        self.do(f"fail{n}:")
        self.do(f"%error{n} = call ptr @xla_error(ptr %api, ptr {message}, i32 {code})")
        self.do(f"ret ptr %error{n}")
        self.do(f"go{n}:")


class _Strings:
    """Constants of text."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []

    def add(self, text: str) -> str:
        self._texts.append(text.encode() + b"\0")
        return f"@text{len(self._texts) - 1}"

    def __str__(self) -> str:
        def escaped(text: bytes) -> str:
            return "".join(f"\\{byte:02x}" for byte in text)

        return "\n".join(
            f'@text{i} = internal constant [{len(text)} x i8] c"{escaped(text)}"' for i, text in enumerate(self._texts)
        )
