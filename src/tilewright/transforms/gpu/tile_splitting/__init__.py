"""Kernels whose tiles are divided among the blocks of a cluster (``num_ctas``).

Each block of the cluster runs the kernel with its part of every tile that is stored, and of what that is computed from;
what all parts need, such as an operand of an MMA op, each block has whole. Blocks do not wait for each other.
"""

from tilewright.transforms.gpu.tile_splitting.split import cluster_size, divide

__all__ = ["cluster_size", "divide"]
