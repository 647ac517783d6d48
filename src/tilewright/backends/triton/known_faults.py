"""What LLVM and ptxas compile wrongly, as far as it is known, found in the texts that Triton makes: nothing is changed.

Of integers (ptxas 12.8 and 12.9): where two numbers of 16 bits in a register are added to constants and one of the sums
is not used, 0 is added to the other one; the absolute value of the least integer is taken for a positive number, and so
is what it is negated to in 16 bits; the least or greatest of 16 bits is, from Hopper on, found by an instruction on two
pairs, of which the wrong one may count. Accumulators of ``mma.sync`` of integers, which wrap, saturate. LLVM in Triton
3.6 shifts two elements of 32 bits as one of 64 where no bits are said to be shifted out.

Of MMA ops of warp groups: Triton loads left operands to registers that steps of the last iteration may still read, and
ptxas gives those that a loop does not change away. Where tiles of two layouts take turns at one address, ptxas adds the
upper half of the second descriptor to the address. Two MMA ops of equal operands it takes for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilewright.analysis.gpu.target import GpuTarget

_EXTREMES = {"min.s16", "max.s16", "min.u16", "max.u16", "min.s16x2", "max.s16x2", "min.u16x2", "max.u16x2"}
_WRONG = {"add.s16x2", "add.u16x2", "neg.s16", "abs.s16", "abs.s32", "abs.s64"}
_MMA, _FENCE = "wgmma.mma_async.", "wgmma.fence."
_UPPER_HALF = 32  # bits of the lower one
_LLVM_REPAIRED = (3, 9)  # of Triton; between 3.6 and this it is not known


def in_integers(texts: Mapping[str, str], target: GpuTarget, triton: tuple[int, int]) -> str | None:
    """The instruction on integers among the ``texts``, by this version of ``triton``, that is compiled wrongly for
    ``target``; None without one."""
    for line in texts["llir"].splitlines() if triton < _LLVM_REPAIRED else ():
        if " = shl n" in line and "x i32> " in line and ", <i32 " in line:  # of which not all may be used
            return "shl of vectors"
    wrong = _WRONG | (_EXTREMES if target.capability >= 90 else set())
    for name, _ in _instructions(texts["ptx"]):
        saturates = ".satfinite.s32." in name or (name.startswith("mma.sync.") and name.endswith("satfinite.s32"))
        if saturates or name in wrong:
            return name
    return None


def in_warp_groups(texts: Mapping[str, str]) -> str | None:
    """Why MMA ops of warp groups among the ``texts`` would be compiled wrongly; None where they are not."""
    if any("ttng.warp_group_dot " in line and " : tensor<" in line for line in texts["ttgir"].splitlines()):
        return "a left operand is in registers"
    layouts: dict[str, set[int]] = {}
    since_fence: set[str] = set()
    for name, operands in _instructions(texts["ptx"]):
        if name.startswith(_FENCE):
            since_fence.clear()
        elif name.startswith(_MMA):
            factors = operands.rpartition("}")[2]
            if factors in since_fence:
                return "two MMA ops have the same operands"
            since_fence.add(factors)
        elif name in ("or.b64", "add.s64"):
            _, base, number = (part.strip() for part in operands.split(","))
            if number.lstrip("-").isdigit() and (upper := int(number) >> _UPPER_HALF) not in (0, -1):
                layouts.setdefault(base, set()).add(upper)
                if len(layouts[base]) > 1:
                    return "tiles of two layouts take turns at one address"
    return None


def _instructions(ptx: str) -> Iterable[tuple[str, str]]:
    """The instructions, each with its operands."""
    for line in ptx.splitlines():
        words = line.strip().rstrip(";").split(None, 1)
        if words and words[0].startswith("@"):
            words = words[1].split(None, 1)
        if words and "." in words[0]:
            yield words[0], words[1] if len(words) > 1 else ""
