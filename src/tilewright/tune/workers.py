"""Processes that compile for a search without an executor of its own: forks of one that loads the compiler once.

They import this package only: neither the program's ``__main__`` nor the frameworks that it uses are loaded again.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

AVAILABLE = hasattr(os, "fork") and bool(sys.executable)
_MAIN = "tilewright.runtime.compile_server"


class Workers(Executor):
    """At most ``count`` processes, each started when there is work for it. ``close`` ends them, whatever they do.

    ``loaded`` is a target and the backend whose compiler they begin with.
    """

    def __init__(self, count: int, loaded: tuple[str, str] | None = None) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="tilewright workers")
        requests, answers = ([os.pipe() for _ in range(count)] for _ in range(2))
        theirs = [read for read, _ in requests], [write for _, write in answers]
        self._idle = [(os.fdopen(w, "wb"), os.fdopen(r, "rb")) for (_, w), (r, _) in zip(requests, answers)]
        self._pipes = list(self._idle)
        path = os.pathsep.join(filter(None, sys.path))
        self._first = subprocess.Popen(
            [sys.executable, "-c", f"from {_MAIN} import main; main({theirs[0]}, {theirs[1]}, {loaded})"],
            stdin=subprocess.DEVNULL,
            pass_fds=theirs[0] + theirs[1],
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # so that all end at once, and do not get the interrupts of a terminal
        )
        for fd in theirs[0] + theirs[1]:
            os.close(fd)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of ``function(*args, **kwargs)``, where ``function`` is at the top of one of our modules."""
        return self._threads.submit(self._run, pickle.dumps((function, args, kwargs)))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._first.poll() is None:
            os.killpg(self._first.pid, signal.SIGKILL)
        self._first.wait()
        self._threads.shutdown()
        for pipes in self._pipes:
            for pipe in pipes:
                pipe.close()

    def _run(self, request: bytes) -> Any:
        requests, answers = self._idle.pop()
        try:
            requests.write(request)
            requests.flush()
            works, found = pickle.load(answers)
        except (OSError, EOFError, pickle.UnpicklingError) as e:
            raise RuntimeError("the processes that compile have ended") from e
        if works is None:
            raise RuntimeError(found)
        self._idle.append((requests, answers))
        if not works:
            raise found
        return found
