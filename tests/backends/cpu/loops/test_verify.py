"""What the rules of the loop-level form reject."""

from __future__ import annotations

import pytest

from tilewright.backends.cpu.loops.verify import verify_loop_form
from tilewright.ir.parser import parse_function
from tilewright.ir.verifier import VerificationError

X = """
      %x = nest([], [], []) {buffers = (64)} : f32[16] {
        %c = constant() {value = 1.0, type = !f32[16]} : f32[16]
        yield([%c])
      }"""
LOOP = """
      %zero = constant() {value = 0, type = !i32} : i32
      %z = for(%zero, %n, %n, [%x]) : f32[16] { ^(%i: i32, %s: f32[16])
        %t = nest([], [], []) {buffers = (OFFSET)} : f32[16] {
          %u = neg(%s) : f32[16]
          yield([%u])
        }
        continue([%t])
      }"""


def check(body: str, scratch: str = "reserve_scratch() {bytes = 256}") -> None:
    verify_loop_form(parse_function(f'func @k(%n: i32 = "n".scalar) {{ {scratch} {body}\n return()\n}}'))


def test_nests_and_loops_over_them() -> None:
    check(X + LOOP.replace("OFFSET", "64"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%x = constant() {value = 1.0, type = !f32[16]} : f32[16]", "constant has to be in a nest"),
        (X + LOOP.replace("OFFSET", "128"), "in another buffer than that of its slot"),
        (X.replace("(64)", "(224)"), "is outside of the 256 bytes of scratch memory"),
        (X.replace("(64)", "(none)"), "needs a buffer"),
        (
            f"""{X} %y = nest([], [], []) {{buffers = (128)}} : f32[16] {{
              %p = pack(%x) : u8[64]
              %q = unpack(%p) {{dtype = f32}} : f32[16]
              yield([%q])
            }}""",
            "pack cannot be fused into a nest",
        ),
    ],
)
def test_what_has_no_place_is_rejected(body: str, message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        check(body)


def test_scratch_memory_is_reserved_first() -> None:
    with pytest.raises(VerificationError, match="does not begin with reserve_scratch"):
        check(X, "")
