"""Constants of a region: its weights, biases and multipliers a channel, and what its sums begin with."""

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from tvm import ir, relax

from accel.accelerator.contraction import Contraction
from accel.lowering.analysis.composite import CompositeRegion, MergedGroups
from accel.lowering.layout import tiled_layout
from accel.lowering.layout.tiled_layout import unfold_weights, weights_of_runs
from accel.region.epilogue import Epilogue, Shifting, bias_data_tile, bias_weight_tiles
from accel.region.shapes import Convolution


def merged_weights(weights: npt.NDArray[np.int8], groups: int, lots: MergedGroups) -> npt.NDArray[np.int8]:
    """Weights [O, C / groups, KH, KW] as those of ``lots``: [count * outputs, inputs, KH, KW].

    Zeros stand between the groups of a lot, and for the groups that the last lot lacks.
    """
    outputs, inputs = weights.shape[0] // groups, weights.shape[1]
    result = np.zeros((lots.count, lots.merged, outputs, lots.merged, inputs, *weights.shape[2:]), np.int8)
    group = np.arange(groups)
    lot, place = group // lots.merged, group % lots.merged
    result[lot, place, :, place] = weights.reshape(groups, outputs, *weights.shape[1:])
    return result.reshape(lots.count * lots.outputs, lots.inputs, *weights.shape[2:])


def channel_multipliers(call: ir.Call, composite: CompositeRegion, channels: int) -> npt.NDArray[np.int32]:
    """What a composite multiplies each of ``channels`` by, 0 beyond those that it has; int32 [channels].

    A number that the instruction cannot hold is that of every channel; 1 is where the composite does not multiply.
    """
    factors = np.zeros(channels, np.int32)
    steps = dict(composite.steps)
    if "multiply_tensor" not in steps:
        factors[:] = steps.get("multiply", 1)
    else:
        given = composite.argument(call, "m").value.numpy().ravel()
        factors[: given.size] = given
    return factors


def factor_operands(
    call: ir.Call,
    composite: CompositeRegion,
    epilogue: Epilogue,
    blocks: int,
    gemm: Contraction,
    bias: npt.NDArray[np.int32] | None = None,
) -> list[relax.Expr]:
    """What a store reads of each channel, if it does: int32 [blocks, channels of a block] each.

    ``bias`` (channels,) is what it adds, where it adds any. Shifts are equal: multipliers are made for one.
    """
    channels, found = blocks * gemm.out_channels, list[relax.Expr]()
    for role, _ in () if epilogue.factors is None else epilogue.factors.operands:
        if role == "factor":
            values = channel_multipliers(call, composite, channels)
        elif role == "shift":
            assert isinstance(epilogue.scaling, Shifting)
            values = np.full(channels, epilogue.scaling.shift, np.int32)
        else:
            assert bias is not None
            values = np.zeros(channels, np.int32)
            values[: bias.size] = bias
        found.append(relax.const(values.reshape(blocks, gemm.out_channels)))
    return found


def weighted_identities(levels: Sequence[Sequence[int]], gemm: Contraction) -> npt.NDArray[np.int8]:
    """``diag(weight)`` for each weight of each level in turn, ``[weights, *tile]``."""
    eye = np.eye(gemm.out_channels, gemm.in_channels, dtype=np.int8)
    return np.stack([eye * np.int8(weight) for level in levels for weight in level])


def convolution_weights(
    call: ir.Call, composite: CompositeRegion, conv: Convolution, gemm: Contraction
) -> npt.NDArray[np.int8]:
    """The weights of a convolution or dense layer as (filters, channels, rows, columns) of what is contracted."""
    weights: npt.NDArray[np.int8] = composite.argument(call, "w").value.numpy()
    if composite.op == "dense":
        weights = weights.T[:, :, None, None]
    else:
        weights = merged_weights(weights, composite.groups, composite.lots(gemm))
    if conv.unfolded is None:
        return weights
    if conv.run_axis is not None:
        return weights_of_runs(weights, conv.unfolded, conv.run_axis, conv.data.blocks * gemm.in_channels)
    return unfold_weights(weights)


