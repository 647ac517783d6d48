"""Multi-versioned kernels: a launch may need its kernel compiled in another way than it is compiled first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tilewright.backends.base import Backend, Grid, NeedsKernel, NeedsVariant, Versioned
from tilewright.backends.launch_arguments import LaunchArguments, ListTable
from tilewright.backends.native import Embedded, LaunchStub
from tilewright.ir.core import Function
from tilewright.runtime.compiling import compiled

_T = TypeVar("_T")
_kernels: dict[tuple[str, str, Any], Any] = {}  # backend, target, key -> a kernel that launches of others run


class MultiVersioned:
    """An executable that runs, in place of ``first``, the variant of it that a launch needs.

    Variants are compiled when they are needed first, and kept here and in the disk cache.
    """

    def __init__(self, first: Versioned, function: Function, backend: Backend, options: Mapping[str, Any]) -> None:
        self._first = first
        self._function, self._backend, self._options = function, backend, options
        self._variants: dict[Any, Versioned] = {}

    def launch(self, grid: Grid, arguments: LaunchArguments) -> None:
        self._with_variants(lambda executable: executable.launch(grid, arguments))

    def bind(self, grid: Grid, arguments: LaunchArguments) -> Callable[[], None]:
        """``launch`` with these arguments. What it needs is compiled now."""
        return self._with_variants(lambda executable: executable.bind(grid, arguments))

    def launch_stub(self, device: int, tables: Sequence[ListTable], variants: Mapping[Any, Any]) -> LaunchStub | None:
        return self._with_variants(lambda executable: executable.launch_stub(device, tables, self._variants))

    def embedded(self, name: str, grid: Grid) -> Embedded:
        return self._with_variants(lambda executable: executable.embedded(name, grid))

    def stages(self) -> Mapping[str, str]:
        return self._first.stages()

    def _with_variants(self, use: Callable[[Versioned], _T]) -> _T:
        """``use`` of the executable that can do it."""
        executable = self._first
        while True:
            try:
                return use(executable)
            except NeedsKernel as need:
                key = self._backend.name, self._backend.target(), need.key
                if key not in _kernels:
                    _kernels[key] = compiled(need.function, self._backend, need.options)[0]
                executable.kernels[need.key] = _kernels[key]
            except NeedsVariant as need:
                if need.variant not in self._variants:
                    made: Any = compiled(self._function, self._backend, self._options, need.variant)[0]
                    self._variants[need.variant] = made
                executable = self._variants[need.variant]
