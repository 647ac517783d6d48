"""Whatever Python is given to ``@ct.kernel``: it works, or a tile error says why not."""

from __future__ import annotations

import linecache
import warnings
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilewright as ct
from tilewright.runtime.launch import specialization

NAMES = ("a", "n", "x", "y", "i", "T", "ct", "np", "missing")
ATOMS = st.sampled_from(
    (
        *NAMES,
        "0",
        "1",
        "2",
        "-3",
        "2.5",
        "1e40",
        "1 << 70",
        "None",
        "True",
        "'s'",
        "...",
        "()",
        "(x, 1)",
        "b'1'",
        "1j",
        "[1]",
        "{}",
    )
)
CT_CALLS = (
    "ct.load(a, (i,), (8,))",
    "ct.zeros((8,), ct.float32)",
    "ct.arange(8, dtype=ct.int32)",
    "ct.bid(0)",
    "ct.sum({0})",
    "ct.where({0}, {1}, {2})",
    "ct.full({0}, {1}, ct.int32)",
    "ct.load(a, {0}, {1})",
    "ct.gather(a, {0})",
    "ct.maximum({0}, {1})",
    "ct.reshape({0}, {1})",
    "ct.exp({0})",
    "ct.cat(({0}, {1}), 0)",
    "ct.reduce({0}, 0, lambda p, q: {1}, 0)",
    "ct.static_eval({0})",
    "ct.nothing({0})",
    "len({0})",
    "range({0}, {1})",
    "min({0}, {1})",
    "int({0})",
    "float({0})",
    "str({0})",
    "sum({0})",
    "tuple({0})",
    "helper({0}, {1})",
    "{0}({1})",
    "ct.int32({0})",
    "{0}.astype({1})",
)


@st.composite
def expressions(draw: Any, depth: int = 2) -> str:
    if depth == 0:
        return draw(ATOMS)
    form = draw(
        st.sampled_from(
            (
                *CT_CALLS,
                "({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} / {1})", "({0} // {1})", "({0} % {1})", "({0} ** {1})",
                "({0} @ {1})", "({0} << {1})", "({0} & {1})", "(-{0})", "(~{0})", "(not {0})", "({0} and {1})", "({0} or {1})",
                "({0} < {1} <= {2})", "({0} == {1})", "({0} is {1})", "({0} in {1})", "({0} if {1} else {2})", "{0}[{1}]",
                "{0}[:, None]", "{0}.shape", "{0}.dtype", "{0}.shape[0]", "({0}, {1})", "(lambda v: v + {0})({1})",
                "f'{{ {0} }}'", "[v for v in {0}]", "(v := {0})", "{{1: {0}}}", "{0}.foo",
            )
        )
    )  # fmt: skip
    operands = [draw(expressions(depth - 1)) if f"{{{i}}}" in form else "" for i in range(3)]
    return form.format(*operands)


@st.composite
def blocks(draw: Any, depth: int = 2) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        value = draw(expressions())
        name = draw(st.sampled_from(NAMES[:6]))
        kind = draw(st.integers(0, 14 if depth else 6))
        if kind <= 2:
            lines.append(f"{name} = {value}")
        elif kind == 3:
            lines.append(f"{name} {draw(st.sampled_from(('+=', '*=', '//=')))} {value}")
        elif kind == 4:
            lines.append(
                draw(st.sampled_from((f"{name}, y = {value}", f"{name}[0] = {value}", value, f"print({value})")))
            )
        elif kind == 5:
            lines.append(f"ct.store(a, (0,), {value})")
        elif kind == 6:
            lines.append(
                draw(
                    st.sampled_from(
                        (
                            "return",
                            f"return {value}",
                            "break",
                            "continue",
                            "pass",
                            f"assert {value}",
                            f"del {name}",
                            "import os",
                            "global x",
                            "raise ValueError",
                            "yield 1",
                            "nonlocal x",
                        )
                    )
                )  # fmt: skip
            )
        else:
            head = {
                7: f"if {value}:",
                8: f"if {value}:",
                9: f"for {name} in range({value}):",
                10: f"while {value}:",
                11: f"for {name} in ct.static_iter({value}):",
                12: "def inner(p, q=1, *r, **s):",
                13: f"with {value} as {name}:",
                14: "for i in range(3):",
            }[kind]
            lines.append(head)
            lines += ["    " + line for line in draw(blocks(depth - 1))]
            if kind == 8:
                lines += ["else:", *("    " + line for line in draw(blocks(depth - 1)))]
    return lines


def helper(p: Any, q: Any) -> Any:
    if p > q:
        return p
    return q + 1


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(blocks(), st.integers(0, 10**9))
def test_a_kernel_or_a_tile_error(lines: list[str], serial: int) -> None:
    source = "def kernel(a, n, T: ct.Constant[int]):\n    i = ct.bid(0)\n    x = ct.load(a, (i,), (8,))\n    y = 2\n"
    source += "".join(f"    {line}\n" for line in lines)
    filename = f"<random {serial}>"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler has opinions on random programs
            code = compile(source, filename, "exec")
    except SyntaxError:
        return
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"ct": ct, "np": np, "helper": helper}
    exec(code, namespace)
    try:
        kernel = ct.kernel(namespace["kernel"])
        specialise(kernel)
    except ct.TileError as e:
        assert str(e)
        assert e.loc is not None
    finally:
        del linecache.cache[filename]


def specialise(kernel: Any) -> None:
    """Compile for the CPU, without running what may never end."""
    specialization(kernel, (np.zeros(32, np.float32), 3, 4), "reference")
