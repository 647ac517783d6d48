"""How the arguments of an exported kernel are passed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CallingConvention:
    """A rule for passing arguments. Version 2 adds tuples and static array shapes to version 1.

    Both flatten: an array is its pointer, its extents and its strides; a list is the pointer to its table and an
    int32 length; a tuple is its entries; constants are left out.
    """

    name: str
    code: str
    version: int

    @staticmethod
    def cutile_python_v1() -> CallingConvention:
        return _BY_CODE["t1"]

    @staticmethod
    def cutile_python_v2() -> CallingConvention:
        return _BY_CODE["t2"]

    @staticmethod
    def from_code(code: str) -> CallingConvention:
        """The convention that mangled names abbreviate to ``code``. ValueError for an unknown one."""
        if code not in list(_BY_CODE):
            raise ValueError(f"unknown calling convention {code!r}; the codes are {', '.join(_BY_CODE)}")
        return _BY_CODE[code]


_BY_CODE = {f"t{n}": CallingConvention(f"cutile_python_v{n}", f"t{n}", n) for n in (1, 2)}
