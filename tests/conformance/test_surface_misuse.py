"""Misuse of the language ends in a kernel or in a TileError with its place, never in an exception of the compiler."""

from __future__ import annotations

import numpy as np
import pytest
from support.tile_code import traced

import tilewright as ct

A = np.arange(16, dtype=np.float32)
BODIES = r"""
ct.load(a)
ct.load()
ct.store(a, 0)
a.slice(0)
a.slice()
ct.full((2,),)
ct.bid()
ct.reduce()
ct.load(a, 0, 4, 5, 6)
ct.load(a, None, 4)
ct.load(a, 0, None)
ct.load(None, 0, 4)
ct.load(a, 'x', 4)
ct.load(a, 0, 'x')
ct.load(a, 0, (4, None))
ct.sum(a)
ct.exp(a)
ct.exp('x')
ct.exp(None)
ct.where(None, 1, 2)
ct.where(a, 1, 2)
ct.astype(a, ct.int32)
ct.reshape(None,(1,))
ct.cat(None, 0)
ct.cat((1,2),0)
ct.permute(1, ())
ct.transpose(1)
ct.broadcast_to(1, ())
ct.expand_dims(1, 0)
ct.expand_dims(1, 5)
ct.extract(1, (), ())
ct.insert(1,(),2)
ct.atomic_add(n, 0, 1)
ct.gather(n, 0)
ct.num_tiles(n, 0, 4)
ct.num_tiles(a, 0, None)
a.tiled_view(None)
a.tiled_view(4).load(None)
a.tiled_view(4).store(0, None)
a.get_raw_memory().load_offset(None)
a.get_raw_memory().store_offset(0, None)
a.get_raw_memory().atomic_add_offset(0, a)
ct.printf(None)
ct.printf('%d', a)
print(a)
print(ct)
print(ct.load)
print(ct.float32)
print(None)
ct.assert_(None)
ct.assert_('x')
ct.assert_(a)
ct.mma(None, None, None)
ct.matmul(a, a)
ct.mma_scaled(1,2,3,4,5)
ct.cumsum(1)
ct.argmax(None)
ct.scan(None, 0, None, None)
ct.reduce(ct.zeros((2,), ct.int32), 0, None, 0)
ct.reduce((), 0, max, ())
ct.arange(None, dtype=None)
ct.full(None, None, None)
ct.astile(None, dtype=ct.int32)
ct.pack_to_bytes(None)
ct.unpack_from_bytes(None, None)
ct.bitcast(None, None)
ct.static_iter(3)
ct.int32()
ct.int32(1, 2)
ct.int32('x')
ct.int32(a)
ct.int32(None)
ct.float4_e2m1fn(1)
ct.float32(float('nan'))
ct.int32(float('nan'))
ct.int8(float('inf'))
ct.divmod(1, 0)
ct.cdiv(1, 0)
ct.mod(1.0, 0.0)
ct.pow(0, -1)
ct.sqrt(-1)
ct.log(0)
ct.atan2(0, 0)
ct.exp(1000.0)
ct.exp(1e400)
range(3)[0]
len(range(3))
(1,2)(3)
a.shape[5]
a.shape['x']
a.strides[-1]
n.shape[0]
n.foo
ct.foo
np.zeros(3)
np.foo
ct.kernel
ct.launch
ct.launch(None, (1,), None, ())
ct.use_backend('cpu')
ct.ByTarget(default=1)
ct.load(a, 0, 4, latency=ct.ByTarget(sm_90=2))
ct.tune
ct.PaddingMode.FOO
ct.PaddingMode('zero')
ct.RoundingMode['RN']
ct.Slice(0, 4)
ct.function
lambda: 1
(lambda x: x)()
(lambda: 1)(2)
print(*a)
print(**a)
f'{n:d}' + 1
'a' * 2
'a' in 'abc'
'abc'[1]
f'{n}'[0]
str(n) == 'x'
not a
a is None
None < 1
() + (1,)
(1,) * n
-(1,2)
~None
n[0]
n()
a()
1 if a else 2
x.y
a.b.c
print(f'{a}')
bool(a)
tuple(n)
int(a)
float('x')
slice(1)
getattr(a, n)
getattr(a, 'shape')[0]
getattr(a, 'zzz', 3)
super()
__name__
ct.__name__
...
ct.static_assert(True, 1, 2)
ct.ensure_constant()
ct.assume_divisible_by(n)
ct.grid_dependency_control_wait(1)
""".strip().splitlines()


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("body", BODIES)
def test_misuse(body: str) -> None:
    kernel = ct.kernel(traced(body, {"ct": ct, "np": np}, "a, n"))
    with ct.use_backend("reference"):
        try:
            ct.launch(None, (1,), kernel, (A.copy(), 5))
        except ct.TileError as e:
            assert not isinstance(e, ct.TileInternalError)
            assert e.loc is not None and e.loc.file.startswith("<tile code") and e.loc.line == 2, e
            assert e.message and "Traceback" not in e.message
