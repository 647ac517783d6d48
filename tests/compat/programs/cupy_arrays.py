"""Arrays and streams of CuPy, and memory that only the array interface tells of."""

from __future__ import annotations

import cuda.tile as ct
import cupy as cp
import numpy as np
from cupy.cuda import Device


@ct.kernel
def saxpy(x, y, out, factor: float, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=factor * ct.load(x, (i,), (TILE,)) + ct.load(y, (i,), (TILE,)))


class Memory:
    """An allocation of the program's own, of which kernels know by the interface alone."""

    def __init__(self, array) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self):
        a = self.array
        return {"shape": a.shape, "typestr": a.dtype.str, "data": (a.data.ptr, False), "strides": None, "version": 3}


def main() -> None:
    stream = cp.cuda.Stream(non_blocking=True)
    x = cp.random.uniform(-1, 1, 1000).astype(cp.float32)
    y = cp.asarray(np.linspace(0, 1, 1000, dtype=np.float32))
    out = cp.zeros_like(x)
    start, end = cp.cuda.Event(), cp.cuda.Event()
    with stream:
        start.record()
        ct.launch(cp.cuda.get_current_stream(), (ct.cdiv(x.size, 128),), saxpy, (x, y, out, 2.0, 128))
        end.record()
    stream.synchronize()
    Device().synchronize()
    assert cp.is_available() and Device(0).attributes["MultiProcessorCount"] > 0 and Device(0).mem_info[0] > 0
    assert isinstance(out, cp.ndarray) and cp.cuda.get_elapsed_time(start, end) >= 0
    np.testing.assert_allclose(out.get(), 2 * cp.asnumpy(x) + y.get(), rtol=1e-6)
    cp.testing.assert_allclose(cp.sum(out), out.sum(), rtol=1e-4)
    for _ in range(3):  # the later launches are cached
        ct.launch(0, (8,), saxpy, (Memory(x), Memory(y), Memory(out), 3.0, 128))
    np.testing.assert_allclose(out.get(), 3 * x + y, rtol=1e-6)
    strided = cp.arange(64, dtype=cp.float32)[::2]
    result = cp.empty_like(strided)
    ct.launch(stream.ptr, (1,), saxpy, (strided, strided, result, 1.0, 32))
    assert (result == 2 * strided).all()
    drawn = cp.random.randn(4, 32, dtype=cp.float32)
    assert drawn.dtype == cp.float32 and isinstance(drawn, cp.ndarray) and drawn.device.id == 0
    assert cp.random.default_rng(0).standard_normal(3, dtype=cp.float32).get().dtype == np.float32
    assert drawn[1:].data.ptr - drawn.data.ptr == 128 and cp.cuda.runtime.getDeviceProperties(0)["major"] == 9
    print("ok")


if __name__ == "__main__":
    main()
