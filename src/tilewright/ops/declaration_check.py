"""What the sanitizer finds out about an operator: whether its kernels do what its declaration says.

Accesses are compared with the lists of arrays and with the grid; and the operator is computed in parts, along each
dimension that may be split over devices, which has to give the same as the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.ir.location import Loc
from tilewright.ops.dims import Shape
from tilewright.ops.operator import Operator
from tilewright.sanitizer.categories import CATEGORIES
from tilewright.sanitizer.events import Access, Launch
from tilewright.sanitizer.observation import first_true
from tilewright.sanitizer.report import ElementReference, Violation
from tilewright.sanitizer.session import Session, apart, current_session, watched

_CATEGORY = CATEGORIES["operator-declaration"]
_TOLERANCE = {1: 0.2, 2: 2e-2, 4: 1e-4, 8: 1e-10}  # of floats, by their bytes, relative to the largest


def checked(op: Operator, inputs: Sequence[Any], results: Sequence[Any], numbers: Sequence[Any]) -> None:
    """Compute the ``results`` under the sanitizer, and report where that disagrees with the declaration."""
    session = current_session()
    key = op.name, numbers, tuple((tuple(a.shape), str(a.dtype)) for a in inputs)
    before = [_copy(a) for a in inputs]
    watch = _Watch(op, session, inputs, results)
    with watched(watch):
        op.function(None, *inputs, *results, *numbers)
    watch.conclude()
    if key in session.known_operators:
        return
    session.known_operators.add(key)
    outputs = [*results, *(a for name, a in zip(op.inputs, inputs) if name in op.mutates)]
    for dim in sorted(op.sharded | op.summed):
        _compare_parts(op, session, dim, before, outputs, numbers, watch.stores)


# -- accesses


@dataclass(frozen=True)
class _Array:
    """An array of the operator, and where it is in memory. ``strides`` are in bytes."""

    name: str
    dims: Shape
    low: int
    high: int
    strides: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, name: str, dims: Shape, array: Any) -> _Array | None:
        """None for an array whose elements share memory: they have no index of their own."""
        shape, (start, strides) = tuple(array.shape), _memory(array)
        size, reach = array.itemsize, [(n - 1) * s for n, s in zip(shape, strides)]
        order = sorted((abs(s), n) for s, n in zip(strides, shape) if n > 1)
        extent = size
        for stride, n in order:
            if stride < extent:
                return None
            extent = stride * n
        low = start + sum(r for r in reach if r < 0)
        return cls(name, dims, low, start + sum(r for r in reach if r > 0) + size, strides, shape)

    def indices(self, addresses: np.ndarray[Any, Any]) -> dict[int, np.ndarray[Any, Any]]:
        """The indices of the elements at ``addresses``, axis by axis."""
        found: dict[int, np.ndarray[Any, Any]] = {}
        rest = addresses - self.low
        for axis in sorted(range(len(self.shape)), key=lambda a: -abs(self.strides[a])):
            n, stride = self.shape[axis], self.strides[axis]
            if n == 1:
                found[axis] = np.zeros_like(rest)
                continue
            at, rest = rest // abs(stride), rest % abs(stride)
            found[axis] = at if stride > 0 else n - 1 - at
        return found


class _Watch:
    """Sees the accesses of the launches of one call. ``stores`` has the place of a store to each array."""

    def __init__(self, op: Operator, session: Session, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        self._op, self._session = op, session
        named = zip((*op.inputs, *op.outputs), (*op.dims.inputs, *op.dims.outputs), (*inputs, *results))
        found = [_Array.of(*each) for each in named if 0 not in tuple(each[2].shape)]
        self._arrays = [a for a in found if a is not None]
        self._left = {name: np.ones(tuple(a.shape), bool) for name, a in zip(op.outputs, results)}
        self._buffers: Sequence[Any] = ()
        self._kernel = ""
        self._seen: set[Any] = set()
        self.stores: dict[str, tuple[Loc, str]] = {}

    def launch(self, event: Launch) -> None:
        self._buffers, self._kernel = event.arrays, event.kernel

    def finished(self) -> None: ...

    def violation(self, violation: Violation) -> None: ...

    def access(self, event: Access) -> None:
        buffer = self._buffers[event.array] if event.array < len(self._buffers) else None
        if buffer is None:
            return
        array = next((a for a in self._arrays if a.low <= buffer.low and buffer.high <= a.high), None)
        if array is None:
            return
        addresses = buffer.address + event.elements * buffer.dtype.bytes
        index = array.indices(addresses[(addresses >= array.low) & (addresses < array.high)])
        if event.kind != "read":
            self._stored(event, array, index)
        self._compare_with_grid(event, array, index)

    def _stored(self, event: Access, array: _Array, index: dict[int, np.ndarray[Any, Any]]) -> None:
        op = self._op
        self.stores.setdefault(array.name, (event.loc, self._kernel))
        left = self._left.get(array.name)
        if left is not None:
            left[tuple(index[axis] for axis in range(len(array.shape)))] = False
        elif array.name in op.inputs and array.name not in op.mutates:
            said = f"stores to '{array.name}', which {op.name} does not declare in mutates"
            self._report(event, array, index, said, array.name)

    def _compare_with_grid(self, event: Access, array: _Array, index: dict[int, np.ndarray[Any, Any]]) -> None:
        for number, (dim, tile) in enumerate(self._op.grid.items()):
            if dim not in array.dims:
                continue
            axis, at = array.dims.index(dim), event.block[number]
            wrong = index[axis] // tile != at
            if wrong.any():
                first = {a: i[wrong] for a, i in index.items()}
                said = (
                    f"block {at} along axis {number} of the grid accesses index {first[axis][0]} of '{array.name}' "
                    f"along '{dim}'; {self._op.name} declares that it has {at * tile} to {(at + 1) * tile - 1}"
                )
                self._report(event, array, first, said, (array.name, dim, event.loc))

    def _report(
        self, event: Access, array: _Array, index: dict[int, np.ndarray[Any, Any]], said: str, once: object
    ) -> None:
        if once in self._seen:
            return
        self._seen.add(once)
        place = ElementReference(array.name, tuple(int(index[a][0]) for a in range(len(array.shape))), array.shape)
        self._session.add(Violation(_CATEGORY, said, self._kernel, event.loc, event.block, place=place))

    def conclude(self) -> None:
        """Report outputs that were not written as a whole, and arrays that were not changed."""
        op = self._op
        for name, left in self._left.items():
            if left.any():
                first = first_true(left)
                said = (
                    f"{op.name} leaves {int(left.sum())} of {left.size} elements of its output '{name}' uninitialized"
                )
                self._add(said, self.stores.get(name), ElementReference(name, first, left.shape))
        for name in sorted(op.mutates):
            if any(a.name == name for a in self._arrays) and name not in self.stores:
                self._add(f"{op.name} declares that it changes '{name}', but stores nothing there", None, None)

    def _add(self, said: str, at: tuple[Loc, str] | None, place: ElementReference | None) -> None:
        loc, kernel = at or (self._op.declared, self._kernel)
        self._session.add(Violation(_CATEGORY, said, kernel, loc, place=place))


# -- parts


@dataclass(frozen=True)
class _Parts:
    """The operator computed for two parts of the extent ``n`` of a dimension."""

    op: Operator
    dim: str
    n: int

    def cut(self, array: Any, dims: Shape, which: int) -> Any:
        """A copy of the part of ``array``, or of all of it where it has no such dimension."""
        middle = (self.n + 1) // 2
        span = slice(middle) if which == 0 else slice(middle, self.n)
        return _copy(array[tuple(span if d == self.dim else slice(None) for d in dims)])

    def outputs(self, which: int, inputs: Sequence[Any], results: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """The results of a part, and its inputs that were changed."""
        op = self.op
        given = [self.cut(a, dims, which) for a, dims in zip(inputs, op.dims.inputs)]
        made = [_empty(self.cut(a, dims, which)) for a, dims in zip(results, op.dims.outputs)]
        op.function(None, *given, *made, *numbers)
        return [*made, *(a for name, a in zip(op.inputs, given) if name in op.mutates)]


def _compare_parts(
    op: Operator,
    session: Session,
    dim: str,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    numbers: Sequence[Any],
    stores: dict[str, tuple[Loc, str]],
) -> None:
    extents = [n for a, dims in zip(inputs, op.dims.inputs) for n, d in zip(a.shape, dims) if d == dim]
    if not extents or extents[0] < 2 or not outputs:
        return
    parts, results = _Parts(op, dim, extents[0]), outputs[: len(op.outputs)]
    with apart():
        found = [parts.outputs(which, inputs, results, numbers) for which in (0, 1)]
    names = [*op.outputs, *(name for name in op.inputs if name in op.mutates)]
    shapes = [*op.dims.outputs, *(d for name, d in zip(op.inputs, op.dims.inputs) if name in op.mutates)]
    summed = dim in op.summed
    for name, dims, whole, one, other in zip(names, shapes, outputs, *found):
        for given, wanted in _pairs(parts, dims, summed, whole, one, other):
            wrong = _differs(given, wanted, _TOLERANCE.get(whole.itemsize, 0.0))
            if not wrong.any():
                continue
            how = "the sum of those of the parts" if summed else "that of the parts"
            said = (
                f"'{name}' of {op.name} is not {how} when '{dim}', which is declared as "
                f"{'summed' if summed else 'sharded'}, is split"
            )
            loc, kernel = stores.get(name, (op.declared, op.__name__))
            first = first_true(wrong)
            operands = {"whole": wanted[first], "of the parts": given[first]}
            session.add(Violation(_CATEGORY, said, kernel, loc, operands=operands, elements=int(wrong.sum())))
            break


def _pairs(
    parts: _Parts, dims: Shape, summed: bool, whole: Any, one: Any, other: Any
) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """What has to be equal."""
    if summed:
        yield _values(one) + _values(other), _values(whole)
    elif parts.dim in dims:
        yield from ((_values(a), _values(parts.cut(whole, dims, i))) for i, a in enumerate((one, other)))


def _differs(given: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], tolerance: float) -> np.ndarray[Any, Any]:
    if given.dtype.kind != "f":
        return np.asarray(given != wanted)
    largest = float(np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0.0))
    with np.errstate(invalid="ignore"):
        return ~np.isclose(given, wanted, rtol=tolerance, atol=tolerance * largest, equal_nan=True)


# -- arrays of NumPy and PyTorch


def _is_tensor(array: Any) -> bool:
    return hasattr(array, "new_empty")


def _memory(array: Any) -> tuple[int, tuple[int, ...]]:
    """The address of the first element, and the strides in bytes."""
    if _is_tensor(array):
        return array.data_ptr(), tuple(s * array.itemsize for s in array.stride())
    return array.__array_interface__["data"][0], array.strides


def _copy(array: Any) -> Any:
    if _is_tensor(array):
        found = array.new_empty(array.shape)
        found.copy_(array)
        return found
    return np.array(array, order="C")


def _empty(array: Any) -> Any:
    return array.new_empty(array.shape) if _is_tensor(array) else np.empty_like(array)


def _values(array: Any) -> np.ndarray[Any, Any]:
    """The elements in a dtype that NumPy computes with."""
    if _is_tensor(array):
        narrow = array.is_floating_point() and array.itemsize < 4
        return (array.float() if narrow else array).detach().numpy()
    narrow = array.dtype.kind in "fV" and array.itemsize < 4
    return array.astype(np.float32) if narrow else array
