"""Work that is waited for no longer than so many seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

_T = TypeVar("_T")


class Overtime(Exception):
    """The work is not done; ``thread`` goes on with it, for native code cannot be interrupted."""

    def __init__(self, thread: threading.Thread) -> None:
        super().__init__(thread.name)
        self.thread = thread


def within(seconds: float, work: Callable[[], _T], name: str) -> _T:
    """``work()``, done by another thread, which is called ``name``. Overtime when it takes longer than ``seconds``."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.extend((True, work()))
        except BaseException as e:  # noqa: BLE001 - it is raised again in the thread that waits
            outcome.extend((False, e))

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise Overtime(thread)
    succeeded, result = outcome
    if not succeeded:
        raise result
    return cast(_T, result)
