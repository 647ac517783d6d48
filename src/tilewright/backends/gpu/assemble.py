"""PTX to machine code by ``ptxas``, where one is installed; otherwise the driver does it when it loads the PTX."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tilewright.backends.cuda_tools import TIMEOUT, failure_reason, output_of, run_tool, tool, tool_version
from tilewright.ir.errors import TileCompilerExecutionError, TileCompilerTimeoutError, TileError

_ERROR = re.compile(r"^(?:ptxas )?(?:.*?, line \d+; )?(?:error|fatal)\s*: *(.*)$", re.MULTILINE)
_SHARED = re.compile(r"uses too much shared data \((0x[0-9a-f]+|\d+) bytes, (0x[0-9a-f]+|\d+) max\)")
_REGISTERS = ("Insufficient registers", "Register allocation failed", "specified register target constraints")
INSTALL = "pip install nvidia-cuda-nvcc, or a CUDA toolkit with its bin folder on PATH"


class OutOfRegisters(TileError):
    """A thread needs more registers than its kernel may have."""


@dataclass(frozen=True)
class Resources:
    """What a thread and a CTA of a kernel use: registers, and bytes of memory."""

    registers: int
    spilled_stores: int
    spilled_loads: int
    shared_bytes: int

    @property
    def spilled(self) -> int:
        """The bytes that a thread stores because it has no register for them, and those that it loads again."""
        return self.spilled_stores + self.spilled_loads

    def render(self, dynamic_shared_bytes: int) -> str:
        """As ``tilewright inspect`` shows them."""
        shared = self.shared_bytes + dynamic_shared_bytes
        return (
            f"registers per thread: {self.registers}\nbytes spilled: {self.spilled}\n"
            f"shared memory per block: {shared}\n"
        )


@dataclass(frozen=True)
class Assembled:
    """Machine code, and what it uses."""

    cubin: bytes
    resources: Resources


def missing() -> str | None:
    """Why there is no assembler here, and what to install; None when there is one."""
    return None if tool("ptxas") is not None else f"ptxas is not installed; {INSTALL}"


def options(target: str) -> list[str]:
    """Options of ptxas for the architecture ``target``."""
    return [f"-arch={target}", "-v", "-lineinfo"]


def assemble(ptx: str, target: str, kernel: str) -> Assembled:
    """The machine code of the only entry of ``ptx``, for the architecture ``target``.

    TileError, naming the ``kernel``, the resource and the remedy, where it needs more than there is (OutOfRegisters,
    where that is registers); otherwise
    TileCompilerExecutionError with the folder of a report that has the PTX and the command that fails.
    """
    path = tool("ptxas")
    if path is None:
        raise TileError(f"the kernel {kernel} cannot be assembled: {missing()}")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        source, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [str(path), *options(target), str(source), "-o", str(made)]
        try:
            ran = run_tool(command)
        except subprocess.TimeoutExpired:
            where = _report(ptx, target, kernel, path, "")
            message = f"ptxas has not assembled the kernel {kernel} in {TIMEOUT} seconds; report: {where}"
            raise TileCompilerTimeoutError(message, None, " ".join(options(target)), tool_version("ptxas")) from None
        if ran.returncode or not made.is_file():
            raise _failure(ran, ptx, target, kernel, path)
        return Assembled(made.read_bytes(), _resources(ran.stderr + ran.stdout))


def _resources(said: str) -> Resources:
    def number(pattern: str) -> int:
        found = re.search(pattern, said)
        return int(found[1]) if found is not None else 0

    return Resources(
        number(r"Used (\d+) registers"),
        number(r"(\d+) bytes spill stores"),
        number(r"(\d+) bytes spill loads"),
        number(r"(\d+) bytes smem"),
    )


def _failure(ran: subprocess.CompletedProcess[str], ptx: str, target: str, kernel: str, path: Path) -> TileError:
    said = output_of(ran)
    shared = _SHARED.search(said)
    if shared is not None:
        needed, most = (int(n, 0) for n in shared.groups())
        return TileError(
            f"the kernel {kernel} needs {needed} bytes of shared memory, and {target} has {most} for a block; "
            "use smaller tiles"
        )
    if any(text in said for text in _REGISTERS):
        return OutOfRegisters(
            f"the kernel {kernel} needs more registers than a thread of {target} has with as many threads on an SM: "
            f"{failure_reason(ran, _ERROR)}; use smaller tiles, or a smaller occupancy"
        )
    where = _report(ptx, target, kernel, path, said)
    error = TileCompilerExecutionError(
        f"ptxas {tool_version('ptxas')} refuses the kernel {kernel} for {target}: {failure_reason(ran, _ERROR)}; "
        f"report: {where}",
        None,
        " ".join(options(target)),
        tool_version("ptxas"),
    )
    error.compiler_output = said
    return error


def _report(ptx: str, target: str, kernel: str, path: Path, said: str) -> Path:
    """A folder with the PTX, what ptxas said, and a script that repeats exactly what failed."""
    folder = Path(tempfile.mkdtemp(prefix="tilewright-ptxas-{}-".format(re.sub(r"\W", "_", kernel)[:40])))
    (folder / "kernel.ptx").write_text(ptx)
    (folder / "ptxas.txt").write_text(f"ptxas {tool_version('ptxas')}\n{said}\n")
    script = folder / "repeat.sh"
    command = shlex.join([str(path), *options(target)])
    script.write_text(f'#!/bin/sh\ncd "$(dirname "$0")" && {command} kernel.ptx -o kernel.cubin\n')
    script.chmod(0o700)
    return folder
