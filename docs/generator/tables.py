"""Tables of the language that the documentation takes from the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tilewright.frontend.cpp.locations import INCLUDE_DIR
from tilewright.ir.dtypes import ALL_DTYPES, DType
from tilewright.ir.promotion import casts_implicitly, common_dtype
from tilewright.transforms.pipelines import OPTIMIZE


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table."""
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _label(d: DType) -> str:
    return f"**{'bool' if d.is_bool else d.short}**"


def _table(entry: Callable[[DType, DType], str]) -> str:
    rows = [[_label(x), *(entry(x, y) for y in ALL_DTYPES)] for x in ALL_DTYPES]
    return markdown(["", *map(_label, ALL_DTYPES)], rows)


def dtypes() -> str:
    """Every dtype: names, size, and what it is for."""
    rows = []
    for d in ALL_DTYPES:
        use = "storage, casts, `mma`" if d.is_restricted else "arithmetic"
        rows.append([f"`ct.{d.name}`", f"`{d.short}`", str(d.bitwidth), use, f"`{d.storage}`"])
    return markdown(["dtype", "in Tile IR", "bits", "for", "in NumPy arrays"], rows)


def promotion() -> str:
    """The common dtype of two typed operands."""

    def entry(x: DType, y: DType) -> str:
        found = common_dtype(x, y)
        return "-" if found is None else _label(found).strip("*")

    return _table(entry)


def casts() -> str:
    """Which dtypes a store converts by itself: rows to columns."""
    return _table(lambda x, y: "yes" if casts_implicitly(x, y) else "-")


def passes() -> str:
    """The passes, in order."""
    rows = []
    for number, p in enumerate(OPTIMIZE, 1):
        text = (type(p).__doc__ or "").split("\n\n", 1)[0]
        rows.append([str(number), f"`{p.name}`", " ".join(text.replace("``", "`").split())])
    return markdown(["", "pass", "what it does"], rows)


def runtime_api() -> str:
    """The entries of the CUDA runtime, from the headers that declare them."""
    unsupported = re.findall(r"TW_ENTRY\((cuda\w+)\)", (INCLUDE_DIR / "tilewright/unsupported.h").read_text())
    headers = [f"tilewright/{name}.h" for name in ("functions", "graphs", "runtime_helpers", "textures")]
    text = "".join((INCLUDE_DIR / name).read_text() for name in ("cuda_runtime.h", *headers))
    supported = set(
        re.findall(r"^(?:inline )?(?:cudaError_t|char const\*|cudaChannelFormatDesc) (cuda\w+)\(", text, re.M)
    )
    answers = {**dict.fromkeys(unsupported, "`cudaErrorNotSupported`"), **dict.fromkeys(supported, "supported")}
    return markdown(["function", "here"], [[f"`{name}`", answer] for name, answer in sorted(answers.items())])


def driver_api() -> str:
    """The entries of the CUDA driver, from the header that declares them."""
    text = (INCLUDE_DIR / "cuda.h").read_text()
    unsupported = re.findall(r"TW_NONE\((cu[A-Z]\w+)\)", text)
    supported = re.findall(r"^(?:TW_CALL\(|(?:inline )?CUresult )(cu[A-Z]\w+)[,(]", text, re.M)
    answers = {**dict.fromkeys(unsupported, "`CUDA_ERROR_NOT_SUPPORTED`"), **dict.fromkeys(supported, "supported")}
    return markdown(["function", "here"], [[f"`{name}`", answer] for name, answer in sorted(answers.items())])


TABLES: dict[str, Callable[[], str]] = {
    "dtypes": dtypes,
    "promotion": promotion,
    "casts": casts,
    "passes": passes,
    "runtime API": runtime_api,
    "driver API": driver_api,
}
