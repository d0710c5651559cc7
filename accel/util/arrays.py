"""Types of NumPy arrays by element, whatever the rank; and arrays as TVM's compiled functions take them.

Compiled kernels name their arguments' types by these too.
"""

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt32 = npt.NDArray[np.uint32]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer[Any]]
Signed = npt.NDArray[np.signedinteger[Any]]
Words = npt.NDArray[np.uint64]
"""Instruction words, in 64-bit words from the least significant."""

_ALIGNMENT = 64  # bytes: TVM's default for the arguments of compiled functions
_MAPPED = 1 << 20  # bytes from which pages come from the kernel, which zeroes those that are touched


def aligned_zeros(nbytes: int) -> Bytes:
    """Returns zeroed bytes that start on a cache line; the length is rounded up to whole 64-bit words.

    A large array costs what is touched of it: ``numpy.zeros`` would zero memory that was used before from end to end.
    """
    size = -(-nbytes // 8) * 8
    if size >= _MAPPED:
        return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size]


def narrowed(values: Signed) -> Signed:
    """Returns ``values`` in the narrowest signed integers that hold them; for zeros alone, a view of one zero."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if low == high == 0:
        return np.broadcast_to(np.int8(0), values.shape)
    fits = (kind for kind in (np.int8, np.int16, np.int32) if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return values.astype(next(fits, np.int64), copy=False)
