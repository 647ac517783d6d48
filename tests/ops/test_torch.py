"""Operators in PyTorch programs: torch.library, autograd, torch.compile, vmap, autocast."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.operators import add, matmul, norm, scale, scale_in_place, scale_kernel, with_rules

import tilewright as ct
from tilewright.ir.diagnostics import raised_on_purpose, short_traceback

torch = pytest.importorskip("torch")
dynamo = pytest.importorskip("torch._dynamo.testing")
TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def leaf(*shape: int, **kwargs: Any) -> Any:
    return torch.randn(*shape, requires_grad=True, **kwargs)


@pytest.mark.parametrize(
    ("op", "make"),
    [
        (add, lambda: (leaf(300), torch.randn(300))),
        (add, lambda: (torch.randn(600)[::2], torch.randn(300))),
        (scale, lambda: (leaf(5),)),
        (scale, lambda: (torch.randn(5), 3.0)),
        (norm, lambda: (torch.randn(4, 40), torch.randn(40))),
        (matmul, lambda: (leaf(20, 30), leaf(30, 17))),
        (scale_in_place, lambda: (torch.randn(5),)),
    ],
)
def test_opcheck(op: Any, make: Callable[[], tuple[Any, ...]]) -> None:
    torch.library.opcheck(op.torch_op, make())


def test_values_and_gradients() -> None:
    a, b = leaf(20, 30), leaf(30, 17)
    out = matmul(a, b)
    torch.testing.assert_close(out, a @ b)
    grads = torch.autograd.grad(out.square().sum(), (a, b))
    torch.testing.assert_close(grads, torch.autograd.grad((a @ b).square().sum(), (a, b)), rtol=1e-4, atol=1e-4)
    x = leaf(7, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: scale(x, 3.0), x)
    assert torch.autograd.gradgradcheck(lambda x: scale(x, 3.0), x)


def test_an_operator_in_place_counts_as_a_write() -> None:
    x = torch.ones(5)
    y = leaf(5)
    product = x * y
    scale_in_place(x, 3.0)
    assert x.tolist() == [3.0] * 5
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_compiled_functions_have_no_graph_break() -> None:
    def program(x: Any, y: Any) -> Any:
        z = x + 1
        scale_in_place(z, 3.0)
        return add(scale(z, factor=2.0).sin(), b=y) * 2

    def expected(x: Any, y: Any) -> Any:
        return (((x + 1) * 6).sin() + y) * 2

    compiled = torch.compile(program, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for n in (5, 300, 17):
            x, y = torch.randn(n), torch.randn(n)
            torch.testing.assert_close(compiled(x, y), expected(x, y))
    trained = torch.compile(lambda x, y: add(scale(x, 3.0).cos(), y), fullgraph=True)
    x, y = leaf(40), leaf(40)
    found = torch.autograd.grad(trained(x, y).sum(), (x, y))
    torch.testing.assert_close(found, (-3 * (3 * x).sin(), torch.ones(40)))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_launches_in_compiled_functions(backend: str) -> None:
    """Without an operator around them: the outputs are changed in place."""

    def program(x: Any, factor: float) -> Any:
        out = torch.empty_like(x)
        grid = (ct.cdiv(x.shape[0], 256),)
        ct.launch(None, grid, scale_kernel, (x.sin(), out, factor, 256))
        ct.launch(None, grid, scale_kernel, (out, out, 2.0, 256))
        return out + 1

    compiled = torch.compile(program, fullgraph=True, dynamic=True, backend=backend)
    for n, factor in ((5, 3.0), (300, 0.5)):
        x = torch.randn(n)
        torch.testing.assert_close(compiled(x, factor), x.sin() * 2 * factor + 1)


def test_floats_that_vary_are_compiled_for_once() -> None:
    """As those of PyTorch's own products: first for the one value, then for all; not those that a kernel has fixed."""

    @ct.kernel
    def fixed(x: Any, out: Any, FACTOR: ct.Constant[float], T: ct.Constant[int]) -> None:
        ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (T,)) * FACTOR)

    def launched(kernel: Any) -> Callable[[Any, float], Any]:
        def program(x: Any, factor: float) -> Any:
            out = torch.empty_like(x)
            ct.launch(None, (ct.cdiv(x.shape[0], 256),), kernel, (x, out, factor, 256))
            return out

        return program

    def in_place(x: Any, factor: float) -> Any:
        y = x.clone()
        scale_in_place(y, factor)
        return y

    programs = [scale, lambda x, f: scale(x, factor=f), in_place, launched(scale_kernel), launched(fixed)]
    for program, compilations in zip(programs, (2, 2, 2, 2, 4)):
        counter = dynamo.CompileCounterWithBackend("aot_eager" if compilations == 2 else "eager")
        compiled = torch.compile(program, fullgraph=True, backend=counter)
        for factor in (3.0, 0.5, 0.25, 7.0):
            x = torch.randn(30)
            torch.testing.assert_close(compiled(x, factor), x * factor)
        assert counter.frame_count == compilations
    counter = dynamo.CompileCounterWithBackend("aot_eager")
    trained = torch.compile(lambda x, f: scale(x, f).square().sum(), fullgraph=True, backend=counter)
    for factor in (3.0, 0.5, 0.25):
        x = leaf(30)
        trained(x, factor).backward()
        torch.testing.assert_close(x.grad, 2 * factor**2 * x)
    assert counter.frame_count == 2


