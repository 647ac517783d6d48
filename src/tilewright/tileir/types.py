"""The types of CUDA Tile IR, as its files have them: integers without a sign, pointers to anything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Union

MAX_ELEMENTS = 1 << 24
DYNAMIC = -(1 << 63)  # a dynamic extent or stride in a file
MAX_POINTER_DEPTH = 16


@dataclass(frozen=True, eq=False)
class Scalar:
    """A number type: its spelling, bits, bytes of one element in a constant, tag in files and first version. There is
    one object for each."""

    name: str
    bits: int
    bytes: int
    tag: int
    since: int = 1

    def __reduce__(self) -> tuple[Any, ...]:
        return SCALARS.__getitem__, (self.name,)

    @property
    def is_integer(self) -> bool:
        return self.name.startswith("i")

    def __str__(self) -> str:
        return self.name


SCALARS: dict[str, Scalar] = {
    s.name: s
    for s in (
        Scalar("i1", 1, 1, 0),
        Scalar("i8", 8, 1, 1),
        Scalar("i16", 16, 2, 2),
        Scalar("i32", 32, 4, 3),
        Scalar("i64", 64, 8, 4),
        Scalar("f16", 16, 2, 5),
        Scalar("bf16", 16, 2, 6),
        Scalar("f32", 32, 4, 7),
        Scalar("tf32", 19, 3, 8),
        Scalar("f64", 64, 8, 9),
        Scalar("f8E4M3FN", 8, 1, 10),
        Scalar("f8E5M2", 8, 1, 11),
        Scalar("f8E8M0FNU", 8, 1, 18, 2),
        Scalar("f4E2M1FN", 4, 1, 19, 3),
        Scalar("i4", 4, 1, 22, 3),
        Scalar("fnv8E5M3FNU", 8, 1, 130, 4),
    )
}
I1, I8, I32, I64 = (SCALARS[name] for name in ("i1", "i8", "i32", "i64"))


@dataclass(frozen=True)
class Pointer:
    """An address in global memory."""

    pointee: Element
    attr: str | None = None

    def __str__(self) -> str:
        return f"ptr<{self.pointee}{_pointer_attr(self.attr)}>"


Element = Union[Scalar, Pointer]


def _pointer_attr(attr: str | None) -> str:
    return "" if attr is None else f", <{attr}>"


def _dims(extents: tuple[int | None, ...]) -> str:
    return "".join(f"{'?' if e is None else e}x" for e in extents)


@dataclass(frozen=True)
class Tile:
    """An immutable array of elements; rank 0 is a scalar."""

    element: Element
    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"tile<{_dims(self.shape)}{self.element}>"


@dataclass(frozen=True)
class TensorView:
    """A strided array in memory; None is a dynamic extent or stride, in elements."""

    element: Scalar
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    attr: str | None = None

    def __str__(self) -> str:
        strides = ",".join("?" if s is None else str(s) for s in self.strides)
        shown = f", strides=[{strides}]" if self.shape else ""
        attr = "" if self.attr is None else f", #cuda_tile.ptr_attr<{self.attr}>"
        return f"tensor_view<{_dims(self.shape)}{self.element}{shown}{attr}>"


@dataclass(frozen=True)
class TileView:
    """A tensor view cut into tiles: axis k of a tile walks axis ``dim_map[k]`` of the tensor. A strided view has
    ``steps`` of its own from tile to tile; in a gather/scatter view, which has no ``dim_map``, the index along
    ``sparse_dim`` is a tile of positions."""

    tile_shape: tuple[int, ...]
    view: TensorView
    dim_map: tuple[int, ...] = ()
    padding: str | None = None
    steps: tuple[int, ...] | None = None
    sparse_dim: int | None = None

    @property
    def kind(self) -> str:
        """Its name in the text form."""
        if self.sparse_dim is not None:
            return "gather_scatter_view"
        return "partition_view" if self.steps is None else "strided_view"

    def __str__(self) -> str:
        parts = [f"tile=({'x'.join(map(str, self.tile_shape))})"]
        if self.steps is not None:
            parts.append(f"traversal_strides=[{','.join(map(str, self.steps))}]")
        if self.padding is not None:
            parts.append(f"padding_value = {self.padding}")
        parts.append(str(self.view))
        if self.sparse_dim is not None:
            parts.append(f"sparse_dim={self.sparse_dim}")
        elif self.dim_map != tuple(range(len(self.dim_map))):  # it is not said of axes in their order
            parts.append(f"dim_map=[{', '.join(map(str, self.dim_map))}]")
        return f"{self.kind}<{', '.join(parts)}>"


@dataclass(frozen=True)
class Token:
    """Orders memory operations; no value at run time."""

    def __str__(self) -> str:
        return "token"


@dataclass(frozen=True)
class Function:
    """The signature of an entry."""

    params: tuple[Type, ...]
    results: tuple[Type, ...] = ()

    def __str__(self) -> str:
        results = ", ".join(map(str, self.results))
        return f"({', '.join(map(str, self.params))}) -> ({results})"


TOKEN = Token()
Type = Union[Scalar, Pointer, Tile, TensorView, TileView, Token, Function]


def is_gathering(type: Type) -> bool:
    """Whether ``type`` is a gather/scatter view."""
    return isinstance(type, TileView) and type.sparse_dim is not None


def problem(type: Type) -> str | None:
    """The rule that ``type`` breaks, or None."""
    if isinstance(type, Tile):
        return _tile_problem(type.shape, type.element)
    if isinstance(type, TensorView):
        if len(type.shape) != len(type.strides):
            return f"as many strides as extents, not {len(type.strides)} for {len(type.shape)}"
        if any(n is not None and n < 1 for n in (*type.shape, *type.strides)):
            return "positive extents and strides"
    if isinstance(type, TileView):
        return _view_problem(type)
    return None


def _tile_problem(shape: tuple[int, ...], element: Element) -> str | None:
    size = 1
    for n in shape:
        if n < 1 or n & (n - 1):
            return f"tile extents that are powers of two, not {n}"
        size *= n
        if size > MAX_ELEMENTS:
            return f"at most {MAX_ELEMENTS} elements in a tile"
    if isinstance(element, Scalar) and element.name == "f4E2M1FN" and size % 2:
        return "an even number of f4E2M1FN elements"
    return None


def _view_problem(type: TileView) -> str | None:
    rank = len(type.view.shape)
    if not type.tile_shape or len(type.tile_shape) != rank:
        return f"a tile of the rank of the tensor, {rank} and not 0, not {len(type.tile_shape)}"
    broken = _tile_problem(type.tile_shape, SCALARS["i8"])
    if broken is not None:
        return broken
    if type.sparse_dim is not None:
        if type.sparse_dim >= rank:
            return f"a sparse_dim below {rank}, not {type.sparse_dim}"
    elif sorted(type.dim_map) != list(range(rank)):
        return f"a permutation of {rank} axes as dim_map, not {list(type.dim_map)}"
    if type.steps is not None and (len(type.steps) != rank or any(s < 1 for s in type.steps)):
        return "one positive traversal stride for each tile axis"
    if type.padding not in (None, "zero") and type.view.element.is_integer:
        return f"a floating-point element type for padding {type.padding}"
    return None
