"""Compilation of what simulations run, ahead of time: once an installation, and then loaded from the disk.

A family's kernels (:mod:`accel.isa.kernels.compiled_kernels`) are the same for all its documents; what TVM compiles is
a kernel for each kind of document (:mod:`accel.isa.kernels.kernel_library`). Both lie in folders that every process of
the user reads (:func:`accel.isa.kernels.compiled_kernels.cache_home`), and that only trusted ones write to.
"""

import contextlib
import fcntl
import functools
import hashlib
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, preset_names
from accel.errors import CyclopsError
from accel.isa import decode
from accel.isa.family import KernelProvider, KernelSource
from accel.isa.family_registry import family, family_of
from accel.isa.kernels.compiled_kernels import Signature, cache_folder, imports_digest
from accel.isa.kernels.kernel_library import adopt_code, find_kernel, load_kernel
from accel.isa.native import kept_code
from accel.isa.native.machine_code import host
from accel.simulate import cycle_account

StartChild = Callable[[Callable[[], object]], int]
"""Runs work in a forked process; returns its id."""

_prepared: set[str] = set()
"""Families of which this process, or the one that it was forked from, has loaded the kernels."""


def prepare(accelerator: Accelerator) -> None:
    """Compiles or loads the kernels of ``accelerator`` and runs none of them, so that forking afterwards is safe.

    The kernels serve every later simulation of this process, and of processes forked from it, on accelerators of the
    same shapes.

    Raises:
        InvalidAccelerator: its family is not installed.
    """
    for signature in _common_signatures():
        signature.compile()
    family_of(accelerator).prepare(accelerator)
    _prepared.add(accelerator.family)
    for source in _kernel_sources(accelerator):
        load_kernel(source)


def prepare_on_disk(accelerator: Accelerator, start_child: StartChild | None = None) -> None:
    """Does :func:`prepare` and notes on the disk that it was done; of several processes one compiles, and others wait.

    For trusted processes alone: what it compiles is run by all. ``start_child`` forks a process, which does a half, so
    that somebody who waits waits half as long.

    Raises:
        InvalidAccelerator: its family is not installed.
    """
    with _compiling(accelerator.family):
        if start_child is not None and not is_on_disk(accelerator):
            _share(_parts(accelerator), start_child)
        prepare(accelerator)
        note = _note(accelerator.family)
        if note is not None:
            with contextlib.suppress(OSError):
                note.touch(mode=0o600)


def _share(parts: Sequence[Callable[[], object]], start_child: StartChild) -> None:
    """Does each of ``parts`` in this process or in a child; each takes the next when it is done with one.

    What fails in the child, or cannot be begun for want of a process, is left undone there.
    """
    reads, writes = os.pipe()
    os.write(writes, bytes(range(len(parts))))
    os.close(writes)

    def take() -> None:
        while number := os.read(reads, 1):
            parts[number[0]]()

    with contextlib.suppress(OSError), open(reads, "rb", buffering=0):  # noqa: PTH123 - a descriptor
        child = start_child(take)
        take()
        os.waitpid(child, 0)


def _parts(accelerator: Accelerator) -> list[Callable[[], object]]:
    """Returns what :func:`prepare` compiles in parts that do not depend on each other, as far as its family says so."""
    parts: list[Callable[[], object]] = [each.compile for each in _signatures(accelerator)]
    return parts + [functools.partial(load_kernel, source) for source in _kernel_sources(accelerator)]


def _signatures(accelerator: Accelerator) -> tuple[Signature, ...]:
    """Returns the kernels that simulations on an accelerator run, as far as its family says which."""
    of_family = getattr(family_of(accelerator), "signatures", tuple)  # a plug-in may have prepare alone
    return (*of_family(), *_common_signatures())


def _common_signatures() -> tuple[Signature, ...]:
    """Returns the kernels that all families use."""
    return (cycle_account.account_signature(), *decode.decode_signatures())


def loads_of_kept(accelerator: Accelerator) -> list[Callable[[], object]]:
    """Returns what loads the kernels of ``accelerator``, each where it is on the disk; nothing is compiled.

    Raises:
        InvalidAccelerator: its family is not installed.
    """
    return [signature.find for signature in _signatures(accelerator)]


def is_on_disk(accelerator: Accelerator) -> bool:
    """Returns whether :func:`prepare` would load all from the disk; it loads the kernels that TVM compiled.

    Raises:
        InvalidAccelerator: its family is not installed.
    """
    sources = _kernel_sources(accelerator)
    there = is_family_on_disk(accelerator.family)
    return there and all(find_kernel(source) for source in sources)


def is_family_on_disk(name: str) -> bool:
    """Returns whether a family's kernels have been compiled into the folder."""
    note = _note(name)
    return note is not None and note.exists()


def fetch(accelerator: Accelerator, provider: KernelProvider) -> None:
    """Loads what simulating on ``accelerator`` runs from where it is: this process, the disk, or ``provider``.

    What none of them has is compiled when it is needed.

    Raises:
        InvalidAccelerator: its family is not installed.
    """
    if accelerator.family not in _prepared and not is_family_on_disk(accelerator.family):
        provider.prepare_family(accelerator.family)
    for source in _kernel_sources(accelerator):
        if not find_kernel(source):
            code = provider.kernel_code(source.family, source.text)
            if code is not None:
                adopt_code(source, code)


def _kernel_sources(accelerator: Accelerator) -> tuple[KernelSource, ...]:
    found = family_of(accelerator)
    if not hasattr(found, "kernel_sources"):  # a plug-in that was written before families had it
        return ()
    return found.kernel_sources(accelerator)


def preset_of(name: str) -> Accelerator | None:
    """Returns a preset of the family called ``name``; None where there is none."""
    presets = (load_accelerator(preset) for preset in preset_names())
    return next((preset for preset in presets if preset.family == name), None)


@contextlib.contextmanager
def _compiling(name: str) -> Iterator[None]:
    """Lets one process at a time compile for a family."""
    folder = cache_folder()
    if folder is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a file system without such locks: then two may compile the same
            fcntl.flock(stack.enter_context((folder / f"{name}.lock").open("w")), fcntl.LOCK_EX)
        yield


def _note(name: str) -> Path | None:
    """Returns the file that says a family's kernels are there; its name has all that this depends on."""
    folder, state = cache_folder(), _family_state(name)
    return None if folder is None or state is None else folder / f"{name}-{state}.prepared"


@functools.cache
def _family_state(name: str) -> str | None:
    """Returns a digest of what the code of a family's kernels depends on."""
    try:
        sources = (inspect.getfile(type(family(name))), decode.__file__, cycle_account.__file__, kept_code.__file__)
        digests = [imports_digest(Path(each)) for each in sources]
    except (CyclopsError, OSError, TypeError, ValueError):  # not installed; not a file, or not of this package
        return None
    return hashlib.sha256(repr([host(), *digests]).encode()).hexdigest()[:24]
