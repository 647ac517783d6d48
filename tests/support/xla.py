"""The structures of XLA's foreign function interface, as xla/ffi/api/c_api.h has them, and an API that looks."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

_WORD, _POINTER, _INT = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
EXECUTE, PREPARE = 3, 1


def structure(name: str, *fields: tuple[str, Any]) -> Any:
    return type(name, (ctypes.Structure,), {"_fields_": [("size", _WORD), ("extension", _POINTER), *fields]})


Version = structure("Version", ("major", _INT), ("minor", _INT))
Buffer = structure("Buffer", ("dtype", _INT), ("data", _POINTER), ("rank", ctypes.c_int64), ("dims", _POINTER))
Listed = (("count", ctypes.c_int64), ("types", _POINTER), ("items", _POINTER))
Arguments, Results = structure("Arguments", *Listed), structure("Results", *Listed)
Attributes = structure("Attributes", *Listed, ("names", _POINTER), ("attributes", _POINTER))
Frame = structure(
    "Frame",
    *(("api", _POINTER), ("context", _POINTER), ("stage", _INT)),
    *(("arguments", Arguments), ("results", Results), ("attributes", Attributes)),
)
ErrorCreate = structure("ErrorCreate", ("message", ctypes.c_char_p), ("code", _INT))
Asked = structure("Asked", ("context", _POINTER), ("found", _POINTER))
Metadata = type(
    "Metadata",
    (ctypes.Structure,),
    {"_fields_": [("size", _WORD), ("version", Version), ("traits", ctypes.c_uint32)]},
)
MetadataExtension = type(
    "MetadataExtension",
    (ctypes.Structure,),
    {"_fields_": [("size", _WORD), ("kind", _INT), ("next", _POINTER), ("metadata", _POINTER)]},
)
_FUNCTIONS = (
    *("internal", "error_create", "error_message", "error_destroy", "register", "stream"),
    *("type", "execution_context", "state_set", "state_get", "allocate", "free", "schedule", "threads"),
)
Api = structure("Api", ("version", Version), *((name, _POINTER) for name in _FUNCTIONS))
_CREATE = ctypes.CFUNCTYPE(_POINTER, ctypes.POINTER(ErrorCreate))
_ASK = ctypes.CFUNCTYPE(_POINTER, ctypes.POINTER(Asked))
_new = ctypes.pythonapi.PyCapsule_GetPointer
_new.restype, _new.argtypes = _POINTER, (ctypes.py_object, ctypes.c_char_p)


class Xla:
    """Calls a handler as XLA does. ``stream`` is that of the execution, None where XLA has none."""

    def __init__(self, handler: Any, stream: int | None = 77) -> None:
        self.stream, self.errors, self._kept = stream, list[tuple[int, str]](), handler
        self._handler = ctypes.CFUNCTYPE(_POINTER, _POINTER)(_new(handler.capsule(), b"xla._CUSTOM_CALL_TARGET"))
        self._functions = _CREATE(self._error), _ASK(self._stream), _ASK(lambda _: None)
        create, stream_get, destroy = (ctypes.cast(f, _POINTER) for f in self._functions)
        version = Version(ctypes.sizeof(Version), None, 0, 3)
        self._api = Api(ctypes.sizeof(Api), None, version)
        self._api.error_create, self._api.stream, self._api.error_destroy = create, stream_get, destroy

    def _error(self, given: Any) -> int:
        self.errors.append((given.contents.code, given.contents.message.decode()))
        return len(self.errors)

    def _stream(self, asked: Any) -> int | None:
        assert asked.contents.context == 55
        if self.stream is None:
            return 99  # an error
        asked.contents.found = self.stream
        return None

    def call(self, inputs: Sequence[int], results: Sequence[int], stage: int = EXECUTE) -> int | None:
        """The error that the handler gives for buffers at these addresses, None where there is none."""
        frame, kept = self._frame(inputs, results, stage)
        found = self._handler(ctypes.byref(frame))
        del kept
        return found

    def metadata(self) -> tuple[int, int, int]:
        """The version of the API that the handler is for, and its traits."""
        frame, kept = self._frame((), (), EXECUTE)
        metadata = Metadata(ctypes.sizeof(Metadata), Version(ctypes.sizeof(Version), None, 0, 0), 0)
        extension = MetadataExtension(ctypes.sizeof(MetadataExtension), 1, None, ctypes.addressof(metadata))
        frame.extension = ctypes.addressof(extension)
        assert self._handler(ctypes.byref(frame)) is None
        del kept
        return metadata.version.major, metadata.version.minor, metadata.traits

    def _frame(self, inputs: Sequence[int], results: Sequence[int], stage: int) -> tuple[Any, Any]:
        buffers = [Buffer(ctypes.sizeof(Buffer), None, 11, address, 0, None) for address in (*inputs, *results)]
        places = [ctypes.addressof(buffer) for buffer in buffers]
        first, second = ((_POINTER * max(len(p), 1))(*p) for p in (places[: len(inputs)], places[len(inputs) :]))
        frame = Frame(ctypes.sizeof(Frame), None, ctypes.addressof(self._api), 55, stage)
        for listed, array, count in ((frame.arguments, first, len(inputs)), (frame.results, second, len(results))):
            listed.count, listed.items = count, ctypes.addressof(array)
        return frame, (buffers, first, second)
