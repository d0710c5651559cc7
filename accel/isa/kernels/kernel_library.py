"""Kernels that TVM compiles through LLVM, and their object code, which is kept between processes.

A kernel is made of a text, and of nothing else that a document says: documents of the same text share one. LLVM's own
linker links its object code into the process in a millisecond, without a C compiler.

Whoever can write to the folder has code run by all processes of its user. So a process that works on what a user sent
only reads it. It is given what is missing (:mod:`accel.simulate.prepare_simulation`), or compiles for itself.
"""

import ctypes
import functools
import hashlib
import logging
import platform
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tvm
from tvm.target import codegen
from tvm_ffi import Function

from accel.isa.family import KernelSource
from accel.isa.kernels.compiled_kernels import imports_digest, private_folder
from accel.isa.native.machine_code import linked
from accel.util.content_cache import FolderCache, SealedCache

_log = logging.getLogger(__name__)
_NAME = "launch"
_SYMBOL = f"__tvm_ffi_{_NAME}"
# the code calls these through pointers of its own, which whoever loads it sets
_BACKEND = ("TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace")

NativeFunction = Callable[..., Any]


@functools.cache
def host_cpu() -> str:
    """Returns LLVM's name of this processor."""
    return str(codegen.llvm_get_system_cpu())


@functools.cache
def _environment() -> str:
    """What object code depends on besides the kernel."""
    versions = (f"{name} {version(name)}" for name in ("apache-tvm", "apache-tvm-ffi"))
    return " ".join([*versions, str(codegen.llvm_get_system_triple()), host_cpu(), platform.machine()])


_loaded: dict[KernelSource, NativeFunction] = {}
"""Kernels of this process, and of those that are forked from it; a kernel keeps no state."""


def load_kernel(source: KernelSource) -> NativeFunction:
    """Returns the kernel: as this process has it, from the disk, or compiled now, and kept on the disk."""
    if source not in _loaded and not find_kernel(source):
        adopt_code(source, _compile_and_keep(source))
    return _loaded[source]


def find_kernel(source: KernelSource) -> bool:
    """Loads the kernel if it is on the disk; returns whether this process has it now."""
    if source in _loaded:
        return True
    store, key = _disk(), _key(source)
    code = None if store is None or key is None else store.get(key)
    if code is not None:
        adopt_code(source, code)
    return code is not None


def adopt_code(source: KernelSource, code: bytes) -> None:
    """Loads object code that :func:`compile_kernel` made, in this process or in one that is trusted."""
    try:
        _loaded[source] = _linked(code)
    except RuntimeError as error:  # this platform's linker, perhaps: TVM has one of its own
        _log.warning("object code of the family %s cannot be linked, so it is compiled again: %s", source.family, error)
        _loaded[source] = _compiled(source)[_NAME]


def compile_kernel(source: KernelSource) -> bytes:
    """Compiles a kernel for this host, and returns its object code."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.o"
        _compiled(source).mod.write_to_file(str(path), "o")
        code = path.read_bytes()
    _log.info("compiled the kernel of the family %s in %.1f s", source.family, time.perf_counter() - begun)
    return code


def _compile_and_keep(source: KernelSource) -> bytes:
    code = compile_kernel(source)
    store, key = _disk(), _key(source)
    if store is not None and key is not None:
        store.put(key, code)
    return code


def _disk() -> SealedCache | None:
    folder = private_folder(f"kernels-{version('apache-tvm')}")
    return None if folder is None else SealedCache(FolderCache(folder))


@functools.cache
def kernel_key(source: KernelSource) -> str:
    """Returns 64 hexadecimal digits, a digest of everything on which the object code depends.

    The sources are those of the module of ``source.build``, and of all that it imports.

    Raises:
        OSError: the sources cannot be read.
        ValueError: they lie outside of this package, where nobody could tell what they import.
    """
    sources = imports_digest(Path(source.build.__code__.co_filename))
    digest = hashlib.sha256()
    for part in (_environment(), sources, source.family, source.text):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _key(source: KernelSource) -> str | None:
    try:
        return kernel_key(source)
    except (OSError, ValueError):
        return None


def _compiled(source: KernelSource) -> Any:
    target = tvm.target.Target({"kind": "llvm", "mcpu": host_cpu()})
    return tvm.compile(tvm.IRModule({_NAME: source.build(source.text)}), target=target)


def _linked(code: bytes) -> NativeFunction:
    """Returns the function of object code.

    Raises:
        RuntimeError: it cannot be linked.
    """
    called = [name for name in _BACKEND if f"__{name}".encode() in code]
    library = linked(code, _SYMBOL, *(f"__{name}" for name in called))
    runtime = ctypes.CDLL(None)  # TVM loads its runtime for all
    for name in called:
        ctypes.c_void_p.from_address(library[f"__{name}"]).value = ctypes.cast(
            getattr(runtime, name), ctypes.c_void_p
        ).value
    function: NativeFunction = Function.__from_extern_c__(library[_SYMBOL], keep_alive_object=library)
    return function