def test_floats_in_tensors() -> None:
    x, factor = torch.randn(7, 30), torch.tensor(3.0)
    torch.testing.assert_close(scale(x[0], factor), x[0] * 3)
    torch.testing.assert_close(torch.compile(scale, fullgraph=True, backend="eager")(x[0], factor), x[0] * 3)
    torch.testing.assert_close(torch.vmap(scale, (0, None))(x, factor), x * 3)
    torch.testing.assert_close(torch.vmap(scale)(x, torch.arange(7.0)), x * torch.arange(7.0)[:, None])
    torch.library.opcheck(scale.held, (leaf(5), torch.tensor(3.0, dtype=torch.float64)))


def test_launches_with_names_and_defaults_in_compiled_and_exported_functions() -> None:
    @ct.kernel
    def scaled(x: Any, out: Any, factor: float = 3.0, T: ct.Constant[int] = 256) -> None:
        i = ct.bid(0)
        ct.store(out, (i,), ct.load(x, (i,), (T,), padding_mode=ct.PaddingMode.ZERO) * factor)

    def program(x: Any) -> Any:
        out = torch.empty_like(x)
        ct.launch(None, (1,), scaled, (x, out))
        ct.launch(None, (1,), scaled, (out,), out=out, factor=2.0)
        return out + 1

    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return program(x)

    x = torch.randn(30)
    torch.testing.assert_close(torch.compile(program, fullgraph=True, backend="aot_eager")(x), 6 * x + 1)
    for strict in (False, True):
        exported = torch.export.export(Module(), (torch.zeros(30),), strict=strict)
        torch.testing.assert_close(exported.module()(x), 6 * x + 1)


def test_arguments_that_compiled_launches_cannot_have() -> None:
    def program(x: Any) -> Any:
        ct.launch(None, (1,), scale_kernel, (x, [x], 2.0, 256))
        return x

    with pytest.raises(Exception, match="in a compiled function, ct.launch takes arrays, numbers and dtypes only"):
        torch.compile(program, fullgraph=True, backend="eager")(torch.ones(3))


def test_vmap_and_functional_gradients() -> None:
    x, b = torch.randn(7, 30), torch.randn(30)
    torch.testing.assert_close(torch.vmap(scale)(x), x * 2)
    torch.testing.assert_close(torch.vmap(add, in_dims=(0, None))(x, b), x + b)
    left, right = torch.randn(3, 20, 10), torch.randn(10, 15, 3)
    torch.testing.assert_close(torch.vmap(matmul, in_dims=(0, None))(left, right[..., 0]), left @ right[..., 0])
    torch.testing.assert_close(torch.vmap(matmul, in_dims=(0, 2))(left, right), left @ right.permute(2, 0, 1))
    rows, weight = torch.randn(3, 4, 40), torch.randn(40)
    for found, expected in zip(torch.vmap(norm, in_dims=(0, None))(rows, weight), map(torch.stack, zip(*[norm(r, weight) for r in rows]))):  # fmt: skip
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.func.grad(lambda x: scale(x, 3.0).sum())(b), torch.full((30,), 3.0))
    torch.testing.assert_close(torch.func.functionalize(scale)(b), 2 * b)
    per_sample = torch.vmap(torch.func.grad(lambda x: scale(x, 3.0).square().sum()))(x)
    torch.testing.assert_close(per_sample, 18 * x)


