"""Functions that numba compiles, with their types kept; their machine code is kept between processes."""

import contextlib
import functools
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import llvmlite
import numba
from numba.core.caching import FunctionCache

P = ParamSpec("P")
R = TypeVar("R")

# types of compiled functions' arguments: 64-bit integers, but for words (32 bits) and bytes
SCALAR = numba.int64
VECTOR = numba.int64[::1]
MATRIX = numba.int64[:, ::1]
CUBE = numba.int64[:, :, ::1]
WORDS = numba.int32[::1]
WORD_MATRIX = numba.int32[:, ::1]
BYTES = numba.uint8[::1]


class _Cache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """Machine code of one function; a file that cannot be read or written is a file that is not there."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # noqa: BLE001  whatever unpickling a broken file raises
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


def cache_folder() -> Path | None:
    """Where machine code is kept: below the user's cache directory, a folder of this version of the sources.

    numba sees changes of a function's own file only, so the folder's name is a digest of all sources that compiled
    functions take constants from, which is this package, and of the compiler's versions; numba's own key adds
    Python's version and the CPU. The files are pickles: a folder that others could write to is not used.

    Returns None where there is no such folder and none can be made.
    """
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cyclops"
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
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    sources = sorted(package.rglob("*.py"))
    if not sources:
        raise FileNotFoundError(package)  # packed away: nobody could tell when they change
    for source in sources:
        digest.update(f"\0{source.relative_to(package)}\0".encode() + source.read_bytes())
    return digest.hexdigest()[:16]


_folder = functools.cache(cache_folder)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` at its first call; the same code serves all later calls of the same types."""
    dispatcher = numba.njit(function)
    folder = _folder()
    if folder is not None:
        _keep(dispatcher, folder)
    return cast(Callable[P, R], dispatcher)


def _keep(dispatcher: Any, folder: Path) -> None:
    """What ``numba.njit(cache=True)`` does, in ``folder`` or not at all."""
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
    try:
        cache = _Cache(dispatcher.py_func)
    except RuntimeError:  # numba found no place
        return
    finally:
        numba.config.CACHE_DIR = before
    if folder in Path(cache.cache_path).parents:
        dispatcher._cache = cache  # noqa: SLF001  the only way to hand it over


def compile_now(function: Callable[..., Any], *types: Any) -> None:
    """Compile a :func:`compiled` function for arguments of ``types``, or fetch its code, without running it."""
    cast(Any, function).compile(types)
