"""Values that blocks hand on to one another."""

from __future__ import annotations

from typing import Any

from tilewright import language as ct


def next_block(tickets: Any) -> Any:
    """The number of blocks that have asked before: blocks that are numbered so have started in order.

    ``tickets`` is an int32 array of one element, 0 when the kernel is launched. A block that waits for those with lower
    numbers then waits for blocks that run already, whatever order the machine starts them in.
    """
    return ct.atomic_add(tickets, (0,), 1)


def block_prefix(block: Any, total: Any, prefixes: Any, ready: Any) -> Any:
    """The sum of the ``total`` of all blocks with lower numbers, added in that order.

    ``block`` comes from ``next_block``, ``total`` is a scalar. ``prefixes`` (of the dtype of ``total``) and ``ready``
    (int32, 0 when the kernel is launched) are arrays with an element for each block. Each block waits for the one
    before it, and passes the sum on. Together with ``ct.cumsum`` it makes a scan of an array over all blocks::

        block = lib.next_block(tickets)
        x = ct.load(a, (block,), (TILE,))
        before = lib.block_prefix(block, ct.sum(x), prefixes, ready)
        ct.store(out, (block,), ct.cumsum(x, 0) + before)
    """
    before = ct.zeros((), prefixes.dtype)
    if block > 0:
        while ct.atomic_add(ready, (block - 1,), 0, memory_order=ct.MemoryOrder.ACQUIRE) == 0:
            pass
        before = ct.gather(prefixes, (block - 1,))
    ct.scatter(prefixes, (block,), before + ct.astype(total, prefixes.dtype))
    ct.atomic_xchg(ready, (block,), 1, memory_order=ct.MemoryOrder.RELEASE)
    return before
