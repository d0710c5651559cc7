"""Confinement of a process that works on what users upload: called once in a forked child, for good.

Where the system does not have a mechanism, the others remain, and what is returned says so. The order matters: a
namespace is entered while there are privileges, and the filter of system calls, which refuses what the others need,
comes last.
"""

import contextlib
import ctypes
import functools
import os
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from accel.isa.kernels.compiled_kernels import cache_home
from worker.config.settings import Settings
from worker.process.libc import call, forgo_new_privileges
from worker.sandbox.confinement_status import Confinement, Mechanism
from worker.sandbox.descriptors import release_descriptors
from worker.sandbox.environment import forget_secrets
from worker.sandbox.landlock import restrict_files
from worker.sandbox.resource_limits import ResourceLimits, apply_limits, job_limits
from worker.sandbox.seccomp import prepare_filter, refuse_calls

_ELSEWHERE = Mechanism(active=False, detail="Linux only")
# shared libraries, time zones, what the libraries ask about the processor
_SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"),
    *("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo"),
    *("/sys/devices/system/cpu", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat"),
    *("/dev/urandom", "/dev/random", "/dev/zero"),
)


TEMPORARY = "tmp"  # the directory of temporary files in that of the process


def prepare_confinement() -> None:
    """Computes once what every forked process needs for its confinement."""
    readable_files()
    if sys.platform == "linux":
        prepare_filter()


def confine(
    settings: Settings,
    scratch: Path,
    *,
    limits: ResourceLimits | None = None,
    readable: Iterable[Path] = (),
    writable: Collection[str] | None = None,
    keep: Collection[int] | None = None,
) -> Confinement:
    """Confines this process to its own directory and to ``limits``, irrevocably, and returns the status.

    Call it in a process that was forked for the purpose, and has one thread: threads that start later are confined too.
    A process that is to die with its parent must have said so before (``worker/process/parent_death.py``).

    Args:
        settings: the settings, which name the data directory, which must not be read.
        scratch: the directory of the process, with its temporary files and perhaps the job's inputs.
        limits: the limits; by default those of a job.
        readable: further files and directories that it may read.
        writable: the existing folders of ``scratch`` that it may write to; by default all of it.
        keep: the descriptors that stay open; by default those that lead nowhere outside.

    Raises:
        OSError: ``scratch`` cannot be written to.
    """
    forget_secrets()
    temporary = scratch.resolve() / TEMPORARY
    temporary.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    linux = sys.platform == "linux"
    descriptors = release_descriptors(keep)
    namespaces = enter_namespaces() if linux else _ELSEWHERE
    described = apply_limits(
        limits or job_limits(settings), counted_alone=namespaces.active and "user" in namespaces.detail
    )
    return Confinement(
        limits=Mechanism(active=True, detail=described),
        descriptors=descriptors,
        namespaces=namespaces,
        privileges=drop_privileges() if linux else _ELSEWHERE,
        files=_restrict(settings, temporary.parent, readable, writable) if linux else _ELSEWHERE,
        calls=refuse_calls() if linux else _ELSEWHERE,
    )


def _restrict(
    settings: Settings, scratch: Path, further: Iterable[Path], writable: Collection[str] | None
) -> Mechanism:
    """Restricts the process to system files, without directories that hold the data, and its own directory."""
    data = settings.data.resolve()
    system = [path for path in readable_files() if not data.is_relative_to(path)]
    # /proc/self as it is, not where it leads now: a namespace may number processes anew
    readable = [*system, Path("/proc/self"), *further, scratch]
    folders = [scratch] if writable is None else [scratch / name for name in writable]
    return restrict_files(readable, [*folders, Path(os.devnull)])


@functools.cache
def readable_files() -> frozenset[Path]:
    """Returns the paths that Python, its libraries and the loaded packages need; computed once.

    ``sys.path`` is no guide: it may hold the working directory, and so anything.
    """
    python = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    libraries = {*python, f"{sys.base_prefix}/lib", f"{sys.prefix}/lib"}
    found = [*_SYSTEM, *libraries, *_packages(libraries)]
    with contextlib.suppress(RuntimeError):  # the user has no home
        # read only: its files are pickles, which the next job would run
        found.append(str(cache_home()))
    return frozenset(Path(path).resolve() for path in found)


def _packages(libraries: Iterable[str]) -> Iterator[str]:
    """Yields packages that are loaded from elsewhere: ours, and plug-in families of instruction sets."""
    prefixes = tuple(f"{path}/" for path in libraries)
    for name, module in list(sys.modules.items()):
        file = None if "." in name else getattr(module, "__file__", None)
        if file and not file.startswith(prefixes):
            folder, base = os.path.split(file)
            yield folder if base == "__init__.py" else file


_NEW_USER, _NEW_IPC, _NEW_NETWORK = 0x10000000, 0x08000000, 0x40000000  # linux/sched.h
_SELF = Path("/proc/self")


def enter_namespaces() -> Mechanism:
    """Leaves the network and the System V queues of the system; the process stays the same user, by name and number.

    Without privileges that takes a user namespace too, in which the limit of processes counts this process's only. The
    process must have one thread.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        call("unshare", _NEW_USER | _NEW_NETWORK | _NEW_IPC)
    except OSError as first:
        try:
            call("unshare", _NEW_NETWORK | _NEW_IPC)
        except OSError:
            return Mechanism(active=False, detail=str(first))
        return Mechanism(active=True, detail="network, IPC")
    try:
        (_SELF / "setgroups").write_text("deny")
        (_SELF / "uid_map").write_text(f"{user} {user} 1")
        (_SELF / "gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        return Mechanism(active=True, detail=f"network, IPC, user; the user has no name: {error}")
    return Mechanism(active=True, detail="network, IPC, user")


_VERSION_3 = 0x20080522  # linux/capability.h: two words of each set


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("process", ctypes.c_int))


def drop_privileges() -> Mechanism:
    """Gives up every capability, and all programs that would bring some."""
    try:
        forgo_new_privileges()
        header, none = _Header(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
        call("capset", ctypes.byref(header), ctypes.byref(none))
    except OSError as error:
        return Mechanism(active=False, detail=str(error))
    return Mechanism(active=True, detail="no capabilities, no_new_privs")
