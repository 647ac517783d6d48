"""The API reference: pages made of signatures and docstrings, of the op table, and of the commands' own help."""

from __future__ import annotations

import argparse
import enum
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from parameters import sections
from tables import markdown

import tilewright as ct
from tilewright import cli, compilation, cpp, language, lib, ops, sanitizer, tileir, tune
from tilewright.ir import ops as _ops
from tilewright.ir.opdef import OPS, REQUIRED, Arity
from tilewright.ir.printer import print_value
from tilewright.ops.operator import Operator
from tilewright.viewer import View

assert _ops  # declares every op

_EXAMPLE = re.compile(r"(?:^>>>.*\n?(?:^(?!\n).*\n?)*)+", re.MULTILINE)


def pages() -> dict[str, str]:
    """Path to text of every generated page."""
    return {f"api/{name}.md": make() for name, make in _PAGES.items()}


def prose(docstring: str | None) -> str:
    """A docstring as Markdown: names in backticks, examples as code."""
    text = inspect.cleandoc(docstring or "")
    pieces, position = [], 0
    for match in _EXAMPLE.finditer(text):
        pieces.append(_paragraphs(text[position : match.start()]))
        pieces.append(f"```pycon\n{match[0].rstrip()}\n```")
        position = match.end()
    pieces.append(_paragraphs(text[position:]))
    return "\n\n".join(p for p in pieces if p)


def _paragraphs(text: str) -> str:
    code = re.sub(
        r"::\n\n((?: {4}.*\n?|\n)+)", lambda m: f":\n\n```python\n{textwrap.dedent(m[1]).rstrip()}\n```\n", text
    )
    return _outside_code(code)


def _outside_code(text: str) -> str:
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(p if p.startswith("```") else p.replace("``", "`") for p in parts).strip()


def entry(name: str, value: Any, level: int = 2) -> str:
    """The section of a function or class."""
    head = f"{'#' * level} `{name.split('.')[-1]}`"
    signature = _signature(name, value)
    parts = [head, *([f"```python\n{signature}\n```"] if signature else []), prose(value.__doc__)]
    parts += sections(name, value)
    if isinstance(value, type):
        for key, member in vars(value).items():
            if not key.startswith("_") and getattr(member, "__doc__", None) and _is_method(member):
                parts.append(entry(f"{name}.{key}", _unwrapped(member), level + 1))
    return "\n\n".join(parts)


def _is_method(member: Any) -> bool:
    return isinstance(member, (staticmethod, classmethod, property)) or inspect.isfunction(member)


def _unwrapped(member: Any) -> Any:
    return member.__func__ if isinstance(member, (staticmethod, classmethod)) else member


