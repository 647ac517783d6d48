"""Bytecode: what is written is read as it was, and damage is told by its byte."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.tile_ir_mutations import everything, mutated, outcome
from support.tile_ir_ops import every_op, multimem

from tilewright.tileir.bytecode import read, write
from tilewright.tileir.errors import BytecodeError, VersionError
from tilewright.tileir.module import Block, Entry, FileLayout, Module, Operation, RepeatedConstant, Value
from tilewright.tileir.optable import BY_NAME, BY_OPCODE, NEWEST
from tilewright.tileir.text import print_module
from tilewright.tileir.types import SCALARS

DATA = Path(__file__).parent / "data"
VERSIONS = range(1, NEWEST + 1)
FOREIGN = sorted(DATA.glob("cutile_*.tilebc"))  # as cuTile Python 1.7.0 wrote them

# entry @k() { return }, byte by byte from the description of the format
SMALLEST = bytes.fromhex(
    "7F54696C65495200 0D010000 820908CB 01 00000200 03 5C0000"
    "850B04 01CBCBCB 00000000 100000 810904CBCB 01CBCBCB 00000000 6B 00"
)


def _empty(minor: int) -> Module:
    return Module(minor, [Entry("k", Block([], [Operation(BY_NAME["return"], {"operands": []}, {}, [], [])]))])


def test_the_smallest_file() -> None:
    assert write(_empty(1)) == SMALLEST
    assert print_module(read(SMALLEST)) == "entry @k() {\n  return\n}\n"


@pytest.mark.parametrize("minor", VERSIONS)
def test_every_op_comes_back(minor: int) -> None:
    made = every_op(minor)
    data = write(made)
    again = read(data)
    assert write(again) == data
    assert print_module(again) == print_module(made)


def test_the_files_hold_every_op() -> None:
    ops = {op.name for m in (every_op(NEWEST), multimem()) for e in m.entries for op in e.body.walk()}
    assert ops == {spec.name for spec in BY_OPCODE.values()}


def test_constants_of_equal_bytes_stay_apart() -> None:
    """nvcc has an entry for each type, cuTile Python one for all."""
    module = every_op(NEWEST)
    seen: dict[bytes, int] = {}
    for op in module.entries[0].body.walk():
        if op.name == "constant":
            data = op.attributes["value"]
            op.attributes["value"] = RepeatedConstant(data) if data in seen else data
            seen[data] = seen.get(data, 0) + 1
    constants = [op.attributes["value"] for op in module.entries[0].body.walk() if op.name == "constant"]
    assert max(seen.values()) > 1
    module.layout = FileLayout(constants=tuple(constants))
    data = write(module)
    again = read(data)
    assert again.layout is not None and list(again.layout.constants)[: len(constants)] == constants
    assert write(again) == data and print_module(again) == print_module(module)
    again.layout = None
    assert len(write(again)) < len(data)


@pytest.mark.parametrize("file", FOREIGN, ids=lambda f: f.stem)
def test_foreign_files_come_back(file: Path) -> None:
    data = file.read_bytes()
    module = read(data)
    assert write(module) == data
    located = [op.loc for entry in module.entries for op in entry.body.walk()]
    assert sum(loc is not None for loc in located) > len(located) // 2
    module.layout = None
    assert print_module(read(write(module))) == print_module(module)


@pytest.mark.parametrize("minor", VERSIONS[1:])
def test_an_older_version_keeps_what_it_can_say_and_names_the_rest(minor: int) -> None:
    old = every_op(1)
    assert print_module(read(write(old, minor))) == print_module(old)
    with pytest.raises(VersionError, match=rf"needs? bytecode 13\.\d; (it|they) cannot be written as 13\.{minor - 1}"):
        write(every_op(minor), minor - 1)


def test_unknown_versions() -> None:
    with pytest.raises(VersionError, match=r"no bytecode version 13\.6"):
        write(_empty(1), 6)
    with pytest.raises(BytecodeError, match=r"a.tilebc: at byte 8: expected version 13.1 to 13.5, not 13.6"):
        read(SMALLEST[:9] + b"\x06" + SMALLEST[10:], "a.tilebc")


@pytest.mark.parametrize("minor", (1, 4, 5))
def test_a_file_that_ends_early(minor: int) -> None:
    data = write(every_op(minor))
    for end in (*range(64), *random.Random(minor).sample(range(64, len(data)), 100)):
        with pytest.raises(BytecodeError) as caught:
            read(data[:end])
        assert 0 <= caught.value.offset <= end


def test_a_constant_of_the_wrong_length() -> None:
    made = every_op(1)
    constant = next(op for op in made.entries[0].body.ops if op.name == "constant" and len(op.attributes["value"]) > 8)
    constant.attributes["value"] += b"\0"
    with pytest.raises(
        BytecodeError, match=r"at byte \d+: expected \d or \d+ bytes for a constant of type tile<.*>, not \d+"
    ):
        read(write(made))


@pytest.mark.parametrize("name", ("for", "loop", "if", "reduce", "scan"))
def test_bodies_with_other_arguments(name: str) -> None:
    made = every_op(1)
    op = next(op for op in made.entries[0].body.walk() if op.name == name)
    body = op.regions[0]
    assert body is not None
    body.args.append(Value(SCALARS["i32"]))
    with pytest.raises(BytecodeError, match=rf"at byte \d+: expected \d arguments of the body of {name}, not \d"):
        read(write(made))


def test_mutations() -> None:
    files = everything()
    found = [outcome(mutated(number, files)) for number in range(500)]
    assert found.count("refused") > 230
    assert found.count("read") > 10


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"\x5c\x00\x00", b"\x5c\x01\x00", r"at byte 23: expected 0 results of return"),
        (b"\x5c\x00\x00", b"\x5c\x00\x01", r"at byte 2\d: expected an earlier value as an operand of return"),
        (b"\x5c\x00\x00", b"\x7f\x00\x00", r"at byte 22: expected the opcode of an op, not 127"),
        (
            b"\x5c\x00\x00",
            b"\x76\x00\x00",
            r"at byte 22: expected an op of version 13.1, not insert, which 13.4 brought",
        ),
        (b"\x10\x00\x00\x81", b"\x1f\x00\x00\x81", r"expected a type of|expected the tag of a type"),
    ],
)
def test_damage_is_told_by_its_byte(old: bytes, new: bytes, message: str) -> None:
    assert SMALLEST.count(old) == 1
    with pytest.raises(BytecodeError, match=message):
        read(SMALLEST.replace(old, new))
