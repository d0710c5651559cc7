"""Arrays as TVM's compiled functions take them."""

import numpy as np
import numpy.typing as npt

_ALIGNMENT = 64  # TVM's default for the arguments of compiled functions


def aligned_zeros(nbytes: int) -> npt.NDArray[np.uint8]:
    """Zeroed bytes that start on a cache line; the length is rounded up to whole 64-bit words."""
    size = -(-nbytes // 8) * 8
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size]
