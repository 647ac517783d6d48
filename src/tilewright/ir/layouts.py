"""Layouts as linear maps over bits (GF(2)): where each element of a tile lies, or which element lies where.

A ``LinearLayout`` maps input dimensions (``register``, ``lane``, ``warp`` and ``cta`` for a tile that is distributed
over threads; ``offset`` for one in shared memory) to the coordinates of an element. The image of an input index is the
exclusive or of the images of its set bits, the *bases*. Tile extents are powers of two, so coordinates are as well one
number, the row-major index of the element, whose bits are those of the coordinates side by side: that is how bases are
kept. A basis of zero is a *free* bit: inputs that differ in it hold the same element.

The text form is ``#layout<register = [[0,1],[0,2]], lane = [...], warp = [...]>``; the shape is that of the tile.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.ir.span import Span
from tilewright.records import dataclass

Array = np.ndarray[Any, Any]
Coordinates = Sequence[int]

REGISTER, LANE, WARP, CTA, OFFSET = "register", "lane", "warp", "cta", "offset"
LANES = 32  # threads of a warp


def log2(n: int) -> int:
    """The exponent of the power of two ``n``."""
    if n <= 0 or n & (n - 1):
        raise ValueError(f"{n} is not a power of two")
    return n.bit_length() - 1


@dataclass(frozen=True)
class LinearLayout:
    """A linear map from the input dimensions in ``dims`` to the elements of a tile of ``shape``.

    ``dims`` has the name of each input dimension with its bases, the lowest bit first, as row-major indices. ValueError
    for extents that are no powers of two, for bases outside of the shape, and for a dimension that is named twice.
    """

    shape: tuple[int, ...]
    dims: tuple[tuple[str, tuple[int, ...]], ...]

    def __post_init__(self) -> None:
        for n in self.shape:
            log2(n)
        names = [name for name, _ in self.dims]
        if len(set(names)) != len(names):
            raise ValueError(f"a dimension is named twice: {', '.join(names)}")
        size = math.prod(self.shape)
        for name, bases in self.dims:
            for b in bases:
                if not 0 <= b < size:
                    raise ValueError(f"{name} has the basis {b}, outside of a tile of shape {self.shape}")

    # -- construction

    @staticmethod
    def of(shape: Sequence[int], bases: Mapping[str, Iterable[Coordinates]]) -> LinearLayout:
        """The layout whose bases are given by their coordinates in a tile of ``shape``."""
        shape = tuple(shape)
        dims = []
        for name, images in bases.items():
            packed = []
            for image in images:
                inside = len(image) == len(shape) and all(0 <= c < n for c, n in zip(image, shape))
                if not inside:
                    raise ValueError(f"{name} has the basis {list(image)}, outside of a tile of shape {shape}")
                packed.append(_ravel(image, shape))
            dims.append((name, tuple(packed)))
        return LinearLayout(shape, tuple(dims))

    @staticmethod
    def row_major(shape: Sequence[int], dim: str = OFFSET) -> LinearLayout:
        """The elements in row-major order along the one input dimension ``dim``."""
        bits = log2(math.prod(shape))
        return LinearLayout(tuple(shape), ((dim, tuple(1 << i for i in range(bits))),))

    @staticmethod
    def blocked(
        shape: Sequence[int], registers: Sequence[int], lanes: Sequence[int], warps: Sequence[int], order: Sequence[int]
    ) -> LinearLayout:
        """Blocks of ``registers`` elements in a thread, side by side over ``lanes``, those over ``warps``, repeated.

        ``order`` names the axes, the one that varies fastest first. Where the tile is larger, threads hold several
        blocks; where it is smaller, several threads hold the same elements.
        """
        shape = tuple(shape)
        taken = [0] * len(shape)
        found: dict[str, list[int]] = {REGISTER: [], LANE: [], WARP: []}
        for name, extents in ((REGISTER, registers), (LANE, lanes), (WARP, warps)):
            for axis in order:
                for _ in range(log2(extents[axis])):
                    outside = 1 << taken[axis] >= shape[axis]
                    if not outside:
                        found[name].append(_axis_bit(shape, axis, taken[axis]))
                        taken[axis] += 1
                    elif name != REGISTER:
                        found[name].append(0)
        for axis in order:
            for bit in range(taken[axis], log2(shape[axis])):
                found[REGISTER].append(_axis_bit(shape, axis, bit))
        return LinearLayout(shape, tuple((name, tuple(bases)) for name, bases in found.items()))

    # -- inspection

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.dims)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def bases(self, dim: str) -> tuple[int, ...]:
        """The bases of ``dim`` as row-major indices; none for a dimension that the layout does not have."""
        return self._by_name.get(dim, ())

    def images(self, dim: str) -> tuple[tuple[int, ...], ...]:
        """The bases of ``dim`` as coordinates."""
        found = self._images.get(dim)
        if found is None:
            found = self._images[dim] = tuple(_unravel(b, self.shape) for b in self.bases(dim))
        return found

    def size(self, dim: str) -> int:
        """How many inputs ``dim`` has."""
        return 1 << len(self.bases(dim))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(1 << len(bases) for _, bases in self.dims)

    @property
    def num_registers(self) -> int:
        """How many elements a thread holds."""
        return self.size(REGISTER)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.dims))

    @cached_property
    def _images(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        return {}

    @cached_property
    def _by_name(self) -> dict[str, tuple[int, ...]]:
        return dict(self.dims)

    @cached_property
    def _flat(self) -> tuple[int, ...]:
        """The bases of all dimensions, those of the first one first."""
        return tuple(b for _, bases in self.dims for b in bases)

    @cached_property
    def rank_of_map(self) -> int:
        """The dimension of the image over GF(2)."""
        return len(Span(self._flat))

    @property
    def is_injective(self) -> bool:
        """Whether no element is held twice."""
        return self.rank_of_map == len(self._flat)

    @property
    def is_surjective(self) -> bool:
        """Whether every element is held."""
        return 1 << self.rank_of_map == math.prod(self.shape)

    @property
    def is_permutation(self) -> bool:
        """Whether each basis is zero or one bit of one coordinate, and no two are the same."""
        used = [b for b in self._flat if b]
        return all(b & (b - 1) == 0 for b in used) and len(set(used)) == len(used)

    def free_mask(self, dim: str) -> int:
        """The bits of ``dim`` that do not matter, given the others: the element does not depend on them.

        Of equal bases of several bits the last one counts as free, and in general each basis that those before it, in
        the order of the dimensions, already span.
        """
        span, mask = Span(), 0
        for name, bases in self.dims:
            for i, b in enumerate(bases):
                if not span.add(b) and name == dim:
                    mask |= 1 << i
        return mask

    def mask(self, *dims: str) -> int:
        """The bits of the index of an element that depend on ``dims``."""
        return functools.reduce(operator.or_, (b for dim in dims for b in self.bases(dim)), 0)

    # -- application

    def index(self, **inputs: Any) -> Any:
        """The row-major index of the element at ``inputs``, integers or arrays of them; absent dimensions are 0."""
        unknown = [name for name in inputs if name not in self._by_name]
        if unknown:
            raise ValueError(f"{self} has no dimension {unknown[0]}")
        result: Any = 0
        for name, value in inputs.items():
            result = result ^ (value & 0)  # broadcasts also where there are no bits
            for i, b in enumerate(self.bases(name)):
                result = result ^ (value >> i & 1) * b
        return result

    def apply(self, **inputs: Any) -> tuple[Any, ...]:
        """The coordinates of the element at ``inputs``, integers or arrays of them; absent dimensions are 0."""
        return _unravel(self.index(**inputs), self.shape)

    @cached_property
    def table(self) -> Array:
        """The row-major index of the element at every input, as an array with one axis per dimension."""
        table = np.zeros((), np.int64)
        for _, bases in self.dims:
            along = np.zeros(1, np.int64)
            for b in bases:
                along = np.concatenate([along, along ^ b])
            table = table[..., None] ^ along
        table.setflags(write=False)
        return table

    # -- algebra

    def pseudo_inverse(self) -> LinearLayout:
        """A layout from ``dim0``, ``dim1``, ... to inputs of ``self`` that hold the element, with free bits 0.

        Its shape is the sizes of the dimensions of ``self``. ValueError unless this layout is surjective.
        """
        solve = self._solver()
        dims = []
        for axis, n in enumerate(self.shape):
            bits = range(log2(n))
            dims.append((f"dim{axis}", tuple(solve(_axis_bit(self.shape, axis, bit)) for bit in bits)))
        return LinearLayout(self.sizes, tuple(dims))

    def invert_and_compose(self, source: LinearLayout) -> LinearLayout:
        """For each input of ``source``, an input of ``self`` that holds the same element.

        Its shape is the sizes of the dimensions of ``self``. ValueError when one is not held, or shapes differ.
        """
        if self.shape != source.shape:
            raise ValueError(f"layouts of shapes {self.shape} and {source.shape}")
        solve = self._solver()
        return LinearLayout(self.sizes, tuple((name, tuple(map(solve, bases))) for name, bases in source.dims))

    def _solver(self) -> Any:
        """A linear function from an element to an input that holds it, as a row-major index over the dimensions."""
        inputs: list[int] = []  # of each bit of _flat, that of a row-major index over the dimensions
        end = len(self._flat)
        for _, bases in self.dims:
            end -= len(bases)
            inputs += [1 << end + k for k in range(len(bases))]
        span = Span(self._flat, inputs)

        def solve(element: int) -> int:
            found = span.solve(element)
            if found is None:
                raise ValueError(f"{self} does not hold every element")
            return found

        return solve

    def product(self, outer: LinearLayout) -> LinearLayout:
        """``self`` repeated as ``outer`` says: inputs and coordinates of ``outer`` are the high bits."""
        if self.rank != outer.rank:
            raise ValueError(f"layouts of ranks {self.rank} and {outer.rank}")
        shape = tuple(a * b for a, b in zip(self.shape, outer.shape))
        inner_bases = {name: self.images(name) for name in self.names}
        dims: dict[str, list[Coordinates]] = {name: list(images) for name, images in inner_bases.items()}
        for name in outer.names:
            scaled = [tuple(c * n for c, n in zip(image, self.shape)) for image in outer.images(name)]
            dims.setdefault(name, []).extend(scaled)
        return LinearLayout.of(shape, dims)

    # -- output dimensions

    def reshape(self, shape: Sequence[int]) -> LinearLayout:
        """The layout of the elements, in row-major order, as a tile of ``shape``."""
        if math.prod(shape) != math.prod(self.shape):
            raise ValueError(f"cannot reshape {self.shape} to {tuple(shape)}")
        return LinearLayout(tuple(shape), self.dims)

    def permute(self, axes: Sequence[int]) -> LinearLayout:
        """Axis ``k`` of the result is axis ``axes[k]`` of this one."""
        if sorted(axes) != list(range(self.rank)):
            raise ValueError(f"axes {tuple(axes)} are no permutation of {self.rank}")
        return self.map_images(lambda c: tuple(c[a] for a in axes), tuple(self.shape[a] for a in axes))

    def expand(self, axis: int) -> LinearLayout:
        """With a new axis of extent 1 before ``axis``."""
        return self.reshape((*self.shape[:axis], 1, *self.shape[axis:]))

    def slice(self, axis: int) -> LinearLayout:
        """Without ``axis``: what a reduction along it leaves. Bits that went along it are free, but for registers,
        which then are fewer: a thread holds no element twice that way."""
        return _slice(self, axis)

    def shrink(self, axis: int) -> LinearLayout:
        """With an extent of 1 along ``axis``; otherwise as ``slice``."""
        return self.slice(axis).expand(axis)

    def drop_bits(self, axis: int, mask: int) -> LinearLayout:
        """Without the coordinate bits ``mask`` of ``axis``: elements that differ only in those are one."""
        return _drop_bits(self, axis, mask)

    def axis_bits(self, dim: str, axis: int) -> int:
        """The coordinate bits of ``axis`` that depend on ``dim``, as a mask."""
        return functools.reduce(operator.or_, (image[axis] for image in self.images(dim)), 0)

    def map_images(self, change: Any, shape: tuple[int, ...]) -> LinearLayout:
        return LinearLayout.of(shape, {name: [change(c) for c in self.images(name)] for name in self.names})

    def without_free_registers(self) -> LinearLayout:
        """A thread holds no element twice: register bits are left out that others of them span."""
        return self.with_bases(REGISTER, Span().add_all(self.bases(REGISTER)))

    def with_bases(self, dim: str, bases: Iterable[int]) -> LinearLayout:
        """With other bases (row-major indices) of the dimension ``dim``."""
        return LinearLayout(self.shape, tuple((name, tuple(bases) if name == dim else b) for name, b in self.dims))

    # -- text

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        dims = []
        for name in self.names:
            images = ",".join(f"[{','.join(map(str, image))}]" for image in self.images(name))
            dims.append(f"{name} = [{images}]")
        return f"#layout<{', '.join(dims)}>"

    def __repr__(self) -> str:
        return f"{list(self.shape)}{self}"


@functools.lru_cache(maxsize=1024)
def _slice(layout: LinearLayout, axis: int) -> LinearLayout:
    shape = *layout.shape[:axis], *layout.shape[axis + 1 :]
    return layout.map_images(lambda c: (*c[:axis], *c[axis + 1 :]), shape).without_free_registers()


@functools.lru_cache(maxsize=1024)
def _drop_bits(layout: LinearLayout, axis: int, mask: int) -> LinearLayout:
    kept = [bit for bit in range(log2(layout.shape[axis])) if not mask >> bit & 1]

    def change(c: Coordinates) -> Coordinates:
        packed = sum((c[axis] >> bit & 1) << i for i, bit in enumerate(kept))
        return (*c[:axis], packed, *c[axis + 1 :])

    shape = (*layout.shape[:axis], 1 << len(kept), *layout.shape[axis + 1 :])
    return layout.map_images(change, shape).without_free_registers()


def _ravel(coordinates: Coordinates, shape: Sequence[int]) -> int:
    index = 0
    for c, n in zip(coordinates, shape):
        index = index * n + c
    return index


def _unravel(index: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    found: list[Any] = []
    for n in reversed(shape):
        found.append(index & (n - 1))
        index = index >> n.bit_length() - 1
    return tuple(reversed(found))


def _axis_bit(shape: Sequence[int], axis: int, bit: int) -> int:
    """The row-major index of the element at coordinate ``2**bit`` of ``axis``, and 0 of the others."""
    return math.prod(shape[axis + 1 :]) << bit
