"""What lowering knows while it walks a function: the TTIR of every value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.backends.triton.ttir.barrier_insertion import BarrierInsertion
from tilewright.backends.triton.ttir.text import Shape, Val, Writer, element, tensor_type
from tilewright.ir.core import Value
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.types import TileType, Type

LARGEST_TENSOR = 1 << 20  # elements; Triton's limit


@dataclass(eq=False)
class LoweringState:
    """The TTIR value of each IR value, and the writer. ``dialect`` is the version of Triton that will read the text."""

    w: Writer
    dialect: tuple[int, int]
    facts: IntegerRanges
    ordering: BarrierInsertion
    _values: dict[Value, Val] = field(default_factory=dict)

    @property
    def target(self) -> GpuTarget:
        return self.w.target

    def __getitem__(self, value: Value) -> Val:
        return self._values[value]

    def all(self, values: Sequence[Value]) -> list[Val]:
        return [self._values[v] for v in values]

    def bind(self, value: Value, to: Val) -> None:
        element_, shape = self.tensor_type(value)
        assert (to.element, to.shape) == (element_, shape), (value, to)
        self._values[value] = to

    def tensor_type(self, value: Value) -> tuple[str, Shape]:
        """Element type and shape in TTIR."""
        found = tensor_type(value.tile, self.target)
        size = value.tile.size
        if size > LARGEST_TENSOR:
            raise TileUnsupportedFeatureError(
                f"a tile of {size} elements is too large for the GPU backend, which takes up to {LARGEST_TENSOR}; use "
                "smaller tiles and more blocks, or a loop",
                self.w.loc,
            )
        return found

    def element(self, value: Value) -> str:
        return element(value.tile.dtype, self.target)

    def bind_all(self, values: Sequence[Value], found: Sequence[Val]) -> None:
        self._values.update(zip(values, found))

    def types(self, types: Sequence[Type]) -> list[tuple[str, Shape]]:
        """Element types and shapes in TTIR of what control flow carries: no views, see ``expand-views``."""
        return [tensor_type(t, self.target) for t in types if isinstance(t, TileType)]
