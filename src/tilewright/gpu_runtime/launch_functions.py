"""The machine code of launches: functions that depend on no kernel, so that they are compiled once, and the words in
memory by which they know kernels, variants, tensor maps and lists."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tilewright.backends import native
from tilewright.backends.native.body import Body
from tilewright.backends.native.code import machine_code
from tilewright.ir.gpu_parameters import MAP_ALIGNMENT, MAP_BYTES

CONFIG_BYTES, _STREAM, _COUNT = 56, 32, 48  # of CUlaunchConfig: where the stream is, and the number of attributes
MANY_BLOCKS = 2048  # of a grid whose CTAs run several each
MOST_AXES = 5  # of a tensor map
# Along an axis: bytes from one to the next, and how many. CUDA Driver API, cuTensorMapEncodeTiled, globalStrides and
# globalDim.
STEPS, MOST_ELEMENTS = 1 << 40, 1 << 32

# What ``start`` gives below 0: nothing has happened. Below these stand the numbers of choices that were not there.
PYTHON, UNMAPPED, EMPTY, MISSING = -1, -2, -3, -4
ENCODING = 1 << 32  # is added to errors of encoding a tensor map
OWN = -1  # in place of the number of a choice: the kernel itself
NUMBER, TABLE, MEMORY = range(3)  # where a parameter is: among the values, where one of them points to, in ``start``
_TAKEN = "ptr %values, i64 %x, i64 %y, i64 %z, i64 %stream"


class Fields(tuple[str, ...]):
    """The names of words of 64 bits that lie one after the other. Offsets are in bytes."""

    def __new__(cls, names: str) -> Fields:
        return super().__new__(cls, names.split())

    def packed(self, **values: int) -> Any:
        assert set(values) == set(self)
        return _words([values[name] for name in self])


def _words(numbers: Sequence[int]) -> Any:
    return (ctypes.c_uint64 * len(numbers))(*numbers)


def table(rows: Iterable[Iterable[int]]) -> Any:
    """Rows of words behind their number."""
    given = list(rows)
    return _words([len(given), *itertools.chain(*given)])


# A kernel on a device: where tables of bounds, maps and parameters are, and the number of attributes where the width of
# a grid is odd. Behind it is a CUlaunchConfig. A parameter is at 4 times an offset, and one of the places above.
KERNEL = Fields("handle encode nothing bounds choices maps parameters extent x y z ctas blocks odd")
BOUND = Fields("offset least")  # of a value
EXTENT = Fields("offset factor addend up divisor")  # of the grid along its first axis, of a value: ``grid_extent``
CHOICES = Fields("rows processors joined")  # of a kernel that joins so many blocks
# By the fields of ``Choice``, and the kernel where it is there. The limit is a number of blocks, a value or a per cent
# of SMs, the parameters a table of offsets.
CHOICE = Fields("number kernel joined x y z limit parameters")
# What cuTensorMapEncodeTiled is given, the base as an offset. Behind it are axes.
MAP = Fields("element rank base box ones interleave swizzle promotion outside")
# Values at offsets, times a factor, and so many more.
AXIS = Fields("extent factor more stride stride_factor more_stride")
# A table by value, of which a copy is made at the end of so much room, and the offsets of the addresses in its rows and
# of those, or of maps with them, in the copy.
LIST = Fields("offset room begin size source words maps")
PATCH = Fields("row target")
# A kernel as machine code launches it, which takes ``singles``, numbers at some offsets, as float32.
ENTRY = Fields("launch kernel singles lists replace copy save restore")


class Record:
    """Words at an address, which a function reads."""

    def __init__(self, body: Body, address: str, fields: Sequence[str]) -> None:
        self.body, self.address, self.fields = body, address, fields

    def load(self, name: str, kind: str = "i64") -> str:
        return self.body.load(kind, self.address, 8 * self.fields.index(name))

    def loads(self, *names: str) -> list[str]:
        return [self.load(name) for name in names]

    def end(self) -> str:
        return self.body.at(self.address, 8 * len(self.fields))

    @contextlib.contextmanager
    def each(self, name: str, row: Sequence[str], behind: int = 0) -> Iterator[tuple[str, Record]]:
        """A loop over the rows of a table, with so many words ``behind`` each: the number of a row, and that."""
        rows = self.load(name, "ptr")
        with self.body.each(self.body.load("i64", rows)) as i:
            place = self.body.element(self.body.at(rows, 8), i, 8 * (len(row) + behind))
            yield i, Record(self.body, place, row)


@functools.cache
def functions() -> Any:
    """The functions ``enter``, ``queue``, ``start`` and ``choose``.

    ``i32 enter(ptr entry, ptr values, i64 x, i64 y, i64 z, i64 stream)`` is that of a ``LaunchStub`` whose record is an
    ``ENTRY``, and ``queue`` the same without Python; ``i64 start(ptr kernel, ptr launch, ptr values, i64 x, i64 y, i64
    z, i64 stream)`` is what ``LaunchCode`` tells of, and ``i64 choose(ptr choices, ptr values, i64 x, i64 y, i64 z)``
    gives the number of the first that suits a launch, or ``OWN``. Without ``values`` none by them does.
    """
    names = "enter", "queue", "start", "choose"
    text = _enter() + _queue() + _start() + _choose()
    try:
        return machine_code(names, text, {})
    except native.NotCompiled:
        native.compiler()  # loads LLVM
        return machine_code(names, text, {})


def _enter() -> str:
    body = Body()
    entry = Record(body, "%entry", ENTRY)
    state = body.op(f"call ptr {entry.load('save', 'ptr')}()")
    code = body.op(f"call i32 @queue(ptr %entry, {_TAKEN})")
    body.do(f"call void {entry.load('restore', 'ptr')}(ptr {state})")
    return body.named(f"i32 @enter(ptr %entry, {_TAKEN})", f"ret i32 {code}")


def _queue() -> str:
    body = Body()
    entry = Record(body, "%entry", ENTRY)
    with entry.each("singles", ("offset",)) as (_, single):  # numbers beyond the range of float32 become infinite
        place = body.element("%values", single.load("offset"))
        body.store("float", body.op("fptrunc double", f"{body.load('double', place)} to float"), place)
    with entry.each("lists", LIST) as (_, described):
        _fill(body, entry, described)
    kernel, launch = entry.load("kernel", "ptr"), entry.load("launch", "ptr")
    code = body.op(f"call i64 @start(ptr {kernel}, ptr {launch}, {_TAKEN})")
    result = body.op("zext i1", f"{body.op('icmp ne i64', code, 0)} to i32")
    return body.named(f"i32 @queue(ptr %entry, {_TAKEN})", f"ret i32 {result}\nno:\nret i32 1")


def _fill(body: Body, entry: Record, described: Record) -> None:
    """Put a copy of a table in the place of the address of its rows, with the addresses that these begin with."""
    place = body.element("%values", described.load("offset"))
    rows, begin = body.load("ptr", place), described.load("begin")
    copy = body.op("alloca i8,", f"i64 {described.load('room')}", f"align {MAP_ALIGNMENT}")
    body.store("ptr", copy, place)
    to, source = body.element(copy, begin), body.element(described.load("source", "ptr"), begin)
    body.op(f"call ptr {entry.load('copy', 'ptr')}(ptr {to}, ptr {source}, i64 {described.load('size')})")
    for table_of in ("words", "maps"):
        with described.each(table_of, PATCH) as (_, patch):
            address = body.load("i64", body.element(rows, patch.load("row")))
            target = body.element(copy, patch.load("target"))
            if table_of == "words":
                body.store("i64", address, target)
                continue
            code = body.op(f"call i32 {entry.load('replace', 'ptr')}(ptr {target}, i64 {address})")
            body.require_equal("i32", code, 0)


def _start() -> str:
    body = Body()
    kernel = Record(body, "%kernel", KERNEL)
    _define_width(body, kernel)
    with kernel.each("bounds", BOUND) as (_, bound):
        value = body.load("i64", body.element("%values", bound.load("offset")))
        body.require(body.op("icmp sge i64", value, bound.load("least")))
    choices, chosen = kernel.load("choices", "ptr"), body.stack("i64")
    with body.when(body.op("icmp ne ptr", choices, "null")):
        body.store("i64", body.op(f"call i64 @choose(ptr {choices}, ptr %values, i64 %x, i64 %y, i64 %z)"), chosen)
        body.unless(body.op("icmp ne i64", body.load("i64", chosen), OWN), "other")
    handle = kernel.load("handle", "ptr")
    body.require_object(handle)
    rooms = body.op("add i64", body.load("i64", kernel.load("maps", "ptr")), 1)
    memory = body.op(f"alloca [{MAP_BYTES} x i8],", f"i64 {rooms}", f"align {MAP_ALIGNMENT}")
    body.store("i64", "%x", memory)
    body.store("i64", 0, memory, 8)
    error = body.stack("i32")
    with kernel.each("maps", MAP, MOST_AXES * len(AXIS)) as (i, described):
        _encode(body, kernel, described, body.element(body.at(memory, MAP_BYTES), i, MAP_BYTES), error)
    pointers = _parameters(body, kernel, memory)
    given = f"ptr {_configuration(body, kernel)}, ptr {handle}, ptr {pointers}, ptr null"
    body.do(f"ret i64 {body.op('zext i32', body.op(f'call i32 %launch({given})') + ' to i64')}")
    body.label("other")  # what a variant needs itself, it says when Python launches it
    rows, missing = body.at(Record(body, choices, CHOICES).load("rows", "ptr"), 8), body.stack("i64")
    row = body.element(rows, body.load("i64", chosen), 8 * len(CHOICE))
    variant = Record(body, row, CHOICE).load("kernel", "ptr")
    body.store("i64", body.op("sub i64", MISSING, body.load("i64", chosen)), missing)
    body.unless(body.op("icmp eq ptr", variant, "null"), "missing")
    code = body.op(f"call i64 @start(ptr {variant}, ptr %launch, {_TAKEN})")
    body.unless(body.op("icmp slt i64", code, 0), "missing")
    body.do(f"ret i64 {code}")
    body.label("unencoded")
    body.do(f"ret i64 {body.op('or i64', body.op('zext i32', body.load('i32', error) + ' to i64'), ENCODING)}")
    body.label("missing")
    body.do(f"ret i64 {body.load('i64', missing)}")
    for label, number in (("empty", EMPTY), ("unmapped", UNMAPPED), ("done", 0)):
        body.label(label)
        body.do(f"ret i64 {number}")
    given = _TAKEN.replace("%x", "%width")
    return body.named(f"i64 @start(ptr %kernel, ptr %launch, {given})", f"no:\nret i64 {PYTHON}")


def _define_width(body: Body, kernel: Record) -> None:
    """Let ``%x`` be the ``%width`` of the grid, or what a parameter says; where that is none, go to ``done``."""
    width = body.stack("i64")
    body.store("i64", "%width", width)
    with kernel.each("extent", EXTENT) as (_, extent):
        factor, addend, up, divisor = extent.loads(*EXTENT[1:])
        number = body.load("i32", body.element("%values", extent.load("offset")))
        number = body.op("mul i32", number, body.op("trunc i64", f"{factor} to i32"))
        number = body.op("add i32", number, body.op("trunc i64", f"{addend} to i32"))
        number = body.op("add i64", body.op("sext i32", f"{number} to i64"), up)
        body.store("i64", body.op("sdiv i64", number, divisor), width)
    body.do(f"%x = load i64, ptr {width}")
    body.unless(body.op("icmp slt i64", "%x", 1), "done")


def _parameters(body: Body, kernel: Record, memory: str) -> str:
    """Where the addresses of the parameters are; ``memory`` has the width of the grid, a null, and tensor maps."""
    count = body.load("i64", kernel.load("parameters", "ptr"))
    pointers = body.op("alloca ptr,", f"i64 {body.op('add i64', count, 1)}", "align 8")
    with kernel.each("parameters", ("source",)) as (i, parameter):
        source = parameter.load("source")
        kind = body.op("and i64", source, 3)
        base = body.op("select i1", body.op("icmp eq i64", kind, MEMORY), f"ptr {memory}", "ptr %values")
        place = body.element(base, body.op("lshr i64", source, 2))
        table_there = body.op("icmp eq i64", kind, TABLE)
        place = body.op("select i1", table_there, f"ptr {body.load('ptr', place)}", f"ptr {place}")
        body.store("ptr", place, body.element(pointers, i, 8))
    return pointers


def _configuration(body: Body, kernel: Record) -> str:
    config, known, blocks = body.stack(f"[{CONFIG_BYTES} x i8]"), kernel.end(), kernel.load("blocks")
    for at in range(0, CONFIG_BYTES, 8):
        body.store("i64", body.load("i64", known, at), config, at)
    body.store("i64", "%stream", config, _STREAM)
    x, y, z = (body.op("udiv i64", f"%{axis}", kernel.load(axis)) for axis in "xyz")
    for i, extent in enumerate((body.op("mul i64", x, kernel.load("ctas")), y, z)):
        body.store("i32", body.op("trunc i64", f"{extent} to i32"), config, 4 * i)
    with body.when(body.op("icmp ne i64", blocks, 1)):
        wide = body.op("icmp uge i64", "%x", blocks)
        with body.when(body.op("and i1", wide, body.op("icmp ugt i64", _product(body), MANY_BLOCKS))):
            more = body.op("sub i64", body.op("add i64", "%x", blocks), 1)
            body.store("i32", body.op("trunc i64", body.op("udiv i64", more, blocks) + " to i32"), config)
    with body.when(body.op("icmp ne i64", body.op("and i64", x, 1), 0)):
        body.store("i32", kernel.load("odd", "i32"), config, _COUNT)
    return config


def _encode(body: Body, kernel: Record, described: Record, to: str, error: str) -> None:
    """Write a tensor map as ``MapEncoder.encode`` does, in less time than finding one made before takes. It goes to the
    label ``unmapped`` where there is none, ``empty`` where memory is needed for an array without elements, and
    ``unencoded`` where the driver refuses, for the reason that is stored at ``error``."""
    extents, steps = (body.stack(f"[{MOST_AXES} x i64]") for _ in range(2))
    lacking, beyond, base = body.stack("i1"), body.stack("i1"), body.stack("i64")
    rank = described.load("rank", "i32")
    count = body.op("zext i32", f"{rank} to i64")
    body.store("i1", 0, lacking)
    body.store("i1", 0, beyond)
    body.store("i64", body.load("i64", body.element("%values", described.load("base"))), base)
    with body.each(count) as i:
        axis = Record(body, body.element(described.end(), i, 8 * len(AXIS)), AXIS)
        extent, step = _number(axis, *AXIS[:3]), _number(axis, *AXIS[3:])
        any_step = body.op("and i1", body.op("icmp eq i64", extent, 1), body.op("icmp slt i64", step, 16))
        step = body.op("select i1", any_step, "i64 16", f"i64 {step}")
        for value, place, flag, condition in (
            (extent, extents, lacking, body.op("icmp eq i64", extent, 0)),
            (extent, extents, beyond, body.op("icmp ugt i64", extent, MOST_ELEMENTS)),
            (step, steps, beyond, body.op("icmp uge i64", step, STEPS)),
        ):
            body.store("i64", value, body.element(place, i, 8))
            body.store("i1", body.op("or i1", body.load("i1", flag), condition), flag)
    with body.when(body.load("i1", lacking)):
        nothing = kernel.load("nothing")
        body.unless(body.op("icmp eq i64", nothing, 0), "empty")
        body.store("i64", nothing, base)
        body.store("i1", 0, beyond)
        with body.each(count) as i:
            body.store("i64", 1, body.element(extents, i, 8))
            body.store("i64", 16, body.element(steps, i, 8))
    body.unless(body.load("i1", beyond), "unmapped")
    modes = ", ".join(f"i32 {described.load(mode, 'i32')}" for mode in MAP[-4:])
    code = body.op(
        f"call i32 {kernel.load('encode', 'ptr')}(ptr {to}, i32 {described.load('element', 'i32')}, i32 {rank}, "
        f"i64 {body.load('i64', base)}, ptr {extents}, ptr {body.at(steps, 8)}, ptr {described.load('box', 'ptr')}, "
        f"ptr {described.load('ones', 'ptr')}, {modes})"
    )
    body.store("i32", code, error)
    body.unless(body.op("icmp ne i32", code, 0), "unencoded")


def _number(axis: Record, offset: str, factor: str, more: str) -> str:
    value = axis.body.load("i64", axis.body.element("%values", axis.load(offset)))
    return axis.body.op("add i64", axis.body.op("mul i64", value, axis.load(factor)), axis.load(more))


def _choose() -> str:
    body = Body()
    choices, (found, suits, number) = Record(body, "%choices", CHOICES), (body.stack("i64") for _ in range(3))
    body.store("i64", body.op("udiv i64", _product(body), choices.load("joined")), number)
    known = body.op("icmp ne ptr", "%values", "null")
    with choices.each("rows", CHOICE) as (_, row):
        body.store("i64", row.load("number"), found)
        none = body.op("icmp eq i64", body.load("i64", row.load("parameters", "ptr")), 0)
        few = body.op("icmp sle i64", body.load("i64", number), row.load("limit"))
        body.store("i1", body.op("select i1", none, f"i1 {few}", f"i1 {known}"), suits)
        with body.when(known), row.each("parameters", ("offset",)) as (_, parameter):
            value = body.load("i64", body.element("%values", parameter.load("offset")))
            few = body.op("icmp sle i64", value, row.load("limit"))
            body.store("i1", body.op("and i1", body.load("i1", suits), few), suits)
        with body.when(body.op("icmp ne i64", row.load("joined"), 0)):
            body.store("i1", _joins(body, row, choices.load("processors")), suits)
        body.unless(body.load("i1", suits), "found")
    end = f"ret i64 {OWN}\nfound:\n%first = load i64, ptr {found}\nret i64 %first"
    return body.named("i64 @choose(ptr %choices, ptr %values, i64 %x, i64 %y, i64 %z)", end)


def _joins(body: Body, row: Record, processors: str) -> str:
    """Whether the grid has whole numbers of the blocks that a choice joins, and its CTAs keep enough SMs busy."""
    ctas = body.op("udiv i64", _product(body), row.load("joined"))
    more = body.op("sub i64", body.op("add i64", ctas, processors), 1)
    places = body.op("mul i64", body.op("udiv i64", more, processors), processors)
    busy = body.op("icmp uge i64", body.op("mul i64", ctas, 100), body.op("mul i64", places, row.load("limit")))
    for axis in "xyz":
        rest = body.op("urem i64", f"%{axis}", row.load(axis))
        busy = body.op("and i1", busy, body.op("icmp eq i64", rest, 0))
    return busy


def _product(body: Body) -> str:
    """The number of blocks of the grid."""
    return body.op("mul i64", body.op("mul i64", "%x", "%y"), "%z")
