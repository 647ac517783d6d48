"""From Tile IR to machine code: ``optimize``, ``lower`` to an LLVM module, and what LLVM does.

Only ``on_demand`` imports this module: a kernel from the disk cache needs none of it.
"""

from __future__ import annotations

import functools

from tilewright.backends.cpu.codegen.drivers import CALLED, CALLING, CALLS, DECLARED
from tilewright.backends.cpu.codegen.kernel import Lowered, lower
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.backends.cpu.compiled import SYMBOLS, CompiledKernel, PollLocation, poll_locations
from tilewright.backends.cpu.jit import compile_module
from tilewright.backends.cpu.target import Processor, host
from tilewright.backends.native.image import Image, can_load
from tilewright.backends.native.object_file import link
from tilewright.ir.core import Function
from tilewright.ir.ops.memory import Assert, Print
from tilewright.system.environment import switch


def compile_kernel(function: Function) -> tuple[CompiledKernel, list[PollLocation]]:
    """``function`` compiled for the processor of this machine, and its polls."""
    lowered = lower(optimize(function), host())
    compiled = CompiledKernel(
        code=compile_native(lowered, host()),
        scratch_bytes=lowered.scratch_bytes,
        may_spin=lowered.may_spin,
        block_work=lowered.block_work,
        may_print=any(isinstance(op, Print) for op in lowered.sites),
        may_fail=any(isinstance(op, Assert) for op in lowered.sites),
    )
    return compiled, poll_locations(lowered.polls)


def compile_block(lowered: Lowered, processor: Processor) -> bytes:
    """The object code of a block alone, with what calls it."""
    text = lowered.block + lowered.drivers.run + DECLARED
    return compile_module(text, processor, position_independent=True, exposed=CALLING)


def compile_native(lowered: Lowered, processor: Processor) -> Image | bytes:
    """Code to be stored and loaded: an image where these can be loaded, else object code for ``jit.load``.

    With TILEWRIGHT_DEBUG_INFO=1 object code, too, which LLVM tells debuggers of when it loads it.
    """
    if can_load() and not switch("TILEWRIGHT_DEBUG_INFO"):
        others = _compile_drivers(CALLS + lowered.drivers.others, processor)
        return link((compile_block(lowered, processor), others), SYMBOLS)
    return compile_module(lowered.text, processor)


@functools.lru_cache(maxsize=16)
def _compile_drivers(text: str, processor: Processor) -> bytes:
    """The object code of ``text``, which most kernels have in common. What is run once in a launch is not worth LLVM's
    passes, which would take most of the time."""
    return compile_module(text, processor, position_independent=True, level=0, exposed=CALLED)
