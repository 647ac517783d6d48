"""What machine code takes of an SM, as its file says."""

from __future__ import annotations

import re
import struct

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.backends.cuda_tools import attributes
from tilewright.gpu_runtime.artifact import GpuBinary
from tilewright.system.elf import sections

# Attributes of ``.nv.info``. Each is a symbol and a number.
_REGISTERS, _STACK = 0x2F, 0x12

# What the metadata of AMD's assembly calls them.
_AMD = {
    "registers per thread": "vgpr_count",
    "scalar registers per wave": "sgpr_count",
    "bytes of stack and spilled registers per thread": "private_segment_fixed_size",
    "spilled registers": "vgpr_spill_count",
}


def resource_usage(binary: GpuBinary, target: GpuTarget) -> dict[str, int]:
    """What a block and its threads take, by what it is."""
    found = {
        "threads per block": binary.threads,
        "bytes of shared memory per block, of " + str(target.shared_memory): binary.shared_bytes,
    }
    if target.is_cuda:
        info = next((s.content for s in sections(binary.code) if s.name == ".nv.info"), b"")
        numbers = {_REGISTERS: 0, _STACK: 0}  # the largest of each: a kernel's functions have entries of their own
        for attribute, _, payload in attributes(info):
            if attribute in numbers:
                numbers[attribute] = max(numbers[attribute], struct.unpack_from("<I", payload, 4)[0])
        found["registers per thread"] = numbers[_REGISTERS]
        found["bytes of stack and spilled registers per thread"] = numbers[_STACK]
        return found
    for title, name in _AMD.items():
        number = re.search(rf"\.{name}:\s*(\d+)", binary.texts["amdgcn"])
        if number is not None:
            found[title] = int(number.group(1))
    return found
