"""The Python interface of Tile C++: modules, and the kernels that are launched like those written in Python."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from tilewright.backends.registry import backend_names
from tilewright.cpp.translation import Request, kernel_function, kernel_names
from tilewright.frontend.cpp.locations import INCLUDE_DIR, quote
from tilewright.frontend.cpp.source import declared_kernels, with_keywords
from tilewright.frontend.signature import Signature
from tilewright.ir.core import Function
from tilewright.ir.errors import TileError, TileSyntaxError
from tilewright.ir.location import Loc
from tilewright.runtime.alignment import with_alignment
from tilewright.runtime.launchable import Launchable
from tilewright.runtime.layout import ArgumentRef
from tilewright.runtime.rules import Rule
from tilewright.system.forks import MODULE, fork_aware_lock

REQUESTED = "kernel "  # what the front end calls the source of the expressions that name kernels
_OLDER = re.compile(r"(?:c|gnu)\+\+(?:03|11|14|17)")  # code for them compiles as C++20, too, which tile code needs
_TILE_CODE = re.compile(r"\b__tile(?:_global|_builtin)?__\b|\bcuda_tile\.h\b")
_STANDARDS = ("c++20", "c++23", "c++26", "gnu++20", "gnu++23", "gnu++26")
Define = Union[str, int, None]


def compile(
    source_or_path: str | os.PathLike[str],
    std: str = "c++20",
    defines: Mapping[str, Define] | None = None,
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    target: str | None = None,
    *,
    name: str | None = None,
) -> Module:
    """The module of a Tile C++ program: the path of a file, or the text of one (which has a line break, ``;`` or
    ``{``).

    ``defines`` maps macros to their values, None defining an empty one. ``include_dirs`` are searched for included
    files, after the folder of the program. ``target`` is the backend for its kernels where neither the launch nor its
    context names one. ``name`` is what errors call the text.

    FileNotFoundError for a path without a file; ValueError for an unknown standard, target or a bad macro name;
    TileError, at the line, for what the compiler refuses, and when there is no C++ compiler.
    """
    if target is not None and target not in backend_names():
        raise ValueError(f"unknown target {target!r}; the targets are the backends {', '.join(backend_names())}")
    return Module(request_of(source_or_path, std, defines, include_dirs, name), target)


def request_of(
    source_or_path: str | os.PathLike[str],
    std: str = "c++20",
    defines: Mapping[str, Define] | None = None,
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    name: str | None = None,
) -> Request:
    """The program that the arguments of ``compile`` describe; it raises what ``compile`` says of them."""
    older = isinstance(std, str) and _OLDER.fullmatch(std) is not None
    if std not in _STANDARDS and not older:
        raise ValueError(f"std={std!r} is not a standard that Tile C++ can be compiled as; use {', '.join(_STANDARDS)}")
    for macro, value in (defines or {}).items():
        if not isinstance(macro, str) or not macro.isidentifier() or not macro.isascii():
            raise ValueError(f"{macro!r} is not the name of a macro")
        if value is not None and not isinstance(value, (str, int)):
            raise ValueError(f"the macro {macro} is {value!r}; it must be text, an integer, a bool or None")
    own = os.path.realpath(INCLUDE_DIR)  # it is searched anyway, and its headers are not the user's
    folders = [os.fspath(folder) for folder in include_dirs if os.path.realpath(folder) != own]
    if isinstance(source_or_path, str) and any(c in source_or_path for c in "\n;{"):
        text, shown = source_or_path, name or "<tile C++>"
        quote(shown, text)
    elif not isinstance(source_or_path, (str, os.PathLike)):
        raise TypeError(f"a program is the path of a file or the text of one, not {source_or_path!r}")
    else:
        path = Path(source_or_path)
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}; the text of a program has a line break, ; or {{ in it")
        text, shown = _text_of(path), name or str(path)
        folders.insert(0, str(path.parent))
    if older and _TILE_CODE.search(text):
        raise ValueError(f"{shown} has tile code, which needs std='c++20' or later, not {std!r}")
    std = "c++20" if older else std
    macros = tuple((macro, "" if value is None else _macro(value)) for macro, value in (defines or {}).items())
    return Request(with_keywords(text), shown, std, macros, tuple(folders))


def _text_of(path: Path) -> str:
    """The text of a source file. TileSyntaxError where it is not in UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        line = e.object.count(b"\n", 0, e.start) + 1
        message = f"the byte {e.object[e.start]:#04x} is not UTF-8; save the file in that encoding"
        raise TileSyntaxError(message, Loc(str(path), line)) from None


def _macro(value: str | int) -> str:
    return str(int(value)) if isinstance(value, int) else value


class Module:
    """A compiled Tile C++ program: made by ``ct.cpp.compile``.

    ``kernels`` names its kernels that are no templates, in the order of the source.
    """

    def __init__(self, request: Request, target: str | None = None) -> None:
        self._request = request
        self._target = target
        self._found: dict[str, Kernel] = {}
        self._lock = fork_aware_lock(MODULE)
        self.kernels = kernel_names(request)

    def kernel(self, expression: str) -> Kernel:
        """The kernel that ``expression`` names, such as ``"add"``, ``"space::add"`` or ``"scale<float, 128>"``; of
        overloads, ``"add(float*, int)"`` names the one with these parameters. Asked again, it is the same object.

        TileSyntaxError when ``expression`` is no such name; TileError for what its source gets wrong.
        """
        if not isinstance(expression, str) or not expression.strip():
            raise TypeError(f"a kernel is named by a string such as 'scale<float, 128>', not by {expression!r}")
        with self._lock:
            found = self._found.get(expression)
            if found is None:
                checked = functools.partial(kernel_function, self._request.checked(), expression)
                found = Kernel(expression, self._translated(expression), checked, self._target, self._request)
                self._found[expression] = found
        return found

    def _translated(self, expression: str) -> Function:
        try:
            return kernel_function(self._request, expression)
        except TileError as e:
            if e.loc is None or not e.loc.file.startswith(REQUESTED):
                raise
            raise type(e)(
                f"{expression!r} names no kernel: {e.message}. {self._request.name} has {self._known()}"
            ) from None

    def _known(self) -> str:
        """The kernels, templates among them, for messages."""
        names = [name.rpartition("::")[2] for name in self.kernels]
        templates = [f"template {name}" for name in declared_kernels(self._request.text) if name not in names]
        return ", ".join([*self.kernels, *templates]) or "no kernels (__tile_global__)"

    def __reduce__(self) -> tuple[Any, ...]:
        return _module, (self._request, self._target)

    def __deepcopy__(self, memo: Any) -> Module:
        return self

    def __repr__(self) -> str:
        return f"<Tile C++ module {self._request.name}: {self._known()}>"


class Kernel(Launchable):
    """A kernel written in Tile C++, to be launched by ``ct.launch``.

    Pointers take arrays with elements of the declared type and any strides, of which the kernel gets the address of
    the first element, or None for a null pointer; numbers take Python and NumPy numbers in range.
    """

    def __init__(
        self, expression: str, function: Function, checked: Callable[[], Function], target: str | None, request: Request
    ) -> None:
        super().__init__()
        self._request = request
        self.name = expression
        self.function = function
        self._checked = checked
        self.__name__ = self.name
        self.backend = target
        types = [value.tile.dtype for value in function.body.args]
        self._parameters = [
            (ArgumentRef(self.name, param.argument), Rule(declared=dtype))
            for param, dtype in zip(function.params, types)
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._request, self.backend, self.name, self.options)

    def trace(self, signature: Signature) -> Function:
        """The IR, with the alignment of the arrays stated."""
        return with_alignment(self.function, signature)

    def trace_checked(self, signature: Signature) -> Function:
        """The IR of a checked program (``TW_CHECKED`` in our headers)."""
        return with_alignment(self._checked(), signature)

    def __repr__(self) -> str:
        return f"<Tile C++ kernel {self.name} of {self.function.loc.file}>"


@functools.lru_cache(maxsize=64)
def _module(request: Request, target: str | None) -> Module:
    """The module of what was pickled: of kernels of one module, the same."""
    return Module(request, target)


def _restored(request: Request, target: str | None, expression: str, options: dict[str, dict[str, Any]]) -> Kernel:
    return _module(request, target).kernel(expression).with_options(options)
