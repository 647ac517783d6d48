"""``export_kernel``."""

from __future__ import annotations

import functools
import io
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from tilewright.backends.base import Exporter
from tilewright.backends.export import Export
from tilewright.backends.registry import exporters
from tilewright.compilation.architecture import check_architecture
from tilewright.compilation.lowering import lower
from tilewright.compilation.signature import KernelSignature
from tilewright.language.suggestions import explains_arguments
from tilewright.runtime.launchable import Launchable
from tilewright.tileir.export import Argument, Kernel, export
from tilewright.tileir.optable import NEWEST

_BYTECODE = "tileir_bytecode"  # which needs no backend
_BYTECODE_VERSIONS = tuple(f"13.{minor}" for minor in range(1, NEWEST + 1))


@explains_arguments
def export_kernel(
    kernel: Any,
    signatures: Sequence[KernelSignature],
    output_file: IO[bytes] | str | bytes | os.PathLike[str],
    *,
    gpu_code: str | None = None,
    output_format: str,
    bytecode_version: str | None = None,
) -> None:
    """Compile ``kernel`` for each of ``signatures`` into ``output_file``.

    ``output_format`` is ``"cubin"`` or ``"tileir_bytecode"``, or ``"shared_library"``:
    a library for this kind of processor, with a C header beside it. A function of it is called with the three grid
    extents and then, for every parameter, what the calling convention says: the pointer, all extents and all strides
    (in elements) of an array; the table and the length of a list; the entries of a tuple; nothing for a constant. It
    runs all blocks on all processors and returns 0, or a number that the header explains.

    A cubin is for the architecture that ``gpu_code`` names (``"sm_90"``) and needs no GPU to be made. Its kernels take
    the same parameters; a JSON file beside it says with how many threads and how much dynamic shared memory to launch
    each. What they print, and which assert failed, goes to a variable of the cubin that the JSON file describes; the
    host zeroes its header between launches. Bytecode is CUDA Tile IR of the version ``bytecode_version``, by default
    13.3 or the first later one that can express the kernels; any of NVIDIA's tools and drivers from that release on
    compiles it, for an architecture that has the dtypes: that of ``gpu_code`` is checked. A file object, such as an
    ``io.BytesIO``, gets the binary alone, without the header or JSON file.

    TypeError and ValueError for wrong arguments, and for constraints that contradict the kernel's annotations;
    TileUnsupportedFeatureError for a library without a C compiler, for what a version of bytecode cannot express, and
    for dtypes that ``gpu_code`` lacks; OSError when the file cannot be written.
    """
    if not isinstance(kernel, Launchable):
        raise TypeError(f"the first argument of export_kernel must be a kernel, not {kernel!r}")
    _check_signatures(signatures)
    writable: Any = output_file
    if not isinstance(writable, (str, bytes, os.PathLike)) and (
        not hasattr(writable, "write") or isinstance(writable, io.TextIOBase)
    ):
        raise TypeError(f"output_file is {output_file!r}; give a path or a binary file that can be written")
    writers: dict[str, Exporter] = {**exporters(), _BYTECODE: functools.partial(_write_bytecode, bytecode_version)}
    if not isinstance(output_format, str) or output_format not in writers:
        raise ValueError(f"unknown output_format {output_format!r}; the formats are {', '.join(writers)}")
    if bytecode_version is not None and bytecode_version not in _BYTECODE_VERSIONS:
        raise ValueError(
            f"unknown bytecode_version {bytecode_version!r}; they are {', '.join(map(repr, _BYTECODE_VERSIONS))}"
        )
    if gpu_code is not None and not isinstance(gpu_code, str):
        raise TypeError(f"gpu_code is {gpu_code!r}; it must be a string, such as 'sm_90'")
    if output_format == "cubin" and gpu_code is None:
        raise ValueError("a cubin is for one architecture: give gpu_code, such as 'sm_90'")
    write_to = writers[output_format]
    exports = _exports(kernel, signatures)
    if isinstance(output_file, (str, bytes, os.PathLike)):
        write_to(exports, Path(os.fsdecode(output_file)), output_format, gpu_code)
        return
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = Path(folder, "kernels")
        write_to(exports, path, output_format, gpu_code)
        output_file.write(path.read_bytes())


def _exports(kernel: Launchable, signatures: Sequence[KernelSignature]) -> list[Export]:
    """``kernel`` traced for each signature. ValueError when two have one symbol."""
    exports = [lower(kernel, signature) for signature in signatures]
    symbols = [e.symbol for e in exports]
    for symbol in symbols:
        if symbols.count(symbol) > 1:
            raise ValueError(f"two of the signatures have the symbol {symbol!r}; give them different ones")
    return exports


def _write_bytecode(
    version: str | None, exports: Sequence[Export], path: Path, output_format: str, gpu_code: str | None
) -> None:
    if gpu_code is not None:
        check_architecture(exports, gpu_code)
    path.write_bytes(bytecode(exports, version))


def bytecode(exports: Sequence[Export], version: str | None = None) -> bytes:
    """CUDA Tile IR bytecode of ``exports``, by default of the first version from 13.3 on that can express them."""
    kernels = [
        Kernel(e.function, e.symbol, [Argument(p.type, p.position, p.lower) for p in e.parameters]) for e in exports
    ]
    return export(kernels, None if version is None else int(version.partition(".")[2]))


def _check_signatures(signatures: Any) -> None:
    if not isinstance(signatures, Sequence) or not all(isinstance(s, KernelSignature) for s in signatures):
        raise TypeError(f"signatures is {signatures!r}; it must be a sequence of KernelSignature")
    if not signatures:
        raise ValueError("signatures is empty; give the signature of every variant to compile")
