"""Reads the pixels of a PNG file, for tests that look at screenshots."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np


def read_png(path: Path) -> np.ndarray:
    """Height x width x channels, 8 bits each. Only what browsers write: no palette, not interlaced."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, header = 8, b"", b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        packed += body if kind == b"IDAT" else b""
        header = body if kind == b"IHDR" else header
        at += length + 12
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    assert depth == 8 and not interlaced
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    image = np.zeros((height, width * channels), np.uint8)
    above = np.zeros(width * channels, np.int64)
    for y, (kind, row) in enumerate(zip(rows[:, 0], rows[:, 1:].astype(np.int64))):
        if kind == 0:
            line = row
        elif kind == 1:
            line = row.reshape(width, channels).cumsum(0).reshape(-1)
        elif kind == 2:
            line = row + above
        else:
            line = row.copy()
            for x in range(width * channels):
                left = line[x - channels] if x >= channels else 0
                corner = above[x - channels] if x >= channels else 0
                line[x] = (line[x] + ((left + above[x]) // 2 if kind == 3 else _paeth(left, above[x], corner))) & 255
        above = line & 255
        image[y] = above
    return image.reshape(height, width, channels)


def _paeth(a: int, b: int, c: int) -> int:
    p = a + b - c
    distances = abs(p - a), abs(p - b), abs(p - c)
    return (a, b, c)[distances.index(min(distances))]
