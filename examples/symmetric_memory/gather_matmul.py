"""All-gather with matmul in one kernel: every process has rows of A, and computes all rows of A times its own B.

Blocks that copy bring the rows of the other processes; blocks that multiply begin with the rows that are here, and wait
for each further tile of rows. Processes tell each other through ``signals`` in memory that they share, with the scope
SYS: nothing else orders them, neither the host nor a barrier. A host that has waited too long sets ``stop``, and all
that waits ends: what is computed then is wrong, and the host says so.
"""

import tilewright as ct

ACQUIRE, RELEASE = ct.MemoryOrder.ACQUIRE, ct.MemoryOrder.RELEASE
DEVICE, SYS = ct.MemoryScope.DEVICE, ct.MemoryScope.SYS
RELAXED = ct.MemoryOrder.RELAXED
PUBLISHED, TAKEN = 0, 1  # the signals of a process: blocks that have published, and copiers elsewhere that are done


def signal(array: ct.Array, entry: int | ct.Tile, scope: ct.MemoryScope) -> ct.Tile:
    """An entry; what was stored before it was set is seen from then on."""
    return ct.load(array, (entry,), (1,), memory_order=ACQUIRE, memory_scope=scope).item()


def wait(array: ct.Array, entry: int | ct.Tile, count: int | ct.Tile, scope: ct.MemoryScope, stop: ct.Array) -> None:
    """Until an entry has come to ``count``, or the host has set ``stop``."""
    while signal(array, entry, scope) < count:
        if ct.load(stop, (0,), (1,), memory_order=RELAXED, memory_scope=SYS).item() != 0:
            break


@ct.kernel
def publish(
    rows: ct.Array,
    shared: ct.Array,
    gathered: ct.Array,
    signals: ct.Array,
    stop: ct.Array,
    rank: int,
    takers: int,
    TM: ct.Constant[int],
    TK: ct.Constant[int],
) -> None:
    """Puts ``rows`` where the other processes see them, once ``takers`` copiers have taken the ones before."""
    i, k = ct.bid(0), ct.bid(1)
    wait(signals, TAKEN, takers, SYS, stop)
    tile = ct.load(rows, (i, k), (TM, TK))
    ct.store(shared, (i, k), tile)
    ct.store(gathered, (rank * ct.num_blocks(0) + i, k), tile)
    ct.atomic_add(signals, PUBLISHED, 1, memory_order=RELEASE, memory_scope=SYS)


@ct.kernel
def gather_matmul(
    shared: tuple[ct.Array, ...],
    signals: tuple[ct.Array, ...],
    gathered: ct.Array,
    arrived: ct.Array,
    stop: ct.Array,
    b: ct.Array,
    out: ct.Array,
    rank: int,
    turn: int,
    copiers: int,
    TM: ct.Constant[int],
    TN: ct.Constant[int],
    TK: ct.Constant[int],
    TC: ct.Constant[int],
) -> None:
    """``out`` is all rows times ``b``, in the ``turn``-th use of this memory, from 1; ``copiers`` blocks copy.

    ``shared`` and ``signals`` have an array of each other process, that of the next one first; ``arrived`` counts the
    parts of each tile of rows.
    """
    block, processes = ct.bid(0), len(shared) + 1
    tiles, parts = ct.cdiv(gathered.shape[0], TM) // processes, ct.cdiv(gathered.shape[1], TC)
    published = turn * tiles * parts
    if block < copiers:
        for step in ct.static_iter(range(processes - 1)):
            source = (rank + step + 1) % processes
            wait(signals[step], PUBLISHED, published, SYS, stop)
            for part in range(block, tiles * parts, copiers):
                i, k = part // parts, part % parts
                ct.store(gathered, (source * tiles + i, k), ct.load(shared[step], (i, k), (TM, TC)))
                ct.atomic_add(arrived, source * tiles + i, 1, memory_order=RELEASE, memory_scope=DEVICE)
            ct.atomic_add(signals[step], TAKEN, 1, memory_order=RELEASE, memory_scope=SYS)
    else:
        columns = ct.cdiv(out.shape[1], TN)
        i, j = (block - copiers) // columns, (block - copiers) % columns
        i = (rank * tiles + i) % (processes * tiles)
        if i // tiles != rank:
            wait(arrived, i, turn * parts, DEVICE, stop)
        total = ct.zeros((TM, TN), ct.float32)
        for k in range(ct.cdiv(gathered.shape[1], TK)):
            right = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(ct.load(gathered, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO), right, total)
        ct.store(out, (i, j), total.astype(out.dtype))