def test_transformations_around_each_other() -> None:
    """Gradients of what ``vmap`` computes, of higher order, of the operator itself, and in compiled functions."""
    func, x, b = torch.func, torch.randn(7, 30), torch.randn(30)
    for op in (scale, scale.torch_op):
        torch.testing.assert_close(func.grad(lambda x, op=op: torch.vmap(op)(x).square().sum())(x), 8 * x)
        nested = func.grad(lambda x, op=op: func.grad(lambda y: op(y).square().sum())(x).square().sum())
        torch.testing.assert_close(nested(b), 128 * b)
        torch.testing.assert_close(torch.vmap(nested)(x), 128 * x)
    outer = torch.randn(30, requires_grad=True)
    func.grad(lambda y: scale(y).square().sum())(outer).sum().backward()
    torch.testing.assert_close(outer.grad, torch.full((30,), 8.0))
    compiled = torch.compile(lambda x: func.grad(lambda y: torch.vmap(scale)(y).square().sum())(x), fullgraph=True)
    torch.testing.assert_close(compiled(x), 8 * x)


def test_forward_mode() -> None:
    """Tangents, around and inside of gradients and batches, of dual tensors, and in compiled functions."""
    func, forward_ad = torch.func, torch.autograd.forward_ad
    a, b, ta, tb = (torch.randn(n, m) for n, m in ((3, 5), (5, 4), (3, 5), (5, 4)))
    for derivative in (
        lambda f: func.jvp(f, (a, b), (ta, tb)),
        lambda f: func.hessian(lambda a, b: f(a, b).square().sum(), argnums=(0, 1))(a, b),
        lambda f: func.jacrev(func.jacfwd(f))(a, b),
        lambda f: torch.vmap(lambda t: func.jvp(f, (a, b), (t, tb))[1])(torch.stack([ta, a])),
        lambda f: func.jvp(lambda x: torch.vmap(f, (0, None))(x, b), (torch.stack([a, ta]),), (torch.stack([ta, a]),)),
    ):
        torch.testing.assert_close(derivative(matmul), derivative(torch.matmul), rtol=1e-4, atol=1e-4)
    with forward_ad.dual_level():
        out, tangent = forward_ad.unpack_dual(matmul(forward_ad.make_dual(a, ta), b))
        torch.testing.assert_close((out, tangent), (a @ b, ta @ b))
    compiled = torch.compile(lambda a, b: func.jvp(matmul, (a, b), (ta, tb))[1], fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(a, b), ta @ b + a @ tb)
    x = leaf(7, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: scale(x, 3.0), x, check_forward_ad=True)


def test_compiled_autograd() -> None:
    x = leaf(5)
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        scale(x, 3.0).sum().backward()
    assert x.grad.tolist() == [3.0] * 5


@ct.op("tests::double_into", "n, n ->", mutates="out")
def double_into(stream: Any, x: Any, out: Any) -> None:
    ct.launch(stream, (ct.cdiv(x.shape[0], 256),), scale_kernel, (x, out, 2.0, 256))


def test_vmap_of_an_operator_in_place() -> None:
    for axis in (0, 1):
        x = torch.randn(6, 7)
        expected = 2 * x
        torch.vmap(lambda row: (scale_in_place(row), row)[1], in_dims=axis)(x)
        torch.testing.assert_close(x, expected)
    rows, out = torch.randn(3, 5), torch.zeros(3, 5)
    torch.vmap(lambda row, out: (double_into(row, out), out)[1])(rows, out)
    torch.testing.assert_close(out, 2 * rows)
    with pytest.raises(RuntimeError, match="'out' is changed in place, so it must have the batch of vmap, too"):
        torch.vmap(double_into, in_dims=(0, None))(rows, out[0])


