"""The batching rule of an operator: which of its dimensions takes up the dimension that ``vmap`` adds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.ops.dims import Dims


def batched_dim(dims: Dims, sharded: Collection[str], batched: Sequence[bool]) -> str | None:
    """The dimension that can be merged with the new one, so that one call computes the whole batch; None where there
    is none, and the calls have to follow one another.

    The operator computes parts of a dimension in ``sharded`` independently of each other, and so it does the entries
    of a batch that are its parts. All batched inputs need to have the dimension, and all outputs.
    """

    def fits(name: str) -> bool:
        having = [name in shape for shape in dims.inputs]
        return all(h for h, b in zip(having, batched) if b) and all(name in shape for shape in dims.outputs)

    def copies(name: str) -> int:
        """Inputs that would have to be repeated along the batch."""
        return sum(name in shape and not b for shape, b in zip(dims.inputs, batched))

    first = [d for shape in dims.inputs for d in shape if isinstance(d, str)]
    fitting = [name for name in dict.fromkeys(first) if name in sharded and fits(name)]
    return min(fitting, key=copies, default=None)
