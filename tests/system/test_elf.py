"""Sections of ELF files, of whole and of damaged ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.system.elf import NO_BITS, Section, sections

pytest.importorskip("llvmlite", reason="llvmlite is not installed")
from tilewright.backends.cpu.jit import compile_module
from tilewright.backends.cpu.target import host

TEXT = """
@number = global i64 77, align 8
@zeros = global [100 x i8] zeroinitializer
define i64 @kernel() { %x = load i64, ptr @number  ret i64 %x }
"""


@pytest.fixture(scope="module")
def data() -> bytes:
    found = compile_module(TEXT.replace("  ret", "\n ret"), host(), position_independent=True)
    if not found.startswith(b"\x7fELF"):
        pytest.skip("objects of this system are no ELF files")
    return found


def _named(data: bytes) -> dict[str, Section]:
    return {section.name: section for section in sections(data)}


def test_an_object_of_the_compiler(data: bytes) -> None:
    found = _named(data)
    assert found[".data"].content == (77).to_bytes(8, "little") and found[".data"].alignment == 8
    assert (found[".bss"].kind, found[".bss"].size, found[".bss"].content) == (NO_BITS, 100, b"")
    assert found[".text"].content and found[".symtab"].link == list(found).index(".strtab")


@pytest.mark.parametrize("other", [b"", b"\x7fELF", b"MZ" * 64, b"\x7fELF\x01\x01" + bytes(200)])
def test_other_files_are_refused(other: bytes) -> None:
    with pytest.raises(ValueError, match="no ELF file"):
        sections(other)


@given(cut=st.integers(0, 2000), at=st.integers(0, 2000), value=st.binary(min_size=1, max_size=8))
def test_damaged_files_never_do_worse_than_a_value_error(data: bytes, cut: int, at: int, value: bytes) -> None:
    damaged = data[: len(data) - cut] if cut < len(data) else data
    damaged = damaged[:at] + value + damaged[at + len(value) :]
    try:
        for section in sections(damaged):
            assert len(section.content) in (0, section.size)
    except ValueError as e:
        assert "ELF" in str(e) or "within the file" in str(e)