def test_autocast() -> None:
    x = torch.randn(4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert matmul(x, x).dtype == torch.bfloat16
        assert add(x[0].bfloat16(), x[1]).dtype == torch.float32
        assert scale(x[0]).dtype == torch.float32  # it asks for nothing
    assert matmul(x, x).dtype == torch.float32


def overlapping(x: Any) -> tuple[Any, Any]:
    return x[:6], x[3:]


def without_storage(x: Any) -> Any:
    x.untyped_storage().resize_(0)
    return x


def test_parts_of_one_tensor_may_be_changed() -> None:
    x = torch.arange(10.0)
    double_into(x[:5], x[5:])
    assert x.tolist() == [0, 1, 2, 3, 4, 0, 2, 4, 6, 8]
    double_into(x[0::2], x[1::2])
    assert x.tolist() == [0, 0, 2, 4, 4, 8, 2, 4, 6, 12]


def made_in_inference_mode() -> Any:
    with torch.inference_mode():
        return torch.zeros(4)


def with_tangent(function: Callable[[Any], Any], x: Any) -> Any:
    with torch.autograd.forward_ad.dual_level():
        return function(torch.autograd.forward_ad.make_dual(x, x))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: add(torch.zeros(3), torch.zeros(4)), RuntimeError, "tests::add: 'b' has the extent 4 along axis 0 (n)"),
        (lambda: add(torch.zeros(3), torch.zeros(3, device="meta")), RuntimeError, "tests::add: 'b' is on meta, but 'a'"),
        (lambda: add(torch.zeros(3), np.zeros(3)), RuntimeError, "Expected a value of type 'Tensor' for argument 'b'"),
        (lambda: add(torch.zeros(3), None), RuntimeError, "tests::add: 'b' is None; pass a tensor"),
        (lambda: add(torch.zeros(3), torch.zeros(3).to_sparse()), RuntimeError, "tests::add: 'b' has the layout torch.sparse_coo"),
        (lambda: add(torch.nested.nested_tensor([torch.zeros(3)]), torch.zeros(3)), RuntimeError, "tests::add: 'a' is a nested tensor"),
        (lambda: scale(torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8)), RuntimeError, "tests::scale: 'x' is quantized"),
        (lambda: matmul(torch.zeros(4, 4), torch.zeros(4, 4, dtype=torch.int32)), RuntimeError, "tests::matmul(a: float32, b: int32): "),
        (lambda: scale_in_place(torch.zeros(1).expand(4)), RuntimeError, "tests::scale_: 'x' is changed in place, but several"),
        (lambda: double_into(*map(torch.from_numpy, overlapping(np.zeros(9)))), RuntimeError, "tests::double_into: 'out' is changed in place, but shares memory with 'x'"),
        (lambda: double_into(*[torch.zeros(3)] * 2), RuntimeError, "tests::double_into: 'out' is changed in place, but shares memory with 'x'"),
        (lambda: double_into(*overlapping(torch.zeros(9))), RuntimeError, "tests::double_into: 'out' is changed in place, but shares memory with 'x'"),
        (lambda: scale(without_storage(torch.zeros(4))), RuntimeError, "tests::scale: argument 'x' of scale_kernel() is a Tensor with elements but without memory"),
        (lambda: scale_in_place(made_in_inference_mode()), RuntimeError, "tests::scale_: 'x' was made in inference mode"),
        (lambda: scale_in_place(leaf(4)), RuntimeError, "tests::scale_ changes 'x' in place and has no gradient"),
        (lambda: norm(leaf(2, 4), leaf(4))[0].sum().backward(), RuntimeError, "tests::norm has no gradient; declare it with @norm.gradient"),
        (lambda: add(torch.zeros(3, dtype=torch.complex64), torch.zeros(3)), RuntimeError, "tests::add: 'a' has the dtype torch.complex64"),
        (lambda: torch.func.jvp(add, (torch.ones(3),) * 2, (torch.ones(3),) * 2), NotImplementedError, "tests::add has no forward-mode derivative, which jvp, jacfwd, hessian and dual tensors ask for; declare it with @add.jvp"),
        (lambda: torch.func.jvp(norm, (torch.ones(2, 4), torch.ones(4)), (torch.ones(2, 4), torch.ones(4))), NotImplementedError, "tests::norm has no forward-mode"),
        (lambda: with_rules(lambda grad_out: (grad_out[:2], None))(leaf(3), leaf(3)).sum().backward(), RuntimeError, "tests::ruled: the gradient of 'a' has the shape (2,); it must have (3,)"),
        (lambda: with_rules(lambda grad_out: (None, 1.0))(leaf(3), leaf(3)).sum().backward(), RuntimeError, "tests::ruled: the gradient of 'b' is of type float; it must be a tensor or None"),
        (lambda: torch.func.jvp(with_rules(jvp=lambda tangent_a: tangent_a[:2]), (torch.ones(3),) * 2, (torch.ones(3),) * 2), RuntimeError, "tests::ruled: the tangent of 'out' has the shape (2,); it must have (3,)"),
        (lambda: scale(torch.ones(3), torch.ones(2)), RuntimeError, "tests::scale: 'factor' has the shape (2,); it must be a number"),
        (lambda: scale(torch.ones(3), leaf(1)), RuntimeError, "tests::scale: 'factor' requires a gradient, which numbers have not"),
        (lambda: with_tangent(lambda x: add(x, x), torch.ones(3)), NotImplementedError, "tests::add has no forward-mode derivative"),
    ],
)  # fmt: skip
def test_bad_input_is_an_error_of_pytorch(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
    assert raised_on_purpose(caught.tb) or text.startswith("Expected a value")
    assert str(Path(ct.__file__).parent) not in short_traceback(caught.value, caught.tb, color=False)


def run_python(program: str, **kwargs: Any) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=TESTS, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


def test_the_first_call_may_be_in_a_compiled_function() -> None:
    """Though torch was not there when the operator was declared."""
    program = """
import support.operators as k, sys
assert "torch" not in sys.modules and "jax" not in sys.modules
import torch
f = torch.compile(lambda x: k.scale(x, 3.0) + 1, fullgraph=True, backend="eager")
print(f(torch.arange(3.)).tolist())
"""
    assert run_python(program).strip() == "[1.0, 4.0, 7.0]"


def test_a_program_without_operators_is_compiled(tmp_path: Path) -> None:
    """``ct.launch`` is all that it uses."""
    program = """
import torch, tilewright as ct
@ct.kernel
def double(x, out):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (4,)) * 2)
def run(x):
    out = torch.empty_like(x)
    ct.launch(None, (1,), double, (x, out))
    return out + 1
print(torch.compile(run, fullgraph=True, backend="eager")(torch.arange(3.)).tolist())
"""
    (tmp_path / "program.py").write_text(program)
    assert run_python(f"import runpy; runpy.run_path({str(tmp_path / 'program.py')!r})").strip() == "[1.0, 3.0, 5.0]"


def test_exported_programs_run_in_another_process(tmp_path: Path) -> None:
    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return add(scale(x, 3.0), x).relu()

    n = torch.export.Dim("n", min=2, max=1000)
    exported = torch.export.export(Model(), (torch.randn(30),), dynamic_shapes=({0: n},))
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "model.pt2"))
    torch.export.save(exported, str(tmp_path / "exported.pt2"))
    program = f"""
import torch, support.operators as k
k.add.torch_op, k.scale.torch_op
x = torch.arange(-2., 3.)
print(torch._inductor.aoti_load_package({package!r})(x).tolist())
print(torch.export.load({str(tmp_path / "exported.pt2")!r}).module()(x).tolist())
"""
    assert run_python(program).split("\n")[:2] == ["[0.0, 0.0, 0.0, 4.0, 8.0]"] * 2
