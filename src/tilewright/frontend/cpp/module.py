"""Compiles Tile C++ source and hands out its kernels as Tile IR (the Python interface of the language)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.frontend.cpp.debug_types import Piece, parameter_pieces, refuse_owners
from tilewright.frontend.cpp.device_limits import refuse_long_double
from tilewright.frontend.cpp.hints import kernel_hints
from tilewright.frontend.cpp.kernel import translate_kernel
from tilewright.frontend.cpp.llvm_line import lanes_of
from tilewright.frontend.cpp.llvm_module import parts_of
from tilewright.frontend.cpp.llvm_text import constant_text, parse_constant, parse_module
from tilewright.frontend.cpp.locations import Locations, quote
from tilewright.frontend.cpp.names import is_instance, source_name
from tilewright.frontend.cpp.optimize import optimize
from tilewright.frontend.cpp.parameters import with_pieces
from tilewright.frontend.cpp.source import defines_main, needs_expansion, prepare
from tilewright.frontend.cpp.spaces import TILE, refuse_direct_calls, refuse_host_functions, texts_of
from tilewright.frontend.cpp.statements import refuse_statements
from tilewright.frontend.cpp.toolchain import Options, compile_to_llvm, expanded
from tilewright.ir.core import Function
from tilewright.ir.errors import TileSyntaxError, TileTypeError, TileUnsupportedFeatureError, TileValueError
from tilewright.ir.types import ElementType

_ENTRY = "__tw_kernel_"
_NO_SCALAR = 64  # `code_none` of the headers
_EXPRESSION = re.compile(r"\s*&?\s*(?P<name>(?!\d)[\w$:]+\s*(?:<.*>)?)\s*(?P<parameters>\(.*\))?\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: its name in the source, and its type: a number or a pointer."""

    name: str
    type: ElementType


@dataclass(frozen=True)
class CppKernel:
    """One kernel, instantiated: ``expression`` is what was asked for, ``function`` its Tile IR, ``pieces`` what it
    takes."""

    expression: str
    function: Function
    parameters: tuple[Parameter, ...]
    pieces: tuple[Piece, ...]


