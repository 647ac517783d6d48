"""What machine code takes of a multiprocessor, as its file says."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.backends.triton.binary import GpuBinary

_SECTION = struct.Struct("<IIQQQQIIQQ")
_NO_BITS = 8  # a section without contents
# Attributes of ``.nv.info``. Each is a symbol and a number.
_REGISTERS, _STACK = 0x2F, 0x12
_WITH_SIZE = 4  # the format of attributes with a payload

_SPILLED = "bytes of stack and spilled registers per thread"

# What the metadata of AMD's assembly calls them.
_AMD = {
    "registers per thread": "vgpr_count",
    "scalar registers per wave": "sgpr_count",
    _SPILLED: "private_segment_fixed_size",
    "spilled registers": "vgpr_spill_count",
}


def footprint(binary: GpuBinary, target: GpuTarget) -> dict[str, int]:
    """What a block and its threads take, by what it is."""
    found = {
        "threads per block": target.warp_size * binary.num_warps,
        "bytes of shared memory per block, of " + str(target.shared_memory): binary.shared_bytes,
    }
    if target.is_cuda:
        numbers = dict(_attributes(_section(binary.code, ".nv.info")))
        found["registers per thread"] = numbers[_REGISTERS]
        found[_SPILLED] = numbers[_STACK]
        return found
    for title, name in _AMD.items():
        number = re.search(rf"\.{name}:\s*(\d+)", binary.texts["amdgcn"])
        if number is not None:
            found[title] = int(number.group(1))
    return found


def spilled(binary: GpuBinary, target: GpuTarget) -> int:
    """How many bytes of memory each thread takes for want of registers, or for arrays of its own."""
    return footprint(binary, target).get(_SPILLED, 0)


def _section(elf: bytes, name: str) -> bytes:
    """The contents of a section of an ELF file of 64 bits; empty where there is none."""
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<3H", elf, 0x3A)
    heads = [_SECTION.unpack_from(elf, start + i * size) for i in range(count)]
    texts = heads[names][4]
    for label, kind, _, _, offset, length, *_ in heads:
        first = texts + label
        if kind != _NO_BITS and elf[first : elf.index(b"\0", first)] == name.encode():
            return elf[offset : offset + length]
    return b""


def _attributes(info: bytes) -> Iterator[tuple[int, int]]:
    """The largest number of each attribute: a kernel's functions have entries of their own."""
    largest = {_REGISTERS: 0, _STACK: 0}
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _WITH_SIZE:
            if attribute in largest:
                largest[attribute] = max(largest[attribute], struct.unpack_from("<I", info, at + 4)[0])
            at += size
    yield from largest.items()
