"""What MkDocs calls while it builds the site: makes pages, executes the notebooks, fills in tables and listings."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import diagrams
import gallery
import listings
import notebooks
import performance
import reference
import tables

# A cell with one long name, which may go on in another line after each underscore: on phones.
_LONG_NAME = re.compile(r"(?<=<td><code>)[A-Za-z]\w*_\w+(?=</code></td>)")
_MARK = re.compile(r"^<!-- (\w+)(?:: (.*?))? -->$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Guides that the navigation does not name come after those that it does."""
    guides = next(section["Guides"] for section in config.nav if "Guides" in section)
    navigation = str(config.nav)
    guides += sorted(p.name for p in Path(config.docs_dir).glob("*.md") if f"'{p.name}'" not in navigation)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are generated whole."""
    changelog = Path(config.docs_dir).parent / "CHANGELOG.md"
    made = {**reference.pages(), **gallery.pages(), **notebooks.pages(), "performance.md": performance.page()}
    made["releases.md"] = changelog.read_text(encoding="utf-8")
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Replace ``<!-- table: NAME -->``, ``<!-- listing: NAME -->`` and ``<!-- diagram: NAME -->`` by what they name."""
    walk = listings.Walk(markdown) if "<!-- listing: " in markdown else None

    def made(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if kind == "table":
            return tables.TABLES[name]()
        if kind == "diagram":
            return diagrams.DIAGRAMS[name]()
        if kind == "listing" and walk is not None:
            return walk.listing(name)
        return match[0]

    return _MARK.sub(made, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Let long names in tables be broken where their words end."""
    return _LONG_NAME.sub(lambda name: name[0].replace("_", "_<wbr>"), html)
