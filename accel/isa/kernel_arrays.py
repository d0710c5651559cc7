"""Arrays as TVM's compiled functions take them, and as little memory as numbers take."""

from typing import Any

import numpy as np
import numpy.typing as npt

Signed = npt.NDArray[np.signedinteger[Any]]

_ALIGNMENT = 64  # TVM's default for the arguments of compiled functions


def aligned_zeros(nbytes: int) -> npt.NDArray[np.uint8]:
    """Zeroed bytes that start on a cache line; the length is rounded up to whole 64-bit words."""
    size = -(-nbytes // 8) * 8
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size]


def narrowed(values: Signed) -> Signed:
    """``values`` in the narrowest signed integers that hold them; of zeros alone, a view of one."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if low == high == 0:
        return np.broadcast_to(np.int8(0), values.shape)
    fits = (kind for kind in (np.int8, np.int16, np.int32) if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return values.astype(next(fits, np.int64), copy=False)
