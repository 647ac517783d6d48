"""What notebooks show of kernels."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np

import tilewright as ct


@ct.kernel
def clipped(source, target):
    x = ct.load(source, (0,), (8,))
    ct.store(target, (0,), ct.where(x < 0, 0, x))


def test_an_inspection_shows_every_stage() -> None:
    with ct.use_backend("cpu"):
        ct.launch(None, (1,), clipped, (np.ones(8, np.float32), np.zeros(8, np.float32)))
    inspection = clipped.inspect()
    (found,) = inspection.specializations
    shown = ElementTree.fromstring(f"<div>{inspection._repr_html_()}</div>")
    text, *stages = shown
    assert text.text == str(inspection)
    expected = [(f"1. {name}", found.stage(name).strip()) for name in found.stage_names()]
    assert [(stage[0].text, (stage[1].text or "").strip()) for stage in stages] == expected and expected
    text, *stages = ElementTree.fromstring(f"<div>{found._repr_html_()}</div>")
    assert text.text == "\n".join(found.compilation.lines())
    assert [stage[0].text for stage in stages] == found.stage_names()
