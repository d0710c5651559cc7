"""The C library's allocator, told to give back what is not used.

By itself it learns from large blocks that are freed to keep such blocks for later, in an arena for each of several
threads: an api that passes large uploads on would keep what the busiest moment took.
"""

import contextlib
import ctypes

# malloc.h of the GNU C library
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_BLOCK = 128 << 10  # where the library begins too, before it learns
_ARENAS = 2


def give_back() -> None:
    """Give large blocks back to the system once they are freed; nothing where the library has no such setting.

    Best called before there are threads: arenas that are there stay.
    """
    with contextlib.suppress(AttributeError):  # not the GNU library
        mallopt = ctypes.CDLL(None).mallopt
        for name, value in ((_TRIM_THRESHOLD, _BLOCK), (_MMAP_THRESHOLD, _BLOCK), (_ARENA_MAX, _ARENAS)):
            mallopt(name, value)
