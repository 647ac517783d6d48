"""What the sanitizer looks for: one category for each way in which a kernel can go wrong."""

from __future__ import annotations

import difflib
import warnings
from dataclasses import dataclass, replace

CPP = "Tile C++"
PYTHON = "Python data model"
SHEET = "Python API"
CUDA = "CUDA C++ guide"


@dataclass(frozen=True)
class Category:
    """A kind of violation.

    ``name`` is what options and source comments call it. ``item`` is the number of its entry in the annex of
    undefined behaviour (section 3.1 of the C++ reference), None for what other parts of the documents define.
    """

    name: str
    title: str
    document: str
    section: str
    item: int | None = None
    default: bool = True

    def __str__(self) -> str:
        return self.name

    @property
    def remedy(self) -> str:
        """What to write instead."""
        return _REMEDIES[self.name]

    @property
    def source(self) -> str:
        """The document and section that define it."""
        annex = f", annex 3.1 item {self.item}" if self.item is not None else ""
        return f"{self.document} {self.section}{annex}"


_ANNEX = (
    ("add-overflow", "signed overflow in an addition", "2.2.1"),
    ("sub-overflow", "signed overflow in a subtraction", "2.2.3"),
    ("neg-overflow", "signed overflow in a negation", "2.2.4"),
    ("mul-overflow", "signed overflow in a multiplication", "2.2.5"),
    ("div-overflow", "signed overflow in a division or remainder", "2.2.6"),
    ("division-by-zero", "integer division or remainder by zero", "2.2.6"),
    ("shift-negative", "shift by a negative count", "2.2.15"),
    ("shift-too-wide", "shift by at least the width of the element", "2.2.15"),
    ("abs-overflow", "absolute value of the least integer", "2.2.22"),
    ("pointer-arithmetic", "pointer moved outside its array", "2.2.26"),
    ("pointer-difference", "difference of pointers to different arrays", "2.2.28"),
    ("shape-size-overflow", "size of a shape that does not fit size_t", "2.1.3.4"),
    ("extract-out-of-range", "subtile outside the tile", "2.3.17"),
    ("invalid-bitcast", "bits that are no value of the destination type", "2.3.20"),
    ("reduction-overflow", "reduction or scan that overflows in some order", "2.6"),
    ("assumption", "an assumption that does not hold", "2.15"),
    ("uninitialized-tile", "use of a tile that was never given a value", "2.9"),
    ("extent-index", "extent of a dimension that does not exist", "2.8.1"),
    ("extent-overflow", "extent that its index type cannot hold", "2.8.1"),
    ("dimension-map-index", "entry of a dimension map that does not exist", "2.13.2"),
    ("stride-index", "stride of a dimension that does not exist", "2.10"),
    ("stride-overflow", "stride that its type cannot hold", "2.10"),
    ("partition-outside", "tile wholly outside its array", "2.12.1"),
    ("partition-unmasked", "unmasked tile that leaves its array", "2.12.1"),
    ("span-not-injective", "array whose elements share memory", "2.12.1"),
    ("irange-step", "range whose step is not positive", "2.14.3"),
    ("irange-bound", "range whose last step overflows", "2.14.3"),
    ("float-to-integer", "float that the integer type cannot hold", "1.7.2"),
    ("race-in-call", "one operation accesses an element more than once", "1.10"),
    ("atomic-add-overflow", "signed overflow in an atomic addition", "2.7.12"),
    ("atomic-sub-overflow", "signed overflow in an atomic subtraction", "2.7.13"),
)
_OTHERS = (
    Category("data-race", "blocks access an element without synchronization", CPP, "1.10"),
    Category("out-of-bounds", "access outside every element of its array", PYTHON, "Global Arrays"),
    Category("unchecked-bounds", "index outside an array that is accessed with check_bounds=False", SHEET, "5"),
    Category("dangling-pointer", "access to memory that is no argument of the launch", CPP, "2.2.26"),
    Category("misaligned-access", "access whose address its type does not allow", CUDA, "Device Memory Accesses"),
    Category("read-only", "store to an array that cannot be written", PYTHON, "Global Arrays"),
    Category("undefined-value", "value without a definition that the program depends on", PYTHON, "Padding Modes"),
    Category("overlapping-arguments", "array arguments that share memory", PYTHON, "Global Arrays"),
    Category("slice-bounds", "slice outside its array", SHEET, "1.5"),
    Category("loop-step", "range whose step is not positive", SHEET, "2"),
    Category("failed-assertion", "an assert_ whose condition is false", SHEET, "1.16"),
    Category("deadlock", "blocks that wait for each other", CPP, "1.10"),
    Category("operator-declaration", "operator whose kernels do something else than it declares", SHEET, "ct.op"),
    Category("nan-generated", "NaN from operands without NaN", SHEET, "3", default=False),
    Category("inf-generated", "infinity from finite operands", SHEET, "3", default=False),
)

