"""Buffers between pages that nobody may touch: an access beyond either end kills the process."""

import ctypes
import mmap

import numpy as np

from accel.util.arrays import aligned_zeros

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)


def guarded_zeros(nbytes: int) -> np.ndarray:
    """What :func:`aligned_zeros` gives, ending where a guard page begins, with another before its first page.

    Sizes that are no multiple of a cache line cannot do both and be aligned; they go unguarded.
    """
    if nbytes % 64 or not nbytes:
        return aligned_zeros(nbytes)
    inner = -(-nbytes // _PAGE) * _PAGE
    region = mmap.mmap(-1, inner + 2 * _PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(region))
    for page in (base, base + _PAGE + inner):
        if _libc.mprotect(ctypes.c_void_p(page), _PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    begin = _PAGE + inner - nbytes
    return np.frombuffer(region, np.uint8)[begin : begin + nbytes]
