"""How machine code queues a launch: what ``GpuExecutable.run`` does, without a step in Python."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tilewright.backends.native import LaunchStub
from tilewright.backends.native.body import Body, pointer
from tilewright.gpu_runtime import abi, driver, tensormap
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.gpu_runtime.launch_parameters import LaunchParameters

Loaded = tuple[Artifact, driver.LoadedKernel]


def launch_stub(
    artifact: Artifact, kernel: driver.LoadedKernel, others: Sequence[tuple[int, Loaded | None]] = ()
) -> LaunchStub | None:
    """The entry of a loaded kernel whose launch needs no other memory; None where it takes floats of 16 bits.

    ``others`` are variants of it for grids with up to so many blocks, fewest first; Python starts those that are None.
    """
    if not abi.can_pack(artifact.formats):
        return None
    body = Body()
    parameters = abi.pack(body, artifact.formats)
    parameters += [
        tensormap.emit_encode(body, d, meta) for d, meta in zip(artifact.descriptors, artifact.binary.descriptors)
    ]
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
