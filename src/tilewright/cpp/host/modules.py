"""Kernels that a program compiles while it runs, through the functions of ``nvrtc.h`` and ``cuda.h``."""

from __future__ import annotations

import ctypes
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from tilewright.cpp.module import Kernel, request_of
from tilewright.cpp.translation import Request, kernel_function, kernel_names
from tilewright.ir.errors import TileError
from tilewright.ir.types import PointerType

COMPILER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_int, ctypes.c_void_p
)
FINDER = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.POINTER(ctypes.c_uint),
)
_SUCCESS, _INVALID_OPTION, _FAILED = 0, 5, 6  # results of nvrtcCompileProgram
# What concerns GPUs, debuggers and optimizers is as it is here.
_IGNORED = (
    "-arch",
    "--gpu-architecture",
    "-lineinfo",
    "--generate-line-info",
    "-enable-tile",
    "--enable-tile",
    "-G",
    "-O",
)


class OptionError(ValueError):
    """An option that NVRTC does not have, or that has no value."""


def compiled(text: str, name: str, options: Sequence[str]) -> bytes:
    """The image of a program. TileError for what is wrong with it, OptionError for options that are."""
    defines: dict[str, str | int | None] = {}
    folders: list[str] = []
    std, words = "c++20", list(options)
    while words:
        word = words.pop(0)
        flag = next(
            (f for f in ("--define-macro", "--include-path", "--std", "-std", "-D", "-I") if word.startswith(f)), ""
        )
        if not flag:
            if not word.startswith(_IGNORED):
                raise OptionError(f"unknown option {word}")
            continue
        value = word[len(flag) :].removeprefix("=") or (words.pop(0) if words else "")
        if not value:
            raise OptionError(f"{word} needs a value")
        if flag in ("-D", "--define-macro"):
            macro, assigned, number = value.partition("=")
            defines[macro] = number if assigned else 1
        elif flag in ("-I", "--include-path"):
            folders.append(value)
        else:
            std = value
    request = request_of(text + "\n", std, defines, folders, name)
    kernel_names(request)
    return json.dumps(asdict(request)).encode()


def loaded(image: bytes, expression: str) -> Kernel:
    """The kernel of an image that ``expression`` names. TileError where there is none."""
    fields = json.loads(image)
    defines = tuple((name, value) for name, value in fields.pop("defines"))
    request = Request(**{**fields, "defines": defines, "include_dirs": tuple(fields["include_dirs"])})
    checked = functools.partial(_checked, request, expression)
    return Kernel(expression, kernel_function(request, expression), checked, None, request)


def _checked(request: Request, expression: str) -> Any:
    return kernel_function(request.checked(), expression)


class Modules:
    """The kernels of modules, which are added to ``kernels``, and what the runtime calls. ``prepare`` compiles them, so
    that launches do not wait for it."""

    def __init__(
        self, library: ctypes.CDLL, kernels: dict[str, Kernel], prepare: Callable[[Sequence[Kernel]], None]
    ) -> None:
        self._kernels = kernels
        self._prepare = prepare
        self._numbers: dict[tuple[bytes, str], int] = {}
        self._made = library["__tw_compiled"]
        self._made.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
        self.callbacks = COMPILER(self._compile), FINDER(self._find)
        library["__tw_set_compiler"](*self.callbacks)

    def _compile(self, text: bytes, name: bytes, options: Any, count: int, made: int) -> int:
        try:
            words = [options[i].decode() for i in range(count)]
            image = compiled(text.decode(), name.decode(), words)
        except (TileError, ValueError) as e:
            self._made(made, str(e).encode(), None, 0)
            return _INVALID_OPTION if isinstance(e, OptionError) else _FAILED
        self._made(made, b"", image, len(image))
        return _SUCCESS

    def _find(self, image: int, size: int, name: bytes, sizes: Any, count: Any) -> int:
        key = ctypes.string_at(image, size), name.decode()
        number = self._numbers.get(key)
        try:
            kernel = loaded(*key) if number is None else self._kernels[f"module {number}"]
            if number is None:
                self._prepare([kernel])
        except (TileError, ValueError):
            return -1
        number = self._numbers.setdefault(key, len(self._numbers))
        self._kernels[f"module {number}"] = kernel
        for i, (_, rule) in enumerate(kernel.parameters):
            assert rule.declared is not None
            sizes[i] = 8 if isinstance(rule.declared, PointerType) else rule.declared.storage.itemsize
        count[0] = len(kernel.parameters)
        return number
