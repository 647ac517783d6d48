"""Texts of LLVM IR in files beside the modules that fill them in."""

from __future__ import annotations

import functools
from pathlib import Path
from string import Template


def filled(module: str, name: str, section: str = "", /, **values: object) -> str:
    """The text of the file ``name`` beside ``module``, the file of a module, or of its part behind the line
    ``;; section``, with these values: what ``$x`` stands for, a list being lines. Comments are left out."""
    texts = {name: "\n".join(value) if isinstance(value, list) else value for name, value in values.items()}
    text = _sections(module, name)[section].substitute(texts)
    return "\n".join([line for line in text.splitlines() if line and line[0] != ";"])


@functools.cache
def _sections(module: str, name: str) -> dict[str, Template]:
    first, *others = Path(module).with_name(name).read_text().split("\n;; ")
    return {"": Template(first), **{name: Template(text) for name, _, text in (s.partition("\n") for s in others)}}
