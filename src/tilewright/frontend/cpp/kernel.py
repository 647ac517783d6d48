"""Translates one kernel of an optimized LLVM module into a Tile IR function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilewright.frontend.cpp.aggregates import split_aggregates
from tilewright.frontend.cpp.cfg import Graph, IrreducibleError
from tilewright.frontend.cpp.debug_types import Piece
from tilewright.frontend.cpp.inference import merged_types
from tilewright.frontend.cpp.intrinsics import intrinsic
from tilewright.frontend.cpp.layout import Layouts
from tilewright.frontend.cpp.llvm_form import HANDLE, Instruction, LLVMFunction, LLVMModule
from tilewright.frontend.cpp.locations import Locations
from tilewright.frontend.cpp.memory import copy_tables, transfer
from tilewright.frontend.cpp.names import decoded, source_name
from tilewright.frontend.cpp.printing import literal, print_formatted
from tilewright.frontend.cpp.scalars import translate, translate_function
from tilewright.frontend.cpp.structure import Structurer
from tilewright.frontend.cpp.typecodes import element_type
from tilewright.frontend.cpp.values import Translation
from tilewright.frontend.cpp.widths import widen_integers
from tilewright.ir.core import Block, Function, Param, Value
from tilewright.ir.dtypes import bool_
from tilewright.ir.errors import TileRecursionError, TileTypeError, TileUnsupportedFeatureError, UnsupportedCallError
from tilewright.ir.ops.memory import Assert
from tilewright.ir.types import TileType
from tilewright.ir.verifier import verify

_IGNORED = ("llvm.lifetime.", "llvm.assume", "llvm.dbg.", "llvm.experimental.noalias.")
# Functions of the C library with a meaning in tile code, and the LLVM functions that are the same.
_LIBRARY = {
    "abs": "llvm.abs.i32",
    "labs": "llvm.abs.i64",
    "llabs": "llvm.abs.i64",
    **{name: f"llvm.{name}" for name in ("memcpy", "memmove", "memset")},
}
# How calls start that are refused, and why.
_REFUSED = {
    "__tw_no_launch": "launching a kernel is not available in tile code; launch it from the host",
    "__tw_no_simt_function": "a __device__ function cannot be called from tile code; declare it __tile__",
    "llvm.var.annotation": "a __shared__ variable is not available in tile code; use a tile or a local array",
    "llvm.threadlocal.": "a thread_local variable is not available in tile code; pass it to the kernel",
    "__cxa_": "exceptions are not available in tile code; end by assert",
    **dict.fromkeys(
        ("_Znw", "_Zna", "_Zdl", "_Zda", "malloc", "calloc", "realloc", "free"),
        "new, delete and malloc are not available in tile code; declare a local array of constant length",
    ),
}
_MATH = {
    *("ceil", "cos", "cosh", "exp", "exp2", "fabs", "floor", "fma", "fmax", "fmin", "fmod"),
    *("log", "log2", "pow", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh"),
}


def translate_kernel(
    module: LLVMModule,
    function: LLVMFunction,
    name: str,
    pieces: Sequence[Piece],
    locations: Locations,
    hints: dict[str, Any],
) -> Function:
    """``function`` as a kernel called ``name`` whose parameters are ``pieces``. Raises TileError, with the location."""
    body = Block()
    function = widen_integers(split_aggregates(function, Layouts(module.types)))
    state = Translation(module, function, locations, body)
    params = []
    for (argument, _), piece in zip(function.arguments, pieces):
        type, title = TileType(element_type(piece.code)), piece.name or parameter_name(argument)
        state.env[argument] = body.add_arg(type, parameter_name(argument))
        role = "base" if type.is_pointer else "scalar"
        params.append(Param(title, role, no_alias=argument in function.no_alias))
    loc = state.builder.loc
    try:
        graph = Graph(function)
    except IrreducibleError as e:
        found = (
            locations.loc(i.debug) for b in function.blocks if b.name == e.block for i in b.instructions if i.debug
        )
        raise TileUnsupportedFeatureError(
            "a jump into a loop is not available in tile code; write the loop with for, while or do",
            next((at for at in found if at.line), loc),
        ) from None
    state.types = merged_types(function, {n: v.tile for n, v in state.env.items()})

    def instruction(i: Instruction) -> None:
        if i.op == "call":
            _call(state, i)
        else:
            translate(state, i)

    copy_tables(state)
    try:
        Structurer(graph, state, instruction).run()
    except RecursionError:
        raise TileUnsupportedFeatureError("the control flow of this kernel is nested too deeply", loc) from None
    result = Function(name, body, params, loc, hints, may_alias=True)
    verify(result)
    return result


def parameter_name(argument: str) -> str:
    """The name of a parameter in the source; a struct that is passed as a number has a suffix in LLVM."""
    return decoded(argument.removesuffix(".coerce"))


def _call(state: Translation, i: Instruction) -> None:
    i = replace(i, detail=_LIBRARY.get(i.detail, i.detail))
    callee = i.detail
    if callee.startswith(_IGNORED):
        return
    refused = next((reason for start, reason in _REFUSED.items() if callee.startswith(start)), None)
    if refused is not None:
        at_call = state.builder.loc.caller if callee == "__tw_no_simt_function" else None
        raise TileUnsupportedFeatureError(refused, at_call or state.builder.loc)
    if callee.startswith("__tw_"):
        handler = intrinsic(callee[5:])
        if handler is None:
            state.fail(f"the header calls {callee}, which this compiler does not know")
        value = handler(state, i)
        if value is not None:
            state.bind(i, value)
            _check_result(state, i, value)
    elif callee == "printf":
        print_formatted(state, i)
    elif callee in ("llvm.trap", "llvm.debugtrap", "abort"):
        _stop(state, "the kernel was stopped")
    elif callee == "__assert_fail":
        _stop(state, f"{literal(state, i.operands[0])}")
    elif callee.startswith("llvm.mem"):
        transfer(state, i)
    elif callee.startswith("llvm.") and translate_function(state, i):
        return
    elif callee in state.module.defined:
        state.fail("a function that calls itself is not available in tile code", TileRecursionError)
    else:
        math = callee if callee in _MATH else callee.removesuffix("f")
        advice = "; tile code has its own functions in cuda::tiles" if math in _MATH else ""
        message = f"the function '{source_name(callee)}' has no definition that tile code can call{advice}"
        state.fail(message, UnsupportedCallError)


def _stop(state: Translation, message: str) -> None:
    state.builder.emit_op(Assert, state.builder.constant(False, bool_), [], message=message)


def _check_result(state: Translation, i: Instruction, value: Value) -> None:
    """The headers and this compiler must agree on the type of every tile."""
    if i.type == HANDLE:
        want = state.type_argument(i.operands[0])
        if value.type != want:
            state.fail(f"{i.detail} gives {value.type} where the header expects {want}", TileTypeError)
