"""Elements of tiles, computed where they are needed.

An op without side effects is not executed where it stands. The loop that needs its result asks for the
elements at a position; this asks for the operands' elements, and so on down to memory, buffers and constants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any

from llvmlite import ir

from tilewright.backends.branches import choose
from tilewright.backends.cpu.codegen import index, lanes, pointers, scalars, views
from tilewright.backends.cpu.codegen.buffers import Buffer, element_type
from tilewright.backends.cpu.codegen.fetch_ahead import fetch
from tilewright.backends.cpu.codegen.index import as_value
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import (
    ZERO,
    Coord,
    Mapper,
    Position,
    common_step,
    is_contiguous,
    strides_of,
)
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.codegen.views import LaneAddresses, ViewAccess
from tilewright.backends.cpu.loops.vectorize import LONGEST_STEP
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.backends.vector.types import I8, I64
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, bfloat16, float32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Cast, Div
from tilewright.ir.ops.memory import Load, LoadView, padding_value
from tilewright.ir.ops.shape import Broadcast, Constant, Extract, Iota, Permute, Reshape, Undefined
from tilewright.ir.types import ElementType
from tilewright.records import NamedTuple, dataclass

_WINDOW = 4  # a strided read of a buffer loads and shuffles up to this many vectors rather than gather


class Element(NamedTuple):
    """The elements at one position: a vector, or with ``lanes=None`` a scalar that all lanes share.

    ``level`` is the depth of the loop it is computed in.
    """

    value: ir.Value
    lanes: int | None
    level: int


@dataclass(eq=False, repr=False)
class Elements:
    """The elements of one group: those that the loops of ``nest`` compute together.

    With ``masked``, views check their bounds; without, the whole tiles are known to lie inside, and the masks of the
    loads ``unmasked`` to be true. With ``streaming``, aligned vectors are stored past the caches.
    Without ``branching``, masks are computed also for vectors that lie inside, where there are many.
    For the loads in ``ahead``, what is so many bytes further is fetched, where they are or while that is stored.
    """

    state: State
    nest: Nest
    masked: bool = True
    unmasked: Collection[Op] = ()
    streaming: bool = False
    branching: bool = True
    ahead: Mapping[Op, ir.Value] = field(default_factory=dict)
    _known: dict[tuple[Value, Position], Element] = field(default_factory=dict)
    _splats: dict[tuple[int, int], ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.map = Mapper(self.nest)
        if self.masked:
            self.unmasked = ()

    @property
    def rearranged(self) -> Mapping[type[Op], Callable[[Elements, Op, Position], Position]]:
        """For ops that move elements: where the element at a position of the result lies in the operand."""
        return REARRANGED

    def at(self, value: Value, position: Position) -> Element:
        """The elements of ``value`` at ``position``."""
        key = (value, position)
        found = self._known.get(key)
        if found is None:
            bound = self.state.bindings.get(value)
            if isinstance(bound, Buffer):
                found = self._read(bound, value.tile.shape, position)
            elif bound is not None:
                assert isinstance(bound, ir.Value)
                found = Element(bound, None, 0)
            else:
                assert value.op is not None
                found = self._computed(value.op, position)
            self._known[key] = found
        return found

    def inside(self, value: Value, position: Position) -> list[ir.Value]:
        """i1 for each tile of an array of which ``value`` needs elements at ``position``: do these lie inside?"""
        op = value.op
        if op is None or value in self.state.bindings:
            return []
        if isinstance(op, LoadView):
            found, _ = views.all_inside(self.nest, self.state.accesses[op], position)
            return [] if found is None else [found]
        if isinstance(op, (Broadcast, Extract, Permute, Reshape)):
            return self.inside(op.x, REARRANGED[type(op)](self, op, position))
        return [found for v in op.operands for found in self.inside(v, position)]

    def give(self, value: Value, position: Position, element: Element) -> None:
        """Have ``element`` be that of ``value`` at ``position``."""
        self._known[value, position] = element

    def _computed(self, op: Op, position: Position) -> Element:
        rule: Callable[[Elements, Any, Position], Element] = _RULES.get(type(op), _elementwise)
        if self.state.lines is None:
            return rule(self, op, position)
        with self.state.lines.of(op, self.nest.builders):
            return rule(self, op, position)

    def vector(self, element: Element, count: int | None) -> ir.Value:
        """``element`` as a vector of ``count`` lanes."""
        if count is None or element.lanes is not None:
            return element.value
        key = (id(element.value), count)
        if key not in self._splats:
            self._splats[key] = lanes.splat(self.nest.builders[element.level], element.value, count)
        return self._splats[key]

    def addresses(self, buffer: Buffer, shape: tuple[int, ...], position: Position) -> LaneAddresses:
        """Where ``position`` of a tile lies in its buffer."""
        flat = self.map.flatten(position, strides_of(shape))
        builder, item = self.nest.builders[flat.level], element_bytes(buffer.dtype)
        base = self.nest.builders[0].ptrtoint(buffer.pointer, I64)
        offset = index.mul(builder, flat.base, item)
        address = builder.add(base, as_value(offset))
        if flat.pattern is None:
            return LaneAddresses(address, None, 1, flat.level)
        count, step = len(flat.pattern), common_step(flat.pattern)
        if not 0 < step <= LONGEST_STEP:
            return LaneAddresses(lanes.addresses(builder, address, flat.pattern, item), count, 0, flat.level)
        if flat.pattern[0]:
            address = builder.add(address, as_value(flat.pattern[0] * item))
        return LaneAddresses(address, count, step, flat.level)

    def _read(self, buffer: Buffer, shape: tuple[int, ...], position: Position) -> Element:
        flat = self.map.flatten(position, strides_of(shape))
        if flat.pattern is not None and not is_contiguous(flat.pattern):
            low, high = min(flat.pattern), max(flat.pattern)
            if high - low < _WINDOW * len(flat.pattern):
                return self._read_window(buffer, flat, low, high)
        at = self.addresses(buffer, shape, position)
        builder, scalar = self.nest.builders[at.level], element_type(buffer.dtype)
        item = element_bytes(buffer.dtype)
        if at.step == 1:
            type_ = scalar if at.lanes is None else ir.VectorType(scalar, at.lanes)
            value = builder.load(builder.inttoptr(at.address, lanes.POINTER), align=item, typ=type_)
        else:
            other = ir.Constant(ir.VectorType(scalar, at.lanes), ir.Undefined)
            value = lanes.gather(builder, at.address, None, other, item)
        return Element(self._unpack(buffer.dtype, value, at.lanes, at.level), at.lanes, at.level)

    def _read_window(self, buffer: Buffer, flat: Coord, low: int, high: int) -> Element:
        """A strided read: one load of everything between the outermost lanes, and a shuffle."""
        assert flat.pattern is not None
        builder, scalar = self.nest.builders[flat.level], element_type(buffer.dtype)
        at = index.add(builder, flat.base, low)
        pointer = builder.gep(buffer.pointer, [as_value(at)], source_etype=scalar)
        window = builder.load(pointer, align=element_bytes(buffer.dtype), typ=ir.VectorType(scalar, high - low + 1))
        value = lanes.shuffle(builder, window, [p - low for p in flat.pattern])
        count = len(flat.pattern)
        return Element(self._unpack(buffer.dtype, value, count, flat.level), count, flat.level)

    def _unpack(self, dtype: ElementType, value: ir.Value, count: int | None, level: int) -> ir.Value:
        if isinstance(dtype, DType) and dtype.is_bool:
            return self.state.emitter(self.nest.builders[level], count).to_register(dtype, value)
        return value

    def write(self, buffer: Buffer, shape: tuple[int, ...], position: Position, element: Element) -> None:
        """Store the elements of a tile of ``shape`` to its buffer, in the innermost loop."""
        at = self.addresses(buffer, shape, position)
        value, builder = self.vector(element, at.lanes), self.nest.builder
        if isinstance(buffer.dtype, DType) and buffer.dtype.is_bool:
            value = builder.zext(value, I8 if at.lanes is None else ir.VectorType(I8, at.lanes))
        if at.step == 1:
            builder.store(value, builder.inttoptr(at.address, lanes.POINTER), align=element_bytes(buffer.dtype))
        elif at.step:
            lanes.strided_store(builder, value, at.address, at.step, element_bytes(buffer.dtype), None)
        else:
            lanes.scatter(builder, value, at.address, None, element_bytes(buffer.dtype))

    def store(self, tile: ViewAccess, position: Position, element: Element) -> None:
        """Store to a view, in the innermost loop."""
        at = views.locate(self.nest, tile, position)
        value, builder = self.vector(element, at.lanes), self.nest.builder
        for load in self.ahead if self.streaming else ():
            read = self.state.accesses[load]
            fetch(builder, read, views.locate(self.nest, read, position), position, self.ahead[load])

        def store(mask: ir.Value | None) -> None:
            views.store_elements(self.state, builder, tile.dtype, at, mask, value, streaming=self.streaming)

        whole = views.all_inside(self.nest, tile, position)[0] if self.masked and at.lanes is not None else None
        if whole is None:
            store(self.bounds(tile, position))
            return
        with builder.if_else(whole, likely=True) as (then, orelse):
            with then:
                store(None)
            with orelse:
                store(self.bounds(tile, position))

    def store_in_row(self, tile: ViewAccess, position: Position, element: Element, moved: ir.Value) -> None:
        """``store`` of a vector that was ``moved`` into its row: of the lanes that it would have had there."""
        builder, count = self.nest.builder, len(position[-1].pattern or ())
        with builder.if_else(builder.icmp_unsigned("==", moved, as_value(0)), likely=True) as (then, orelse):
            with then:
                self.store(tile, position, element)
            with orelse:
                at = views.locate(self.nest, tile, position)
                indices = builder.add(lanes.integers(I64, range(count)), lanes.splat(builder, moved, count))
                mask = builder.icmp_unsigned("<", indices, lanes.splat(builder, as_value(count), count))
                views.store_elements(self.state, builder, tile.dtype, at, mask, self.vector(element, count))

    def bounds(self, tile: ViewAccess, position: Position) -> ir.Value | None:
        """The mask of the lanes inside the array, None where all surely are."""
        found = views.bounds_mask(self.nest, tile, position) if self.masked else None
        return None if found is None else found[0]


def _elementwise(self: Elements, op: Op, position: Position) -> Element:
    operands = [self.at(v, position) for v in op.operands]
    count = next((o.lanes for o in operands if o.lanes is not None), None)
    level = max((o.level for o in operands), default=0)
    values = [self.vector(o, count) for o in operands]
    emitter = self.state.emitter(self.nest.builders[level], count)
    return Element(scalars.emit(emitter, self.nest.builders[level], op, values), count, level)


def _divide(self: Elements, op: Div, position: Position) -> Element:
    """Division, by a reciprocal where lanes and iterations have the same divisor, such as the sum of a softmax."""
    x, y = self.at(op.lhs, position), self.at(op.rhs, position)
    plain = op.result.tile.dtype is float32 and op.rounding is RoundingMode.RN and not op.flush_to_zero
    if not plain or x.lanes is None or y.lanes is not None or y.level >= x.level:
        return _elementwise(self, op, position)
    b = self.vector(y, x.lanes)
    divisor = self.state.emitter(self.nest.builders[y.level], x.lanes).divisor(b)
    if divisor is None:
        return _elementwise(self, op, position)
    return Element(self.state.emitter(self.nest.builders[x.level], x.lanes).divide(x.value, divisor), x.lanes, x.level)


def _cast(self: Elements, op: Cast, position: Position) -> Element:
    """float32 to bfloat16 has an instruction on some processors, but not for subnormal numbers."""
    x = self.at(op.x, position)
    types = op.x.tile.dtype, op.result.tile.dtype
    if x.lanes is None or types != (float32, bfloat16) or op.rounding is not RoundingMode.RN:
        return _elementwise(self, op, position)
    converted = self.state.emitter(self.nest.builders[x.level], x.lanes).to_bfloat(x.value)
    return _elementwise(self, op, position) if converted is None else Element(converted, x.lanes, x.level)


def _constant(self: Elements, op: Constant | Undefined, position: Position) -> Element:
    dtype, value = op.result.tile.dtype, op.value if isinstance(op, Constant) else 0
    return Element(self.state.emitter().constant(dtype, value), None, 0)


def _iota(self: Elements, op: Iota, position: Position) -> Element:
    t = op.result.tile
    flat = self.map.flatten(position, strides_of(t.shape))
    builder, scalar = self.nest.builders[flat.level], ir.IntType(t.element.bitwidth)
    base = as_value(flat.base)
    if scalar.width < 64:
        base = builder.trunc(base, scalar)
    if flat.pattern is None:
        return Element(base, None, flat.level)
    count = len(flat.pattern)
    value = builder.add(lanes.splat(builder, base, count), lanes.integers(scalar, flat.pattern))
    return Element(value, count, flat.level)


def _unreshape(self: Elements, op: Reshape, position: Position) -> Position:
    source, shape = op.x.tile.shape, op.result.tile.shape
    if op.result.tile.size == 1:
        return (ZERO,) * len(source)
    if [n for n in shape if n > 1] == [n for n in source if n > 1]:
        coords = iter([c for n, c in zip(shape, position) if n > 1])
        return tuple(next(coords) if n > 1 else ZERO for n in source)
    return self.map.unflatten(self.map.flatten(position, strides_of(shape)), source)


def _unpermute(self: Elements, op: Permute, position: Position) -> Position:
    source = [ZERO] * len(position)
    for k, axis in enumerate(op.axes):
        source[axis] = position[k]
    return tuple(source)


def _unextract(self: Elements, op: Extract, position: Position) -> Position:
    builder = self.nest.builders[0]
    coords = []
    for c, n, part, cell_index in zip(position, op.x.tile.shape, op.shape, op.indices):
        cell = index.low_bits(builder, self.state.index(cell_index), n // part)
        coords.append(self.map.shift(c, index.mul(builder, cell, part)))
    return tuple(coords)


def _moved(self: Elements, op: Broadcast | Extract | Permute | Reshape, position: Position) -> Element:
    return self.at(op.x, REARRANGED[type(op)](self, op, position))


def _load_view(self: Elements, op: LoadView, position: Position) -> Element:
    tile = self.state.accesses[op]
    at = views.locate(self.nest, tile, position)
    padding = padding_value(tile.view.partition.padding, tile.dtype)
    whole, level = views.all_inside(self.nest, tile, position) if self.masked else (None, 0)
    level = max(level, at.level)
    builder = self.nest.builders[level]
    if op in self.ahead:
        fetch(builder, tile, at, position, self.ahead[op])

    def load(mask: ir.Value | None) -> list[ir.Value]:
        return [views.load_elements(self.state, builder, tile.dtype, at, mask, padding)]

    if whole is None or at.lanes is None or not self.branching:
        return Element(load(self.bounds(tile, position))[0], at.lanes, level)
    # Most vectors lie inside as a whole: the mask is computed for the others only.
    values = choose(builder, whole, lambda: load(None), lambda: load(self.bounds(tile, position)), likely=True)
    return Element(values[0], at.lanes, level)


def _load(self: Elements, op: Load, position: Position) -> Element:
    ptrs, mask, padding = op.ptrs, op.mask, op.padding
    if op in self.unmasked:
        mask = padding = None
    at = pointers.locate(self, ptrs, position)
    others = [self.at(v, position) for v in (mask, padding) if v is not None]
    level = max([at.level, *(o.level for o in others)])
    builder, dtype = self.nest.builders[level], op.result.tile.element
    if at.lanes is None and mask is not None and others[0].lanes is not None:
        # One address for all lanes, which only some of them may read.
        address = Element(at.address, None, at.level)
        at = LaneAddresses(self.vector(address, others[0].lanes), others[0].lanes, 0, at.level)
    chosen = None if mask is None else self.vector(others[0], at.lanes)
    loaded = Element(views.load_elements(self.state, builder, dtype, at, chosen, 0), at.lanes, level)
    if padding is None:
        return loaded
    count = at.lanes if at.lanes is not None else others[-1].lanes
    operands = (others[0], loaded, others[-1])
    return Element(builder.select(*(self.vector(o, count) for o in operands)), count, level)


REARRANGED: dict[type[Op], Callable[[Elements, Any, Position], Position]] = {
    Broadcast: lambda self, op, position: tuple(ZERO if n == 1 else c for n, c in zip(op.x.tile.shape, position)),
    Reshape: _unreshape,
    Permute: _unpermute,
    Extract: _unextract,
}
_RULES: dict[type[Op], Callable[[Elements, Any, Position], Element]] = {
    Constant: _constant,
    Undefined: _constant,
    Iota: _iota,
    LoadView: _load_view,
    Load: _load,
    Cast: _cast,
    Div: _divide,
    **dict.fromkeys(REARRANGED, _moved),
}
