"""Kernels: functions in a part of Python that LLVM compiles; their machine code is kept between processes.

LLVM is loaded when the first of them is called or compiled: a process that only checks documents does without.
"""

import functools
import hashlib
import os
import re
import stat
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

from accel.isa.kernels.kernel_types import Type, type_of

P = ParamSpec("P")
R = TypeVar("R")


def cache_home() -> Path:
    """The folder of all versions, below the user's cache directory; it need not be there.

    Raises:
        RuntimeError: the user has no home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cyclops"


def cache_folder() -> Path | None:
    """Returns the folder that keeps machine code: below the user's cache directory, one for each version of LLVM.

    Returns None where there is no such folder and none can be made.
    """
    folder = private_folder(f"compiled-{version('llvmlite')}")
    return folder if folder is not None and os.access(folder, os.W_OK) else None


def private_folder(name: str) -> Path | None:
    """Returns a folder below :func:`cache_home` that its owner alone may enter; None where there can be none.

    What lies in it is run: a folder that others could write to is not used.
    """
    try:
        base = cache_home()
        folder = base / name
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder if _private(base) and _private(folder) else None
    except (OSError, RuntimeError):  # not writable; no home
        return None


def _private(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


_PACKAGE = Path(__file__).parents[2]


@functools.cache
def imports_digest(source: Path, package: Path = _PACKAGE) -> str:
    """Returns a digest of ``source`` and of all modules of ``package`` that it imports, directly or not."""
    digest = hashlib.sha256()
    for path in sorted(imported_files(source, package)):
        digest.update(f"{os.path.relpath(path, package)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def imported_files(source: Path, package: Path = _PACKAGE) -> set[Path]:
    """Returns ``source`` and all modules of ``package`` that it imports, directly or not."""
    found, pending = set[Path](), [source]
    while pending:
        path = pending.pop()
        if path not in found:
            found.add(path)
            pending += _imported(path, package)
    return found


# statements as the formatter leaves them, one a line: a parser takes a tenth of a second for what a family imports
_IMPORT = re.compile(r"^[ \t]*(?:from (\.*)([\w.]*) import (\([^)]*\)|[^\n]*)|import ([^\n]*))", re.MULTILINE)
_NAME = re.compile(r"[\w.]+")


@functools.cache
def _imported(path: Path, package: Path) -> frozenset[Path]:
    """Returns the modules of ``package`` that a file imports anywhere, in functions too."""
    names: set[str] = set()
    for dots, found, imported, plain in _IMPORT.findall(path.read_text(encoding="utf-8")):
        names |= set(_NAME.findall(plain))
        if imported:
            home = ".".join(path.relative_to(package.parent).parts[: -len(dots)]) if dots else ""
            module = ".".join(part for part in (home, found) if part)
            names |= {module, *(f"{module}.{name}" for name in _NAME.findall(imported))}  # a name may be a module
    modules = _modules(package)
    return frozenset(modules[name] for name in names & modules.keys())


@functools.cache
def _modules(package: Path) -> Mapping[str, Path]:
    """Returns the files of a package's modules by their names: to ask for each that may be one takes longer."""
    found = {}
    for folder, folders, files in os.walk(package):
        folders[:] = [name for name in folders if name != "__pycache__"]
        home = ".".join(Path(folder).relative_to(package.parent).parts)
        for name in files:
            if name.endswith(".py"):
                found[home if name == "__init__.py" else f"{home}.{name[:-3]}"] = Path(folder, name)
    return found


class Compiled(Generic[P, R]):
    """A kernel: it is compiled for the types that it is called with, once, and serves all later calls of these types.

    Kernels have integers of 64 bits, floats, tuples and NumPy arrays without gaps, whose elements integers are loaded
    from; ``if``, ``while``, ``for`` over a range, a tuple or an array; and other kernels. They raise nothing: an index
    outside of an array is an error of the kernel, which :meth:`checked` finds. Of negative indices those that are
    written down as numbers count from the end, and others are outside.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self._ready: dict[tuple[tuple[Type, ...], bool], Callable[..., Any]] = {}
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the kernel; it may read and write outside of arrays where an index is wrong."""
        assert not kwargs
        return cast(R, self.ready(tuple(type_of(each) for each in args))(args))

    @property
    def compiled_for(self) -> list[tuple[Type, ...]]:
        """The types of arguments that this process has the kernel for."""
        return [types for types, checked in self._ready if not checked]

    def checked(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the kernel with each index compared to the arrays' extents.

        Raises:
            IndexError: an index was outside; nothing outside was read or written.
        """
        assert not kwargs
        return cast(R, self.ready(tuple(type_of(each) for each in args), checked=True)(args))

    def ready(self, types: tuple[Type, ...], *, checked: bool = False) -> Callable[..., Any]:
        """Returns what calls the kernel with arguments of ``types``: compiled before, from the disk, or compiled now.

        Raises:
            SyntaxError: kernels cannot have what is in the function.
        """
        if (types, checked) not in self._ready:
            from accel.isa.native.kept_code import load_kernel  # noqa: PLC0415 - it loads LLVM

            self._ready[types, checked] = load_kernel(self, types, checked=checked)
        return self._ready[types, checked]

    def find(self, types: tuple[Type, ...]) -> None:
        """Fetches the kernel's code for arguments of ``types`` from the disk, if it is there."""
        if (types, False) not in self._ready:
            from accel.isa.native.kept_code import find_kernel  # noqa: PLC0415 - it loads LLVM

            found = find_kernel(self, types)
            if found is not None:
                self._ready[types, False] = found


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Make a kernel of ``function``."""
    return Compiled(function)


class Signature:
    """A :func:`compiled` function, and the types of the arguments that Python calls it with."""

    def __init__(self, function: Callable[..., Any], *types: Type) -> None:
        assert isinstance(function, Compiled)
        self._function, self._types = function, types

    def compile(self) -> None:
        """Compiles the function for these types, or fetches its code from the disk, without running it."""
        self._function.ready(self._types)

    def find(self) -> None:
        """Fetches the function's code for these types from the disk, if it is there."""
        self._function.find(self._types)
