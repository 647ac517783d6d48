"""Tensor maps as machine code makes them at each launch, and copies of arrays that the TMA unit cannot read where they
are: functions of ``launch_functions``."""

from __future__ import annotations

from tilewright.backends.native.body import Body
from tilewright.backends.native.values import Record, Variable, Word
from tilewright.gpu_runtime import words
from tilewright.gpu_runtime.realign import LINE, READ_OFTEN, TILES, UNIT, WIDEST, WORTH_PER_BLOCK
from tilewright.gpu_runtime.words import error_of, value_at

# Along an axis: bytes from one to the next, and how many. CUDA Driver API, cuTensorMapEncodeTiled, globalStrides and
# globalDim.
_STEPS, _MOST_ELEMENTS = 1 << 40, 1 << 32


def array_at(body: Body, i: object) -> Record:
    return Record(body, body.element("%arrays", i, 8 * len(words.ARRAY)), words.ARRAY)


def map_functions() -> str:
    """``@map`` and ``@array``, ``@place``, ``@encode`` and ``@copy``."""
    return "".join(write() for write in (_map, _array, _place, _encode, _copy))


def _array() -> str:
    """``void @array(ptr map, ptr values, ptr array)`` fills in an ``ARRAY``."""
    body = Body()
    described, array = Record(body, "%map", words.MAP), Record(body, "%array", words.ARRAY)
    base = value_at(body, described["base"])
    for name, value in (("base", base), ("source", base), ("moved", 0), ("write", 0)):
        array[name] = value
    with body.each(described["rank"]) as i:
        axis = Record(body, body.element(described.end(), i, 8 * len(words.AXIS)), words.AXIS)
        for at, names in (("extent0", words.AXIS[:3]), ("step0", words.AXIS[3:])):
            number = value_at(body, axis[names[0]]) * axis[names[1]] + axis[names[2]]
            body.store("i64", number, body.element(array.place(at), i, 8))
    return body.named("internal void @array(ptr %map, ptr %values, ptr %array)", "ret void")


def _map() -> str:
    """``i64 @map(ptr encode, ptr map, ptr values, ptr to, i64 nothing)`` writes the map of an array at once."""
    body = Body()
    array = body.stack(f"[{8 * len(words.ARRAY)} x i8]")
    body.do(f"call void @array(ptr %map, ptr %values, ptr {array})")
    code = body.op(f"call i64 @encode(ptr %encode, ptr %map, ptr {array}, ptr %to, i64 %nothing)")
    return body.named("i64 @map(ptr %encode, ptr %map, ptr %values, ptr %to, i64 %nothing)", f"ret i64 {code}")


def _encode() -> str:
    """``i64 @encode(ptr encode, ptr map, ptr array, ptr to, i64 nothing)`` gives 0, ``UNMAPPED``, ``EMPTY`` without
    memory for an array without elements, or an error of the driver. Writing a map anew takes less time than finding one
    that was made before."""
    body = Body()
    described, array = Record(body, "%map", words.MAP), Record(body, "%array", words.ARRAY)
    lacking, beyond, base = (Variable(body) for _ in range(3))
    extents, steps = array.place("extent0"), array.place("step0")
    base.set(array["base"])
    array["step0"] = UNIT  # which no map has
    with body.each(described["rank"]) as i:
        at = body.element(steps, i, 8)
        extent, step = Word(body, body.load("i64", body.element(extents, i, 8))), Word(body, body.load("i64", at))
        step = (extent.equals(1) & (step < UNIT)).choose(UNIT, step)  # of one row: any
        body.store("i64", step, at)
        far = extent.exceeds(_MOST_ELEMENTS) | step.exceeds(_STEPS - 1)
        lacking.set(extent.equals(0).choose(1, lacking.value))
        beyond.set(far.choose(1, beyond.value))
    with body.when(lacking.value.differs(0)):
        body.unless(Word(body, "%nothing").equals(0), "empty")
        base.set("%nothing")
        beyond.set(0)
        with body.each(described["rank"]) as i:
            body.store("i64", 1, body.element(extents, i, 8))
            body.store("i64", UNIT, body.element(steps, i, 8))
    body.unless(beyond.value.differs(0), "unmapped")
    element, rank, *modes = (described.load(name, "i32") for name in ("element", "rank", *words.MAP[5:9]))
    given = f"ptr %to, i32 {element}, i32 {rank}, i64 {base.value}, ptr {extents}, ptr {array.place('step1')}, "
    given += f"ptr {described.load('box')}, ptr {described.load('ones')}, "
    code = error_of(body, "%encode", given + ", ".join(f"i32 {mode}" for mode in modes))
    body.unless(code.differs(0), "refused")
    end = f"ret i64 0\nrefused:\n%error = or i64 {code}, {words.ENCODING}\nret i64 %error\n"
    end += f"empty:\nret i64 {words.EMPTY}\nunmapped:\nret i64 {words.UNMAPPED}"
    return body.named("internal i64 @encode(ptr %encode, ptr %map, ptr %array, ptr %to, i64 %nothing)", end)


class _Matrix:
    """An array of rank 2 that may be copied: its rows and columns, and whether the map has rows as the inner axis."""

    def __init__(self, described: Record, array: Record) -> None:
        self.turned, self.item = described["copied"].equals(words.TRANSPOSED), described["item"]
        self.rows = self.turned.choose(array["extent0"], array["extent1"])
        self.columns = self.turned.choose(array["extent1"], array["extent0"])
        (rows, columns), (turned_rows, turned_columns) = TILES
        self.tile_rows = self.turned.choose(turned_rows, rows)
        self.tile_columns = self.turned.choose(turned_columns, columns)


