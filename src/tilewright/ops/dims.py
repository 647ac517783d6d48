"""Dimensions of an operator's arrays by name: ``"m k, k n -> m n"``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

Dim = Union[str, int]  # a name, or an extent that is always the same
Shape = tuple[Dim, ...]
Check = Callable[[Any, Callable[[], str]], None]  # raises the error of a framework unless the condition holds


def _check(condition: Any, message: Callable[[], str]) -> None:
    if not condition:
        raise ValueError(message())


@dataclass(frozen=True)
class Dims:
    """The dimensions of the ``inputs`` and the ``outputs``. One name stands for one extent."""

    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]

    @staticmethod
    def parse(text: str, operator: str) -> Dims:
        """``text`` has a group of names and numbers for each array, ``()`` for a scalar: ``"rows cols, cols -> rows"``.

        ValueError for other text, and for names of outputs that no input has: their extents would be unknown.
        """
        before, arrow, after = text.partition("->")
        if not arrow:
            raise ValueError(f"{operator}: the dimensions {text!r} have no '->' between those of inputs and outputs")
        found = Dims(_groups(before, text, operator), _groups(after, text, operator))
        if not found.inputs:
            raise ValueError(f"{operator}: the dimensions {text!r} have no input")
        unknown = found.names() - {d for shape in found.inputs for d in shape}
        if unknown:
            raise ValueError(f"{operator}: no input has the dimension {min(unknown)!r} of an output in {text!r}")
        for shape in (*found.inputs, *found.outputs):
            names = [d for d in shape if isinstance(d, str)]
            if len(set(names)) < len(names):
                raise ValueError(f"{operator}: an array in {text!r} has one dimension twice")
        return found

    def names(self) -> set[str]:
        """The names of all dimensions."""
        return {d for shape in (*self.inputs, *self.outputs) for d in shape if isinstance(d, str)}

    def extents(
        self, operator: str, arguments: Sequence[str], shapes: Sequence[Sequence[Any]], check: Check = _check
    ) -> dict[str, Any]:
        """The extents of the names, from the ``shapes`` of the ``arguments``. Where they disagree, ``check`` raises an
        error: ValueError, unless it is given."""
        found: dict[str, tuple[Any, str]] = {}
        for argument, dims, shape in zip(arguments, self.inputs, shapes):
            check(
                len(shape) == len(dims),
                lambda argument=argument, dims=dims, shape=shape: (  # type: ignore[misc]
                    f"{operator}: '{argument}' has {len(shape)} dimensions, but is declared with {len(dims)}: "
                    f"({', '.join(map(str, dims))})"
                ),
            )
            for axis, (dim, extent) in enumerate(zip(dims, shape)):
                if isinstance(dim, int):
                    wanted, by = dim, "the declaration"
                else:
                    wanted, by = found.setdefault(dim, (extent, argument))
                if wanted is not extent:
                    check(
                        wanted == extent,
                        lambda argument=argument, axis=axis, dim=dim, extent=extent, wanted=wanted, by=by: (  # type: ignore[misc]
                            f"{operator}: '{argument}' has the extent {extent} along axis {axis} ({dim}), but "
                            f"{by if by == 'the declaration' else repr(by)} has {wanted}"
                        ),
                    )
        return {dim: extent for dim, (extent, _) in found.items()}

    def results(self, extents: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The shapes of the outputs."""
        return [tuple(d if isinstance(d, int) else extents[d] for d in shape) for shape in self.outputs]


def _groups(text: str, whole: str, operator: str) -> tuple[Shape, ...]:
    if not text.strip():
        return ()
    return tuple(_shape(group, whole, operator) for group in text.split(","))


def _shape(group: str, whole: str, operator: str) -> Shape:
    words = group.split()
    if not words:
        raise ValueError(f"{operator}: the dimensions {whole!r} have an empty group; write () for a scalar")
    if words == ["()"]:
        return ()
    for word in words:
        if not re.fullmatch(r"[A-Za-z_]\w*|[0-9]+", word, re.ASCII):
            raise ValueError(f"{operator}: {word!r} in the dimensions {whole!r} is neither a name nor a number")
    return tuple(int(word) if word.isdigit() else word for word in words)
