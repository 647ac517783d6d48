"""Rules of ops. Everything that reads a module relies on those of regions; those of types and modes are NVIDIA's
verifier's: what is read and printed may break them, but is not imported. What breaks one is told what is expected."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.tileir.module import Operation
from tilewright.tileir.types import SCALARS, TOKEN, Scalar, Tile, Type, is_gathering

TERMINATORS = ("yield", "continue", "break", "return")


def region_problem(op: Operation) -> str | None:
    """The rule that ``op``, which has regions, breaks, or None."""
    if op.regions[0] is None:
        return f"a body of {op.name}"
    folds = op.name in ("reduce", "scan")
    count = 0 if op.name == "if" else len(op.operands["operands" if folds else "initValues"])
    if folds and {len(op.attributes["identities"].items), len(op.results)} != {count}:
        return f"one identity and one result for each of {count} operands"
    arguments = 2 * count if folds else count + (op.name == "for")
    for body in op.regions:
        if body is not None and len(body.args) != arguments:
            return f"{arguments} arguments of the body of {op.name}, not {len(body.args)}"
    if op.name == "for" and count != len(op.results):
        return f"as many results as initial values, {count}, not {len(op.results)}"
    return None


_INTEGERS, _FLOATS = ("i1", "i8", "i16", "i32", "i64"), ("f16", "bf16", "f32", "f64")
_EVERY_FLOAT = tuple(name for name, s in SCALARS.items() if not s.is_integer)
_KINDS = {"I": _INTEGERS, "F": _FLOATS, "R": _EVERY_FLOAT, "N": (*_INTEGERS, "i4"), "i1": ("i1",)}
# Elementwise ops: the elements of operands, which have one type, and of a result that has another one.
_ROWS = """
absf negf addf subf mulf divf remf maxf minf fma sqrt rsqrt exp exp2 log log2 sin cos tan: F
sinh cosh tanh floor ceil atan2 fpowf: F
absi negi addi subi muli divi remi mulhii maxi mini andi ori xori shli shri: I
cmpf: F i1
cmpi: I i1
exti trunci: N N
ftof: R R
ftoi: R I
itof: I R
"""
_ELEMENTWISE = {
    name: [_KINDS[kind] for kind in kinds.split()]
    for names, kinds in (row.split(": ") for row in _ROWS.strip().splitlines())
    for name in names.split()
}
_OPERANDS = {  # what the elements of some operands are of; others follow from these
    "mmai": (("lhs", "rhs"), ("i8",)),
    "mmaf": (("lhs", "rhs"), (*_FLOATS, "tf32", "f8E4M3FN", "f8E5M2")),
    **dict.fromkeys(("extract", "insert"), (("indices",), ("i32",))),
    "offset": (("offset",), _INTEGERS),
    "fpowi": (("exponent",), _INTEGERS),
}
_UPDATED = {"addf": _FLOATS, "xchg": ("i32", "i64", "f32", "f64")}  # by atomic operations; others take integers
_MODES = {
    **dict.fromkeys(("exp", "tanh"), ("full", "approx")),
    "divi": ("zero", "negative_inf", "positive_inf"),
    "ftoi": ("nearest_int_to_zero",),
    "itof": ("nearest_even",),
}
_ORDERS = {
    **dict.fromkeys(("load_view_tko", "load_ptr_tko"), ("weak", "relaxed", "acquire")),
    **dict.fromkeys(("store_view_tko", "store_ptr_tko"), ("weak", "relaxed", "release")),
    **dict.fromkeys(("atomic_rmw_tko", "atomic_cas_tko"), ("relaxed", "acquire", "release", "acq_rel")),
    "atomic_red_view_tko": ("relaxed",),
}


def problem(op: Operation) -> str | None:
    """The rule for types and modes that ``op`` breaks, or None."""
    name = op.name
    if name.endswith(_ORDERED) and (broken := _tokens(op)) is not None:
        return broken
    if op.regions and name != "if":
        return _carried(op)
    if (broken := _numbers(op)) is not None:
        return broken
    if op.name in _ELEMENTWISE:
        return _elementwise(op, _ELEMENTWISE[op.name]) or _mode(op)
    if op.name in _ORDERS:
        return _order(op, _ORDERS[op.name])
    if op.name in _OPERANDS:
        names, elements = _OPERANDS[op.name]
        values = [op.operands[name] for name in names]
        return _of([v.type for found in values for v in (found if isinstance(found, list) else [found])], elements)
    if op.name == "iota":
        made = op.results[0].type
        return "a tile of one axis" if isinstance(made, Tile) and len(made.shape) != 1 else _of([made], _INTEGERS)
    if op.name in ("pack", "unpack", "bitcast"):
        alike = _width(op.operands["source"].type) == _width(op.results[0].type)
        said = "elements of as many bits" if op.name == "bitcast" else "elements that are no bytes"
        return said if alike != (op.name == "bitcast") else None
    return None


def _carried(op: Operation) -> str | None:
    """Types of what a loop carries, or a combiner takes."""
    body, name = op.regions[0], op.name
    assert body is not None
    if name in ("reduce", "scan"):
        operands = [v.type.element for v in op.operands["operands"] if isinstance(v.type, Tile)]
        wanted: list[Type] = [Tile(element) for element in operands for _ in range(2)]
        arguments = [a.type for a in body.args]
    else:
        wanted = [v.type for v in op.operands["initValues"]]
        arguments = [a.type for a in body.args]
        if name == "for":
            if [r.type for r in op.results] != wanted:
                return "results of the types of the initial values"
            bounds = {op.operands[bound].type for bound in ("lowerBound", "upperBound", "step")}
            if len(bounds) > 1:
                return f"bounds and a step of one type, not of {' and '.join(sorted(map(str, bounds)))}"
            wanted = [*bounds, *wanted]
    return None if arguments == wanted else f"arguments of the body of types {', '.join(map(str, wanted))}"


def _numbers(op: Operation) -> str | None:
    """Extents, strides and indices."""
    names: tuple[str, ...] = ("dynamicShape", "dynamicStrides") if op.name == "make_tensor_view" else ()
    if "index" in op.operands and not is_gathering(op.operands["view"].type):
        names = ("index",)
    kinds = {str(v.type): v.type for name in names for v in op.operands[name]}
    if len(kinds) > 1:
        return f"{' and '.join(names)} of one type, not of {' and '.join(sorted(kinds))}"
    wrong = next((t for t in kinds.values() if not isinstance(t, Tile) or t.shape), None)
    return _of(kinds.values(), _INTEGERS) if wrong is None else f"{' and '.join(names)} that are numbers, not {wrong}"


_ORDERED = ("_tko", "_token", "_tokens")


def _tokens(op: Operation) -> str | None:
    """What is a token of an op that tokens order: the operands that are named so, and the last result."""
    given = [*op.operands.get("tokens", ()), *filter(None, [op.operands.get("token")]), *op.results[-1:]]
    wrong = next((v.type for v in given if v.type != TOKEN), None)
    return None if wrong is None else f"a token, not {wrong}"


def _elementwise(op: Operation, kinds: list[tuple[str, ...]]) -> str | None:
    source, *others = [v.type for v in op.values()]
    result = op.results[0].type
    other = next((t for t in others if t != source), None)
    if other is not None:
        return f"operands of one type, not of {source} and {other}"
    if len(kinds) == 1 and result != source:
        return f"a result of the type of the operands, {source}, not {result}"
    if isinstance(result, Tile) and isinstance(source, Tile) and result.shape != source.shape:
        return f"a result of the shape of the operands, {source}, not {result}"
    wider, name = _width(result) - _width(source), op.name
    if (name == "exti" and wider <= 0) or (name == "trunci" and wider >= 0) or (name == "ftof" and source == result):
        wanted = {"exti": "a wider", "trunci": "a narrower"}.get(name, "another")
        return f"{wanted} type than {source}, not {result}"
    return _of([source], kinds[0]) or _of([result], kinds[-1])


def _of(types: Iterable[Type], elements: tuple[str, ...]) -> str | None:
    wrong = next((t for t in types if not isinstance(t, Tile) or str(t.element) not in elements), None)
    return None if wrong is None else f"elements of {' or '.join(elements)}, not {wrong}"


def _width(type: Type) -> int:
    return type.element.bits if isinstance(type, Tile) and isinstance(type.element, Scalar) else 0


def _mode(op: Operation) -> str | None:
    mode = op.attributes.get("rounding_mode", op.attributes.get("rounding"))
    modes = _MODES.get(op.name)
    if modes is not None and mode not in modes:
        return f"rounding by {' or '.join(modes)}, not {mode}"
    if op.name == "negi" and op.attributes["overflow"] == "no_unsigned_wrap":
        return "another promise than no_unsigned_wrap"
    return _of([op.results[0].type], ("f32",)) if op.name in ("exp", "tanh") and mode == "approx" else None


def _order(op: Operation, orders: tuple[str, ...]) -> str | None:
    order, scope = op.attributes["memory_ordering_semantics"], op.attributes["memory_scope"]
    if order not in orders:
        return f"the order {' or '.join(orders)}, not {order}"
    if (scope is None) != (order == "weak"):
        return f"{'no' if order == 'weak' else 'a'} scope where the order is {order}"
    if op.name != "atomic_rmw_tko":
        return None
    return _of([op.operands["arg"].type], _UPDATED.get(op.attributes["mode"], ("i32", "i64")))
