"""The text form: equal to what ``tileirdisasm`` of CUDA 13.5 prints, up to the names of values.

The files ``data/*.mlir`` are what that tool printed for the modules here and for the files beside them.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.tile_ir_generic import generic
from support.tile_ir_ops import every_op, multimem
from support.tile_ir_text import renamed

import tilewright as ct
from tilewright import tileir
from tilewright.tileir import numbers
from tilewright.tileir.bytecode import read, write
from tilewright.tileir.debug import CallSite, FileLoc, Subprogram
from tilewright.tileir.errors import TextError, TileIRError
from tilewright.tileir.module import Module
from tilewright.tileir.optable import NEWEST
from tilewright.tileir.text import parse_module, print_module
from tilewright.tileir.types import SCALARS

DATA = Path(__file__).parent / "data"
MADE = {"every_op_13.1": every_op(1), "every_op_13.5": every_op(5), "multimem_13.5": multimem()}
FILES = {f.stem: read(f.read_bytes()) for f in sorted(DATA.glob("*.tilebc"))}


@pytest.mark.parametrize(
    ("name", "module"), [*MADE.items(), *FILES.items()], ids=lambda v: v if isinstance(v, str) else ""
)
def test_as_the_disassembler_prints(name: str, module: Module) -> None:
    assert renamed(print_module(module)) == renamed((DATA / f"{name}.mlir").read_text())


@pytest.mark.skipif(shutil.which("tileirdisasm") is None, reason="needs tileirdisasm")
@pytest.mark.parametrize("minor", range(1, NEWEST + 1))
def test_as_the_disassembler_at_hand_prints(minor: int, tmp_path: Path) -> None:
    file = tmp_path / "every.tilebc"
    file.write_bytes(write(every_op(minor)))
    shown = subprocess.run(["tileirdisasm", str(file)], capture_output=True, text=True, check=True, timeout=300).stdout
    assert renamed(print_module(every_op(minor))) == renamed(shown)


@pytest.mark.parametrize("name", numbers.FORMATS)
def test_numbers_read_back(name: str) -> None:
    bits = SCALARS[name].bits
    step = 1 if bits <= 8 else (1 << bits) // 500 + 1
    for value in range(0, 1 << bits, step):
        assert numbers.parse(name, numbers.show(name, value)) == value


@pytest.mark.parametrize(
    ("name", "module"), [*MADE.items(), *FILES.items()], ids=lambda v: v if isinstance(v, str) else ""
)
def test_what_is_printed_is_read(name: str, module: Module) -> None:
    shown = print_module(module)
    again = parse_module(shown, name)
    assert print_module(again) == shown
    assert print_module(read(write(again, module.minor))) == shown


@pytest.mark.parametrize("file", sorted(DATA.glob("*.mlir")), ids=lambda f: f.stem)
def test_what_the_disassembler_printed_is_read(file: Path) -> None:
    shown = file.read_text()
    assert renamed(print_module(parse_module(shown, file.name))) == renamed(shown)


@pytest.mark.parametrize(
    ("name", "module"), [*MADE.items(), *FILES.items()], ids=lambda v: v if isinstance(v, str) else ""
)
def test_the_generic_form_is_read(name: str, module: Module) -> None:
    assert print_module(parse_module(generic(module), name)) == print_module(module)


@pytest.mark.parametrize(
    ("name", "module"), [*MADE.items(), *FILES.items()], ids=lambda v: v if isinstance(v, str) else ""
)
def test_attributes_that_mean_nothing_are_left_out(name: str, module: Module) -> None:
    """On every op, before its types or behind its regions."""
    shown = print_module(module)
    unknown = '{foo, a.b = #my.thing<[1, "}"]> , "c" = affine_map<(d0) -> (d0)>, d = {e = [@f::@g, -1.5 : f32]}}'
    typed = re.compile(r"^( +(?:%.* = )?(?!for|loop|if|[%(])\w.*)( : )", re.MULTILINE)
    marked, count = typed.subn(lambda m: f"{m[1]} {unknown}{m[2]}", shown)
    marked = re.sub(r"^  +\}(?= *$)", f"}} {unknown}", marked, flags=re.MULTILINE)
    assert count and print_module(parse_module(marked, name)) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%b = absi %a {foo = } : tile<i32>", "21: expected the value of an attribute"),
        (
            "%b = absi %a {foo = #my<(> } : tile<i32>",
            "21: expected the value of an attribute, with its brackets closed",
        ),
        ("%b = absi %a {foo : tile<i32>", "19: expected ','"),
        ('%b = "cuda_tile.absi"(%a) {foo = =} : (tile<i32>) -> tile<i32>', "34: expected the value of an attribute"),
        ("%b = absi %a attributes {foo} : tile<i32>", "14: expected ':'"),
    ],
)
def test_mistakes_in_such_attributes_are_told_by_their_place(text: str, message: str) -> None:
    with pytest.raises(TextError, match=f"2:{message}"):
        parse_module(f"entry @k(%a: tile<i32>) {{\n{text}\nreturn\n}}")


GENERIC = """\
module attributes {some.thing = 1 : i32, another.one} {
  "cuda_tile.module"() ({
    cuda_tile.entry @k(%n: !cuda_tile.tile<i32>, %out: !cuda_tile.tile<ptr<i32>>) {
      %one = "cuda_tile.constant"() {value = dense<1> : !cuda_tile.tile<i32>} : () -> !cuda_tile.tile<i32>
      %0:2 = "cuda_tile.for"(%one, %n, %one, %one, %one) ({
      ^bb0(%i: !cuda_tile.tile<i32>, %a: !cuda_tile.tile<i32>, %b: !cuda_tile.tile<i32>):
        %c = addi %a, %b : tile<i32>
        "cuda_tile.continue"(%b, %c) : (!cuda_tile.tile<i32>, !cuda_tile.tile<i32>) -> ()
      }) : (tile<i32>, tile<i32>, tile<i32>, tile<i32>, tile<i32>) -> (tile<i32>, tile<i32>)
      %less = "cuda_tile.cmpi"(%n, %one) <{comparison_predicate = #cuda_tile<comparison_predicate less_than>,
          signedness = #cuda_tile.signedness<signed>}> : (tile<i32>, tile<i32>) -> tile<i1>
      "cuda_tile.if"(%less) ({
        cuda_tile.yield
      }, {
      }) : (tile<i1>) -> ()
      %t = "cuda_tile.store_ptr_tko"(%out, %0#1) <{memory_ordering_semantics = 0 : i32,
          operandSegmentSizes = array<i32: 1, 1, 0, 0>}> : (tile<ptr<i32>>, tile<i32>) -> token
      cuda_tile.return
    }
  }) {sym_name = "kernels"} : () -> ()
}
cuda_tile.module @more { entry @nothing() {} }
"""


def test_the_generic_form_among_the_usual_one_runs() -> None:
    module = tileir.load(GENERIC.encode())
    assert list(module.kernels) == ["k", "nothing"]
    out = np.zeros(1, np.int32)
    ct.launch(None, (1,), module.kernel("k"), (10, out))
    assert out == [89]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('%b = "arith.addi"(%a, %a) : (tile<i32>, tile<i32>) -> tile<i32>', "6: expected an op of CUDA Tile IR"),
        ('%b = "cuda_tile.plus"(%a) : (tile<i32>) -> tile<i32>', "6: expected an op of CUDA Tile IR"),
        ('%b = "cuda_tile.addi"(%a) : (tile<i32>) -> tile<i32>', "6: expected operandSegmentSizes of lhs, rhs"),
        (
            '%b = "cuda_tile.absi"(%a) : (tile<i8>) -> tile<i32>',
            r"30: expected \(tile<i32>\), the types of the operands",
        ),
        ('%b = "cuda_tile.absi"(%a) <{dim = 1}> : (tile<i32>) -> tile<i32>', "29: expected an attribute of absi"),
        ('%b = "cuda_tile.exti"(%a) : (tile<i32>) -> tile<i64>', "6: expected the attribute signedness of exti"),
        ('%b = "cuda_tile.exti"(%a) {signedness = 2 : i32} : (tile<i32>) -> tile<i64>', "41: expected one of unsigned"),
        ('"cuda_tile.if"(%a) ({}, {}) : (tile<i32>) -> ()', "1: expected a body of if"),
        (
            '%b = "cuda_tile.for"(%a, %a, %a) : (tile<i32>, tile<i32>, tile<i32>) -> ()',
            "6: expected some results and 1",
        ),
        ('%b = "cuda_tile.constant"() {value = dense<1 : tile<i32>} : () -> tile<i32>', "expected '"),
    ],
)
def test_mistakes_in_the_generic_form_are_told_by_their_place(text: str, message: str) -> None:
    with pytest.raises(TextError, match=f"a.mlir:2:{message}" if message[0].isdigit() else message):
        parse_module(f"entry @k(%a: tile<i32>) {{\n{text}\nreturn }}", "a.mlir")


DIALECT = """
!counts = !cuda_tile.tile<4xi32>
#outer = loc("k.py":3:5)
module {
  cuda_tile.module @kernels {  // a comment
    cuda_tile.entry @add(%a: !cuda_tile.tile<ptr<f32>> loc("k.py":1:2), %n: !cuda_tile.tile<i32>) {
      %0 = cuda_tile.constant <i32: 5> : !cuda_tile.tile<i32> loc(#place)
      %1=addi %0,
        %n:tile<i32>loc(callsite("in.py":7:3 at #place))
      %2 = addi %0, %n : tile<i32> loc(fused<"pass">["a.py":1:2, "b.py":3:4])
      %3 = addi %0, %n : tile<i32> loc("name"(callsite(#inlined at callsite(#inlined at #place))))
      %4 = iota : !counts loc(unknown)
      cuda_tile.return
    } loc(#outer)
  } loc(#outer)
} loc(unknown)
#place = #cuda_tile.di_loc<#outer in #block>
#block = #cuda_tile.di_lexical_block<scope = #scope, file = #file, line = 3, column = 1>
#scope = #cuda_tile.di_subprogram<file = #file, line = 2, name = "add", linkageName = "add", compileUnit = #unit, scopeLine = 2>
#helper = #cuda_tile.di_subprogram<file = #file, line = 9, name = "h", linkageName = "h@9", compileUnit = #unit, scopeLine = 9>
#inlined = #cuda_tile.di_loc<loc("k.py":9:0) in #helper>
#unit = #cuda_tile.di_compile_unit<file = #file>
#file = #cuda_tile.di_file<"k.py" in "folder">
"""


def test_text_of_the_dialect_with_its_prefixes_aliases_and_locations() -> None:
    def place(loc: object) -> tuple[str, int, int]:
        assert isinstance(loc, FileLoc)
        return loc.file, loc.line, loc.column

    entry = parse_module(DIALECT, "k.mlir").entry("add")
    constant, inlined, fused, named, iota, end = entry.body.ops
    assert place(constant.loc) == ("k.py", 3, 5)
    assert isinstance(inlined.loc, CallSite) and inlined.loc.caller is constant.loc
    assert place(inlined.loc.callee) == ("in.py", 7, 3)
    assert place(fused.loc) == ("a.py", 1, 2)
    assert isinstance(named.loc, CallSite) and isinstance(named.loc.caller, CallSite)
    assert place(named.loc.callee) == ("k.py", 9, 0)
    assert (place(iota.loc), place(end.loc)) == (("k.mlir", 12, 6), ("k.mlir", 13, 6))
    assert str(iota.results[0].type) == "tile<4xi32>"
    scope = entry.loc.scope if isinstance(entry.loc, FileLoc) else None
    assert isinstance(scope, Subprogram) and (scope.linkage_name, scope.line) == ("add", 2)
    assert isinstance(fused.loc, FileLoc) and fused.loc.scope is scope


def test_aliases_of_attributes_dense_constants_and_what_mlir_keeps_for_its_tools() -> None:
    module = parse_module(
        """#fast = #cuda_tile.optimization_hints<sm_100 = {occupancy = 1}>
#even = #cuda_tile.div_by<2>
#zero = #cuda_tile.rounding<zero>
cuda_tile.module @k {
  entry @k(%n: tile<i32>, %p: tile<ptr<f32>>) optimization_hints = #fast {
    %m = assume #even, %n : tile<i32>
    %d = "cuda_tile.divi"(%m, %n) <{rounding = #zero, signedness = #cuda_tile.signedness<signed>}>
        : (!cuda_tile.tile<i32>, !cuda_tile.tile<i32>) -> !cuda_tile.tile<i32>
    %x, %t = load_ptr_tko weak %p optimization_hints = #fast : tile<ptr<f32>> -> tile<f32>, token
    %c = constant dense<[1.0, 2.0]> : tile<2xf16>
    return
  }
}
{-#
  dialect_resources: { builtin: { blob: "0x08000000" } }
#-}
"""
    )
    assert (
        print_module(module)
        == """entry @k(%0: tile<i32>, %1: tile<ptr<f32>>) optimization_hints=<sm_100 = {occupancy = 1}> {
  %2 = assume div_by<2>, %0 : tile<i32>
  %3 = divi %2, %0 signed : tile<i32>
  %4, %5 = load_ptr_tko weak %1 optimization_hints = <sm_100 = {occupancy = 1}> : tile<ptr<f32>> -> tile<f32>, token
  %6 = constant <f16: [1.000000e+00, 2.000000e+00]> : tile<2xf16>
  return
}
"""
    )
    with pytest.raises(TextError, match="1:32: expected an alias of an attribute that is defined, not '#fast"):
        parse_module("entry @k() optimization_hints =#fast { return }")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a.b$c", "a.b$c"), ("k<int>", '"k<int>"'), ("1", '"1"'), ('ö"', '"\\C3\\B6\\22"'), ("$a", '"$a"')],
)
def test_names_that_are_no_words_are_quoted_as_the_disassembler_does(name: str, shown: str) -> None:
    quoted = name.replace('"', '\\"')
    text = (
        f'global @"{quoted}" <i8: 1> : tile<4xi8> entry @"{quoted}"() {{ %p = get_global @"{quoted}" : tile<ptr<i8>> }}'
    )
    module = parse_module(text)
    assert [module.entries[0].name, module.globals[0].name] == [name, name]
    said = print_module(module)
    assert said.count(f"@{shown}") == 3
    assert print_module(parse_module(said)) == said == print_module(read(write(module)))


def test_what_older_files_of_the_dialect_say() -> None:
    """Entries that end without a word, and the names of older versions."""
    module = parse_module(
        """cuda_tile.module @kernels {
          cuda_tile.entry @empty() {
          }
          entry @old(%x: !cuda_tile.tile<f32>, %n: !cuda_tile.tile<i32>) {
            %p = pow %x, %x : !cuda_tile.tile<f32>
            print "value %d\\0A", %n : !cuda_tile.tile<i32>
            print "done\\0A"
          }
        }"""
    )
    assert [op.name for op in module.entry("empty").body.ops] == ["return"]
    assert [op.name for op in module.entry("old").body.ops] == ["fpowf", "print_tko", "print_tko", "return"]
    assert print_module(read(write(module, 1))) == print_module(parse_module(print_module(read(write(module, 1)))))


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("f16", "65519.0", "6.550400e+04"),
        ("f16", "-65520.0", "0xFC00"),
        ("f32", "1e40", "0x7F800000"),
        ("f8E4M3FN", "464.0", "4.480000e+02"),  # a tie, as ml_dtypes and APFloat resolve it
        ("f8E4M3FN", "500.0", "0x7F"),
        ("f8E8M0FNU", "3.0", "4.000000e+00"),  # a tie of two powers, of which each has one bit
        ("f8E8M0FNU", "2.0e38", "1.701410e+38"),
        ("f8E8M0FNU", "1e40", "0xFF"),
        ("f4E2M1FN", "9.0", "6.000000e+00"),
    ],
)
def test_numbers_between_and_beyond_those_of_a_format(name: str, text: str, shown: str) -> None:
    found = numbers.parse(name, text)
    assert found is not None and numbers.show(name, found) == shown


@pytest.mark.skipif(shutil.which("tileirdisasm") is None, reason="needs tileirdisasm")
def test_locations_of_text_are_written_as_the_disassembler_reads_them(tmp_path: Path) -> None:
    def shown(module: Module) -> str:
        file = tmp_path / "k.tilebc"
        file.write_bytes(write(module))
        command = ["tileirdisasm", "-g", str(file)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout

    once = shown(parse_module(DIALECT, "k.mlir"))
    assert shown(parse_module(once, "k.mlir")) == once
    assert "callsite" in once and 'di_file<"k.py" in "folder">' in once
    assert shown(parse_module("entry @k() {\n  return\n}"))  # text of no file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "entry @k() {\n  %0 = addi %1, %1 : tile<i32>\n}",
            r"a.mlir:2:13: expected a value that is defined before, not '%1",
        ),
        ("entry @k(%a: !count) {\n  return\n}", r"a.mlir:1:14: expected a type, or an alias of one that is defined"),
        (
            'entry @k() {\n  return loc(fused["#no":1:2, #one])\n} loc(#two)\n#one = loc("a":1:2)',
            r"a.mlir:3:7: expected an alias of a location that is defined, not '#two",
        ),
        (
            'entry @k() {\n  return loc(#one)\n}\n#one = loc(callsite("a":1:2 at #loc1))',
            r"a.mlir:4:32: expected an alias of a location that is defined, not '#loc1",
        ),
        ("entry @k() {\n  nothing\n}", r"a.mlir:2:3: expected an op of CUDA Tile IR, not 'nothing'"),
        (
            "entry @k(%a: tile<3xi32>) {\n  return\n}",
            r"a.mlir:1:14: expected tile extents that are powers of two, not 3",
        ),
        ("entry @k(%a: tile<i32>) {\n  %b = negf %a : tile<f99>\n}", r"a.mlir:2:23: expected a number type"),
        (
            "entry @k(%a: tile<i32>) {\n  %b = exti %a signed : tile<i8> -> tile<i64>\n}",
            r"a.mlir:2:25: expected tile<i32>, the type of the operand",
        ),
        ("entry @k() {\n  %b = constant <i8: 300> : tile<i8>\n}", r"a.mlir:2:22: expected a number that fits i8"),
        (
            "entry @k() {\n  %b = constant <f8E4M3FN: -Infinity> : tile<f8E4M3FN>\n}",
            r"a.mlir:2:28: expected a number of f8E4M3FN",
        ),
        ("entry @k() {\n  %b = constant <i8: Infinity> : tile<i8>\n}", r"a.mlir:2:22: expected an integer of i8"),
        (
            "entry @k(%a: tile<i32>) {\n  %b = divi %a, %a signed rounding negative_in : tile<i32>\n}",
            r"a.mlir:2:36: expected one of nearest_even, .*, not 'negative_in",
        ),
        ("entry @k() {\n  return\n", r"a.mlir:3:1: expected a closing brace"),
        ("entry @k() {\n  return\n} more", r"a.mlir:3:3: expected an entry, a global or a module, not 'more'"),
        (
            "entry @k(%a: tile<i32>) {\n  %b:2 = negi %a : tile<i32>\n  return\n}",
            r"a.mlir:2:3: expected 1 results of negi",
        ),
        ("entry @k() {\n  return\n  return\n}", r"a.mlir:3:3: expected a closing brace, not 'return"),
        ("entry @k() {\n  yield\n}", r"a.mlir:3:2: expected a return as the last op of an entry"),
        (
            "entry @k(%a: tile<4xi32>) {\n  %b = reduce %a dim=0 identities=[0 : i32] : tile<4xi32> -> tile<i32>\n"
            "  (%c: tile<i32>, %d: tile<i32>) {\n    %e = addi %c, %d : tile<i32>\n  }\n  return\n}",
            r"a.mlir:5:3: expected a yield as the last op of the body, not '}",
        ),
    ],
)
def test_mistakes_in_text_are_told_by_their_place(text: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        parse_module(text, "a.mlir")


@pytest.mark.parametrize("operand", ("%a", "%n"))
def test_accesses_to_what_is_no_view_are_read_and_printed(operand: str) -> None:
    """As the reader of bytecode takes them, too; they are refused where a kernel is made of them."""
    text = f"""entry @k(%a: tile<ptr<f32>>, %n: tile<i32>) {{
  %x, %t = load_view_tko weak {operand}[%n] : tile<{"ptr<f32>" if operand == "%a" else "i32"}>, tile<i32> -> tile<f32>, token
  return
}}"""
    shown = print_module(read(write(parse_module(text))))
    assert print_module(parse_module(shown)) == shown
    with pytest.raises(TileIRError, match="view"):
        tileir.load(text.encode()).kernel()


def test_damaged_text_is_refused_or_read() -> None:
    rng = random.Random(3)
    sources = [show(m) for m in (every_op(1), every_op(NEWEST), multimem()) for show in (print_module, generic)]
    counts = {True: 0, False: 0}
    for _ in range(150):
        text = rng.choice(sources)
        start = rng.randrange(len(text) - 1200)
        lines = text[:start].splitlines()[:8] + text[start : start + 1200].splitlines()
        damaged = "\n".join(lines)
        at = rng.randrange(len(damaged))
        damaged = (
            damaged[:at]
            + rng.choice(("", "%", "<", "}", "x", "9" * 30, '"', "tile<"))
            + damaged[at + rng.randrange(4) :]
        )
        try:
            parse_module(damaged)
            counts[True] += 1
        except TileIRError:
            counts[False] += 1
    assert counts[False] > 100


OTHERS = """\
// as front ends of others spell it: in a module of MLIR, with prefixes, comments, spaces and what is left out in full
module {
  cuda_tile.module @kernels {
    cuda_tile.entry @rows(%in: !cuda_tile.tile<!cuda_tile.ptr<f64>>, %out: tile<ptr<f64>>) {
      %zero = cuda_tile.constant <i32: 0> : !cuda_tile.tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %start = make_token : token
      %some = constant <f64: 0.0> : tile<4x8xf64>
      %in_16 = cuda_tile.assume #cuda_tile.div_by<16>, %in : tile<ptr<f64>>
      %view = make_tensor_view %in_16, shape = [8, 8], strides = [8, 1] : tensor_view<8x8xf64, strides=[8, 1]>
      %tiles = make_partition_view %view : partition_view<tile=(4x8), padding_value = zero, tensor_view<8x8xf64, strides=[8, 1]>, dim_map=[0, 1]>
      %n, %m = get_index_space_shape %tiles : partition_view<tile=(4x8), padding_value = zero, tensor_view<8x8xf64, strides=[8, 1]>, dim_map=[0, 1]> -> tile<i32>
      %sum, %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %some, %t = %start) -> (tile<4x8xf64>, token) {
        %x, %u = load_view_tko weak %tiles[%i, %zero] token=%t : partition_view<tile=(4x8), padding_value = zero, tensor_view<8x8xf64, strides=[8, 1]>, dim_map=[0, 1]>, tile<i32> -> tile<4x8xf64>, token
        %y = addf %acc, %x rounding<nearest_even> : tile<4x8xf64>
        continue %y, %u : tile<4x8xf64>, token
      }
      %total = reduce %sum dim=0 identities=[0.0 : f64] : tile<4x8xf64> -> tile<8xf64> (%l: tile<f64>, %r: tile<f64>) {
        %s = addf %l, %r : tile<f64>
        yield %s : tile<f64>
      }
      %to = make_tensor_view %out, shape = [8], strides = [1] : tensor_view<8xf64, strides=[1]>
      %places = make_partition_view %to : partition_view<tile=(8), tensor_view<8xf64, strides=[1]>>
      %done = store_view_tko weak %total, %places[%zero] token = %end : tile<8xf64>, partition_view<tile=(8), tensor_view<8xf64, strides=[1]>>, tile<i32> -> token
      cuda_tile.return
    }
  }
}
"""


@pytest.mark.parametrize("backend", ("reference", "cpu"))
def test_text_in_the_spelling_of_others(backend: str) -> None:
    kernel = tileir.load(OTHERS.encode()).kernel("rows")
    x, out = np.arange(64, dtype=np.float64).reshape(8, 8), np.zeros(8)
    ct.launch(None, (1,), kernel, (x, out), backend=backend)
    np.testing.assert_array_equal(out, x.sum(axis=0))
    shown = print_module(parse_module(OTHERS))
    assert print_module(parse_module(shown)) == shown


CUTILE_RS = """\
cuda_tile.module @m {
  entry @k(%arg0: tile<ptr<f32>>, %arg1: tile<i32>) {
    %0 = constant <f32: [1.0, -Infinity, inf, NaN]> : tile<4xf32>
    %1 = constant <f8e4m3fn: 2.5> : tile<f8e4m3fn>
    %2 = constant <i32: 4> : tile<i32>
    %3 = divi %arg1, %2 signed rounding negative_inf : tile<i32>
    %4 = muli %3, %2 overflow no_wrap : tile<i32>
    %5 = reduce %0 dim=0 identities=[-inf] : tile<4xf32> -> tile<f32> {
    ^bb0(%6: tile<f32>, %7: tile<f32>):
      %8 = maxf %6, %7 : tile<f32>
      yield %8 : tile<f32>
    }
    %9 = iota : tile<4xi32>
    %10, %11 = scan %9, %0 dim=0 reverse=false identities=[0, 0] : tile<4xi32>, tile<4xf32> -> tile<4xi32>, tile<4xf32> {
    ^bb0(%12: tile<i32>, %13: tile<i32>, %14: tile<f32>, %15: tile<f32>):
      %16 = addi %12, %13 : tile<i32>
      %17 = addf %14, %15 rounding nearest_even : tile<f32>
      yield %16, %17 : tile<i32>, tile<f32>
    }
    for %18 in (%4 to %2, step %2) unsigned : tile<i32> {
      continue
    }
    return
  }
}
"""


def test_text_of_cutile_rs_means_the_same_in_the_spelling_of_the_disassembler() -> None:
    """Without brackets, with the arguments of a body inside of it, and with numbers that say no type."""
    of_the_disassembler = CUTILE_RS.replace("f8e4m3fn", "f8E4M3FN").replace(
        "rounding negative_inf", "rounding<negative_inf>"
    )
    for theirs, ours in (
        ("[1.0, -Infinity, inf, NaN]", "[1.0, 0xFF800000, 0x7F800000, 0x7FC00000]"),
        ("overflow no_wrap", "overflow<no_wrap>"),
        ("rounding nearest_even", "rounding<nearest_even>"),
        ("identities=[-inf]", "identities=[0xFF800000 : f32]"),
        ("identities=[0, 0]", "identities=[0 : i32, 0.0 : f32]"),
        ("{\n    ^bb0(%6: tile<f32>, %7: tile<f32>):", "(%6: tile<f32>, %7: tile<f32>) {"),
        ("-> tile<4xi32>, tile<4xf32> {\n    ^bb0", "-> tile<4xi32>, tile<4xf32> "),
        ("%15: tile<f32>):", "%15: tile<f32>) {"),
        ("for %18 in (%4 to %2, step %2) unsigned :", "for unsigned %18 in (%4 to %2, step %2) :"),
    ):
        assert theirs in of_the_disassembler
        of_the_disassembler = of_the_disassembler.replace(theirs, ours)
    shown = print_module(parse_module(CUTILE_RS))
    assert shown == print_module(parse_module(of_the_disassembler))
    assert all(
        s in shown for s in ("rounding<negative_inf>", "overflow<no_wrap>", "for unsigned", "f8E4M3FN", "0 : i32")
    )


def test_files_of_the_dialects_tests_are_read() -> None:
    """Functions for tests are left out; ops may have their oldest form; what ends a block need not be there."""
    module = parse_module(
        """
cuda_tile.module @kernels {
  cuda_tile.global @numbers alignment = 256 <f32 : [1.0, 2.5]> : !cuda_tile.tile<2xf32>
  testing$func @twice(%a: !cuda_tile.tensor_view<4xf32, strides=[1]>, %x: tile<1x2xf32>) -> tile<2x2xf32> {
    %0 = broadcast %x : tile<1x2xf32> -> tile<2x2xf32>
    return %0 : tile<2x2xf32>
  }
  testing$func @nothing(%a: !cuda_tile.ptr<i1>) {}
  entry @k(%p: !cuda_tile.tile<!cuda_tile.ptr<i32>>) {
    %one = constant <i32: 1> : tile<i32>
    %huge = constant <f16: 70000.0> : tile<f16>
    %bits = constant <i16: 0xFFFF> : !cuda_tile.tile<i16>
    %true = cuda_tile.constant <i1: 1> : !cuda_tile.tile<i1>
    %found = loop : tile<i16> {
      break %bits : tile<i16>
    }
    %pair:2 = if %true -> (tile<i16>, tile<i1>) {
      yield %found, %true : tile<i16>, tile<i1>
    } else {
      yield %bits, %true : tile<i16>, tile<i1>
    }
    print "%d of 100 %%", %pair#0 : tile<i16>
    atomic_rmw_tko relaxed device %p, add, %one
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  }
}
"""
    )
    assert [e.name for e in module.entries] == ["k"] and [g.alignment for g in module.globals] == [256]
    constants = [op.attributes["value"] for op in module.entries[0].body.ops if op.name == "constant"]
    assert constants == [b"\1\0\0\0", b"\0\x7c", b"\xff\xff", b"\xff"]
    text = print_module(module)
    assert "loop : -> tile<i16> {" in text and print_module(parse_module(text)) == text


def test_an_entry_without_a_return_ends_in_one() -> None:
    """As NVIDIA's parser of the dialect has it; attributes of an entry may come behind its body."""
    usual = parse_module("entry @k(%a: tile<i32>) {\n  %b = negi %a : tile<i32>\n  return\n}")
    short = parse_module("entry @k(%a: tile<i32>) {\n  %b = negi %a : tile<i32>\n} {of.others = 1 : i32}")
    assert print_module(short) == print_module(usual)


def test_entries_have_no_results() -> None:
    with pytest.raises(TextError, match=r"1:12: expected '{', not '-> tile<i32>"):
        parse_module("entry @k() -> tile<i32> { return }")
