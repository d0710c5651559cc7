"""Memory that a process shares with those that it forks: made so that they copy little of it.

A worker forks for each job, and has some hundred megabytes. The collector of garbage writes to every object that
it looks at, and what a forked process writes to it copies; so it is to pass over what was there before. And a fork
copies an entry for each page, so pages are to be few: large ones, where the system has them.
"""

import ctypes
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

_LARGE = 2 << 20  # bytes of a large page
_COLLAPSE = 25  # MADV_COLLAPSE, asm-generic/mman-common.h; since Linux 6.1


def share_with_children() -> None:
    """Do so with all that is in memory now. The process has one thread."""
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        _collapse()


def _collapse() -> None:
    """Put what lies on many small pages onto large ones; where that fails it stays as it is."""
    madvise = ctypes.CDLL(None).madvise
    for page in _anonymous():
        madvise(ctypes.c_void_p(page), ctypes.c_size_t(_LARGE), _COLLAPSE)


def _anonymous() -> Iterator[int]:
    """Where there is room for a large page in memory that is of no file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, _, device, *_ = line.split()
        if rights == "rw-p" and device == "00:00":
            begin, end = (int(part, 16) for part in place.split("-"))
            yield from range(-(-begin // _LARGE) * _LARGE, end - _LARGE + 1, _LARGE)
