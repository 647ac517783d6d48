"""Memory, streams, events and graphs of ``cuda.core`` and ``cuda.bindings``; no library of arrays but NumPy."""

from __future__ import annotations

import cuda.core as cc
import cuda.tile as ct
import numpy as np
from cuda.bindings import driver, runtime
from cuda.core import Device, EventOptions
from cuda.core._utils.cuda_utils import handle_return
from cuda.tile import launch


@ct.kernel
def scale(x, out, factor: float, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * factor)


class DeviceArray:
    """An array of the program's own in memory of the driver."""

    def __init__(self, array) -> None:
        self.nbytes, self.dtype, self.shape = array.nbytes, array.dtype, array.shape
        err, self.pointer = driver.cuMemAlloc(array.nbytes)
        if err.value:
            raise RuntimeError(f"cuMemAlloc: {err}")
        driver.cuMemcpyHtoD(self.pointer, array, array.nbytes)
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (int(self.pointer), False),
            "version": 3,
        }

    def get(self):
        out = np.empty(self.shape, self.dtype)
        (err,) = driver.cuMemcpyDtoH(out, self.pointer, self.nbytes)
        assert err == driver.CUresult.CUDA_SUCCESS
        return out

    def free(self) -> None:
        assert driver.cuMemFree(self.pointer) == (driver.CUresult.CUDA_SUCCESS,)


def of_the_driver(stream) -> None:
    host = np.arange(1000, dtype=np.float32)
    x, out = DeviceArray(host), DeviceArray(np.zeros_like(host))
    ct.launch(int(stream.__cuda_stream__()[1]), (ct.cdiv(1000, 128),), scale, (x, out, 2.0, 128))
    runtime.cudaStreamSynchronize(stream.handle)
    np.testing.assert_array_equal(out.get(), 2 * host)
    assert driver.cuMemcpyDtoH(host, x.pointer, 2 * host.nbytes)[0] == driver.CUresult.CUDA_ERROR_INVALID_VALUE
    (error,) = runtime.cudaMemcpy(int(x.pointer) + 8, host, host.nbytes, runtime.cudaMemcpyKind.cudaMemcpyHostToDevice)
    assert runtime.cudaGetErrorString(error)[1] == b"invalid argument"
    driver.cuMemsetD32(x.pointer, 0, 1000)
    assert not x.get().any()
    x.free(), out.free()
    assert driver.cuMemFree(x.pointer)[0] != driver.CUresult.CUDA_SUCCESS
    count = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    err, processors = driver.cuDeviceGetAttribute(count, driver.cuDeviceGet(0)[1])
    assert processors == runtime.cudaGetDeviceProperties(0)[1].multiProcessorCount > 0 == int(err)


def of_the_runtime() -> None:
    host = np.arange(256, dtype=np.int32)
    pointer = handle_return(runtime.cudaMalloc(host.nbytes))
    stream = handle_return(runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))
    start, end = handle_return(runtime.cudaEventCreate()), handle_return(runtime.cudaEventCreate())
    runtime.cudaEventRecord(start, stream)
    to_device, to_host = runtime.cudaMemcpyKind.cudaMemcpyHostToDevice, runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
    runtime.cudaMemcpyAsync(pointer, host.ctypes.data, host.nbytes, to_device, stream)
    back = np.empty_like(host)
    runtime.cudaMemcpyAsync(back.ctypes.data, pointer, host.nbytes, to_host, stream)
    runtime.cudaEventRecord(end, stream)
    runtime.cudaEventSynchronize(end)
    np.testing.assert_array_equal(back, host)
    assert handle_return(runtime.cudaEventElapsedTime(start, end)) >= 0
    handle_return(runtime.cudaFree(pointer))


def of_buffers(device, stream) -> None:
    x, out = device.allocate(4096, stream=stream), device.memory_resource.allocate(4096, stream=stream)
    x.fill(3, stream=stream)
    np.from_dlpack(x).view(np.float32)[:4] = 1, 2, 3, 4
    timed = EventOptions(timing_enabled=True)
    begin = stream.record(options=timed)
    ct.launch(stream, (4,), scale, (np.from_dlpack(x).view(np.float32), np.from_dlpack(out).view(np.float32), 0.5, 256))
    assert stream.record(options=timed) - begin >= 0
    copied = out.copy_to(stream=stream)
    np.testing.assert_array_equal(np.from_dlpack(copied).view(np.float32)[:4], [0.5, 1, 1.5, 2])
    with copied, out:
        x.close(stream)


def of_graphs(device, stream) -> None:
    x, out = DeviceArray(np.ones(128, np.float32)), DeviceArray(np.zeros(128, np.float32))
    for _ in range(20):  # so that launches are repeated by machine code
        launch(stream, (1,), scale, (x, out, 0.0, 128))
    builder = device.create_graph_builder().begin_building()
    launch(int(builder.__cuda_stream__()[1]), (1,), scale, (x, out, 2.0, 128))
    driver.cuMemcpyDtoDAsync(x.pointer, out.pointer, x.nbytes, builder.stream.handle)
    graph = builder.end_building().complete()
    assert not out.get().any()
    for _ in range(3):
        graph.launch(stream)
    stream.sync()
    assert (out.get() == 8).all()


def main() -> None:
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    assert cc.Device() == device and device.compute_capability.major >= 8 and device.properties.multiprocessor_count
    of_the_driver(stream)
    of_the_runtime()
    of_buffers(device, stream)
    of_graphs(device, stream)
    try:
        cc.Program("__global__ void k() {}", code_type="c++")
    except NotImplementedError as error:
        assert "tilewright run" in str(error)
    print("ok")


if __name__ == "__main__":
    main()
