"""A compiled kernel and its launch."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping

from tilewright.backends.base import LaunchArguments
from tilewright.backends.cpu import threads
from tilewright.backends.cpu.codegen.kernel import SYMBOL
from tilewright.backends.cpu.context import Field
from tilewright.backends.cpu.jit import NativeCode, assembly
from tilewright.backends.cpu.printing import printer
from tilewright.backends.cpu.target import Processor
from tilewright.ir.core import Function, Op
from tilewright.ir.errors import TileError
from tilewright.ir.types import TileType

_SPIN_THREADS = 64  # blocks that wait for each other need a thread each, whatever the number of processors
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_Context = ctypes.c_int64 * len(Field)


class CpuExecutable:
    """Machine code of one kernel, loaded into this process."""

    def __init__(
        self, function: Function, code: bytes, text: str, scratch_bytes: int, may_spin: bool, processor: Processor
    ) -> None:
        self.code = code
        self.text = text
        self.scratch_bytes = scratch_bytes
        self.may_spin = may_spin
        self._processor = processor
        self._native = NativeCode(code, processor)
        self._entry = _ENTRY(self._native.address(SYMBOL))
        self._pack = struct.Struct("=" + "".join(_format(a.tile) for a in function.body.args)).pack
        self._sites: list[Op] = [op for op in function.walk() if op.name in ("print", "assert")]
        self._print = printer(self._sites) if any(op.name == "print" for op in self._sites) else None
        self._print_address = ctypes.cast(self._print, ctypes.c_void_p).value or 0 if self._print else 0

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Run every block of ``grid``."""
        x, y, z = grid
        total = x * y * z
        if total == 0:
            return
        packed = self._pack(*arguments.values)
        count = self._thread_count(total)
        chunk = 1 if self.may_spin else max(1, total // (count * 16))
        context = _Context(0, total, chunk, x, y, z, 0, 0, self._print_address)
        entry, scratch_bytes = self._entry, self.scratch_bytes
        if count == 1:
            entry(packed, context, threads.scratch(scratch_bytes))
        else:
            threads.POOL.run(lambda: entry(packed, context, threads.scratch(scratch_bytes)), count)
        if context[Field.FAILED]:
            self._raise(context, grid)

    def _thread_count(self, blocks: int) -> int:
        if blocks == 1:
            return 1
        return min(blocks, max(threads.thread_count(), _SPIN_THREADS if self.may_spin else 1))

    def _raise(self, context: ctypes.Array[ctypes.c_int64], grid: tuple[int, int, int]) -> None:
        op, block = self._sites[context[Field.FAILED] - 1], context[Field.FAILED_BLOCK]
        x, y, _ = grid
        index = (block % x, block // x % y, block // (x * y))
        raise TileError(f"assertion failed in block {index}: {op.attributes['message']}", op.loc)

    def stages(self) -> Mapping[str, str]:
        """The generated LLVM IR, what LLVM made of it, and numbers."""
        return _Stages(
            {
                "LLVM IR": lambda: self.text,
                "optimized LLVM IR": lambda: self.text,
                "assembly": lambda: assembly(self.text, self._processor),
                "memory": lambda: f"scratch bytes per thread: {self.scratch_bytes}\ncode bytes: {len(self.code)}\n",
            }
        )


class _Stages(Mapping[str, str]):
    """Texts that are made when they are asked for."""

    def __init__(self, makers: dict[str, Callable[[], str]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> str:
        return self._makers[name]()

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def _format(t: TileType) -> str:
    """The struct code of one argument: 8 bytes each."""
    if t.is_pointer:
        return "Q"
    if t.element.is_floating:
        return "d"
    return "q" if t.element.is_signed else "Q"
