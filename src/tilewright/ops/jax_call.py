"""Recorded launches as calls of XLA's foreign function interface. Importing this imports jax."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from tilewright.ir.printer import print_function
from tilewright.ops.xla_handler import Handler
from tilewright.runtime.abstract import RecordedLaunch
from tilewright.runtime.arrays import AbstractAddress

_HANDLERS: dict[tuple[str, str], Handler] = {}  # by platform and name; XLA calls them as long as the process lives
_LOCK = threading.Lock()

Arrays = Sequence[Any]


class Platform(NamedTuple):
    """Where JAX computes: what XLA calls it, and what we do."""

    name: str
    device: str


_PLATFORMS = {"cpu": Platform("cpu", "cpu"), "gpu": Platform("CUDA", "cuda"), "cuda": Platform("CUDA", "cuda")}


def xla_platform(caller: str) -> Platform:
    """JAX's default platform; NotImplementedError, which names ``caller``, for one without kernels."""
    found = _PLATFORMS.get(jax.default_backend())
    if found is None:
        raise NotImplementedError(f"{caller}: kernels run on CPUs and NVIDIA's GPUs, not on {jax.default_backend()}")
    return found


def register_handler(
    platform: Platform,
    caller: str,
    launches: Sequence[RecordedLaunch],
    inputs: int,
    mutated: dict[int, int],
    kinds: object,
) -> str:
    """The name under which XLA knows the handler of ``launches``, see ``Handler``; ``kinds`` tells it from others."""
    text = [f"{launch.grid}{list(launch.values)}{print_function(launch.function)}" for launch in launches]
    digest = hashlib.sha256(repr((caller, kinds, mutated, text)).encode()).hexdigest()
    name = f"tilewright.{caller.replace('::', '.')}.{digest[:24]}"
    with _LOCK:
        if (platform.name, name) not in _HANDLERS:
            handler = Handler(caller, launches, inputs, mutated, platform.device != "cpu")
            jax.ffi.register_ffi_target(name, handler.capsule(), platform=platform.name)
            _HANDLERS[platform.name, name] = handler
    return name


def call_handler(target: str, arrays: Arrays, results: Arrays, aliases: Mapping[int, int]) -> list[Any]:
    """The results, of these shapes and dtypes; ``aliases`` maps inputs to the results that have their memory."""
    alike, kind = alike_varying(arrays)
    kinds = [jax.ShapeDtypeStruct(shape, dtype, **kind) for shape, dtype in results]
    call = jax.ffi.ffi_call(target, kinds, input_output_aliases=dict(aliases), vmap_method="sequential")
    return list(call(*alike))


def written_arrays(launch: RecordedLaunch) -> Iterator[int]:
    """The numbers of the abstract arrays that ``launch`` stores to."""
    for parameter, value in zip(launch.function.params, launch.values):
        if isinstance(value, AbstractAddress) and parameter.argument in launch.written:
            yield int(value)


def alike_varying(arrays: Arrays) -> tuple[Arrays, dict[str, Any]]:
    """``arrays`` that all differ along the same manual axes of a mesh, as shard_map checks, and what says so of the
    results."""
    every = frozenset().union(*map(varying, arrays))
    if not every:
        return arrays, {}
    cast = [cast_varying(a, every) for a in arrays]
    kind = jax.typeof(cast[0])
    if not hasattr(kind, "mat"):
        return cast, {"vma": every}
    whole = jax.sharding.NamedSharding(kind.sharding.mesh, jax.sharding.PartitionSpec())
    return cast, {"manual_axis_type": kind.mat, "sharding": whole}


def varying(array: Any) -> frozenset[str]:
    """The manual axes of a mesh along which ``array`` differs."""
    kind = jax.typeof(array)
    return kind.mat.varying if hasattr(kind, "mat") else getattr(kind, "vma", frozenset())


def cast_varying(array: Any, axes: frozenset[str]) -> Any:
    """``array``, said to differ along ``axes`` as well."""
    missing = axes - varying(array)
    return jax.lax.pcast(array, tuple(sorted(missing)), to="varying") if missing else array
