"""Functions that numba compiles, with their types kept; their machine code is kept between processes.

numba is loaded when the first of them is called or compiled: it takes 55 MB, and a process that only checks documents
does without.
"""

import functools
import hashlib
import os
import stat
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

from accel.isa.kernel_types import Type


def cache_home() -> Path:
    """The folder of all versions, below the user's cache directory; it need not be there.

    Raises:
        RuntimeError: the user has no home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cyclops"


P = ParamSpec("P")
R = TypeVar("R")


def cache_folder() -> Path | None:
    """Where machine code is kept: below the user's cache directory, a folder of this version of the sources.

    numba sees changes of a function's own file only, so the folder's name is a digest of all sources that compiled
    functions take constants from, which is this package, and of the compiler's versions; numba's own key adds
    Python's version and the CPU. The files are pickles: a folder that others could write to is not used.

    Returns None where there is no such folder and none can be made.
    """
    try:
        base = cache_home()
        folder = base / f"numba-{_digest(Path(__file__).parent)}"
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder if _private(base) and _private(folder) and os.access(folder, os.W_OK) else None
    except (OSError, RuntimeError):  # not writable; no home
        return None


def _private(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _digest(package: Path) -> str:
    digest = hashlib.sha256(f"{version('numba')} {version('llvmlite')}".encode())
    sources = sorted(package.rglob("*.py"))
    if not sources:
        raise FileNotFoundError(package)  # packed away: nobody could tell when they change
    for source in sources:
        digest.update(f"\0{source.relative_to(package)}\0".encode() + source.read_bytes())
    return digest.hexdigest()[:16]


_folder = functools.cache(cache_folder)


class _Compiled(Generic[P, R]):
    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function

    @functools.cached_property
    def dispatcher(self) -> Any:
        """The function as numba has it."""
        from accel.isa.numba_dispatcher import dispatcher  # noqa: PLC0415 - it loads numba

        return dispatcher(self._function, _folder())

    @property
    def _numba_type_(self) -> Any:
        """What numba asks an object for that it finds in a function's globals: it calls others of our functions so."""
        return self.dispatcher._numba_type_

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, self.dispatcher(*args, **kwargs))


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` at its first call; the same code serves all later calls of the same types."""
    return _Compiled(function)


def compile_now(function: Callable[..., Any], *types: Type) -> None:
    """Compile a :func:`compiled` function for arguments of ``types``, or fetch its code, without running it."""
    from accel.isa.numba_dispatcher import numba_type  # noqa: PLC0415 - it loads numba

    assert isinstance(function, _Compiled)
    function.dispatcher.compile(tuple(numba_type(each) for each in types))
