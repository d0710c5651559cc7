"""Constants that regions read: what an epilogue has one of for each channel, and the weights of an addition."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tvm import ir

from accel.accelerator.roles import Contraction
from accel.lowering.composite import Composite


def multipliers(call: ir.Call, composite: Composite, channels: int) -> npt.NDArray[np.int32]:
    """What a composite multiplies each of ``channels`` by, 0 beyond those that it has; int32 [channels].

    A number that the instruction cannot hold is that of every channel; 1 is where the composite does not multiply.
    """
    factors = np.zeros(channels, np.int32)
    steps = dict(composite.steps)
    if "multiply_tensor" not in steps:
        factors[:] = steps.get("multiply", 1)
    else:
        given = call.args[2 + composite.has_bias].value.numpy().ravel()
        factors[: given.size] = given
    return factors


def weighted_identities(levels: Sequence[Sequence[int]], gemm: Contraction) -> npt.NDArray[np.int8]:
    """``diag(weight)`` for each weight of each level in turn, ``[weights, *tile]``."""
    eye = np.eye(gemm.out_channels, gemm.in_channels, dtype=np.int8)
    return np.stack([eye * np.int8(weight) for level in levels for weight in level])