# Where the guide of SIMT kernels defines what other documents define of tile kernels.
_OF_SIMT = {
    "data-race": "Synchronization Functions",
    "out-of-bounds": "Device Memory",
    "dangling-pointer": "Device Memory",
    "undefined-value": "Shared Memory",
    "failed-assertion": "Assertion",
    "deadlock": "Synchronization Functions",
}

CATEGORIES: dict[str, Category] = {
    **{name: Category(name, title, CPP, section, i) for i, (name, title, section) in enumerate(_ANNEX, 1)},
    **{c.name: c for c in _OTHERS},
}

_WIDER = "compute in a wider type, or an unsigned one"
# What to write instead, by name.
_REMEDIES: dict[str, str] = {
    **dict.fromkeys(("add-overflow", "sub-overflow", "neg-overflow", "mul-overflow", "div-overflow"), _WIDER),
    **dict.fromkeys(("abs-overflow", "reduction-overflow", "atomic-add-overflow", "atomic-sub-overflow"), _WIDER),
    "division-by-zero": "divide by 1 where the divisor is 0, and select afterwards",
    **dict.fromkeys(("shift-negative", "shift-too-wide"), "keep the count from 0 to one less than the width"),
    "pointer-arithmetic": "clamp the offset to the array, or mask off the access",
    "pointer-difference": "subtract pointers to one array only",
    "shape-size-overflow": "use smaller extents",
    "extract-out-of-range": "keep the index below the number of subtiles",
    "invalid-bitcast": "convert the value instead, or compare it with 0",
    "assumption": "make the promise hold, or leave it out",
    "uninitialized-tile": "give the tile a value on every path before it is used",
    **dict.fromkeys(("extent-index", "stride-index"), "ask for a dimension below the rank"),
    **dict.fromkeys(("extent-overflow", "stride-overflow", "irange-bound"), "use a wider index type"),
    "dimension-map-index": "use each dimension of the view once",
    "partition-outside": "launch no blocks beyond the array, or skip such tiles",
    "partition-unmasked": "use the masked form, or extents that the tile divides",
    "span-not-injective": "use strides that give each element its own memory",
    **dict.fromkeys(("irange-step", "loop-step"), "use a positive step"),
    "float-to-integer": "clamp to the range of the integer type, and select where it is NaN",
    "race-in-call": "give each element of the tile its own place, or use an atomic operation",
    "data-race": "give each block its own elements, use atomics, or order the two by release and acquire",
    "out-of-bounds": "keep indices within the array, or let bounds be checked",
    "unchecked-bounds": "let bounds be checked, or mask such elements off",
    "dangling-pointer": "pass the array that the pointer is to point to",
    "misaligned-access": "start at a multiple of the size of what is accessed, or access single elements",
    "read-only": "pass an array that can be written",
    "undefined-value": "give the load a padding, write the memory first, or select the defined elements",
    "overlapping-arguments": "pass a copy, or arrays that share no memory",
    "slice-bounds": "clamp start and stop to the extent",
    "failed-assertion": "correct what the message names, or the condition",
    "deadlock": "let a block write what others wait for before it waits itself, for blocks of lower index",
    "operator-declaration": "declare what the kernels read and write",
    "nan-generated": "keep the operands in the domain, or select afterwards",
    "inf-generated": "scale the operands, or use a wider type",
}


_RENAMED = {
    "default-tile": "uninitialized-tile",
    "fold-overflow": "reduction-overflow",
    "nan-born": "nan-generated",
    "inf-born": "inf-generated",
}


def current_name(name: str) -> str:
    """``name``, or what the category that had it before is called. That works for one release, with a warning."""
    if name not in _RENAMED:
        return name
    warnings.warn(f"the category {name!r} is called {_RENAMED[name]!r} now", FutureWarning, stacklevel=2)
    return _RENAMED[name]


def simt_category(name: str) -> Category:
    """The category called ``name``, as the guide of SIMT kernels defines it."""
    found = CATEGORIES[name]
    return replace(found, document=CUDA, section=_OF_SIMT.get(name, found.section))


def category(name: str) -> Category:
    """The category called ``name``. ValueError when there is none, with that which it is nearly, or with all."""
    found = CATEGORIES.get(current_name(name))
    if found is None:
        close = difflib.get_close_matches(name, CATEGORIES, 1, 0.75)
        advice = f"did you mean {close[0]}?" if close else f"the sanitizer knows {', '.join(CATEGORIES)}"
        raise ValueError(f"unknown category {name!r}; {advice}")
    return found
