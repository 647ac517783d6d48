"""What the driver says of launches that it refuses, in the terms of who launched."""

from __future__ import annotations

from tilewright.gpu_runtime import driver

FOREIGN = (driver.INVALID_CONTEXT, driver.INVALID_HANDLE, driver.CONTEXT_DESTROYED)  # not of the current context
# Along the second and the third axis of a grid: CUDA C++ Programming Guide, technical specifications.
_MOST_BLOCKS = 65535


def refused(kernel: str, code: int, grid: tuple[int, int, int], stream: int, on: driver.Device) -> driver.CudaError:
    """The error ``code`` of launching ``kernel`` with ``grid`` on a ``stream`` of the device ``on``."""
    doing = f"the launch of {kernel}()"
    said = driver.failure(code, doing)
    if code in driver.LOST:
        return driver.CudaError(
            f"{said}. A kernel that this process launched before has failed, after which the driver ends all work "
            "of the process on this GPU: start it again. To find the kernel, run tilewright check on the program",
            code,
        )
    if code in FOREIGN and stream and not on.owns(stream):
        return driver.CudaError(
            f"{doing}: its arrays are on cuda:{on.index}, and the stream {stream:#x} is none of that device, or was "
            "destroyed; pass a stream of the device of the arrays",
            code,
        )
    if code == driver.INVALID_VALUE and max(grid[1:]) > _MOST_BLOCKS:
        return driver.CudaError(
            f"{doing}: the grid {grid} has more than {_MOST_BLOCKS} blocks along its second or third axis, which no "
            "GPU runs; let the first axis be the longest",
            code,
        )
    return said
