"""Compilation of simulation kernels for the confined processes of jobs, which may keep nothing that they compile.

A job asks its supervisor for a kernel by family and text. The supervisor looks for the object code in a folder of the
job's owner, else asks the kernel server, a child of its own that forks one process a kernel: confined, and with nothing
of the user's in it but that text. A job can so ask for any kernel, but never say what its code is.
"""

import contextlib
import logging
import os
import selectors
import signal
import socket
import threading
import time
from pathlib import Path

import pydantic

from accel.errors import CyclopsError
from accel.isa.family_registry import family
from accel.isa.kernels.compiled_kernels import cache_folder
from accel.isa.kernels.kernel_library import compile_kernel, kernel_key
from accel.simulate.prepare_simulation import is_family_on_disk, prepare_on_disk, preset_of
from accel.util.content_cache import FolderCache, SealedCache
from worker.config.settings import Settings
from worker.process.children import death_reason, run_in_child, set_process_name, start_child
from worker.process.scratch import scratch_directory
from worker.sandbox.confinement import confine
from worker.sandbox.fork_server import receive, send
from worker.sandbox.resource_limits import plan_limits
from worker.storage.identifiers import owner_digest
from worker.telemetry import logs

_log = logging.getLogger(__name__)
PROCESS_NAME = "cyclops-kernels"
FOLDER = "kernels"
_MOST_KERNELS = 64  # of an owner
_MOST_OF_JOB = 16  # that are compiled for one job
_ANSWER_SECONDS = 300.0
_CHUNK = 1 << 16


class _Wanted(pydantic.BaseModel):
    """A request to the kernel server: a kernel's code, or without a text the family's kernels."""

    family: str
    text: str | None = None


class KernelServer:
    """The supervisor's side of the kernel server. Thread-safe: one request at a time.

    Start it before the supervisor has threads. Where it cannot be started, or has died, there is no code.
    """

    def __init__(self, settings: Settings, *held: socket.socket) -> None:
        """``held``: sockets of the supervisor that the server must not keep open."""
        self._lock = threading.Lock()
        self._tried: set[str] = set()
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_ANSWER_SECONDS)
        with theirs:
            try:
                start_child(lambda: _serve(theirs, settings, (self._control, *held)))
            except OSError as error:
                _log.warning("no process for kernels can be started now: %s", error)

    def prepare_family(self, name: str) -> None:
        """Has a family's kernels compiled into the installation's folder, if there is one; tries once."""
        with self._lock:
            tried = name in self._tried
            self._tried.add(name)
        if not tried and cache_folder() is not None and not is_family_on_disk(name):
            self._ask(_Wanted(family=name))

    def compile(self, name: str, text: str) -> bytes | None:
        """Returns the object code of a kernel, compiled now; None where it cannot be compiled."""
        return self._ask(_Wanted(family=name, text=text)) or None

    def _ask(self, wanted: _Wanted) -> bytes:
        with self._lock:
            try:
                send(self._control, wanted.model_dump_json().encode())
                return receive(self._control)
            except (OSError, EOFError):
                self._control.close()  # a late answer would be taken for that of another request
                _log.warning("the process for kernels is gone; jobs compile what they need, each time")
                return b""

    def close(self) -> None:
        """Ends the server once it has answered."""
        self._control.close()


class OwnerKernels:
    """Kernels of one owner's documents, for one job: found in the owner's folder, or compiled and put there.

    Args:
        settings: the settings, which name the data directory.
        owner: the owner of the job.
        server: compiles what is not there.
    """

    def __init__(self, settings: Settings, owner: str, server: KernelServer) -> None:
        self._folder = settings.data / FOLDER / owner_digest(owner)
        self._max_bytes = settings.max_cache_entry_bytes
        self._server = server
        self._compiled = 0

    def prepare_family(self, name: str) -> None:
        """Has a family's kernels compiled, unless they are there."""
        self._server.prepare_family(name)

    def kernel_code(self, name: str, text: str) -> bytes | None:
        """Returns the object code of a family's kernel; None where there is none to be had."""
        try:
            key = kernel_key(family(name).kernel_source(text))
        except (CyclopsError, OSError, ValueError):
            return None
        kept = SealedCache(FolderCache(self._folder))
        code = kept.get(key)
        if code is None and self._compiled < _MOST_OF_JOB:
            self._compiled += 1
            code = self._server.compile(name, text)
            if code is not None and len(code) <= self._max_bytes:
                with contextlib.suppress(OSError):
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                kept.put(key, code)
                _remove_oldest(self._folder)
        return code if code is not None and len(code) <= self._max_bytes else None


def _remove_oldest(folder: Path) -> None:
    """Removes all but the newest kernels of an owner."""
    with contextlib.suppress(OSError):  # another supervisor does the same
        files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[_MOST_KERNELS:]:
            file.unlink()


def _serve(control: socket.socket, settings: Settings, held: tuple[socket.socket, ...]) -> None:
    """Answers requests until the supervisor is gone."""
    for other in held:
        other.close()
    set_process_name(PROCESS_NAME)
    logs.begin(process="kernels")
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            send(control, _answer(_Wanted.model_validate_json(receive(control)), control, settings))


def _answer(wanted: _Wanted, control: socket.socket, settings: Settings) -> bytes:
    try:
        if wanted.text is None:
            preset = preset_of(wanted.family)
            if preset is not None:
                run_in_child(lambda: prepare_on_disk(preset, start_child))
            return b""
        with scratch_directory(settings.scratch_dir, "kernel") as scratch:
            return _compiled_apart(wanted.family, wanted.text, scratch, settings, control)
    except OSError as error:
        _log.warning("a kernel of the family %s is not compiled: %s", wanted.family, error)
        return b""


def _compiled_apart(name: str, text: str, scratch: Path, settings: Settings, control: socket.socket) -> bytes:
    """Returns the code that a confined process has compiled; empty where it failed or took too long."""
    reads, writes = os.pipe()
    try:
        pid = start_child(lambda: _compile_confined(name, text, scratch, settings, (writes, reads, control)))
    except OSError:
        os.close(reads)
        raise
    finally:
        os.close(writes)
    code, whole = _read(reads, settings.max_cache_entry_bytes, time.monotonic() + settings.plan_cpu_seconds)
    if not whole:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if status == 0 and whole:
        return code
    _log.warning("a kernel of the family %s is not compiled: %s", name, death_reason(status))
    return b""


def _read(pipe: int, most: int, deadline: float) -> tuple[bytes, bool]:
    """Returns what comes through a pipe, which it closes, and whether that is all, in time and not too much."""
    code = bytearray()
    with open(pipe, "rb", buffering=0) as file, selectors.DefaultSelector() as selector:
        selector.register(file, selectors.EVENT_READ)
        while len(code) <= most and selector.select(max(deadline - time.monotonic(), 0)):
            chunk = file.read(_CHUNK)
            if not chunk:
                return bytes(code), True
            code += chunk
    return b"", False


def _compile_confined(
    name: str, text: str, scratch: Path, settings: Settings, ends: tuple[int, int, socket.socket]
) -> None:
    """Compiles in this process, which is for it alone, and writes the code to the pipe."""
    writes, reads, control = ends
    os.close(reads)
    control.close()
    confine(settings, scratch, limits=plan_limits(settings), keep=(1, 2, writes))
    try:
        code = compile_kernel(family(name).kernel_source(text))
    except Exception as error:  # noqa: BLE001 - whatever the compiler says of a text that somebody sent
        _log.warning("a kernel of the family %s cannot be compiled: %s", name, type(error).__name__)
        os._exit(1)
    with open(writes, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(code)
