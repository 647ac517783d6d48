"""What the sanitizer looks for: one category for each way in which a kernel can go wrong."""

from __future__ import annotations

import difflib
import warnings
from dataclasses import replace

from tilewright.records import dataclass

CPP = "Tile C++"
PYTHON = "Python data model"
SHEET = "Python API"
CUDA = "CUDA C++ guide"
CXX = "C++ standard"


@dataclass(frozen=True)
class Category:
    """A kind of violation.

    ``name`` is what options and source comments call it, ``remedy`` says what to write instead. ``item`` is the number
    of its entry in the annex of undefined behaviour (section 3.1 of the C++ reference), None for what other parts of
    the documents define.
    """

    name: str
    title: str
    document: str
    section: str
    remedy: str
    item: int | None = None
    default: bool = True

    def __str__(self) -> str:
        return self.name

    @property
    def source(self) -> str:
        """The document and section that define it."""
        annex = f", annex 3.1 item {self.item}" if self.item is not None else ""
        return f"{self.document} {self.section}{annex}"


_WIDER = "compute in a wider type, or an unsigned one"
_ANNEX = (
    ("add-overflow", "signed overflow in an addition", "2.2.1", _WIDER),
    ("sub-overflow", "signed overflow in a subtraction", "2.2.3", _WIDER),
    ("neg-overflow", "signed overflow in a negation", "2.2.4", _WIDER),
    ("mul-overflow", "signed overflow in a multiplication", "2.2.5", _WIDER),
    ("div-overflow", "signed overflow in a division or remainder", "2.2.6", _WIDER),
    ("division-by-zero", "integer division or remainder by zero", "2.2.6",
     "divide by 1 where the divisor is 0, and select afterwards"),
    ("shift-negative", "shift by a negative count", "2.2.15", "keep the count from 0 to one less than the width"),
    ("shift-too-wide", "shift by at least the width of the element", "2.2.15",
     "keep the count from 0 to one less than the width"),
    ("abs-overflow", "absolute value of the least integer", "2.2.22", _WIDER),
    ("pointer-arithmetic", "pointer moved outside its array", "2.2.26",
     "clamp the offset to the array, or mask off the access"),
    ("pointer-difference", "difference of pointers to different arrays", "2.2.28",
     "subtract pointers to one array only"),
    ("shape-size-overflow", "size of a shape that does not fit size_t", "2.1.3.4", "use smaller extents"),
    ("extract-out-of-range", "subtile outside the tile", "2.3.17", "keep the index below the number of subtiles"),
    ("invalid-bitcast", "bits that are no value of the destination type", "2.3.20",
     "convert the value instead, or compare it with 0"),
    ("reduction-overflow", "reduction or scan that overflows in some order", "2.6", _WIDER),
    ("assumption", "an assumption that does not hold", "2.15", "make the promise hold, or leave it out"),
    ("uninitialized-tile", "use of a tile that was never given a value", "2.9",
     "give the tile a value on every path before it is used"),
    ("extent-index", "extent of a dimension that does not exist", "2.8.1", "ask for a dimension below the rank"),
    ("extent-overflow", "extent that its index type cannot hold", "2.8.1", "use a wider index type"),
    ("dimension-map-index", "entry of a dimension map that does not exist", "2.13.2",
     "use each dimension of the view once"),
    ("stride-index", "stride of a dimension that does not exist", "2.10", "ask for a dimension below the rank"),
    ("stride-overflow", "stride that its type cannot hold", "2.10", "use a wider index type"),
    ("partition-outside", "tile wholly outside its array", "2.12.1",
     "launch no blocks beyond the array, or skip such tiles"),
    ("partition-unmasked", "unmasked tile that leaves its array", "2.12.1",
     "use the masked form, or extents that the tile divides"),
    ("span-not-injective", "array whose elements share memory", "2.12.1",
     "use strides that give each element its own memory"),
    ("irange-step", "range whose step is not positive", "2.14.3", "use a positive step"),
    ("irange-bound", "range whose last step overflows", "2.14.3", "use a wider index type"),
    ("float-to-integer", "float that the integer type cannot hold", "1.7.2",
     "clamp to the range of the integer type, and select where it is NaN"),
    ("race-in-call", "one operation accesses an element more than once", "1.10",
     "give each element of the tile its own place, or use an atomic operation"),
    ("atomic-add-overflow", "signed overflow in an atomic addition", "2.7.12", _WIDER),
    ("atomic-sub-overflow", "signed overflow in an atomic subtraction", "2.7.13", _WIDER),
)  # fmt: skip
_OTHERS = (
    Category("data-race", "blocks access an element without synchronization", CPP, "1.10",
             "give each block its own elements, use atomics, or order the two by release and acquire"),
    Category("out-of-bounds", "access outside every element of its array", PYTHON, "Global Arrays",
             "keep indices within the array, or let bounds be checked"),
    Category("unchecked-bounds", "index outside an array that is accessed with check_bounds=False", SHEET, "5",
             "let bounds be checked, or mask such elements off"),
    Category("dangling-pointer", "access to memory that is no argument of the launch", CPP, "2.2.26",
             "pass the array that the pointer is to point to"),
    Category("misaligned-access", "access whose address its type does not allow", CUDA, "Device Memory Accesses",
             "start at a multiple of the size of what is accessed, or access single elements"),
    Category("read-only", "store to an array that cannot be written", PYTHON, "Global Arrays",
             "pass an array that can be written"),
    Category("undefined-value", "value without a definition that the program depends on", PYTHON, "Padding Modes",
             "give the load a padding, write the memory first, or select the defined elements"),
    Category("overlapping-arguments", "array arguments that share memory", PYTHON, "Global Arrays",
             "pass a copy, or arrays that share no memory"),
    Category("slice-bounds", "slice outside its array", SHEET, "1.5", "clamp start and stop to the extent"),
    Category("loop-step", "range whose step is not positive", SHEET, "2", "use a positive step"),
    Category("failed-assertion", "an assert_ whose condition is false", SHEET, "1.16",
             "correct what the message names, or the condition"),
    Category("deadlock", "blocks that wait for each other", CPP, "1.10",
             "let a block write what others wait for before it waits itself, for blocks of lower index"),
    Category("refused-launch", "launch that does not take place", CUDA, "Execution Configuration",
             "launch it as the kernel allows, and look at cudaGetLastError()"),
    Category("unfinished-work", "host code that uses what a stream still writes", CUDA,
             "Asynchronous Concurrent Execution", "call cudaStreamSynchronize() or cudaDeviceSynchronize() before"),
    Category("host-access", "host code that uses memory of the device", CUDA, "Device Memory",
             "copy it by cudaMemcpy(), or get memory from cudaMallocManaged()"),
    Category("operator-declaration", "operator whose kernels do something else than it declares", SHEET, "ct.op",
             "declare what the kernels read and write"),
    Category("nan-generated", "NaN from operands without NaN", SHEET, "3",
             "keep the operands in the domain, or select afterwards", default=False),
    Category("inf-generated", "infinity from finite operands", SHEET, "3",
             "scale the operands, or use a wider type", default=False),
)  # fmt: skip

