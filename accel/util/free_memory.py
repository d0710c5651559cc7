"""Memory that Python has freed and the C library keeps: for what is allocated next, or given back to the system."""

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as mallopt(3) has them
_LARGE = 1 << 30  # bytes


def keep_freed_memory() -> None:
    """Has the C library keep what this process frees until :func:`release_free_memory`, where it can (``mallopt``).

    It asks the system for each large array else, and gives it back with it; to clear pages and hand them out took a
    twentieth of a job's time. Processes that are forked from this one do as it does.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _LARGE)
        library.mallopt(_TRIM_THRESHOLD, _LARGE)


def release_free_memory() -> None:
    """Returns freed memory to the operating system where the C library can (``malloc_trim``), else does nothing."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
