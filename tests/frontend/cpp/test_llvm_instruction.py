"""Records of lines of LLVM text."""

from __future__ import annotations

import pytest

from tilewright.frontend.cpp.llvm_instruction import instruction, renamed


@pytest.mark.parametrize(
    ("line", "op", "type", "values", "words"),
    [
        ("  store float 5.000000e-01, ptr %x, align 4", "store", "float", ("5.000000e-01", "%x"), set()),
        ("  store atomic i32 %v, ptr @g release, align 4", "store", "i32", ("%v", "@g"), {"atomic", "release"}),
        ("  %a = load volatile i64, ptr %p, align 8, !dbg !7", "load", "i64", ("%p",), {"volatile"}),
        ("  %a = fadd fast double %x, 1.000000e+30", "fadd", "double", ("%x", "1.000000e+30"), {"fast"}),
        ("  %a = icmp samesign ult i32 %x, -1", "icmp", "i32", ("%x", "-1"), {"samesign", "ult"}),
        (
            "  %a = getelementptr inbounds { i32, [2 x i8] }, ptr getelementptr inbounds (i8, ptr @t, i64 4), i64 %i",
            "getelementptr",
            "{ i32, [2 x i8] }",
            ("getelementptr inbounds (i8, ptr @t, i64 4)", "%i"),
            {"inbounds"},
        ),
        (
            '  %"a b" = atomicrmw umax ptr %p, i32 3 monotonic, align 4',
            "atomicrmw",
            "ptr",
            ("%p", "3"),
            {"umax", "monotonic"},
        ),
    ],
)
def test_lines(line: str, op: str, type: str, values: tuple[str, ...], words: set[str]) -> None:
    read = instruction(line)
    assert (read.op, read.type, read.values, read.words) == (op, type, values, words)
    assert all(line[each.start : each.end] == each.value for each in read.args)


def test_calls_branches_and_names() -> None:
    call = instruction("  %r = tail call noundef i32 @f(i32 noundef 1, ptr align 16 %p, ...) #3, !dbg !12, !srcloc !4")
    assert (call.result, call.callee, call.debug, call.args[1].alignment) == ("%r", "f", 12, 16)
    branch = instruction('  br i1 %c, label %then, label %"or else", !llvm.loop !5')
    assert (branch.values, branch.labels) == (("%c",), ("%then", '%"or else"'))
    assert instruction("  %p = phi i32 [ 0, %a ], [ %n, %b ]").incoming == [("0", "%a"), ("%n", "%b")]
    assert renamed("  %x1 = add i32 %x, %x.y", {"%x": "%z"}) == "  %x1 = add i32 %z, %x.y"
