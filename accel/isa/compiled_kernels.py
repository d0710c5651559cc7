"""Functions that numba compiles, with their types kept; their machine code is kept between processes.

numba is loaded when the first of them is called or compiled: it takes 55 MB, and a process that only checks documents
does without.
"""

import functools
import hashlib
import os
import re
import stat
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

from accel.isa.kernel_types import Type

P = ParamSpec("P")
R = TypeVar("R")


def cache_home() -> Path:
    """The folder of all versions, below the user's cache directory; it need not be there.

    Raises:
        RuntimeError: the user has no home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cyclops"


def cache_folder() -> Path | None:
    """Returns the folder that keeps machine code: below the user's cache directory, one for each version of numba.

    Its files are pickles: a folder that others could write to is not used. Returns None where there is no such folder
    and none can be made.
    """
    folder = private_folder(f"numba-{version('numba')}-{version('llvmlite')}")
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


_folder = functools.cache(cache_folder)


def module_folder(source: Path) -> Path | None:
    """Returns where the machine code of the functions in the file ``source`` is kept, None where it is not.

    numba sees changes of a function's own file only, and compiles constants of others into it. So the folder's name is
    a digest of the file and of all modules of accel that it imports, directly or not; numba's own key adds Python's
    version and the CPU.
    """
    folder = _folder()
    try:
        return None if folder is None else folder / imports_digest(source)
    except (OSError, ValueError):  # packed away, or not of this package: nobody could tell when it changes
        return None


_PACKAGE = Path(__file__).parents[1]


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
    ours = (package.parent.joinpath(*name.split(".")) for name in names if name.split(".")[0] == package.name)
    return frozenset(
        file for base in ours for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()
    )


class _Compiled(Generic[P, R]):
    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function

    @functools.cached_property
    def dispatcher(self) -> Any:
        """The function as Python calls it."""
        from accel.isa.numba_dispatcher import dispatcher  # noqa: PLC0415 - it loads numba

        return dispatcher(self._function, module_folder(Path(self._function.__code__.co_filename)))

    @functools.cached_property
    def _helper(self) -> Any:
        """The function as other compiled functions call it."""
        from accel.isa.numba_dispatcher import Helper  # noqa: PLC0415 - it loads numba

        return Helper(self._function)

    @property
    def _numba_type_(self) -> Any:
        """What numba asks an object for that it finds in a function's globals: it calls others of our functions so."""
        return self._helper._numba_type_

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, self.dispatcher(*args, **kwargs))


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` at its first call; the same code serves all later calls of the same types."""
    return _Compiled(function)


class Signature:
    """A :func:`compiled` function, and the types of the arguments that Python calls it with."""

    def __init__(self, function: Callable[..., Any], *types: Type) -> None:
        assert isinstance(function, _Compiled)
        self._function, self._types = function, types

    def compile(self) -> None:
        """Compiles the function for these types, or fetches its code from the disk, without running it."""
        from accel.isa.numba_dispatcher import numba_type  # noqa: PLC0415 - it loads numba

        self._function.dispatcher.compile(tuple(numba_type(each) for each in self._types))
