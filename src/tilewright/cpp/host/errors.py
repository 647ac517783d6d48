"""The error codes of the CUDA runtime that programs can get here."""

from __future__ import annotations

import enum


class Error(enum.IntEnum):
    """A code; its name in C is ``cuda`` in front of the name here."""

    text: str

    def __new__(cls, code: int, text: str) -> Error:
        member = int.__new__(cls, code)
        member._value_ = code
        member.text = text
        return member

    Success = 0, "no error"
    ErrorInvalidValue = 1, "invalid argument"
    ErrorMemoryAllocation = 2, "out of memory"
    ErrorInitializationError = 3, "initialization error"
    ErrorInvalidConfiguration = 9, "invalid configuration argument"
    ErrorInvalidPitchValue = 12, "invalid pitch argument"
    ErrorInvalidSymbol = 13, "invalid device symbol"
    ErrorInvalidDevicePointer = 17, "invalid device pointer"
    ErrorInvalidMemcpyDirection = 21, "invalid copy direction for memcpy"
    ErrorInvalidDeviceFunction = 98, "invalid device function"
    ErrorNoDevice = 100, "no CUDA-capable device is detected"
    ErrorInvalidDevice = 101, "invalid device ordinal"
    ErrorInvalidResourceHandle = 400, "invalid resource handle"
    ErrorNotReady = 600, "device not ready"
    ErrorIllegalAddress = 700, "an illegal memory access was encountered"
    ErrorAssert = 710, "device-side assert triggered"
    ErrorMisalignedAddress = 716, "misaligned address"
    ErrorLaunchFailure = 719, "unspecified launch failure"
    ErrorNotSupported = 801, "operation not supported"
    ErrorUnknown = 999, "unknown error"


# After these nothing works any more, as on a device.
STICKY = frozenset(
    {Error.ErrorIllegalAddress, Error.ErrorAssert, Error.ErrorMisalignedAddress, Error.ErrorLaunchFailure}
)


def known_error(code: int) -> Error | None:
    """The error with a code; None for a code that there is not."""
    return next((error for error in Error if error == code), None)
