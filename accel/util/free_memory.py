"""Memory that Python has freed and the C library keeps: given back to the operating system."""

import ctypes
from contextlib import suppress


def release_free_memory() -> None:
    """Returns freed memory to the operating system where the C library can (``malloc_trim``), else does nothing."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
