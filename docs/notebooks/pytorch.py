# %% [markdown]
# # Operators in PyTorch
#
# One declaration makes an operator of PyTorch from a kernel: with gradients, `torch.compile`, `vmap` and checks of its
# arguments. It needs `torch`; no GPU.

# %%
import torch

import tilewright as ct

# %% [markdown]
# ## Two kernels
#
# SiLU is x times the sigmoid of x. The second kernel is its derivative, times the gradient of the output:


# %%
def sigmoid(x):
    return 1 / (1 + ct.exp(-x))


@ct.kernel
def silu_kernel(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    values = ct.load(x, (i,), (TILE,))
    ct.store(out, (i,), values * sigmoid(values))


@ct.kernel
def silu_backward_kernel(x, grad, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    values = ct.load(x, (i,), (TILE,))
    s = sigmoid(values)
    ct.store(out, (i,), ct.load(grad, (i,), (TILE,)) * s * (1 + values * (1 - s)))


# %% [markdown]
# ## One declaration
#
# `"n -> n"` names the dimensions of the input and of the output. Shapes, the fake implementation and the checks follow.


# %%
@ct.op("notebook::silu", "n -> n", sharded="n")
def silu(stream, x, out):
    """x times its sigmoid."""
    ct.launch(stream, (ct.cdiv(x.shape[0], 256),), silu_kernel, (x, out, 256))


@ct.op("notebook::silu_backward", "n, n -> n", sharded="n")
def silu_backward(stream, x, grad, out):
    ct.launch(stream, (ct.cdiv(x.shape[0], 256),), silu_backward_kernel, (x, grad, out, 256))


@silu.gradient
def silu_gradient(x, grad_out):
    return silu_backward(x, grad_out)


# %% [markdown]
# ## Values and gradients

# %%
x = torch.linspace(-4, 4, 1000, requires_grad=True)
y = silu(x)
torch.testing.assert_close(y, torch.nn.functional.silu(x))
y[::200]

# %%
(ours,) = torch.autograd.grad(silu(x).square().sum(), x)
(theirs,) = torch.autograd.grad(torch.nn.functional.silu(x).square().sum(), x)
torch.testing.assert_close(ours, theirs)
float((ours - theirs).abs().max())

# %% [markdown]
# Forward mode needs a rule of its own, which names the tangents of the inputs that it takes:


# %%
@silu.jvp
def silu_tangent(x, tangent_x):
    return silu_backward(x, tangent_x)


ones = torch.ones(1000)
_, tangent = torch.func.jvp(silu, (x.detach(),), (ones,))
torch.testing.assert_close(tangent, torch.func.jvp(torch.nn.functional.silu, (x.detach(),), (ones,))[1])
tangent[::200]

# %% [markdown]
# ## Compiled and mapped
#
# `fullgraph=True` says that nothing falls back to Python between the operators:

# %%
compiled = torch.compile(lambda x: silu(x).relu() + 1, fullgraph=True, backend="eager")
torch.testing.assert_close(compiled(x), torch.nn.functional.silu(x).relu() + 1)
rows = torch.randn(4, 100, generator=torch.Generator().manual_seed(0))
torch.testing.assert_close(torch.vmap(silu)(rows), torch.nn.functional.silu(rows))
torch.vmap(silu)(rows).shape

# %% [markdown]
# ## PyTorch's own checks
#
# `opcheck` looks at the schema, the fake implementation and the gradients:

# %%
torch.library.opcheck(silu.torch_op, (torch.randn(10, requires_grad=True),))

# %% [markdown]
# ## Wrong arguments
#
# The names of the dimensions are in the messages:

# %%
try:
    silu_backward(torch.zeros(3), torch.zeros(4))
except RuntimeError as e:
    print(e)
