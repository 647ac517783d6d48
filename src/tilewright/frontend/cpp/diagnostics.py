"""Turns what the compiler says about a program into one short error at the user's line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from tilewright.ir.errors import (
    TileCompilerExecutionError,
    TileError,
    TileSyntaxError,
    TileTypeError,
    TileUndefinedError,
)
from tilewright.ir.location import Loc

_LINE = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>error|fatal error|warning|note): (?P<text>.*)$"
)
_BECAUSE = re.compile(r"(?:because|and) (.*)")
_SYNTAX = re.compile(r"^(expected|unexpected|unknown type name|extraneous|missing|invalid preprocessing|unterminated)")
# What the constraints of our headers ask for, in the words of the reference. The innermost one that failed is shown.
REQUIREMENTS = {
    "arithmetic_tile_convertible": "there is no arithmetic tile conversion between the operands",
    "arithmetic_tile_comparable": "there is no arithmetic comparison conversion between the operands",
    "converts_arithmetically": "the arithmetic conversion would narrow, or the types have no arithmetic common type",
    "broadcasts_with": "the shapes are not mutual broadcast compatible",
    "broadcasts_to": "the operand is not broadcastable to the shape",
    "scalar_conversion_exists": "there is no scalar conversion between the element types",
    "scalar_conversion_narrows": "the conversion is narrowing",
    "same_lengths": "the shapes are not shape equivalent",
    "tile_compatible": "a tile shape needs lengths that are powers of two, and at most 2^24 elements",
    "tile_element": "the element type of a tile must be a scalar",
    "is_arithmetic_code": "the operand is not an arithmetic tile: restricted floating point types have no arithmetic",
    "is_basic_float_code": "the operand is not a basic floating point tile",
    "is_integer_code": "the operand is not an integral tile",
    "is_pointer_code": "the operand is not a pointer tile",
    "precise_rounding_mode_available": "needs basic floating point elements and a precise rounding mode",
    "division_rounding_mode_available": "round full and round approximate are for float only",
    "sqrt_rounding_mode_available": "needs a precise rounding mode, or round approximate for float",
    "subnormals_mode_available": "round subnormals to zero is for float only",
    "nan_propagation_mode_available": "a NaN propagation mode needs basic floating point elements",
    "element_is_not_bool": "the element type must not be bool",
    "basic_floating_point_tile": "the operand is not a basic floating point tile",
    "integral": "the type is not integral",
    "tile_indices": "needs one index, convertible to size_t, per dimension of the tile",
    "same_object_size": "the element types differ in size",
    "iota_values_representable": "the largest value is not representable in the element type",
    "tile_size_v": "the sizes of the tile and of the shape differ",
    "is_permutation": "the indices are not a permutation",
    "permutes": "needs a dimension_map of the rank of the tile",
    "concatenation_compatible": "the tiles are not concatenation compatible",
    "dimension_of": "the dimension is not one of the tile's",
    "mma_compatible": "the operands cannot take part in a matrix multiply accumulate",
    "matmul_compatible": "the operands cannot take part in a matrix multiply",
    "extractable_from": "the shape is not extractable from the tile",
    "points_to_object": "pointers to void have no elements",
    "loadable_tile": "needs pointers to elements that are not volatile",
    "storeable_tile": "the pointers point to const elements",
    "storeable_tensor_span": "the elements of the view are const",
    "read_memory_order": "a load takes relaxed or acquire memory order",
    "write_memory_order": "a store takes relaxed or release memory order",
    "atomic_integer": "needs 32 or 64 bit integral elements",
    "atomic_number": "needs 32 or 64 bit integral elements, float or double",
    "atomic_addend": "needs 32 or 64 bit integral elements, double, float or __half",
    "partition_index": "needs one index, convertible to the index type, per dimension of the view",
    "padding_available": "a padding other than zero needs basic floating point elements",
    "power_of_two": "the value is not a power of two",
    "bound_for": "the bound lies outside the range of the element type",
}


@dataclass(frozen=True)
class Message:
    file: str
    line: int
    column: int
    kind: str
    text: str


def parse(stderr: str) -> list[list[Message]]:
    """The errors of a compilation, each with the notes that follow it."""
    groups: list[list[Message]] = []
    for line in stderr.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        message = Message(match["file"], int(match["line"]), int(match["column"]), match["kind"], match["text"])
        if message.kind != "note":
            groups.append([message])
        elif groups:
            groups[-1].append(message)
    return groups


def refuse_narrowing(stderr: str) -> None:
    """Raise for narrowing in braces, which the compiler was told to report only as a warning.

    The documents initialize floats with ``1.0 / 0.0``, whose value Clang does not know and so calls narrowed.
    """
    for group in parse(stderr):
        if "narrow" in group[0].text and "from type 'double' to 'float'" not in group[0].text:
            place = group[0]
            text = place.text.partition(" [-W")[0]
            raise TileTypeError(_plain(text), Loc(place.file, place.line, place.column - 1))


def raise_for(stderr: str, headers: str) -> NoReturn:
    """Raise the error that ``stderr`` describes; ``headers`` is the directory of our own headers.

    The compiler's own text is the ``compiler_output`` of the exception.
    """
    groups = [group for group in parse(stderr) if group[0].kind != "warning"]
    if not groups:
        raise TileCompilerExecutionError(f"the C++ compiler failed:\n{stderr.strip()}")
    error = _error(groups[0], headers)
    error.compiler_output = stderr
    raise error


def _error(group: list[Message], headers: str) -> TileError:
    first = group[0]
    if any("shape_size_overflow" in m.text for m in group):
        return _undefined_in(group, headers)
    place = next((m for m in group if not m.file.startswith(headers)), first)
    text = _plain(first.text)
    reason = _unmet_constraint(group)
    if reason and reason not in text:
        text = f"{text}: {reason}"
    cls = TileSyntaxError if _SYNTAX.match(first.text) else TileTypeError
    return cls(text, Loc(place.file, place.line, place.column - 1))


def _undefined_in(group: list[Message], headers: str) -> TileError:
    """A constant expression that the compiler cannot give a value, because the language leaves it undefined."""
    place = next((m for m in group if not m.file.startswith(headers)), group[0])
    return TileUndefinedError(
        "the size of this shape does not fit size_t, so the program is undefined",
        Loc(place.file, place.line, place.column - 1),
        "shape-size-overflow",
    )


def _unmet_constraint(group: list[Message]) -> str:
    """What the candidate that fits best asks for: the one whose explanation is longest."""
    chains: list[list[str]] = []
    for message in group[1:]:
        because = _BECAUSE.match(message.text)
        if "candidate" in message.text or not chains:
            chains.append([])
        if because is not None:
            chains[-1].append(because.group(1))
    best = max(chains, key=len, default=[])
    if not best:
        return ""
    names = [_constraint(text) for text in best]
    known = [name for name in names if name in REQUIREMENTS]
    return f"{REQUIREMENTS[known[-1]]} ({names[0]})" if known else _plain(best[0])


def _constraint(text: str) -> str:
    """The name of the constraint that an explanation says is not met."""
    match = re.search(r"does not satisfy '(?:\w+::)*(\w+)'", text) or re.match(r"'\W?(?:\w+::)*(\w+)", text)
    return match.group(1) if match else ""


def _plain(text: str) -> str:
    """``text`` with types spelled as users write them."""
    text = text.replace("cuda::tiles::v1::", "ct::").replace("cuda::tiles::", "ct::")
    text = re.sub(r"ct::extents<(?:unsigned int|uint32_t)((?:, \d+)*)>", _shape, text)
    text = re.sub(r"'__remove_cv\([^']*\)' \(aka ('[^']*')\)", r"\1", text)
    return re.sub(r" \(aka '[^']*'\)", "", text)


def _shape(match: re.Match[str]) -> str:
    return f"ct::shape<{match.group(1)[2:]}>"
