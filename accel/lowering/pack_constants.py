"""The constants of a region: its weights, what adds the bias, and what its sums begin with."""

import numpy as np
import numpy.typing as npt
from tvm import ir, relax

from accel.accelerator.roles import Contraction
from accel.lowering import layout
from accel.lowering.attributes import Region
from accel.lowering.bias_product import constant_tile, weights_of
from accel.lowering.composite import Composite
from accel.lowering.geometry import Convolution, Epilogue, Shifting
from accel.lowering.groups import merged_weights
from accel.lowering.patches import unfold_weights


def convolution_weights(
    call: ir.Call, composite: Composite, conv: Convolution, gemm: Contraction
) -> npt.NDArray[np.int8]:
    """The weights of a convolution or dense layer as (filters, channels, rows, columns) of what is contracted."""
    weights: npt.NDArray[np.int8] = call.args[1].value.numpy()
    if composite.op == "dense":
        weights = weights.T[:, :, None, None]
    else:
        weights = merged_weights(weights, composite.groups, composite.lots(gemm))
    return weights if conv.unfolded is None else unfold_weights(weights)


def bias_of(
    call: ir.Call, composite: Composite, region: Region, weights: npt.NDArray[np.int8], gemm: Contraction
) -> npt.NDArray[np.int32]:
    """The bias a channel (int32, wrapping as they do), with what else must be added to the sums.

    That is the rounding constant, where it has no step, and what data that are more than the model's add too much.
    """
    bias = np.zeros(weights.shape[0], np.int32)
    if composite.has_bias:
        given = call.args[2].value.numpy().ravel()
        bias[: given.size] = given
    bias = bias + np.int32(rounding(composite, region))
    if gemm.data.memory.dtype == "uint8":
        bias = bias - np.int32(layout.OFFSET) * weights.astype(np.int32).sum(axis=(1, 2, 3), dtype=np.int32)
    return bias


def bias_operands(bias: npt.NDArray[np.int32], epilogue: Epilogue, blocks: int, gemm: Contraction) -> list[relax.Expr]:
    """What adds the bias, as :func:`accel.lowering.finish.finished` takes it."""
    if epilogue.has_bias or epilogue.start == "bias":
        return [relax.const(layout.pack_bias(bias, blocks, gemm.dst))]
    if epilogue.has_product:
        return [relax.const(constant_tile(gemm)), relax.const(weights_of(bias, blocks, gemm))]
    return []


def rounding(composite: Composite, region: Region) -> int:
    """What the accumulators begin with so that a shift rounds; 0 where a step or the store sees to that."""
    scaling, first = region.epilogue.scaling, composite.steps[:1]
    if not first or first[0][0] != "add" or region.epilogue.wide:
        return 0
    if region.epilogue.steps.count(first[0]) == composite.steps.count(first[0]):  # a zero point may be as large
        return 0
    return 0 if isinstance(scaling, Shifting) and scaling.rounds else first[0][1]
