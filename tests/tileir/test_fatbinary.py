"""Bytecode in fat binaries and in objects, as nvcc packs it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tilewright import tileir
from tilewright.tileir import lz4, zstd
from tilewright.tileir.errors import BytecodeError, TileIRError
from tilewright.tileir.fatbinary import bytecode_images

FOLDER = Path(__file__).parent / "data" / "cutile"
IMAGES = [file.read_bytes() for file in sorted(FOLDER.glob("*.tilebc"))[:3]]
PTX, TILE_IR = 1, 128


def entry(kind: int, payload: bytes, *, plain: int = 0, flag: int = 0x8000) -> bytes:
    """An entry of a fat binary; ``plain`` is the size of what is compressed, as ``flag`` says."""
    padded = payload + bytes(-len(payload) % 8)
    head = struct.pack("<HHIQ", kind, 0x101, 80, len(padded))
    head += struct.pack("<I4xHHI8x", len(payload) if plain else 0, 0, 0, 90)
    head += struct.pack("<Q8xQ", flag if plain else 0, plain)
    return head.ljust(80, b"\0") + padded


def fat_binary(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def elf(section: bytes) -> bytes:
    """An object with the section ``.nv_fatbin``."""
    names = b"\0.nv_fatbin\0.shstrtab\0"
    start = 64
    table = start + len(section) + len(names)
    table += -table % 8
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 2
    )
    sections = [(0, 0, 0, 0), (1, 1, start, len(section)), (12, 3, start + len(section), len(names))]
    rows = b"".join(struct.pack("<IIQQQQIIQQ", n, t, 0, 0, o, s, 0, 0, 1, 0) for n, t, o, s in sections)
    body = header + section + names
    return body + bytes(table - len(body)) + rows


def test_plain_entries_beside_others() -> None:
    data = fat_binary(entry(PTX, b".version 9.0"), *(entry(TILE_IR, image) for image in IMAGES))
    assert bytecode_images(data) == IMAGES
    assert len(tileir.load(data).kernels) == len(IMAGES)


def test_objects_with_several_fat_binaries() -> None:
    data = elf(fat_binary(entry(TILE_IR, IMAGES[0])) + fat_binary(entry(TILE_IR, IMAGES[1]), entry(TILE_IR, IMAGES[2])))
    assert bytecode_images(data) == IMAGES
    assert bytecode_images(elf(b"")) == []
    with pytest.raises(TileIRError, match="holds no CUDA Tile IR: nvcc writes it with --enable-tile"):
        tileir.load(elf(fat_binary(entry(PTX, b".version 9.0"))))


def zstd_frame(data: bytes) -> bytes:
    """A frame of one block that is stored as it is."""
    return b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data)) + (len(data) << 3 | 1).to_bytes(3, "little") + data


@pytest.mark.parametrize("installed", (True, False))
def test_compressed_entries(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not installed:  # the library of the system
        monkeypatch.setattr(zstd, "_found", None)
    packed = zstd_frame(IMAGES[0])
    try:
        zstd.decompress(packed, len(IMAGES[0]))
    except zstd.ZstdError as e:
        pytest.skip(str(e))
    assert bytecode_images(fat_binary(entry(TILE_IR, packed, plain=len(IMAGES[0])))) == IMAGES[:1]
    for size, message in ((len(IMAGES[0]) + 1, "it holds"), (1 << 40, "an image of at most")):
        with pytest.raises(BytecodeError, match=message):
            bytecode_images(fat_binary(entry(TILE_IR, packed, plain=size)))
    with pytest.raises(BytecodeError, match="a zstd frame"):
        bytecode_images(fat_binary(entry(TILE_IR, b"no frame", plain=100)))


def test_entries_in_lz4() -> None:
    """As nvcc --compress-mode=speed writes them: bytes, and copies of earlier ones, which may overlap what they make."""

    def length(n: int) -> tuple[int, bytes]:
        return min(n, 15), b"" if n < 15 else b"\xff" * ((n - 15) // 255) + bytes([(n - 15) % 255])

    def sequence(literals: bytes, back: int = 0, count: int = 4) -> bytes:
        (own, more), (copied, rest) = length(len(literals)), length(count - 4)
        return bytes([own << 4 | copied]) + more + literals + (back.to_bytes(2, "little") + rest if back else b"")

    image = IMAGES[0]
    packed = sequence(image)
    assert bytecode_images(fat_binary(entry(TILE_IR, packed, plain=len(image), flag=0x2000))) == [image]
    packed = sequence(b"ab", 2, 300) + sequence(b"c", 301, 5) + sequence(b"end")
    assert lz4.decompress(packed, 311) == b"ab" * 151 + b"c" + b"ababa" + b"end"
    for damaged in (packed[:-1], packed[:3], sequence(b"ab", 3) + sequence(b""), packed + b"\0"):
        with pytest.raises(BytecodeError, match="a block of LZ4"):
            bytecode_images(fat_binary(entry(TILE_IR, damaged, plain=311, flag=0x2000)))


def test_damage_is_told_by_its_byte() -> None:
    data = elf(fat_binary(entry(TILE_IR, IMAGES[0])))
    for end in range(4, len(data), 97):
        try:
            found = bytecode_images(data[:end], "k.o")
        except BytecodeError as error:
            assert 0 <= error.offset <= len(data) and "k.o: at byte" in str(error)
        else:
            assert found in ([], IMAGES[:1])
    for data in (b"\xff\xfe\xfd", b"", b"\n"):
        with pytest.raises(
            BytecodeError, match=r"at byte 0: expected the magic of Tile IR bytecode, a fat binary, or text"
        ):
            tileir.load(data)