def _place() -> str:
    """``i64 @place(ptr kernel, ptr arrays, i64 blocks)`` gives copies their places, one after the other, and the bytes
    of all; ``UNCOPIED`` where one does not pay for so many blocks: see ``realign``. What is less says which kernel that
    copies is not there."""
    body = Body()
    kernel, size, missing = Record(body, "%kernel", words.KERNEL), Variable(body), Variable(body)
    with kernel.each("maps", words.MAP, words.BEHIND_MAP) as (i, described):
        array = array_at(body, i)
        with body.when(described["copied"].differs(words.NEVER)):
            of = _Matrix(described, array)
            step = of.turned.choose(array["step0"], array["step1"])
            apart = ((array["source"] | step) & (UNIT - 1)).differs(0) | of.turned
            with body.when(apart & of.rows.differs(0) & of.columns.differs(0)):
                array["step"] = step
                _require_worth(body, kernel, described, array, of)
                _assign(body, kernel, described, array, i, size)
                with body.when(array["write"].differs(0)):
                    sizes = array["source"] | step | of.rows * of.item | of.columns * of.item
                    aligned = of.turned & (sizes & (UNIT - 1)).equals(0)
                    missing.set(Word(body, words.COPIER) - i * 2 - aligned.choose(1, 0))
                    array["write"] = aligned.choose(described["aligned"], described["copier"])
                    body.unless(array["write"].equals(0), "missing")
    end = f"%all = load i64, ptr {size.address}\nret i64 %all\nuncopied:\nret i64 {words.UNCOPIED}\n"
    end += f"missing:\n%code = load i64, ptr {missing.address}\nret i64 %code"
    return body.named("internal i64 @place(ptr %kernel, ptr %arrays, i64 %blocks)", end)


def _require_worth(body: Body, kernel: Record, described: Record, array: Record, of: _Matrix) -> None:
    """Go to ``uncopied`` where an array is not simple enough to be copied, or not read often enough."""
    blocks = Word(body, "%blocks")
    body.unless(array["step"] < of.columns * of.item, "uncopied")
    body.unless(of.columns.exceeds(of.tile_columns * WIDEST), "uncopied")
    body.unless(blocks * WORTH_PER_BLOCK < of.rows * of.columns * of.item, "uncopied")
    with body.when(of.turned):
        body.unless(of.rows * blocks < described["worth"], "uncopied")
        # once for each row of tiles of another one that is as long as this is high; often, where there is none
        with kernel.each("maps", words.MAP, words.BEHIND_MAP) as (j, other):
            there = array_at(body, j)
            beside = other["rank"].equals(2) & there["source"].differs(array["source"])
            beside = beside & there["extent0"].equals(of.rows)
            body.unless(beside & (there["extent1"].over(other["tile"]) < READ_OFTEN), "uncopied")


def _assign(body: Body, kernel: Record, described: Record, array: Record, i: Word, size: Variable) -> None:
    """Give the copy of an array its place, or that of an equal one before."""
    pitch = (array["extent0"] * described["item"] + (LINE - 1)) & -LINE
    place, write = Variable(body, size.value), Variable(body, 1)
    with body.each(i) as j:
        there, other = array_at(body, j), kernel.row("maps", j, words.MAP, words.BEHIND_MAP)
        same = there["moved"].equals(1)
        for name in ("source", "step", "extent0", "extent1"):
            same = same & there[name].equals(array[name])
        for name in ("copied", "item"):
            same = same & other[name].equals(described[name])
        place.set(same.choose(there["base"], place.value))
        write.set(same.choose(0, write.value))
    more = write.value * pitch * array["extent1"]
    size.set(size.value + more)
    for name, value in (("base", place.value), ("write", write.value), ("moved", 1), ("step1", pitch)):
        array[name] = value


def _copy() -> str:
    """``i64 @copy(ptr kernel, ptr launch, ptr arrays, i64 stream)`` launches what writes copies; their bases are
    addresses now."""
    body = Body()
    kernel, failed = Record(body, "%kernel", words.KERNEL), Variable(body)
    numbers = body.stack("[6 x i64]")
    with kernel.each("maps", words.MAP, words.BEHIND_MAP) as (i, described):
        array = array_at(body, i)
        with body.when(array["write"].differs(0)):
            of, steps = _Matrix(described, array), (array["step"], array["step1"])
            given = array["source"], array["base"], of.rows, of.columns, *(step // of.item for step in steps)
            for k, word in enumerate(given):
                body.store("i64", word, numbers, 8 * k)
            grid = f"i64 {of.rows.over(of.tile_rows)}, i64 {of.columns.over(of.tile_columns)}, i64 1"
            taken = f"ptr {array.load('write')}, ptr %launch, ptr {numbers}, {grid}, i64 %stream"
            code = Word(body, body.op(f"call i64 @start({taken})"))
            failed.set((code < 0).choose(words.PYTHON, code))
            body.unless(code.differs(0), "failed")
    end = f"ret i64 0\nfailed:\n%code = load i64, ptr {failed.address}\nret i64 %code"
    return body.named("internal i64 @copy(ptr %kernel, ptr %launch, ptr %arrays, i64 %stream)", end)