# Where the guide of SIMT kernels, or the standard, defines what other documents define of tile kernels; and what to
# write instead there, if that is something else.
_OF_SIMT = {
    "data-race": (CUDA, "Synchronization Functions", "call __syncthreads() between the two, or use atomic operations"),
    "out-of-bounds": (CUDA, "Device Memory", "compare the index with the number of elements first"),
    "dangling-pointer": (CUDA, "Device Memory", "use memory of the device, before it is freed, and free it once"),
    "undefined-value": (CUDA, "Device Memory", "write the memory first, as by cudaMemset or before a barrier"),
    "failed-assertion": (CUDA, "Assertion", ""),
    "deadlock": (CUDA, "Synchronization Functions", "let all threads come that it waits for, or one write that"),
    **dict.fromkeys(("division-by-zero", "div-overflow"), (CXX, "[expr.mul]", "")),
    **dict.fromkeys(("shift-negative", "shift-too-wide"), (CXX, "[expr.shift]", "")),
}

CATEGORIES: dict[str, Category] = {
    **{name: Category(name, title, CPP, at, remedy, i) for i, (name, title, at, remedy) in enumerate(_ANNEX, 1)},
    **{c.name: c for c in _OTHERS},
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
    """The category called ``name``, as it is defined for SIMT kernels."""
    found = CATEGORIES[name]
    document, section, remedy = _OF_SIMT.get(name, (CUDA, found.section, ""))
    return replace(found, document=document, section=section, remedy=remedy or found.remedy, item=None)


def category(name: str) -> Category:
    """The category called ``name``. ValueError when there is none, with that which it is nearly, or with all."""
    found = CATEGORIES.get(current_name(name))
    if found is None:
        close = difflib.get_close_matches(name, CATEGORIES, 1, 0.75)
        advice = f"did you mean {close[0]}?" if close else f"the sanitizer knows {', '.join(CATEGORIES)}"
        raise ValueError(f"unknown category {name!r}; {advice}")
    return found
