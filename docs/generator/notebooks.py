"""The notebooks: sources in jupytext's percent format become executed .ipynb files, and pages that show their outputs.

    python docs/generator/notebooks.py FOLDER    # writes the executed notebooks there

A notebook that imports a library which is not installed stays unexecuted, and says so.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from nbconvert import MarkdownExporter

SOURCES = Path(__file__).parents[1] / "notebooks"
_LIBRARIES = {"pytorch": "torch", "jax": "jax"}  # what a notebook needs beside NumPy
_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
# What cells show: HTML in a block, within which Markdown leaves everything as it is, and text in a fence.
_TEMPLATE = """{% extends 'markdown/index.md.j2' %}
{% macro shown(text) %}
~~~~~ { .text .tw-result }
{{ text.rstrip() | strip_ansi }}
~~~~~
{% endmacro %}
{% block data_html %}<div class="tw-output">{{ output.data['text/html'] }}</div>{% endblock %}
{% block data_text %}{{ shown(output.data['text/plain']) }}{% endblock %}
{% block stream %}{{ shown(output.text) }}{% endblock %}
{% block error %}{{ shown(output.traceback | join('\\n')) }}{% endblock %}"""


@dataclass(frozen=True)
class Notebook:
    """A notebook as nbformat has it; ``missing`` is the library without which it was not executed."""

    name: str
    content: Any
    missing: str | None

    def ipynb(self) -> str:
        text: str = nbformat.writes(self.content)
        return text

    def page(self) -> str:
        """The notebook as a page of the site, which offers the file beside it."""
        markdown, _ = MarkdownExporter(raw_template=_TEMPLATE).from_notebook_node(self.content)
        title, rest = markdown.lstrip().split("\n", 1)
        said = f"[Download this notebook]({self.name}.ipynb); its source is `docs/notebooks/{self.name}.py`."
        if self.missing:
            said += f" It is shown without outputs: `{self.missing}` was not installed where this page was made."
        return f"{title}\n\n{said}\n{rest}"


def notebook(source: Path) -> Notebook:
    """The notebook of a source, executed in a fresh process. CellExecutionError where a cell raises unexpectedly."""
    content = jupytext.read(source)
    content.metadata.clear()
    content.metadata.kernelspec = _KERNEL
    needed = _LIBRARIES.get(source.stem)
    if needed is not None and importlib.util.find_spec(needed) is None:
        return Notebook(source.stem, content, needed)
    with TemporaryDirectory() as folder:  # what a notebook compiles and remembers is its own
        environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": folder}
        client = NotebookClient(content, timeout=600, resources={"metadata": {"path": folder}})
        client.execute(env=environment)
    return Notebook(source.stem, content, None)


def notebooks() -> list[Notebook]:
    return [notebook(source) for source in sorted(SOURCES.glob("*.py"))]


def pages() -> dict[str, str]:
    """Path to text of the page and of the file of every notebook."""
    found: dict[str, str] = {}
    for made in notebooks():
        found[f"notebooks/{made.name}.md"] = made.page()
        found[f"notebooks/{made.name}.ipynb"] = made.ipynb()
    return found


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for made in notebooks():
        (folder / f"{made.name}.ipynb").write_text(made.ipynb(), encoding="utf-8")
        print(f"{made.name}: " + (f"not executed, {made.missing} is not installed" if made.missing else "executed"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
