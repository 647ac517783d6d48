"""Writes the CUDA Tile IR of ``cutile_kernels`` by cuTile Python, where ``cuda.tile`` is installed:

python -m support.cutile_export tests/tileir/data/cutile [13.3 13.4]
"""

from __future__ import annotations

import sys
from pathlib import Path

from support.cutile import CuTile
from support.cutile_kernels import cases

_VERSIONS = ("13.3", "13.4")
_ROOT = Path(__file__).parents[2]


def _without_paths(data: bytes, packages: Path) -> bytes:
    """The file without the folders of this machine: the paths in it keep their lengths."""
    for folder, name in ((_ROOT, b"/repository"), (packages, b"/packages")):
        path = str(folder).encode()
        data = data.replace(path, name.rjust(len(path), b"/")[: len(path)])
    return data


def main() -> None:
    folder, versions = Path(sys.argv[1]), sys.argv[2:] or _VERSIONS
    front_end = CuTile()
    packages = Path(front_end.tile.__file__).parents[2]
    folder.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(cases()):
        version = versions[number % len(versions)]
        data = front_end.bytecode(case.kernel, case.arguments(), version, symbol=case.name)
        (folder / f"{case.name}_{version}.tilebc").write_bytes(_without_paths(data, packages))


if __name__ == "__main__":
    main()
