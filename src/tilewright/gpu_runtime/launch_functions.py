"""The machine code of launches: functions that depend on no kernel, so that they are compiled once."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from tilewright.backends import native
from tilewright.backends.native.body import Body
from tilewright.backends.native.code import machine_code
from tilewright.backends.native.values import Record, Variable, Word
from tilewright.gpu_runtime import words
from tilewright.gpu_runtime.driver import INVALID_CONTEXT
from tilewright.gpu_runtime.map_functions import array_at, map_functions
from tilewright.gpu_runtime.words import error_of, value_at
from tilewright.ir.gpu_parameters import MAP_ALIGNMENT, MAP_BYTES

_STREAM, _COUNT = 32, 48  # of CUlaunchConfig: where the stream is, and the number of attributes
_SINGLE, _OUT_OF_MEMORY = 24, 2  # bits of the fraction of float32; an error of the driver
MANY_BLOCKS = 2048  # of a grid whose CTAs run several each
_GRID = "i64 %x, i64 %y, i64 %z"
_TAKEN = f"ptr %values, {_GRID}, i64 %stream"


@functools.cache
def functions() -> Any:
    """The functions ``enter``, ``queue``, ``start``, ``choose`` and ``map``.

    ``i32 enter(ptr entry, ptr values, i64 x, i64 y, i64 z, i64 stream)`` is that of a ``LaunchStub`` whose record is an
    ``ENTRY``, and ``i64 queue`` the same without Python: it gives 0, an error of the driver, or one of ``words`` below
    0. ``i64 choose(ptr choices, ptr values, i64 x, i64 y, i64 z)`` gives the number of the first that suits a launch,
    or ``OWN``. Without ``values`` none by them does. ``map`` is one of ``map_functions``.
    """
    names = "enter", "queue", "choose", "map"
    text = _enter() + _queue() + _start() + _lend() + _prepared() + _choose() + map_functions()
    try:
        return machine_code(names, text, {})
    except native.NotCompiled:
        native.compiler()  # loads LLVM
        return machine_code(names, text, {})


_ARGUMENTS = {"queue": (2, 4), "choose": (2, 3), "map": (4, 1)}  # how many addresses, and how many numbers


@functools.cache
def function(name: str) -> Callable[..., int]:
    """One of these functions as Python calls it, which other threads do meanwhile."""
    addresses, numbers = _ARGUMENTS[name]
    kinds = [ctypes.c_void_p] * addresses + [ctypes.c_int64] * numbers
    return ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(functions().address(name))


def _enter() -> str:
    body = Body()
    entry = Record(body, "%entry", words.ENTRY)
    state = body.op(f"call ptr {entry.load('save')}()")
    code = Word(body, body.op(f"call i64 @queue(ptr %entry, {_TAKEN})"))
    body.do(f"call void {entry.load('restore')}(ptr {state})")
    result = body.op("zext i1", f"{code.differs(0)} to i32")
    return body.named(f"i32 @enter(ptr %entry, {_TAKEN})", f"ret i32 {result}")


def _queue() -> str:
    body = Body()
    entry, code, lent, host = Record(body, "%entry", words.ENTRY), Variable(body), Variable(body), Variable(body)
    kernel, launch = entry.load("kernel"), entry.load("launch")
    with entry.each("floats", words.FLOAT) as (_, described):
        _narrow(body, described)
    with body.when(entry["lent"].differs(0)):
        _take_room(body, entry, code, lent, host)
    with entry.each("lists", words.LIST) as (_, described):
        _fill(body, entry, described, code, lent.value, _aligned(host))
    with body.when(lent.value.differs(0)):
        given = f"i64 {lent.value}, i64 {_aligned(host)}, i64 {entry['lent']}, i64 %stream"
        code.set(error_of(body, entry.load("send"), given))
        body.unless(code.value.differs(0), "failed")
    code.set(body.op(f"call i64 @start(ptr {kernel}, ptr {launch}, {_TAKEN})"))
    body.jump("failed")
    body.label("failed")
    with body.when(lent.value.differs(0)):
        body.do(f"call void {entry.load('release')}(i64 {host.value})")
        free = Record(body, entry.load("lender"), words.KERNEL).load("free")
        body.op(f"call i32 {free}(i64 {lent.value}, i64 %stream)")
    return body.named(f"i64 @queue(ptr %entry, {_TAKEN})", f"ret i64 {code.value}")


def _narrow(body: Body, described: Record) -> None:
    """Round a float of 64 bits, whose place others have then. Numbers beyond the range become infinite."""
    place = body.element("%values", described["offset"])
    single = body.op("fptrunc double", f"{body.load('double', place)} to float")
    bits = Word(body, body.op("zext i32", f"{body.op('bitcast float', f'{single} to i32')} to i64"))
    body.store("i64", bits, place)
    precision, least, most = (described[name] for name in ("precision", "least", "most"))
    with body.when(precision < _SINGLE):
        exponent = ((bits >> 23) & 255) - 127
        exponent = (exponent < least).choose(least, exponent)
        # the number of units of the last place, an integer that is rounded to even as its addition to 2^52 is
        unit = body.op("bitcast i64", f"{((exponent - precision + 1024) << 52)} to double")
        positive = body.op("bitcast i32", f"{(bits & ((1 << 31) - 1)).as_i32()} to float")
        size = body.op("fpext float", f"{positive} to double")
        sum_ = body.op("fadd double", body.op("fdiv double", size, unit), "0x4330000000000000")
        units = Word(body, body.op("bitcast double", f"{sum_} to i64")) & ((1 << 52) - 1)
        found = units + ((exponent - least) << (precision - 1))
        found = (most.exceeds(found) & (exponent < 128)).choose(found, most)
        nan = Word(body, body.op("fcmp uno float", single, single), "i1")
        body.store("i64", nan.choose(most | (most >> 1), found) | described["sign"] * (bits >> 31), place)


def _take_room(body: Body, entry: Record, code: Variable, lent: Variable, host: Variable) -> None:
    """Take memory for lists, on the device and beside it, unless a graph records the launch."""
    state, size = Variable(body), entry["lent"]
    code.set(error_of(body, entry.load("capturing"), f"i64 %stream, ptr {state.address}"))
    body.unless(code.value.differs(0), "failed")
    code.set(words.RECORDED)
    body.unless(state.value.differs(0), "failed")
    given = f"ptr {entry.load('lender')}, i64 {size}, i64 %stream, ptr {lent.address}"
    code.set(body.op(f"call i64 @lend({given})"))
    body.unless(code.value.differs(0), "failed")
    host.set(body.op(f"call i64 {entry.load('allocate')}(i64 {size + MAP_ALIGNMENT})"))
    code.set(_OUT_OF_MEMORY)
    body.unless(host.value.equals(0), "failed")


def _aligned(host: Variable) -> Word:
    return (host.value + (MAP_ALIGNMENT - 1)) & -MAP_ALIGNMENT


def _fill(body: Body, entry: Record, described: Record, code: Variable, lent: Word, host: Word) -> None:
    """Put a copy of a table in the place of the address of its rows, with the addresses that these begin with."""
    value = body.element("%values", described["offset"])
    rows, begin, away = body.load("ptr", value), described["begin"], described["place"].differs(0)
    copy = body.op("alloca i8,", f"i64 {described['room']}", f"align {MAP_ALIGNMENT}")
    there = body.op("inttoptr i64", f"{host + described['place']} to ptr")
    copy = str(away.choose(there, copy, "ptr"))
    passed = Word(body, body.op("ptrtoint ptr", f"{copy} to i64"))
    body.store("i64", away.choose(lent + described["rows"], passed), value)
    to, source = body.element(copy, begin), body.element(described.load("source"), begin)
    body.op(f"call ptr {entry.load('copy')}(ptr {to}, ptr {source}, i64 {described['size']})")
    for table_of in ("words", "maps"):
        with described.each(table_of, words.PATCH) as (_, patch):
            address = body.load("i64", body.element(rows, patch["row"]))
            target = body.element(copy, patch["target"])
            if table_of == "words":
                body.store("i64", address, target)
                continue
            code.set(error_of(body, entry.load("replace"), f"ptr {target}, i64 {address}"))
            body.unless(code.value.differs(0), "failed")


def _start() -> str:
    body = Body()
    kernel = Record(body, "%kernel", words.KERNEL)
    _define_width(body, kernel)
    with kernel.each("bounds", words.BOUND) as (_, bound):
        body.unless(value_at(body, bound["offset"]) < bound["least"], "no")
    choices, chosen = kernel.load("choices"), Variable(body)
    with body.when(body.op("icmp ne ptr", choices, "null")):
        chosen.set(body.op(f"call i64 @choose(ptr {choices}, ptr %values, {_GRID})"))
        body.unless(chosen.value.differs(words.OWN), "other")
    body.require_object(kernel.load("handle"))
    count = kernel.count("maps")
    body.do(f"%arrays = alloca [{8 * len(words.ARRAY)} x i8], i64 {count}, align 8")
    with kernel.each("maps", words.MAP, words.BEHIND_MAP) as (i, described):
        array = array_at(body, i).address
        body.do(f"call void @array(ptr {described.address}, ptr %values, ptr {array})")
    room, size, error = (Variable(body) for _ in range(3))
    with body.when(kernel["pool"].differs(0)):
        _borrow(body, kernel, room, size, error)
    given = f"{_TAKEN}, ptr %arrays, i64 {room.value}, i64 {size.value}"
    code = Word(body, body.op(f"call i64 @prepared(ptr %kernel, ptr %launch, {given})"))
    with body.when(room.value.differs(0)):
        body.op(f"call i32 {kernel.load('free')}(i64 {room.value}, i64 %stream)")
    body.unless(code.equals(words.UNMAPPED), "unmapped")
    body.do(f"ret i64 {code}")
    for label, behind in (("uncopied", 0), ("unmapped", 1)):
        body.label(label)
        chosen.set(Record(body, choices, words.CHOICES).count("rows") + behind)
        body.jump("other")
    body.label("other")  # what a variant needs itself, it says when Python launches it
    variant = Record(body, choices, words.CHOICES).row("rows", chosen.value, words.CHOICE).load("kernel")
    missing = Variable(body, Word(body, words.MISSING) - chosen.value)
    body.unless(body.op("icmp eq ptr", variant, "null"), "missing")
    code = Word(body, body.op(f"call i64 @start(ptr {variant}, ptr %launch, {_TAKEN})"))
    body.unless(code < 0, "missing")
    body.do(f"ret i64 {code}")
    for label, failed in (("missing", missing), ("failed", error)):
        body.label(label)
        body.do(f"ret i64 {failed.value}")
    body.label("done")
    body.do("ret i64 0")
    given = _TAKEN.replace("%x", "%width")
    return body.named(f"i64 @start(ptr %kernel, ptr %launch, {given})", f"no:\nret i64 {words.PYTHON}")


def _borrow(body: Body, kernel: Record, room: Variable, size: Variable, error: Variable) -> None:
    """Take memory for copies and what blocks need, if they do: its address, and the bytes of copies."""
    blocks = _blocks(body)
    size.set(body.op(f"call i64 @place(ptr %kernel, ptr %arrays, i64 {blocks})"))
    body.unless(size.value.equals(words.UNCOPIED), "uncopied")
    error.set(size.value)
    body.unless(size.value < 0, "failed")
    more = size.value + kernel["room"] * blocks
    with body.when(more.differs(0)):
        error.set(body.op(f"call i64 @lend(ptr %kernel, i64 {more}, i64 %stream, ptr {room.address})"))
        body.unless(error.value.differs(0), "failed")


def _lend() -> str:
    """``i64 @lend`` takes memory of a kernel's device. It gives an error in a context of another device, of which the
    stream may be."""
    body = Body()
    kernel, found = Record(body, "%kernel", words.KERNEL), Variable(body)
    body.op(f"call i32 {kernel.load('current')}(ptr {found.address})")
    body.unless(found.value.differs(kernel["context"]), "foreign")
    given = f"ptr %place, i64 %bytes, ptr {kernel.load('pool')}, i64 %stream"
    code = error_of(body, kernel.load("borrow"), given)
    head = "internal i64 @lend(ptr %kernel, i64 %bytes, i64 %stream, ptr %place)"
    return body.named(head, f"ret i64 {code}\nforeign:\nret i64 {INVALID_CONTEXT}")


def _prepared() -> str:
    """``start`` with everything found out: the arrays of maps, and memory for copies of ``size`` bytes, and the kernel
    behind them."""
    body = Body()
    kernel = Record(body, "%kernel", words.KERNEL)
    rooms = kernel.count("maps") + 1
    memory = body.op(f"alloca [{MAP_BYTES} x i8],", f"i64 {rooms}", f"align {MAP_ALIGNMENT}")
    for at, value in ((words.WIDTH_AT, "%x"), (words.NULL_AT, 0), (words.ROOM_AT, Word(body, "%room") + "%size")):
        body.store("i64", value, memory, at)
    encode, failed = kernel.load("encode"), Variable(body)
    with kernel.each("maps", words.MAP, words.BEHIND_MAP) as (i, described):
        array, to = array_at(body, i), body.element(body.at(memory, MAP_BYTES), i, MAP_BYTES)
        array["base"] = array["base"] + array["moved"] * "%room"
        given = f"ptr {described.address}, ptr {array.address}, ptr {to}, i64 {kernel['nothing']}"
        failed.set(body.op(f"call i64 @encode(ptr {encode}, {given})"))
        body.unless(failed.value.differs(0), "failed")
    with body.when(Word(body, "%size").differs(0)):
        failed.set(body.op("call i64 @copy(ptr %kernel, ptr %launch, ptr %arrays, i64 %stream)"))
        body.unless(failed.value.differs(0), "failed")
    pointers = _parameters(body, kernel, memory)
    given = f"ptr {_configuration(body, kernel)}, ptr {kernel.load('handle')}, ptr {pointers}, ptr null"
    failed.set(error_of(body, "%launch", given))
    body.jump("failed")
    body.label("failed")
    head = f"internal i64 @prepared(ptr %kernel, ptr %launch, {_TAKEN}, ptr %arrays, i64 %room, i64 %size)"
    return body.named(head, f"%code = load i64, ptr {failed.address}\nret i64 %code")


def _define_width(body: Body, kernel: Record) -> None:
    """Let ``%x`` be the ``%width`` of the grid, or what a parameter says; where that is none, go to ``done``."""
    width = Variable(body, "%width")
    with kernel.each("extent", words.EXTENT) as (_, extent):
        factor, addend = (extent[name].as_i32() for name in ("factor", "addend"))
        number = body.load("i32", body.element("%values", extent["offset"]))
        number = body.op("add i32", body.op("mul i32", number, factor), addend)
        more = Word(body, body.op("sext i32", f"{number} to i64")) + extent["up"]
        width.set(body.op("sdiv i64", more, extent["divisor"]))
    body.do(f"%x = load i64, ptr {width.address}")
    body.unless(Word(body, "%x") < 1, "done")


def _parameters(body: Body, kernel: Record, memory: str) -> str:
    """Where the addresses of the parameters are, some of which are in ``memory``."""
    pointers = body.op("alloca ptr,", f"i64 {kernel.count('parameters') + 1}", "align 8")
    with kernel.each("parameters", ("source",)) as (i, parameter):
        source = parameter["source"]
        kind = source & 3
        base = kind.equals(words.MEMORY).choose(memory, "%values", "ptr")
        place = body.element(str(base), source >> 2)
        found = kind.equals(words.TABLE).choose(body.load("ptr", place), place, "ptr")
        body.store("ptr", found, body.element(pointers, i, 8))
    return pointers


def _configuration(body: Body, kernel: Record) -> str:
    config, known, blocks = body.stack(f"[{words.CONFIG_BYTES} x i8]"), kernel.end(), kernel["blocks"]
    for at in range(0, words.CONFIG_BYTES, 8):
        body.store("i64", body.load("i64", known, at), config, at)
    body.store("i64", "%stream", config, _STREAM)
    x, y, z = (Word(body, f"%{axis}") // kernel[axis] for axis in "xyz")
    for i, extent in enumerate((x * kernel["ctas"], y, z)):
        body.store("i32", extent.as_i32(), config, 4 * i)
    with body.when(blocks.differs(1)):
        width = Word(body, "%x")
        with body.when((blocks <= width) & _blocks(body).exceeds(MANY_BLOCKS)):
            body.store("i32", width.over(blocks).as_i32(), config)
    with body.when((x & 1).differs(0)):
        body.store("i32", kernel.load("odd", "i32"), config, _COUNT)
    return config


def _choose() -> str:
    body = Body()
    choices, found, suits = Record(body, "%choices", words.CHOICES), Variable(body), body.stack("i1")
    number, known = _blocks(body) // choices["joined"], body.op("icmp ne ptr", "%values", "null")
    with choices.each("rows", words.CHOICE) as (_, row):
        found.set(row["number"])
        none = row.count("parameters").equals(0)
        body.store("i1", none.choose(number <= row["limit"], known, "i1"), suits)
        with body.when(known), row.each("parameters", ("offset",)) as (_, parameter):
            few = value_at(body, parameter["offset"]) <= row["limit"]
            body.store("i1", few & body.load("i1", suits), suits)
        with body.when(row["joined"].differs(0)):
            body.store("i1", _joins(body, row, choices["processors"]), suits)
        body.unless(body.load("i1", suits), "found")
    end = f"ret i64 {words.OWN}\nfound:\n%first = load i64, ptr {found.address}\nret i64 %first"
    return body.named(f"i64 @choose(ptr %choices, ptr %values, {_GRID})", end)


def _joins(body: Body, row: Record, processors: Word) -> Word:
    """Whether the grid has whole numbers of the blocks that a choice joins, and its CTAs keep enough SMs busy."""
    ctas = _blocks(body) // row["joined"]
    busy = ctas.over(processors) * processors * row["limit"] <= ctas * 100
    for axis in "xyz":
        busy = busy & (Word(body, f"%{axis}") % row[axis]).equals(0)
    return busy


def _blocks(body: Body) -> Word:
    """The number of blocks of the grid."""
    return Word(body, "%x") * "%y" * "%z"
