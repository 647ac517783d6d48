"""PTX as text. What Triton cannot say in its forms is changed in it: loads of the TMA unit by pairs of CTAs, and
accumulators of MMA ops of integers that wrap.

The innermost coordinate of a load that a pair shares is negative, which says so, and far below every other. One block
then fetches the boxes of even warps for both, the other one those of odd warps; they change places from step to step
and from load to load, since the first warp makes all loads of a single box. Other loads are for one block.
Before they write to each other's memory both have to be done with what was there: they meet at the barrier of the
cluster, at which each arrives when the tensor cores have read the last step.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_BITS = 29
MARK = -(1 << 31)  # added to a coordinate from 0 up to, not including, END
END = 1 << _BITS
LOWEST = -(1 << 30)  # of coordinates without a mark

_LOAD = re.compile(
    r"\s*@(%p\d+) (cp\.async\.bulk\.tensor\.2d\.shared::(?:cluster|cta)\.global\.mbarrier::complete_tx::bytes)"
    r" \[(%r\d+)\], \[(%rd\d+), \{(%r\d+), (%r\d+)\}\], \[(%r\d+)\];"
)
_USE = re.compile(r"mbarrier\.inval|(ld|st)\.shared|(ld|st)matrix|\.bulk_group ")  # of memory, but not by MMA ops
_ARRIVE = "\tbarrier.cluster.arrive.relaxed.aligned;"
_WAIT = "\tbarrier.cluster.wait.aligned;\n\txor.b32 pair_place, pair_place, 1;"
_START = """
\t.reg .pred pair_exists;
\t.reg .b32 pair_alone, pair_place;
\tmov.u32 pair_alone, %cluster_nctarank;
\tsetp.eq.u32 pair_exists, pair_alone, 2;
\tmov.u32 pair_alone, %cluster_ctarank;
\tmov.u32 pair_place, %tid.x;
\tshr.u32 pair_place, pair_place, 5;
\txor.b32 pair_place, pair_place, pair_alone;
\tand.b32 pair_place, pair_place, 1;
\tadd.u32 pair_alone, pair_alone, 1;"""  # of blocks 0 and 1 the bits 1 and 2
_MEET = (
    "\tfence.mbarrier_init.release.cluster;\n\tbarrier.cluster.arrive.release.aligned;\n"
    "\tbarrier.cluster.wait.acquire.aligned;"
)


class UnexpectedPtx(Exception):
    """The PTX is not as this module expects it."""


def share_loads(text: str, maps: Collection[int]) -> str:
    """``text``, whose loads with the tensor maps that are parameters ``maps`` become loads with TMA multicast.

    UnexpectedPtx when it has loads of another form."""
    lines = text.split("\n")
    registers = _registers(lines, maps)
    arrived: set[int] = set()  # the waits for MMA ops after which the barrier has been met
    initialized = met = False  # whether there are new barriers of loads that the other block has to know of, and does
    multiplied = False  # since then
    mma: int | None = None  # the wait for MMA ops in this basic block after which no memory was used otherwise
    shared = 0
    for at, line in enumerate(lines):
        load = _LOAD.match(line)
        if "mbarrier.init." in line:
            initialized, multiplied, mma = True, False, None
        elif "wgmma.mma_async" in line:
            multiplied = True
        elif line.startswith("$L") or _USE.search(line) is not None:
            mma = None
        elif "wgmma.wait_group.sync.aligned" in line:
            mma = at
        elif load is not None and load[4] in registers:
            shared += 1
            before = ""
            if mma is None and multiplied:
                raise UnexpectedPtx(f"a shared load away from a wait for MMA ops: {line.strip()}")
            if mma is None and initialized:
                before, initialized, met = f"{_MEET}\n", False, True
            elif mma is not None and mma not in arrived:
                lines[mma + 1] += f"\n{_ARRIVE}"  # after the end of the inline assembly
                arrived.add(mma)
                before = f"{_WAIT}\n"
            lines[at] = before + _shared(load, shared % 2)
    uses = sum(len(re.findall(rf"\[{register}\b", line)) for register in registers for line in text.split("\n"))
    declared = next((at for at, line in enumerate(lines) if line.startswith("\t.reg ")), None)
    if not arrived or not met or uses != shared or declared is None:
        raise UnexpectedPtx(f"{uses} uses of shared maps in {shared} loads, {len(arrived)} of them after an MMA op")
    lines[declared] += _START
    return "\n".join(lines)


def _registers(lines: list[str], maps: Collection[int]) -> set[str]:
    """The registers with the addresses of the tensor maps."""
    found: set[str] = set()
    for line in lines:
        move = re.match(r"\s*(?:mov\.b64|mov\.b32|cvt\.u64\.u32|cvta\.param\.u64)\s+(%rd?\d+), (\S+);", line)
        if move is not None:
            parameter = re.fullmatch(r"\w+_param_(\d+)", move[2])
            if move[2] in found or (parameter is not None and int(parameter[1]) in maps):
                found.add(move[1])
    return found


def _shared(load: re.Match[str], place: int) -> str:
    """``load`` as both blocks of a pair make it; the one that is in this ``place`` fetches."""
    predicate, what, target, tensor, x, y, barrier = load.groups()
    what = what.replace("shared::cta", "shared::cluster")
    return f"""\t{{
\t.reg .pred both, mine, turn;
\t.reg .b32 column, mask;
\t.reg .b16 blocks;
\tshr.u32 mask, {x}, {_BITS};
\tsetp.eq.u32 both, mask, {(MARK & 0xFFFFFFFF) >> _BITS};
\tand.b32 column, {x}, {~MARK & 0x7FFFFFFF};
\tselp.b32 column, column, {x}, both;
\tand.pred both, both, pair_exists;
\tselp.b32 mask, 3, pair_alone, both;
\tcvt.u16.u32 blocks, mask;
\tnot.pred mine, both;
\tsetp.eq.u32 turn, pair_place, {place};
\tor.pred mine, mine, turn;
\tand.pred mine, mine, {predicate};
\t@mine {what}.multicast::cluster [{target}], [{tensor}, {{column, {y}}}], [{barrier}], blocks;
\t}}"""


def wrapping(text: str) -> str:
    """``text``, whose MMA ops of integers wrap. Triton asks for accumulators that saturate, but not on the units of
    Hopper."""
    return re.sub(r"(\tmma\.sync\S*)\.satfinite\.s32", r"\1.s32", text)


def with_by_value_parameters(text: str, by_value_parameters: Mapping[int, int]) -> str:
    """``text`` whose parameters with these numbers are so many bytes instead of an address. UnexpectedPtx when it reads
    those addresses in another way than expected."""
    for number, size in by_value_parameters.items():
        name = rf"(\w+_param_{number})\b"
        text, declared = re.subn(
            rf"\.param \.u64 (?:\.ptr )?(?:\.global )?(?:\.align \d+ )?{name}",
            rf".param .align 64 .b8 \1[{size}]",
            text,
        )
        text, used = re.subn(rf"ld\.param\.b64(\s+%rd\d+), \[{name}\];", r"mov.b64\1, \2;", text)
        left = len(re.findall(name, text)) - declared - used
        if declared != 1 or left:
            raise UnexpectedPtx(f"{declared} declarations and {left} unknown uses of parameter {number}")
    return text
