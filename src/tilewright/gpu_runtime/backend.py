"""What backends share whose kernels are launched by the driver."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from tilewright.backends.base import Backend, Capabilities, Devices, Exporter, Machine, Serialization
from tilewright.gpu_runtime import driver, stopwatch
from tilewright.gpu_runtime.artifact import APART, Artifact
from tilewright.gpu_runtime.executable import FIRST, GpuExecutable
from tilewright.ir.core import Function, Op

_Target = TypeVar("_Target")


class DriverBackend(Backend, Generic[_Target]):
    """A backend for GPU ``index`` of this machine, or for another ``target``."""

    device = "cuda"

    def __init__(self, target: _Target | None = None, index: int = 0) -> None:
        self._target = target
        self._index = index
        self._others: dict[int, Backend] = {}  # for other GPUs of this machine

    def architecture(self) -> str:
        """The architecture that kernels are compiled for. TileError when that is not possible."""
        raise NotImplementedError

    def artifact(self, function: Function, options: Mapping[str, Any], variant: Any) -> Artifact:
        """``function`` compiled with ``options`` as ``variant``. ValueError for unknown options."""
        raise NotImplementedError

    def reporting(self, function: Function) -> Sequence[Op]:
        """The ops that print or assert, in the order of their numbers in the machine code."""
        return ()

    def compile(self, function: Function, options: Mapping[str, Any], variant: Any = None) -> GpuExecutable:
        return self.executable(function, self.artifact(function, options, variant or FIRST), options, variant)

    def executable(
        self, function: Function, artifact: Artifact, options: Mapping[str, Any], variant: Any
    ) -> GpuExecutable:
        """What launches ``artifact``, which was made of ``function`` with ``options`` as ``variant``."""
        constraints = variant or FIRST
        shown = replace(constraints, join=APART) if artifact.joinable else constraints

        @functools.cache
        def texts() -> Mapping[str, str]:
            return artifact.binary.texts or self.artifact(function, options, shown).binary.texts

        return GpuExecutable(function, artifact, constraints, texts, lambda: self.reporting(function))

    @classmethod
    def for_target(cls, target: str | None) -> Backend:
        """The backend for an architecture of which no GPU is needed; None stands for the GPU of this machine.

        ValueError for an unknown one.
        """
        raise NotImplementedError

    def exports(self) -> Mapping[str, Exporter]:
        """Format -> what writes kernels in it."""
        return {}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            direct_launch=True,
            variants=True,
            serialization=Serialization(lambda executable: executable.artifact.to_bytes(), self._from_bytes),
            for_target=self.for_target,
            machine=self._machine,
            devices=Devices(self._for_device, driver.device_count, driver.device_of),
            elapsed=self._elapsed,
            exports=self.exports(),
            embed=lambda executable, name, grid: executable.embedded(name, grid),
        )

    def _from_bytes(self, function: Function, data: bytes, options: Mapping[str, Any], variant: Any) -> GpuExecutable:
        return self.executable(function, Artifact.from_bytes(data), options, variant)

    def _machine(self) -> Machine:
        return Machine(self.architecture(), driver.device(self._index).processors)

    def _for_device(self, index: int) -> Backend:
        """This backend for GPU ``index``, whose architecture may be another one than that of the first."""
        return self if index == self._index else self._others.setdefault(index, type(self)(None, index))

    def _elapsed(self, launch: Callable[[], None], stream: int, flush_cache: bool) -> float:
        """The seconds between events before and after ``launch`` on the stream with this handle."""
        return stopwatch.elapsed(launch, stream, driver.device(self._index), flush_cache=flush_cache)
