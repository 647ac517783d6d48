"""What the element arithmetic may assume of the processor that runs the code."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.records import NamedTuple


class HostFeatures(NamedTuple):
    """Instructions that change which formula is emitted. LLVM picks encodings; everything works with none set."""

    fma: bool = False  # fused multiply-add of float32 and float64
    half: bool = False  # conversion between float16 and float32
    scale: bool = False  # multiplication by a power of two given by its exponent, in one instruction
    wide: bool = False  # AVX-512: F, VL, BW and DQ
    slow_division: bool = False  # of 512 bits: it takes as long as 16 products of them
    total_division: bool = False  # of integers: by zero it gives anything, and MIN / -1 wraps
    bfloat: bool = False  # conversion of float32 to bfloat16 that takes subnormal numbers as zeros
    bfloat_rounding: bool = False  # conversion of float32 to bfloat16 that takes all numbers
    dot_bytes: bool = False  # sums of four products of bytes, in vectors of 512 bits
    dot_byte_tiles: bool = False  # the same in the tile registers of AMX
    dot_bfloat: bool = False  # sums of two products of bfloat16, likewise; takes subnormal numbers as zeros
    dot_bfloat_tiles: bool = False  # the same in tile registers

    @staticmethod
    def of(triple: str, features: Mapping[str, bool]) -> HostFeatures:
        """The features of a processor, given LLVM's target triple and its flags."""
        if triple.startswith(("aarch64", "arm64")):
            return HostFeatures(fma=True, half=True)
        wide = all(features.get(f"avx512{part}") for part in ("f", "vl", "bw", "dq"))
        return HostFeatures(
            fma=bool(features.get("fma")),
            half=bool(features.get("f16c")),
            scale=bool(features.get("avx512vl")),
            wide=wide,
            slow_division=wide and not features.get("sse4a"),  # which AMD's processors have
            bfloat=bool(features.get("avx512bf16")),
            dot_bytes=bool(features.get("avx512vnni")),
        )
