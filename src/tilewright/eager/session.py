"""What Python evaluates tile code on: a block of a launch, or an endless session outside of kernels."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tilewright.backends.launch_arguments import Buffer
from tilewright.backends.reference.memory import Memory
from tilewright.backends.reference.values import Pointers
from tilewright.eager.builder import ConcreteValue, EagerBuilder, Index
from tilewright.frontend.python import calls
from tilewright.frontend.python.ops.load_store import array_of
from tilewright.frontend.python.semantics import ValueSemantics
from tilewright.frontend.python.values import Array
from tilewright.frontend.signature import ArgumentSpec, ArraySpec, parameters
from tilewright.ir.core import Op
from tilewright.ir.dtypes import int64
from tilewright.ir.semantics import constant_array
from tilewright.runtime.arguments import RUNTIME_SLOT, BoundArguments, bind_argument, describe
from tilewright.runtime.arrays import RuntimeValues
from tilewright.runtime.layout import ArgumentRef
from tilewright.runtime.rules import DEFAULT


@dataclass(frozen=True)
class HostFunction:
    """A Python function that an operation takes; ``run`` calls it with values of the front end."""

    run: Callable[[tuple[Any, ...], dict[str, Any]], Any]


class EagerContext(ValueSemantics):
    """The context of op builders when Python runs tile code: every value is known."""

    def __init__(self, index: Index, grid: Index, memory: Memory, pause: Callable[[Op], None]) -> None:
        super().__init__(EagerBuilder(index, grid, memory, pause))
        self.memory = memory

    def call(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if isinstance(function, HostFunction):
            return function.run(arguments, keywords)
        return calls.call(self, function, arguments, keywords)

    def host_array(self, value: Any) -> Array:
        """An array of the host that is given to an operation."""
        self.fail("an array of the host cannot be used in a kernel; pass it as an argument")


class Session(EagerContext):
    """Tile code outside of kernels: block (0, 0, 0) of a grid of one block, on whatever arrays it is given."""

    def __init__(self) -> None:
        super().__init__((0, 0, 0), (1, 1, 1), Memory([]), lambda op: None)
        self._allocations: dict[tuple[int, Buffer], int] = {}

    def host_array(self, value: Any) -> Array:
        flat, into, ref = RuntimeValues(), BoundArguments([], [], []), ArgumentRef("ct", "array")
        try:
            spec = bind_argument(DEFAULT, ref, describe(DEFAULT, value, flat), into)
        except (TypeError, ValueError, OverflowError) as e:
            self.fail(str(e))
        assert isinstance(spec, ArraySpec)
        (region,) = into.regions
        layout, address = region.layout, region.address(flat.numbers)
        low, high = layout.extent()
        buffer = Buffer("array", address, address + low, address + high, layout.dtype, layout.writable)
        allocation = self._allocation(value, buffer, flat.owners)
        numbers = iter([flat.numbers[0] if v is RUNTIME_SLOT else v for v in into.values])
        args = known_arguments("array", spec, numbers, lambda *_: allocation)
        return array_of(self.builder, "array", spec, next(args), lambda _: next(args))

    def _allocation(self, owner: Any, buffer: Buffer, borrowed: list[Any]) -> int:
        """The number of the memory of ``owner``, which this session does not keep alive."""
        key = id(owner), buffer
        found = self._allocations.get(key)
        if found is None:
            found = self._allocations[key] = self.memory.add(buffer)
            weakref.finalize(owner, self._forget, key, borrowed).atexit = False
        return found

    def _forget(self, key: tuple[int, Buffer], borrowed: list[Any]) -> None:
        self.memory.remove(self._allocations.pop(key))


def known_arguments(
    name: str, spec: ArgumentSpec, numbers: Iterator[Any], allocation: Callable[[str, int], int]
) -> Iterator[ConcreteValue]:
    """The parameters that the argument ``name`` becomes, with their ``numbers`` of a launch.

    ``allocation`` finds the memory that an argument at an address belongs to.
    """
    for (param, type_), number in zip(parameters(name, spec), numbers):
        if type_.is_pointer:
            owner = allocation(param.argument, int(number))
            yield ConcreteValue(
                type_, Pointers(constant_array(owner, int64, ()), constant_array(int(number), int64, ()))
            )
        else:
            yield ConcreteValue(type_, constant_array(number, type_.dtype, ()))


_local = threading.local()


def current() -> EagerContext:
    """What tile code that this thread runs is evaluated on."""
    found: EagerContext | None = getattr(_local, "tracer", None)
    if found is None:
        found = _local.tracer = Session()
    return found


def in_kernel() -> bool:
    """Whether this thread runs a block of a launch."""
    return not isinstance(current(), Session)


@contextmanager
def running(tracer: EagerContext) -> Iterator[None]:
    """Evaluate on ``tracer`` in this thread."""
    outer = current()
    _local.tracer = tracer
    try:
        yield
    finally:
        _local.tracer = outer