def _signature(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    text = re.sub(r": '([^']*)'|-> '([^']*)'", lambda m: f": {m[1]}" if m[1] else f"-> {m[2]}", str(signature))
    text = re.sub(r"<(\w+)\.(\w+): [^>]*>", r"\1.\2", text)
    line = f"ct.{name}{text}"
    if len(line) <= 100:
        return line
    body = ",\n    ".join(_split(text[1 : text.rindex(")")]))
    return f"ct.{name}(\n    {body},\n){text[text.rindex(')') + 1 :]}"


def _split(text: str) -> list[str]:
    """The parameters in the text of a signature."""
    found, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            found.append("")
        else:
            found[-1] += c
    return [p.strip() for p in found if p.strip()]


def _page(title: str, intro: str, names: Iterable[tuple[str, Any]]) -> str:
    return "\n\n".join([f"# {title}", intro, *(entry(name, value) for name, value in names)]) + "\n"


def _language_page(title: str, module: str) -> Callable[[], str]:
    def make() -> str:
        found = getattr(language, module)
        names = [
            (n, v)
            for n in language.__all__
            if getattr(v := getattr(language, n), "__module__", "") == found.__name__ and callable(v)
        ]
        names += [(n, getattr(language, n)) for n in language.__all__ if n.startswith("atomic_") and module == "memory"]
        return _page(title, prose(found.__doc__), dict(names).items())

    return make


def _kernels() -> str:
    names = ("kernel", "launch", "function", "use_backend", "compiler_timeout", "ByTarget")
    found = [(n, getattr(ct, n)) for n in names]
    base = next(c for c in ct.kernel.__mro__ if c.__name__ == "Launchable")
    methods = [(f"kernel.{n}", getattr(base, n)) for n in ("bind", "inspect", "compile_for", "replace_options")]
    intro = (
        "What a program uses outside of kernels. Throughout the reference, *Source* names where the behaviour is laid "
        "down: *data model* is the chapter of that name in [cuTile Python's documentation]"
        "(https://docs.nvidia.com/cuda/cutile-python/), *behaviour of* `cuda.tile` is what that version does. "
        "Where no source is named, this page is the description."
    )
    return _page("Kernels and launches", intro, [*found, *methods])


def _annotations() -> str:
    rows = [
        [
            "`Constant`, `Constant[int]`",
            "embed the argument: it is a constant in the kernel, which is compiled anew for each value",
        ],
        ["`IndexedWithInt64`", "an array whose extents, strides and indices are int64"],
        ["`ScalarInt64`", "an integer argument that is passed as int64"],
        ["`Annotated[Any, ArrayAnnotation(...)]`", "an array with the properties below; in the same way for lists"],
        ["`Scalar`", "any number, for type checkers"],
    ]
    page = _language_page("Annotations", "annotations")()
    return page.replace("\n## ", "\n" + markdown(["annotation", "meaning"], rows) + "\n\n## ", 1)


def _dtypes() -> str:
    parts = [
        "# Dtypes and modes",
        "Dtypes are objects such as `ct.float32`. NumPy, PyTorch and ml_dtypes dtypes are accepted wherever they are.",
        "<!-- table: dtypes -->",
        "Calling a dtype makes a scalar of it: `ct.int8(3)`.",
        entry("DType", ct.DType),
        entry("foreign_pointer_dtype", ct.foreign_pointer_dtype),
    ]
    for value in (ct.RoundingMode, ct.PaddingMode, ct.MemoryOrder, ct.MemoryScope):
        members = ", ".join(f"`{m.name}`" for m in value)
        parts += [
            f"## `{value.__name__}`",
            prose(value.__doc__),
            f"Members: {members}. Functions also take a name as a string.",
        ]
    return "\n\n".join(parts) + "\n"


def _errors() -> str:
    found = [(n, getattr(ct, n)) for n in language.__all__ if _is_error(getattr(ct, n))]
    intro = "Every error of tile code is a `TileError`: it shows the line with a caret, and the calls that led to it."
    rows = [[f"`{n}`", f"`{v.__mro__[1].__name__}`", prose(v.__doc__).replace("\n", " ")] for n, v in found]
    return "\n\n".join(["# Errors", intro, markdown(["class", "derived from", "when"], rows)]) + "\n"


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _module(title: str, module: Any) -> Callable[[], str]:
    def make() -> str:
        prefix = module.__name__.removeprefix("tilewright.")
        found = {n: getattr(module, n) for n in module.__all__}
        described = {n: v for n, v in found.items() if inspect.isfunction(v) or isinstance(v, type)}
        text = _page(title, prose(module.__doc__), [(f"{prefix}.{n}", v) for n, v in described.items()])
        aliases = [f"- `{n}` is `{_alias(v)}`" for n, v in found.items() if n not in described]
        return "\n".join([text, "## Aliases", "", *aliases, ""]) if aliases else text

    return make


def _sanitizer() -> str:
    names = [(f"sanitizer.{n}", getattr(sanitizer, n)) for n in sanitizer.__all__]
    found = [(n, v) for n, v in names if isinstance(v, type)]
    categories = sanitizer.CATEGORIES.values()
    rows = [[f"`{c.name}`", c.title, c.source, "yes" if c.default else "opt-in"] for c in categories]
    table = markdown(["category", "what it is", "laid down in", "on"], rows)
    return _page("Sanitizer", f"{prose(sanitizer.__doc__)}\n\n{table}", [("sanitize", sanitizer.sanitize), *found])


def _view() -> str:
    intro = "Recordings of launches, as `tilewright view` makes them, from Python and in notebooks."
    return _page("Viewing launches", intro, [("view", ct.view), ("View", View)])


def _alias(value: Any) -> str:
    return re.sub(r"\b\w+(\.\w+)+\.", "", str(value)).replace("typing.", "")


def _ir() -> str:
    parts = [
        "# Tile IR",
        "Every front end makes Tile IR, and every backend compiles it. `tilewright inspect` prints it. This is the op "
        "table; `tests/ir/every_op.tir` has an example of each.",
    ]
    for name, op in OPS.items():
        spec = op.spec
        marks = {Arity.ONE: "", Arity.OPTIONAL: "?", Arity.MANY: "*"}
        rows = [[f"`{f.name}{marks[f.arity]}`", "operand", ""] for f in spec.operands]
        rows += [[f"`{r.name}`", "region", ""] for r in spec.regions]
        for a in spec.attributes:
            types = ", ".join(_type_name(t) for t in a.types)
            default = "" if a.default is REQUIRED else f"default `{print_value(a.default)}`"
            rows.append([f"`{a.name}`", types.replace("|", "\\|"), default])
        effects = str(spec.effect).removeprefix("Effect.").lower().replace("|", ", ")
        note = "" if effects in ("none", "0") else f"Effect: {effects}."
        parts += [f"## `{name}`", prose(spec.doc), note, markdown(["", "is", ""], rows) if rows else ""]
    return "\n\n".join(p for p in parts if p) + "\n"


def _type_name(t: type) -> str:
    return "none" if t is type(None) else t.__name__ if not issubclass(t, enum.Enum) else f"`{t.__name__}`"


_STATUSES = markdown(
    ["exit status", "when"],
    [
        ["0", "everything is fine"],
        ["1", "something was found: a violation, a wrong result, a backend that does not work"],
        ["2", "misuse: an option, a file or an argument that the command cannot take"],
        ["3", "the program failed, or the kernel cannot be compiled"],
        ["other", "a program that ends itself, as by `sys.exit(7)`, keeps its own status"],
    ],
)


def _commands() -> str:
    parts = ["# The `tilewright` program", "`tilewright COMMAND --help` prints the same.", _STATUSES]
    parser = argparse.ArgumentParser(prog="tilewright")
    commands = parser.add_subparsers()
    for name in cli.COMMANDS:
        cli.add_command(name, commands)
    for name, found in commands.choices.items():
        parts += [f"## `{name}`", f"```text\n{found.format_help().rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


_PAGES: dict[str, Callable[[], str]] = {
    "kernels": _kernels,
    "annotations": _annotations,
    "dtypes": _dtypes,
    "arithmetic": _language_page("Arithmetic", "arithmetic"),
    "tiles": _language_page("Tiles", "tiles"),
    "memory": _language_page("Memory", "memory"),
    "objects": _language_page("Arrays, tiles and views", "array"),
    "static": _language_page("At compile time", "static"),
    "errors": _errors,
    "sanitizer": _sanitizer,
    "view": _view,
    "tune": _module("Tuning", tune),
    "compilation": _module("Compiling ahead", compilation),
    "cpp": _module("Tile C++", cpp),
    "tileir": _module("CUDA Tile IR files", tileir),
    "lib": _module("Functions beside the language", lib),
    "ops": lambda: _page("Operators", prose(ops.__doc__), [("ops.Operator", Operator), ("ops.op", ct.op)]),
    "ir": _ir,
    "commands": _commands,
}
