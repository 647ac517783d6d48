"""Python's garbage collector, held back where much is made and nothing thrown away."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_MOST_LEFT = 500_000  # objects, some 80 MB, that wait for a collection
_left = 0
_frozen = False  # whether a program has frozen objects, as last seen: counting them goes through all


@contextlib.contextmanager
def paused(*, leaves: bool = True) -> Iterator[None]:
    """Collect no garbage meanwhile: looking for some takes as long as making what is none.

    Nor right afterwards, when what was made would be looked through at once: it goes to the oldest generation, and is
    collected together with what later contexts leave there. Without ``leaves`` what is made has no cycles, so only what
    was young before waits for a collection.
    """
    collects = gc.isenabled()
    youngest, younger, _ = gc.get_count()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            _age(gc.get_count()[0] if leaves else youngest + younger * gc.get_threshold()[0])
            gc.enable()


def _age(waiting: int) -> None:
    """Take all objects for old ones, as which they are not looked at soon; not where a program has frozen some.
    ``waiting`` is how many of them may be garbage."""
    global _left, _frozen
    _frozen = _frozen or gc.get_freeze_count() > 0
    if _frozen:
        return
    _left += waiting
    if _left > _MOST_LEFT:
        _left = 0
        gc.collect()
    else:
        gc.freeze()
        gc.unfreeze()  # to the oldest generation