def bias_constant(
    call: ir.Call, composite: CompositeRegion, epilogue: Epilogue, weights: npt.NDArray[np.int8], gemm: Contraction
) -> npt.NDArray[np.int32]:
    """The bias a channel (int32, wrapping as they do), with what else must be added to the sums.

    That is the rounding constant, where it has no step, and what data that are more than the model's add too much.
    """
    bias = np.zeros(weights.shape[0], np.int32)
    if composite.has_bias:
        given = composite.argument(call, "b").value.numpy().ravel()
        bias[: given.size] = given
    bias = bias + np.int32(rounding_constant(composite, epilogue))
    if gemm.data.memory.dtype == "uint8":
        bias = bias - np.int32(tiled_layout.OFFSET) * weights.astype(np.int32).sum(axis=(1, 2, 3), dtype=np.int32)
    return bias


def stack_bias(call: ir.Call, composite: CompositeRegion, epilogue: Epilogue, gemm: Contraction) -> relax.Expr:
    """What is added to the sums of a product of two activations, as :func:`bias_constant` has it; int32 [B, 1, N].

    What data that are more than the model's add too much the host sums up.
    """
    batch, _, columns = composite.result
    constant = np.full((batch, 1, columns), rounding_constant(composite, epilogue), np.int32)
    terms: list[relax.Expr] = []
    if composite.has_bias:
        given = composite.argument(call, "b")
        if isinstance(given, ir.GenericConst):
            constant = constant + given.value.numpy()
        else:
            terms.append(given)
    if gemm.data.memory.dtype == "uint8":
        sums = relax.op.sum(relax.op.astype(composite.argument(call, "w"), "int32"), [1], keepdims=True)
        terms.append(relax.op.multiply(sums, relax.const(-tiled_layout.OFFSET, "int32")))
    if not terms or constant.any():
        terms.append(relax.const(constant))
    return functools.reduce(relax.op.add, terms)


def stack_bias_constant(bias: npt.NDArray[np.int32], gemm: Contraction) -> npt.NDArray[np.int32]:
    """What :func:`tiled_layout.pack_bias_tensor` does, of a constant int32 [B, 1, N]."""
    batch, _, columns = bias.shape
    blocks = -(-columns // gemm.out_channels)
    whole = np.pad(bias[:, 0], ((0, 0), (0, blocks * gemm.out_channels - columns)))
    return tiled_layout.pack_bias(whole, batch * blocks, gemm.dst)


def bias_operands(
    bias: npt.NDArray[np.int32], epilogue: Epilogue, blocks: int, gemm: Contraction, line: tuple[int, ...]
) -> list[relax.Expr]:
    """What adds the bias, as :func:`accel.lowering.kinds.contraction.epilogue_stages.with_epilogue` takes it.

    ``line`` is the axis of equal tiles of data, if there are several.
    """
    if epilogue.has_bias or epilogue.start == "bias":
        return [relax.const(tiled_layout.pack_bias(bias, blocks, gemm.dst))]
    if epilogue.has_product:
        tile = bias_data_tile(gemm)
        tiles = np.ascontiguousarray(np.broadcast_to(tile, (*line, *tile.shape)))
        return [relax.const(tiles), relax.const(bias_weight_tiles(bias, blocks, gemm))]
    return []


def rounding_vector(
    call: ir.Call, composite: CompositeRegion, epilogue: Epilogue, channels: int
) -> npt.NDArray[np.int32]:
    """What is added to a sum of tensors so that a shift rounds, for each of ``channels``: int32 [channels]."""
    vector = np.zeros(channels, np.int32)
    if composite.has_bias:
        given = composite.argument(call, "r").value.numpy().ravel()
        vector[: given.size] = given
    return vector + np.int32(rounding_constant(composite, epilogue))


def rounding_operands(
    call: ir.Call,
    addition: CompositeRegion,
    epilogue: Epilogue,
    blocks: int,
    gemm: Contraction,
    line: tuple[int, ...],
) -> list[relax.Expr]:
    """What the rounding of an addition behind a contraction takes, if anything; ``epilogue`` is that of both."""
    _, steps = epilogue.parts
    behind = replace(epilogue, steps=steps, groups=())
    vector = rounding_vector(call, addition, behind, blocks * gemm.out_channels)
    return bias_operands(vector, behind, blocks, gemm, line)


def rounding_constant(composite: CompositeRegion, epilogue: Epilogue) -> int:
    """What the accumulators begin with so that a shift rounds; 0 where a step or the store sees to that."""
    scaling, first = epilogue.scaling, composite.steps[:1]
    if not first or first[0][0] != "add" or epilogue.wide:
        return 0
    if epilogue.steps.count(first[0]) == composite.steps.count(first[0]):  # a zero point may be as large
        return 0
    return 0 if isinstance(scaling, Shifting) and scaling.rounds else first[0][1]
