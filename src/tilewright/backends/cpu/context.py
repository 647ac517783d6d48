"""The record that a launch shares with the machine code: 64-bit integers."""

from __future__ import annotations

import enum


class Field(enum.IntEnum):
    """Their places in the record."""

    NEXT = 0  # the next block to run; threads add CHUNK to take so many blocks
    TOTAL = 1
    CHUNK = 2
    GRID_X = 3
    GRID_Y = 4
    GRID_Z = 5
    FAILED = 6  # 1 + the number of the assert that failed first
    FAILED_BLOCK = 7
    PRINT = 8  # address of the function that prints
    FAILED_ELEMENT = 9  # the first false element of its condition
    FAILED_VALUE = 10  # the values of the assert there
    FAILED_VALUE_2 = 11
    FAILED_VALUE_3 = 12