class Module:
    """A Tile C++ source text and how to compile it.

    ``name`` is what locations call the source; ``defines`` and ``include_dirs`` go to the preprocessor.
    """

    def __init__(
        self,
        text: str,
        name: str = "<tile C++>",
        *,
        std: str = "c++20",
        defines: Mapping[str, str | int] | None = None,
        include_dirs: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self.text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        self.name = name
        self.std = std
        self.defines = dict(defines or {})
        self.include_dirs = tuple(include_dirs)
        self.files: tuple[str, ...] = ()  # what was included when the compiler ran last, but for headers of ours
        self._kernels: dict[str, CppKernel] = {}

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels that are no templates, by the names of their declarations, in source order."""
        unoptimized = self._compile(())
        _refuse_results(unoptimized)
        found = (symbol for symbol, note, _ in function_notes(unoptimized) if note == "tw.kernel")
        return tuple(dict.fromkeys(source_name(symbol) for symbol in found if not is_instance(symbol)))

    def kernel(self, expression: str) -> CppKernel:
        """The kernel that ``expression`` names: ``"name"``, ``"space::name"`` or ``"name<float, 128>"``.

        Of overloaded kernels, ``"name(int*, float)"`` names the one with these parameter types.

        Raises TileSyntaxError when ``expression`` is no such name, TileError for what the source gets wrong.
        """
        return self.load(expression)[0]

    def load(self, *expressions: str) -> list[CppKernel]:
        """Several kernels with one run of the compiler: see ``kernel``."""
        wanted = [e for e in dict.fromkeys(expressions) if e not in self._kernels]
        for expression in wanted:
            if not _EXPRESSION.match(expression):
                raise TileSyntaxError(f"{expression!r} does not name a kernel; write name or name<arguments>")
        if wanted:
            self._load(wanted)
        return [self._kernels[e] for e in expressions]

    def load_launched(self, kernels: Sequence[tuple[str, Sequence[Piece]]]) -> list[CppKernel]:
        """The kernels that the program launches or takes the address of, each by its symbol and the pieces of its
        parameters: no name of C++ stands for one with a lambda or a value of class type as template argument."""
        types = any(piece.name for _, pieces in kernels for piece in pieces)
        unoptimized = self._compile((), launches=True, types=types)
        refuse_direct_calls(unoptimized, [s for s, note, _ in function_notes(unoptimized) if note == "tw.kernel"])
        return self._translated(unoptimized, kernels)

    def _compile(self, expressions: Sequence[str], *, launches: bool = False, types: bool = False) -> str:
        """The unoptimized LLVM module with an entry for each of ``expressions``; ``launches`` are instantiations.
        ``types`` are told where kernels take classes."""
        if not os.path.isfile(self.name):
            quote(self.name, self.text)
        requests = "".join(
            f'\n#line 1 "{_request_name(e)}"\n'
            f'extern "C" __attribute__((used)) constinit const auto {_ENTRY}{i} = ::__tw::describe({_address(e)});'
            for i, e in enumerate(expressions)
        )
        exceptions = launches or defines_main(self.text)  # of host code
        options = Options(self.std, self.defines, self.include_dirs, exceptions, types=types)
        text, included = expanded(self.text, self.name, options)
        text = prepare(text, self.name, launches=launches) + requests + "\n"
        output = compile_to_llvm(text, self.name, options, included)
        self.files = output.files
        return output.llvm

    def _load(self, expressions: Sequence[str]) -> None:
        unoptimized = self._compile(expressions)
        _refuse_results(unoptimized)
        refuse_direct_calls(unoptimized, [s for s, note, _ in function_notes(unoptimized) if note == "tw.kernel"])
        entries = [_entry(unoptimized, i) for i in range(len(expressions))]
        if any(piece.code >= _NO_SCALAR for _, pieces in entries for piece in pieces):
            unoptimized = self._compile(expressions, types=True)
            entries = [(symbol, _pieces(unoptimized, symbol)) for symbol, _ in entries]
        self._kernels |= zip(expressions, self._translated(unoptimized, entries, expressions))

    def _translated(
        self, unoptimized: str, entries: Sequence[tuple[str, Sequence[Piece]]], expressions: Sequence[str] = ()
    ) -> list[CppKernel]:
        """The kernels with the symbols and pieces ``entries``; ``expressions`` are what asked for them."""
        found = []
        symbols = {symbol for symbol, _ in entries}
        texts = texts_of(self.name, self.text, self.files)
        refuse_host_functions(unoptimized, symbols, TILE, texts, self.defines)
        refuse_long_double(unoptimized, symbols, texts)
        refuse_statements(unoptimized, symbols, texts, columns=not needs_expansion(self.text, self.include_dirs))
        unoptimized = with_pieces(unoptimized, {s: p for s, p in entries if any(piece.name for piece in p)})
        module = parse_module(optimize(unoptimized, symbols), symbols)
        notes = _notes(module.globals)
        kinds = {(s, note) for s, note, _ in notes}
        locations = Locations(module.metadata)
        for expression, (symbol, pieces) in zip(expressions or [source_name(s) for s, _ in entries], entries):
            if (symbol, "tw.simt") in kinds:
                raise TileValueError(
                    f"{expression} is a SIMT kernel, which is left alone; tile kernels are __tile_global__"
                )
            if (symbol, "tw.kernel") not in kinds:
                raise TileValueError(f"{expression} is not a tile kernel; declare it with __tile_global__")
            hints = kernel_hints(module, [(note, arguments) for s, note, arguments in notes if s == symbol])
            function = translate_kernel(module, module.functions[symbol], source_name(symbol), pieces, locations, hints)
            parameters = tuple(
                Parameter(param.argument, value.tile.dtype) for param, value in zip(function.params, function.body.args)
            )
            found.append(CppKernel(expression, function, parameters, tuple(pieces)))
        return found


def _address(expression: str) -> str:
    """The C++ expression for the kernel that ``expression`` names."""
    match = _EXPRESSION.match(expression)
    assert match is not None
    if match["parameters"] is None:
        return f"&{match['name']}"
    return f"static_cast<void (*){match['parameters']}>(&{match['name']})"


def _request_name(expression: str) -> str:
    return "kernel " + expression.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _entry(text: str, number: int) -> tuple[str, list[Piece]]:
    """The symbol and the pieces of a requested kernel, from the constant that describes it."""
    found = parse_constant(parts_of(text).others.get(f"{_ENTRY}{number}", ""))
    if found is None:
        raise TileUnsupportedFeatureError("the compiler did not describe the requested kernel")
    kernel, codes = found[1].value
    every = [code.value for code in codes.value] if codes.value else [0] * lanes_of(codes.type)
    return kernel.name, [Piece(position, 0, code) for position, code in enumerate(every[:-1])]


def function_notes(llvm: str) -> list[tuple[str, str, str]]:
    """Function symbol, annotation and the definition of its arguments, for each annotation in the text of a module."""
    return _notes(parts_of(llvm).others)


def _notes(globals: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """What ``function_notes`` gives, from the definitions of the global variables of a module."""
    listed = globals.get("llvm.global.annotations", "").removeprefix("appending global ")
    found, notes = [], parse_constant(f"constant {listed}") if listed else None
    for each in () if notes is None else notes[1].value:
        function, text, _, _, arguments = each.value
        note = constant_text(globals.get(text.name, "")).rstrip("\0")
        found.append((function.name, note, globals.get(getattr(arguments, "name", ""), "")))
    return found


def described(unoptimized: str, symbols: Sequence[str]) -> list[tuple[str, str, list[Piece]]]:
    """Symbol, name and pieces of the parameters of each of the kernels ``symbols``, from full debug information; of
    SIMT kernels no pieces.

    TileTypeError, where it is declared, for a parameter that tile kernels do not take, or for a kernel with a result.
    """
    _refuse_results(unoptimized)
    parts = parts_of(unoptimized)
    locations = Locations(parts.metadata)
    tile = {symbol for symbol, note, _ in function_notes(unoptimized) if note == "tw.kernel"}
    found = []
    for symbol in symbols:
        number = parts.functions[symbol].subprogram if symbol in parts.functions else None
        subprogram = -1 if number is None else number
        name = locations.fields(subprogram).get("name", source_name(symbol))
        refuse_owners(locations, subprogram)
        found.append((symbol, name, parameter_pieces(locations, subprogram) if symbol in tile else []))
    return found


def _pieces(unoptimized: str, symbol: str) -> list[Piece]:
    """The pieces of a kernel's parameters, from full debug information."""
    return described(unoptimized, [symbol])[0][2]


def _refuse_results(unoptimized: str) -> None:
    """TileTypeError for a kernel that returns something."""
    parts = parts_of(unoptimized)
    for symbol, note, _ in function_notes(unoptimized):
        found = parts.functions.get(symbol)
        if note in ("tw.kernel", "tw.simt") and found and not found.head.partition("@")[0].endswith("void "):
            loc = Locations(parts.metadata).function(found.subprogram)
            raise TileTypeError(f"the kernel {source_name(symbol)} returns a value; a kernel returns void", loc)
