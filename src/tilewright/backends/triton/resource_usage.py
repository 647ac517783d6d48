"""What machine code takes of an SM, as its file says."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.gpu_runtime.artifact import GpuBinary
from tilewright.system.elf import sections

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


def resource_usage(binary: GpuBinary, target: GpuTarget) -> dict[str, int]:
    """What a block and its threads take, by what it is."""
    found = {
        "threads per block": target.warp_size * binary.num_warps,
        "bytes of shared memory per block, of " + str(target.shared_memory): binary.shared_bytes,
    }
    if target.is_cuda:
        info = next((s.content for s in sections(binary.code) if s.name == ".nv.info"), b"")
        numbers = dict(_attributes(info))
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
    return resource_usage(binary, target).get(_SPILLED, 0)


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
