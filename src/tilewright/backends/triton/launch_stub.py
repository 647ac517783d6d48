"""How machine code queues a launch: what ``TritonExecutable.run`` does, without a step in Python."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.analysis.gpu.lowering_plan import MAP_ALIGNMENT, MAP_BYTES, Descriptor
from tilewright.backends.native import LaunchStub
from tilewright.backends.native.body import Body, pointer
from tilewright.backends.triton import driver, tensormap
from tilewright.backends.triton.artifact import Artifact
from tilewright.backends.triton.launch_parameters import LaunchParameters

_INTEGERS = {"i1", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"}
_SINGLE = {"f32", "tf32"}


Loaded = tuple[Artifact, driver.LoadedKernel]


def launch_stub(
    artifact: Artifact, kernel: driver.LoadedKernel, others: Sequence[tuple[int, Loaded | None]] = ()
) -> LaunchStub | None:
    """The entry of a loaded kernel whose launch needs no other memory; None where it takes floats of 16 bits.

    ``others`` are variants of it for grids with up to so many blocks, fewest first; Python starts those that are None.
    """
    if not set(artifact.formats) <= {*_INTEGERS, *_SINGLE, "f64"}:
        return None
    body = Body()
    parameters = [_parameter(body, short, 8 * i) for i, short in enumerate(artifact.formats)]
    parameters += [_map(body, d, meta) for d, meta in zip(artifact.descriptors, artifact.binary.descriptors)]
    for _ in range(artifact.hidden):
        parameters.append(body.stack("i64"))
        body.store("i64", 0, parameters[-1])
    pointers = body.stack(f"[{max(len(parameters), 1)} x ptr]")
    for i, parameter in enumerate(parameters):
        body.store("ptr", parameter, pointers, 8 * i)
    config, handle = _configuration(body, artifact), pointer(kernel.handle.value or 0)
    if others:
        handle = _variant(body, artifact, handle, others, config)
    arguments = f"ptr {config}, ptr {handle}, ptr {pointers}, ptr null"
    state = body.call("PyEval_SaveThread")
    code = body.let(f"call i32 {pointer(driver.address('cuLaunchKernelEx'))}({arguments})")
    body.call("PyEval_RestoreThread", state)
    return LaunchStub.of(body, code, kernel)


def _variant(
    body: Body, artifact: Artifact, handle: str, others: Sequence[tuple[int, Loaded | None]], config: str
) -> str:
    """The handle of the variant for the grid; its bytes of shared memory go to ``config``."""
    blocks, size = body.let(f"mul i64 {body.let('mul i64 %x, %y')}, %z"), str(artifact.binary.shared_bytes)
    for most, form in reversed(others):
        fits = body.let(f"icmp sle i64 {blocks}, {most}")
        other, bytes_ = "null", 0
        if form is not None and _launched_alike(form[0], artifact):
            other, bytes_ = pointer(form[1].handle.value or 0), form[0].binary.shared_bytes
            body.kept.append(form[1])
        handle = body.let(f"select i1 {fits}, ptr {other}, ptr {handle}")
        size = body.let(f"select i1 {fits}, i32 {bytes_}, i32 {size}")
    body.require(body.let(f"icmp ne ptr {handle}, null"))
    body.store("i32", size, config, LaunchParameters.SHARED)
    return handle


def _launched_alike(one: Artifact, other: Artifact) -> bool:
    """Whether both take the same parameters, threads and attributes."""
    a, b = one.binary, other.binary
    return (one.formats, one.descriptors, one.hidden, a.descriptors, a.num_warps, a.num_ctas) == (
        (other.formats, other.descriptors, other.hidden, b.descriptors, b.num_warps, b.num_ctas)
    )


def _parameter(body: Body, short: str, offset: int) -> str:
    """Where the driver finds a number: for integers, which are little-endian, where it is."""
    slot = body.at("%values", offset)
    if short in _SINGLE:  # of infinite size beyond their range
        body.store("float", body.let(f"fptrunc double {body.load('double', slot)} to float"), slot)
    return slot


def _configuration(body: Body, artifact: Artifact) -> str:
    """The configuration of ``launch_parameters.LaunchParameters``, on the stack."""
    params = LaunchParameters(artifact)
    body.kept.append(params)
    params.configure(artifact.binary, (0, 0, 0), 0)
    config = body.stack(f"[{len(params.config)} x i8]")
    for i, (word,) in enumerate(struct.iter_unpack("=Q", params.config)):
        body.store("i64", word, config, 8 * i)
    clustered = body.let(f"mul i64 %x, {artifact.binary.num_ctas}")
    for i, extent in enumerate((clustered, "%y", "%z")):
        body.store("i32", body.let(f"trunc i64 {extent} to i32"), config, 4 * i)
    if params.pairs:
        odd = body.let(f"icmp ne i64 {body.let('and i64 %x, 1')}, 0")
        body.store("i32", body.let(f"select i1 {odd}, i32 0, i32 {params.attribute_count}"), config, params.ATTRIBUTES)
    body.store("i64", "%stream", config, params.STREAM)
    return config


def _map(body: Body, d: Descriptor, meta: Mapping[str, Any]) -> str:
    """The map of ``tensormap.TensorMap``, on the stack: encoding takes less time than finding one made before."""
    rank = len(d.axes)
    extents, steps = body.stack(f"[{rank} x i64]"), body.stack(f"[{rank} x i64]")
    for i, axis in enumerate(reversed(d.axes)):
        extent = _number(body, d.shape[axis], 1)
        body.require(body.let(f"icmp ne i64 {extent}, 0"))
        body.store("i64", extent, extents, 8 * i)
        if i:
            step = _number(body, d.strides[axis], meta["elem_size"])
            one, low = body.let(f"icmp eq i64 {extent}, 1"), body.let(f"icmp slt i64 {step}, 16")
            odd = body.let(f"and i1 {one}, {low}")
            body.store("i64", body.let(f"select i1 {odd}, i64 16, i64 {step}"), steps, 8 * (i - 1))
    found = body.stack(f"[{MAP_BYTES} x i8]", MAP_ALIGNMENT)
    box = (ctypes.c_uint32 * rank)(*reversed(meta["block_size"]))
    ones = (ctypes.c_uint32 * rank)(*[1] * rank)
    arguments = (
        f"ptr {found}, i32 {tensormap.element_type(d)}, i32 {rank}, ptr {body.load('ptr', '%values', 8 * d.base)}, "
        f"ptr {extents}, ptr {steps}, ptr {body.memory(box)}, ptr {body.memory(ones)}, "
        f"i32 {tensormap.NO_INTERLEAVING}, i32 {meta['swizzle']}, i32 {tensormap.PROMOTION_TO_128_BYTES}, "
        f"i32 {tensormap.ZEROS_OUTSIDE}"
    )
    code = body.let(f"call i32 {pointer(driver.address('cuTensorMapEncodeTiled'))}({arguments})")
    body.require_equal("i32", code, 0)
    return found


def _number(body: Body, of: tuple[str, int, int], times: int) -> str:
    """An extent or stride of a descriptor, ``times`` a number."""
    kind, n, factor = of
    if kind != "p":
        return str(n * factor * times)
    return body.let(f"mul i64 {body.load('i64', '%values', 8 * n)}, {factor * times}")
