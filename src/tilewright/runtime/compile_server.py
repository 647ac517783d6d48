"""What the processes do that compile for another one: see ``tilewright.tune.workers``."""

from __future__ import annotations

import importlib.util
import os
import pickle
import select
from collections.abc import Sequence
from typing import IO

from tilewright.runtime.backend_choice import compiling_for
from tilewright.system.forks import load

_LOOK = 0.1  # seconds until the first process notices that another one has ended


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until there are no more requests."""
    while requests.peek(1):  # type: ignore[attr-defined]
        try:
            function, args, kwargs = pickle.load(requests)
            answer = True, function(*args, **kwargs)
        except Exception as e:  # noqa: BLE001 - it is raised where the result is asked for
            answer = False, e
        pickle.dump(answer, answers)
        answers.flush()


def main(requests: Sequence[int], answers: Sequence[int], loaded: tuple[str, str] | None) -> None:
    """What the first process does: it forks one for each pipe on which there is a request, and says which have died."""
    os.dup2(2, 1)  # what a compiler prints is no answer
    if loaded is not None:
        load("tilewright.runtime.ahead")
        compiler = f"{type(compiling_for(*loaded)).__module__.rpartition('.')[0]}.compiler"
        if importlib.util.find_spec(compiler) is not None:
            load(compiler)
    waiting, children = dict(zip(requests, answers)), dict[int, int]()  # pipes; process -> where it answers
    while waiting or children:
        for request in select.select(list(waiting), [], [], _LOOK if children else None)[0]:
            answer = waiting.pop(request)
            process = os.fork()
            if not process:
                for pipe in (*waiting, *waiting.values(), *children.values()):
                    os.close(pipe)
                serve(os.fdopen(request, "rb"), os.fdopen(answer, "wb"))
                os._exit(0)
            os.close(request)
            children[process] = answer
        while children and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            answer = children.pop(ended[0])
            if ended[1]:
                status = os.waitstatus_to_exitcode(ended[1])
                os.write(answer, pickle.dumps((None, f"a process that compiled has ended, with status {status}")))
            os.close(answer)
