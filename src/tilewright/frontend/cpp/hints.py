"""What optimization hints mean: which kinds and values exist, and what they apply to (section 2.16)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.frontend.cpp.llvm_form import Const, LLVMFunction, LLVMModule, Symbol
from tilewright.frontend.cpp.llvm_text import constant_text, parse_constant
from tilewright.frontend.cpp.locations import Locations
from tilewright.ir.hints import ByTarget
from tilewright.ir.location import Loc

# The architectures that a hint may name, as __CUDA_ARCH__ does; 0 stands for all of them.
ARCHITECTURES = frozenset((0, 800, 860, 870, 880, 890, 900, 1000, 1030, 1100, 1200, 1210))
# hint kind of the C++ language -> kernel hint of the IR, and the values that it takes
_KERNEL_HINTS: dict[str, tuple[str, frozenset[int]]] = {
    "num_cta_in_cga": ("num_ctas", frozenset((1, 2, 4, 8, 16))),
    "occupancy": ("occupancy", frozenset(range(1, 33))),
}
_OPERATION_HINTS: dict[str, frozenset[int]] = {"latency": frozenset(range(1, 11)), "allow_tma": frozenset((0, 1))}
_BEGIN, _END = "__tw_hint", "__tw_hint_end"


def by_target(values: dict[int, int | bool]) -> Any:
    """Hint values per architecture, where architecture 0 means all others."""
    if set(values) == {0}:
        return values[0]
    named = {f"sm_{arch // 10}": value for arch, value in values.items() if arch}
    return ByTarget(default=values[0], **named) if 0 in values else ByTarget(**named)


def _decoded(code: int) -> tuple[int, int]:
    """Architecture and value of a hint, which the headers pack into one number."""
    return code >> 32, code & 0xFFFFFFFF


def kernel_hints(module: LLVMModule, notes: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The hints of a kernel from its annotations, the last one of a kind; what does not exist is ignored."""
    values: dict[str, dict[int, int]] = {}
    for note, definition in notes:
        if note != "cutile.hint":
            continue
        found = parse_constant(definition)
        name, *codes = (None,) if found is None else found[1].value
        kind = constant_text(module.globals.get(name.name, "")).rstrip("\0") if isinstance(name, Symbol) else ""
        if kind not in _KERNEL_HINTS:
            continue
        ir_name, allowed = _KERNEL_HINTS[kind]
        for architecture, value in (_decoded(int(code.value)) for code in codes):
            exists = architecture in ARCHITECTURES and value in allowed
            if exists and not (kind == "num_cta_in_cga" and architecture == 800 and value != 1):
                values.setdefault(ir_name, {})[architecture] = value
    return {name: by_target(by_arch) for name, by_arch in values.items()}


class StatementHints:
    """The hints on the expression statements of a function.

    What a statement calls directly has a location between those of the calls that mark its begin and end, in the same
    function; what the called functions do has locations of its own.
    """

    def __init__(self, module: LLVMModule, function: LLVMFunction, locations: Locations) -> None:
        # function and callers -> position, and the hint that begins there (None: a statement ends)
        self._marks: dict[tuple[object, ...], list[tuple[tuple[int, int], tuple[str, int] | None]]] = {}
        for block in function.blocks:
            for i in block.instructions:
                if i.op == "call" and i.detail in (_BEGIN, _END):
                    hint = None
                    if i.detail == _BEGIN:
                        text, code = i.operands
                        assert isinstance(text, Symbol) and isinstance(code, Const)
                        hint = constant_text(module.globals.get(text.name, "")).rstrip("\0"), int(code.value)
                    loc = locations.loc(i.debug)
                    self._marks.setdefault(_chain(loc), []).append((_position(loc), hint))
        for marks in self._marks.values():
            marks.sort(key=lambda mark: mark[0])

    def of(self, loc: Loc, *kinds: str) -> dict[str, Any]:
        """The hints of ``kinds`` for a memory operation that the user's code calls at ``loc``."""
        if not self._marks:
            return {}
        values: dict[str, dict[int, int | bool]] = {}
        for position, hint in self._marks.get(_chain(loc), ()):
            if hint is None:
                # A macro puts a whole statement at one location.
                if position < _position(loc):
                    values.clear()
            elif position <= _position(loc):
                kind, (architecture, value) = hint[0], _decoded(hint[1])
                if kind in kinds and architecture in ARCHITECTURES and value in _OPERATION_HINTS[kind]:
                    values.setdefault(kind, {})[architecture] = bool(value) if kind == "allow_tma" else value
        return {kind: by_target(by_arch) for kind, by_arch in values.items()}


def _chain(loc: Loc) -> tuple[object, ...]:
    return loc.file, loc.function, loc.caller


def _position(loc: Loc) -> tuple[int, int]:
    return loc.line, loc.column
