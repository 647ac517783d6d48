"""The text of Tile IR with its values renamed in the order of their definition, for comparing two printers."""

from __future__ import annotations

import re

_NAME = re.compile(r"%[\w.$-]+")
_RESULTS = re.compile(r"^\s*((?:%[\w.$-]+(?::\d+)?(?:, )?)+) = ")
_INDUCTION = re.compile(r"\bfor (?:unsigned )?(%[\w.$-]+) in")
_CARRIED = re.compile(r"iter_values\((.*?)\) ?(?:->|:|\{)")


def renamed(text: str) -> list[str]:
    """The lines of ``text`` with values called %0, %1 and so on, and with single spaces."""
    names: dict[str, str] = {}
    count = 0
    lines: list[str] = []
    for line in text.splitlines():
        results = _RESULTS.match(line)
        rest = line[results.end() :] if results else line
        arguments = _INDUCTION.findall(rest)
        carried = _CARRIED.search(rest)
        if carried:
            arguments += re.findall(r"(%[\w.$-]+) = ", carried.group(1))
        if rest.lstrip().startswith(("entry", "(")):
            arguments += re.findall(r"(%[\w.$-]+):", rest)
        fresh = {name: f"%{count + i}" for i, name in enumerate(arguments)}
        count += len(arguments)
        known = {**names, **fresh}
        rest = _NAME.sub(lambda found, known=known: known.get(found.group(), found.group()), rest)
        names = known
        defined = [name.split(":")[0] for name in results.group(1).split(", ")] if results else []
        for name in defined:
            names[name] = f"%{count}"
            count += 1
        shown = ", ".join(names[name] for name in defined)
        lines.append(re.sub(r"\s+", " ", f"{shown} = {rest}" if defined else rest).strip())
    return lines
