"""The tools of CUDA Tile IR: ``tileiras`` and ``tileirdisasm``, of NVIDIA's wheels or of a CUDA toolkit."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
from pathlib import Path

from tilewright.backends.cuda_tools import attributes, failure_reason, run_tool, tool, tool_version
from tilewright.ir.errors import TileError
from tilewright.system.elf import sections

_ERROR = re.compile(r"^(?:.*?: )?(?:error|fatal error|ptxas (?:error|fatal)\s*): *(.*)$", re.MULTILINE)
PATIENCE, _LAST_PATIENCE = 100, 300  # seconds, beyond which another form of a kernel is tried, or none
_GENERAL = "failed to compile Tile IR program"  # which the assembler says of anything
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")  # where the assembler looks for its tools before it looks beside it
INSTALL = "pip install 'tilewright[tileir]', or a CUDA toolkit from 13.3 on with its bin folder on PATH"


def missing() -> str | None:
    """Why kernels cannot be assembled, and what to install; None when they can."""
    if tool("tileiras") is None:
        return f"it needs the assembler tileiras, which is not installed; {INSTALL}"
    return None


def version() -> str:
    """The release of the assembler, such as ``13.5.37``."""
    return tool_version("tileiras")


@functools.cache
def targets() -> tuple[str, ...]:
    """The architectures that the assembler compiles for; empty where there is none."""
    path = tool("tileiras")
    if path is None:
        return ()
    said = run_tool([str(path), "--help"]).stdout
    return tuple(re.findall(r"=(sm_\d+)\b", said))


class Unfinished(TileError):
    """The assembler was stopped."""


def assemble(data: bytes, target: str, kernel: str, *, optimized: bool = True, last: bool = False) -> bytes:
    """The machine code of bytecode for the architecture ``target``. TileError, naming the ``kernel``, when the
    assembler refuses it, and Unfinished when it does not end."""
    path = tool("tileiras")
    if path is None:
        raise TileError(f"the kernel {kernel} cannot be assembled: tileiras is not installed; {INSTALL}")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        source, made = Path(folder, "kernel.tilebc"), Path(folder, "kernel.cubin")
        source.write_bytes(data)
        level, patience = "--opt-level=3" if optimized else "--opt-level=0", _LAST_PATIENCE if last else PATIENCE
        command = [str(path), f"--gpu-name={target}", level, "--lineinfo", str(source), "-o", str(made)]
        try:
            ran = run_tool(command, _environment(path), patience)
        except subprocess.TimeoutExpired:
            said = f"tileiras has not assembled the kernel {kernel} in {patience} seconds; give it smaller tiles"
            raise Unfinished(f"{said}, or compile it by another backend, such as gpu") from None
        if ran.returncode or not made.is_file():
            reason = failure_reason(ran, _ERROR)
            reason += lacking(path) if reason == _GENERAL else ""
            raise TileError(f"tileiras {version()} refuses the kernel {kernel} for {target}: {reason}")
        return made.read_bytes()


_THREADS, _REGISTERS = 0x10, 0x1B  # attributes of machine code
_UNLIMITED = 255


def threads_of_few_registers(code: bytes) -> int:
    """The threads of a block of machine code that limits their registers, as for an ``occupancy``; 0 for other code."""
    info = b"".join(s.content for s in sections(code) if s.name.startswith(".nv.info."))
    found = {
        attribute: int.from_bytes(payload[:4], "little") or value for attribute, value, payload in attributes(info)
    }
    return found[_THREADS] if found.get(_REGISTERS, _UNLIMITED) != _UNLIMITED else 0


def _environment(assembler: Path) -> dict[str, str]:
    """The environment of the assembler: without toolkits of other releases, where all that it calls is beside it."""
    toolkits = () if lacking(assembler) else _TOOLKITS
    return {name: value for name, value in os.environ.items() if name not in toolkits}


def lacking(assembler: Path) -> str:
    """What the assembler calls and does not find in its place, of which it says nothing itself; empty for nothing."""
    folder = assembler.resolve().parent
    found = [] if os.access(folder / "ptxas", os.X_OK) else [f"{folder / 'ptxas'}, as a program"]
    if not any(folder.parent.glob("lib*/libnvvm.so*")) and not any(folder.parent.glob("nvvm/lib*/libnvvm.so*")):
        found.append(f"libnvvm in {folder.parent / 'lib'}")
    return f"; it lacks {' and '.join(found)}: {INSTALL}" if found else ""
