"""How machine code runs a launch in the calling thread: what ``CpuExecutable.run`` does, without a step in Python."""

from __future__ import annotations

from typing import Any

from tilewright.backends.cpu.context import Field
from tilewright.backends.native import LaunchStub
from tilewright.backends.native.body import Body, pointer

MAX_SCRATCH = 1 << 14  # bytes on the stack
_MAX_BLOCKS = 1 << 20
_ALIGNMENT = 64


def launch_stub(code: int, blocks: int, scratch_bytes: int, kept: Any) -> LaunchStub | None:
    """The entry of a kernel that neither prints nor fails, for launches of at most so many ``blocks``.

    ``code`` is the address of its machine code, which lives with ``kept``. None where it needs more scratch memory than
    a stack should give.
    """
    if scratch_bytes > MAX_SCRATCH:
        return None
    body = Body()
    most, total = min(blocks, _MAX_BLOCKS), "1"
    for extent in ("%x", "%y", "%z"):
        body.require(body.let(f"icmp sle i64 {extent}, {most}"))
        total = body.let(f"mul i64 {total}, {extent}")
    body.require(body.let(f"icmp sle i64 {total}, {most}"))
    context = body.stack(f"[{len(Field)} x i64]")
    fields = {Field.TOTAL: total, Field.CHUNK: "1", Field.GRID_X: "%x", Field.GRID_Y: "%y", Field.GRID_Z: "%z"}
    for field in Field:
        body.store("i64", fields.get(field, "0"), context, 8 * field)
    scratch = body.stack(f"[{scratch_bytes} x i8]", _ALIGNMENT)
    state = body.call("PyEval_SaveThread")
    body.do(f"call void {pointer(code)}(ptr %values, ptr {context}, ptr {scratch})")
    body.call("PyEval_RestoreThread", state)
    return LaunchStub.of(body, "0", kept)
