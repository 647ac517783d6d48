"""Commands of tilewright for tests, each in a process of its own, which is forked from one that has imported what they
import: starting Python and importing takes longer than most of what these tests run.

What a process inherits is the modules alone: no command has run in the one that it is forked from. Tests of how
commands start, of what they import and of how they are installed start Python themselves.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# What the commands import for programs in C++, and for those to be debugged; some of it by name at run time.
_MODULES = (
    *("tilewright.cli.run", "tilewright.cli.check", "tilewright.cli.cxx", "tilewright.cli.debug"),
    *("tilewright.cpp.host.program", "tilewright.cpp.host.units", "tilewright.cpp.host.simt"),
    *("tilewright.frontend.cpp.module", "tilewright.frontend.cpp.optimize", "tilewright.backends.cpu.backend"),
    *("tilewright.backends.reference.backend", "tilewright.sanitizer.backend", "llvmlite.binding"),
)
_MOST = 1 << 20  # bytes of a request


def tilewright(
    *words: object,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    input: bytes | str | None = None,
    text: bool = True,
    timeout: float = 300,
) -> subprocess.CompletedProcess[Any]:
    """``python -m tilewright WORDS``, as ``subprocess.run`` gives it with its output captured."""
    command = list(map(str, words))
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(input.encode() if isinstance(input, str) else input or b"")
        given.seek(0)
        request = {
            "words": command,
            "cwd": os.fspath(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
        }
        status = _Server.running().run(request, [given.fileno(), out.fileno(), err.fileno()], timeout)
        for file in (out, err):
            file.seek(0)
        found: list[Any] = [out.read(), err.read()]
    if text:
        found = [content.decode().replace("\r\n", "\n") for content in found]
    return subprocess.CompletedProcess([sys.executable, "-m", "tilewright", *command], status, *found)


class _Server:
    """The process that forks, as its parent sees it."""

    def __init__(self) -> None:
        self._here, there = socket.socketpair()
        with there:
            command = [sys.executable, "-m", "support.commands", str(there.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL)
        self._owner = os.getpid()
        atexit.register(self._leave)

    @classmethod
    def running(cls) -> _Server:
        """The one of this process."""
        found = _SERVERS.get(os.getpid())
        if found is None or found._process.poll() is not None:
            found = _SERVERS[os.getpid()] = cls()
        return found

    def run(self, request: dict[str, Any], files: list[int], timeout: float) -> int:
        """The exit status of a command, which has ``files`` as its standard streams."""
        self._here.settimeout(timeout)
        try:
            socket.send_fds(self._here, [json.dumps(request).encode()], files)
            return int(json.loads(self._here.recv(_MOST)))
        except (TimeoutError, ValueError) as e:
            self.end()
            raise subprocess.TimeoutExpired(request["words"], timeout) from e

    def _leave(self) -> None:
        if os.getpid() == self._owner:  # and no process that a test has forked
            self.end()

    def end(self) -> None:
        """Nothing more is to be run."""
        self._here.close()
        self._process.kill()
        self._process.wait()


_SERVERS: dict[int, _Server] = {}  # by the process that started each: children of a test may run commands, too


def _serve(connection: socket.socket) -> list[str] | None:
    """Fork a process for each request. In that, the words of the command; None where nothing more is asked for."""
    for name in _MODULES:
        importlib.import_module(name)
    gc.freeze()
    while True:
        data, files, _, _ = socket.recv_fds(connection, _MOST, 3)
        if not data:
            return None
        child = os.fork()
        if child == 0:
            return _become(json.loads(data), files, connection)
        for file in files:
            os.close(file)
        _, ended = os.waitpid(child, 0)
        connection.send(json.dumps(os.waitstatus_to_exitcode(ended)).encode())


def _become(request: dict[str, Any], files: list[int], connection: socket.socket) -> list[str]:
    connection.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = request["cwd"]
    sys.argv = ["tilewright", *request["words"]]
    words: list[str] = request["words"]
    return words


if __name__ == "__main__":
    wanted = _serve(socket.socket(fileno=int(sys.argv[1])))
    if wanted is not None:
        sys.exit(importlib.import_module("tilewright.cli").main(wanted))
