"""What LLVM and ptxas compile wrongly, as far as it is known, found in the texts that Triton makes: nothing is changed.

Of integers (ptxas 12.8 and 12.9): where two numbers of 16 bits in a register are added to constants and one of the sums
is not used, 0 is added to the other one; the absolute value of the least integer is taken for a positive number, and so
is what it is negated to in 16 bits; the least or greatest of 16 bits is, from Hopper on, found by an instruction on two
pairs, of which the wrong one may count. Accumulators of ``mma.sync`` of integers, which wrap, saturate. LLVM in Triton
3.6 shifts two elements of 32 bits as one of 64 where no bits are said to be shifted out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilewright.analysis.gpu.target import GpuTarget

_EXTREMES = {"min.s16", "max.s16", "min.u16", "max.u16", "min.s16x2", "max.s16x2", "min.u16x2", "max.u16x2"}
_WRONG = {"add.s16x2", "add.u16x2", "neg.s16", "abs.s16", "abs.s32", "abs.s64"}
_LLVM_REPAIRED = (3, 9)  # of Triton; between 3.6 and this it is not known


def in_integers(texts: Mapping[str, str], target: GpuTarget, triton: tuple[int, int]) -> str | None:
    """The instruction on integers among the ``texts``, by this version of ``triton``, that is compiled wrongly for
    ``target``; None without one."""
    for line in texts["llir"].splitlines() if triton < _LLVM_REPAIRED else ():
        if " = shl n" in line and "x i32> " in line and ", <i32 " in line:  # of which not all may be used
            return "shl of vectors"
    wrong = _WRONG | (_EXTREMES if target.capability >= 90 else set())
    for name in _instructions(texts["ptx"]):
        saturates = ".satfinite.s32." in name or (name.startswith("mma.sync.") and name.endswith("satfinite.s32"))
        if saturates or name in wrong:
            return name
    return None


def _instructions(ptx: str) -> Iterable[str]:
    """The instructions without their operands."""
    for line in ptx.splitlines():
        words = line.replace(";", " ").split()
        yield from [word for word in words if not word.startswith("@")][:1]
