"""The CPU back end: Tile IR to machine code of this processor through LLVM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tilewright.backends.base import Executable
from tilewright.backends.cpu.codegen.kernel import lower
from tilewright.backends.cpu.executable import CpuExecutable
from tilewright.backends.cpu.jit import compile_module
from tilewright.backends.cpu.target import host
from tilewright.ir.core import Function


class CpuBackend:
    """Compiles kernels for the processor that this process runs on."""

    name = "cpu"
    device = "cpu"

    def unavailable(self) -> str | None:
        """None: LLVM comes with llvmlite, which this module needs to be imported."""
        return None

    def target(self) -> str:
        return host().key()

    def compile(self, function: Function, options: Mapping[str, Any]) -> CpuExecutable:
        """Compile ``function``. There are no options yet; the GPU's are accepted and mean nothing here."""
        lowered = lower(function, host())
        code = compile_module(lowered.text, host())
        return CpuExecutable(function, code.data, lowered.text, lowered.scratch_bytes, lowered.may_spin, host())

    def serialize(self, executable: Executable) -> bytes:
        """A line of JSON, then the object code."""
        assert isinstance(executable, CpuExecutable)
        head = {"scratch_bytes": executable.scratch_bytes, "may_spin": executable.may_spin, "text": executable.text}
        return json.dumps(head).encode() + b"\n" + executable.code

    def deserialize(self, function: Function, data: bytes, options: Mapping[str, Any]) -> CpuExecutable:
        head, _, code = data.partition(b"\n")
        found = json.loads(head)
        return CpuExecutable(function, code, found["text"], found["scratch_bytes"], found["may_spin"], host())


BACKEND = CpuBackend()
