"""Measuring on other devices: what is sent to their workers, and what these do."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

import numpy as np

from tilewright.records import NamedTuple
from tilewright.runtime.backend_choice import use_backend
from tilewright.runtime.kernel import kernel as PythonKernel
from tilewright.runtime.launch import specialization
from tilewright.runtime.launchable import Launchable
from tilewright.runtime.traced_kernel import TracedKernel
from tilewright.system.forks import load
from tilewright.tune.arrays import Args, copy_of, with_arrays
from tilewright.tune.candidate import BATCH, Candidate, Work
from tilewright.tune.results import Measurement

Failure = tuple[type[BaseException], str]
_ALIGNMENT = 16  # what signatures know of an address; see ``ArraySpec``


class Packed(NamedTuple):
    """An array on the way to another device. ``on_gpu``: of the GPU that is current in the worker."""

    library: str
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements for torch, else in bytes
    elements: np.ndarray[Any, Any]
    on_gpu: bool
    misaligned: int  # bytes of the address beyond a multiple of _ALIGNMENT, which kernels are compiled for

    @classmethod
    def of(cls, array: Any) -> Packed:
        """TypeError for arrays of other libraries than NumPy, PyTorch and CuPy."""
        torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
        if isinstance(array, np.ndarray):
            address = array.ctypes.data
            return cls("numpy", array.dtype, array.shape, array.strides, np.array(array), False, address % _ALIGNMENT)
        if torch is not None and isinstance(array, torch.Tensor):
            host = array.detach().cpu().contiguous()
            elements = host.reshape(-1).view(torch.uint8).numpy().copy()
            shape, strides, address = tuple(array.shape), tuple(array.stride()), array.data_ptr()
            return cls("torch", array.dtype, shape, strides, elements, array.is_cuda, address % _ALIGNMENT)
        if cupy is not None and isinstance(array, cupy.ndarray):
            address = array.data.ptr
            return cls("cupy", array.dtype, array.shape, array.strides, array.get(), True, address % _ALIGNMENT)
        raise TypeError(
            f"an array of type {type(array).__name__} cannot be sent to another device; pass arrays of NumPy, PyTorch "
            "or CuPy"
        )

    def unpacked(self) -> Any:
        """An array of the library, with the same elements, shape, strides and alignment."""
        if self.library == "numpy":
            memory, before = np.empty(_span(self.shape, self.strides), np.uint8), self._before()
            first = before + (self.misaligned - memory.ctypes.data - before) % _ALIGNMENT
            host: np.ndarray[Any, Any] = np.ndarray(self.shape, self.dtype, memory.data, first, self.strides)
            host[self._distinct()] = self.elements[self._distinct()]
            return host
        library = load(self.library)
        if self.library == "cupy":
            bytes_ = library.empty(_span(self.shape, self.strides), np.uint8)
            before = self._before()  # memory of the library is aligned to more than that
            first = before + (self.misaligned - before) % _ALIGNMENT
            found = library.ndarray(self.shape, self.dtype, bytes_.data + first, self.strides)
            found[self._distinct()] = library.asarray(self.elements[self._distinct()])
            return found
        elements = library.empty(self.shape, dtype=self.dtype)
        elements.reshape(-1).view(library.uint8).copy_(library.from_numpy(self.elements))
        device = library.device("cuda", library.cuda.current_device()) if self.on_gpu else library.device("cpu")
        memory = library.empty(_span(self.shape, self.strides), dtype=self.dtype, device=device)
        found = memory.as_strided(self.shape, self.strides, self.misaligned // memory.element_size())
        found[self._distinct()].copy_(elements[self._distinct()])
        return found

    def _before(self) -> int:
        """The bytes before the first element: those along axes that run backwards."""
        return sum((n - 1) * -s for n, s in zip(self.shape, self.strides) if s < 0 and n)

    def _distinct(self) -> tuple[slice, ...]:
        """The elements that share no memory with others of the array, as those of a repeated axis do."""
        return tuple(slice(None) if stride else slice(1) for stride in self.strides)


def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Bytes, or elements, that hold such an array, wherever it begins to be aligned as asked."""
    return 64 + sum((n - 1) * abs(s) for n, s in zip(shape, strides) if n)


def packed(kernel: Launchable, args: Args) -> tuple[Launchable, Args]:
    """``kernel`` and ``args`` as they can be sent: a kernel in Python by its IR, so that it may be defined anywhere."""
    sent = TracedKernel.of(kernel, args) if isinstance(kernel, PythonKernel) else kernel
    return sent, with_arrays(kernel, args, lambda _, array: Packed.of(array))


def measured(
    kernel: Launchable,
    grid: tuple[int, ...],
    given: Args,
    backend: str | None,
    flush_cache: bool,
    run_sec: float | None,
    enough_us: float | None,
    rival_us: float | None,
) -> Measurement[None] | Failure:
    """The time of a configuration on the device of this worker; ``given`` are ``packed`` arguments.

    When the first run takes more than ``enough_us``, it is the only one; else runs are timed until the mean is certain,
    or certain to be above ``rival_us``.
    """
    try:
        with use_backend(backend) if backend is not None else nullcontext():
            args = tuple(_unpacked(value) for value in given)
            written = specialization(kernel, args).written

            def fresh() -> Args:
                return with_arrays(kernel, args, lambda name, array: copy_of(array) if name in written else array)

            candidate = Candidate(None, Work(kernel, grid, fresh), None, flush_cache)
            first_us = candidate.warm_up(run_sec, enough_us)
            while not candidate.converged:
                candidate.measure(BATCH)
                if enough_us is not None and first_us > enough_us:
                    break
                if rival_us is not None and candidate.mean_us - candidate.margin_us > rival_us:
                    break
            return candidate.measurement()
    except Exception as e:  # noqa: BLE001 - whatever a configuration raises is a result of the search
        return type(e), str(e)


def _unpacked(value: Any) -> Any:
    if isinstance(value, Packed):
        return value.unpacked()
    if type(value) in (tuple, list):
        return type(value)(_unpacked(item) for item in value)
    return value
