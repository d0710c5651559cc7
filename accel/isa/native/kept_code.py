"""Kernels as Python calls them; their machine code lies in a folder, under a digest of all that it depends on."""

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import logging
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accel.isa.kernels.compiled_kernels import Compiled, cache_folder, imports_digest
from accel.isa.kernels.kernel_types import Type
from accel.isa.native import machine_code, translation
from accel.isa.native.values import leaf_types
from accel.util.content_cache import FolderCache, SealedCache

_log = logging.getLogger(__name__)


def load_kernel(kernel: Compiled[..., Any], types: tuple[Type, ...], *, checked: bool) -> "Call":
    """Returns what calls a kernel with arguments of ``types``; it is compiled where it is not kept.

    Raises:
        SyntaxError: kernels cannot have what is in the function.
    """
    place = _place(kernel, types, checked=checked)
    if place is None:
        code = _compiled(kernel.function, types, checked=checked)
    else:
        store, lock = place
        code = store.get(lock.stem) or _compile_once(kernel.function, types, store, lock, checked=checked)
    return Call(kernel.function, machine_code.LinkedKernel(code))


def find_kernel(kernel: Compiled[..., Any], types: tuple[Type, ...]) -> "Call | None":
    """Returns what calls a kernel with arguments of ``types``, unchecked; None where its code is not kept."""
    place = _place(kernel, types, checked=False)
    code = None if place is None else place[0].get(place[1].stem)
    return None if code is None else Call(kernel.function, machine_code.LinkedKernel(code))


def _place(kernel: Compiled[..., Any], types: tuple[Type, ...], *, checked: bool) -> tuple[SealedCache, Path] | None:
    """Where a kernel's code is kept, and the lock of who compiles it, called by its key; None where it is not kept."""
    key, folder = _key(kernel.function, types, checked=checked), cache_folder()
    return None if key is None or folder is None else (SealedCache(FolderCache(folder)), folder / f"{key}.lock")


def _compile_once(
    function: Callable[..., Any], types: tuple[Type, ...], store: SealedCache, lock: Path, *, checked: bool
) -> bytes:
    """Compiles a kernel and keeps it; of several processes one does, and the others wait for it."""
    key = lock.stem
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # read only, or without locks: then two may compile the same
            fcntl.flock(stack.enter_context(lock.open("w")), fcntl.LOCK_EX)
            stack.callback(lock.unlink, missing_ok=True)
        code = store.get(key)
        if code is None:
            begun = time.perf_counter()
            code = _compiled(function, types, checked=checked)
            _log.debug("compiled %s in %.2f s", function.__qualname__, time.perf_counter() - begun)
            store.put(key, code)
        return code


def _compiled(function: Callable[..., Any], types: tuple[Type, ...], *, checked: bool) -> bytes:
    made = translation.Translation(checked=checked)
    made.add_entry(function, types)
    return machine_code.object_code(str(made.module))


@functools.cache
def _compiler() -> str:
    return f"{machine_code.host()} {imports_digest(Path(__file__))}"


def _key(function: Callable[..., Any], types: tuple[Type, ...], *, checked: bool) -> str | None:
    """Returns 64 hexadecimal digits, a digest of all that the code depends on; None where nobody could tell."""
    try:
        sources = imports_digest(Path(function.__code__.co_filename))
    except (OSError, ValueError):  # packed away, or not of this package
        return None
    parts = (_compiler(), sources, function.__module__, function.__qualname__, repr(types), str(checked))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class Call:
    """A call of a linked kernel from Python."""

    def __init__(self, function: Callable[..., Any], linked: machine_code.LinkedKernel) -> None:
        self._function, self._linked = function, linked
        self._returns = function.__annotations__.get("return")
        results = len(leaf_types(translation.result_type(self._returns)))
        self._results = ctypes.c_int64 * (results + 1)  # and the line of an index that is outside

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """Runs the kernel, and returns what it says that it returns.

        Raises:
            IndexError: the kernel is checked, and an index was outside.
        """
        taken: list[int] = []
        for each in arguments:
            _add_leaves(each, taken)
        results = self._results()
        self._linked.run((ctypes.c_int64 * len(taken))(*taken), results)
        if results[-1]:
            raise IndexError(f"{self._function.__code__.co_filename}, or a kernel of it, line {results[-1]}")
        return _result(self._returns, iter(results))


def _add_leaves(argument: Any, leaves: list[int]) -> None:
    if isinstance(argument, np.ndarray):
        leaves.append(argument.__array_interface__["data"][0])
        leaves += argument.shape
    elif isinstance(argument, tuple):
        for each in argument:
            _add_leaves(each, leaves)
    elif isinstance(argument, np.float32 | np.float64):
        leaves += struct.unpack("q", struct.pack("fxxxx" if isinstance(argument, np.float32) else "d", argument))
    else:
        leaves.append(int(argument))


def _result(annotation: Any, leaves: Iterator[int]) -> Any:
    if annotation is None:
        return None
    if annotation in (int, bool):
        return annotation(next(leaves))
    if annotation is np.float32:
        return np.float32(struct.unpack("fxxxx", struct.pack("q", next(leaves)))[0])
    if annotation is np.float64:
        return np.float64(struct.unpack("d", struct.pack("q", next(leaves)))[0])
    return tuple(_result(each, leaves) for each in annotation.__args__)
