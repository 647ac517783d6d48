"""The gpu dialect: what there is beside the ops of Tile IR when tiles are distributed over the threads of a CTA.

Elementwise ops, constants, ``iota``, ``reshape``, ``permute`` and control flow are those of Tile IR, on distributed
tiles. Everything that moves data between threads or memories is an op of this dialect. See ``ir.gpu_stage`` for the
rules.
"""

from tilewright.ir.ops.gpu import barriers, cluster, exit, memory, mma, specialize, tensor_memory, tiles, tma, wgmma

__all__ = ["barriers", "cluster", "exit", "memory", "mma", "specialize", "tensor_memory", "tiles", "tma", "wgmma"]
