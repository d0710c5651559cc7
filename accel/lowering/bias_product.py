"""A bias as a contraction: one constant tile of data, and a tile of int8 weights a block that makes the bias of it.

A contraction does an element a cycle, where an instruction on two tensors of accumulators reads twice: VTA's ALU takes
two cycles an element for it (``accel/isa/vta/timing.py``).
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from accel.accelerator.roles import Contraction
from accel.lowering.geometry import Epilogue, EpilogueOp

_MOST = 127  # of int8, either way


def reach(gemm: Contraction) -> int:
    """The largest magnitude of a bias that one contraction makes; 0 where it makes none."""
    return _MOST * _MOST * (gemm.in_channels - 1) if gemm.in_channels > 1 else 0


def with_product(epilogue: Epilogue, gemm: Contraction, largest: int) -> Epilogue | None:
    """The epilogue with its bias added by a contraction, for biases of at most ``largest``; None if it cannot be."""
    if (("add_tensor", 0),) not in epilogue.grouped or largest > reach(gemm):
        return None
    product: tuple[EpilogueOp, int] = ("add_product", 0)
    return replace(epilogue, steps=tuple(product if step == ("add_tensor", 0) else step for step in epilogue.steps))


def constant_tile(gemm: Contraction) -> npt.NDArray[np.int8 | np.uint8]:
    """The tile of data: 127 in every channel but the last, which has 1; of the data memory's type."""
    channels = np.full(gemm.in_channels, _MOST, gemm.data.memory.dtype)
    channels[-1] = 1
    across = channels if gemm.data.axes[1] == "k" else channels[:, np.newaxis]
    return np.ascontiguousarray(np.broadcast_to(across, gemm.data.shape))


def weights_of(bias: npt.NDArray[np.int32], blocks: int, gemm: Contraction) -> npt.NDArray[np.int8]:
    """The tiles ``[blocks, *tile of weights]`` whose product with :func:`constant_tile` is ``bias`` (channels,).

    A bias is 127 q + r; the last channel makes r, and the others share q.
    """
    padded = np.zeros(blocks * gemm.out_channels, np.int64)
    padded[: bias.size] = bias
    quotient = np.rint(padded / _MOST).astype(np.int64)
    first = np.arange(gemm.in_channels - 1) * _MOST
    shares = np.clip(np.abs(quotient)[:, np.newaxis] - first, 0, _MOST) * np.sign(quotient)[:, np.newaxis]
    lanes = np.concatenate([shares, (padded - _MOST * quotient)[:, np.newaxis]], axis=1)
    tiles = lanes.reshape(blocks, gemm.out_channels, gemm.in_channels).astype(np.int8)
    return np.ascontiguousarray(tiles if gemm.weights.axes == ("n", "k") else tiles.transpose(0, 2, 1))
