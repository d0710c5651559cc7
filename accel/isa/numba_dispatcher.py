"""What takes numba: a function's dispatcher, whose machine code is kept on the disk, and the types of arguments."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator
from numba.core.registry import CPUDispatcher

from accel.isa.kernel_types import Array, Fields, Type


class _Locator(UserProvidedCacheLocator):  # type: ignore[misc]  # numba has no types
    """A folder that may be read without being written to, as a confined job may."""

    def ensure_cache_path(self) -> None:
        with contextlib.suppress(OSError):
            super().ensure_cache_path()


class _Files(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _Cache(FunctionCache):  # type: ignore[misc]
    """Machine code of one function; a file that cannot be read or written is a file that is not there."""

    _impl_class = _Files

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


def dispatcher(function: Callable[..., Any], folder: Path | None) -> Any:
    """Numba's dispatcher of ``function``, which runs without Python's lock.

    Its code is kept in ``folder``, None: nowhere.
    """
    made = numba.njit(nogil=True)(function)
    if folder is not None:
        _keep(made, folder)
    return made


class Helper(CPUDispatcher):  # type: ignore[misc]
    """A function that compiled functions call, and Python never does: it has no wrapper for Python, and is not kept.

    It is compiled once for all integers: numba would compile it again for each constant that it is called with, which
    takes longer than anything that knowing the constant saves.
    """

    def __init__(self, function: Callable[..., Any], *_: Any) -> None:
        options = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(function, targetoptions=options)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Returns how it is called with arguments of these types."""
        named = {name: numba.types.unliteral(each) for name, each in kws.items()}
        return super().get_call_template([numba.types.unliteral(each) for each in args], named)


def _keep(made: Any, folder: Path) -> None:
    """What ``numba.njit(cache=True)`` does, in ``folder`` or not at all."""
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
    try:
        cache = _Cache(made.py_func)
    except RuntimeError:  # numba found no place
        return
    finally:
        numba.config.CACHE_DIR = before
    if folder in Path(cache.cache_path).parents:
        made._cache = cache  # noqa: SLF001  the only way to hand it over


def numba_type(of: Type) -> Any:
    """Numba's type of an argument."""
    match of:
        case str():
            return getattr(numba.types, of)
        case Array(element, rank):
            return numba.types.Array(getattr(numba.types, element), rank, "C")
        case Fields(kind, types):
            return numba.types.NamedTuple(tuple(numba_type(each) for each in types), kind)
        case _:
            return numba.types.Tuple(tuple(numba_type(each) for each in of))
