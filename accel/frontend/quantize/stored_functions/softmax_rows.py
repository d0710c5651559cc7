"""Softmaxes of a float model that are quantised at both ends, for stores that compute them as integers.

Their data and their results are int8 then, of scales that the integers have: results are worth 127 times a power of
two, without a zero point, and differences of data are halved 31 times at most.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from accel.frontend.onnx_model.onnx_nodes import attribute_of
from accel.frontend.onnx_model.shape_inference import without_weights
from accel.frontend.quantize.quantization_targets import Targets
from accel.frontend.quantize.scale_grid import INT8_MAX, Grid, Loss
from accel.util.arrays import Array

_REACH = 12.0  # below the largest of a row by more is next to nothing of it
_MOST_OCTAVES = 7
_HALVINGS = 31 - _MOST_OCTAVES
_DIFFERENCES = 2 * INT8_MAX + 1
UNIT_BASE = 128 / 127
"""The base of a grid whose powers of two are 1/127 times one."""


@dataclass(frozen=True)
class SoftmaxRows:
    """A softmax along the last axis: the tensor that it reads, and its result."""

    data: str
    result: str


def find_softmaxes(model: onnx.ModelProto, targets: Targets, columns: tuple[int, int]) -> tuple[SoftmaxRows, ...]:
    """Returns the softmaxes whose results have a scale, of rows of ``columns`` (least and most), if alone they read."""
    shapes = onnx.shape_inference.infer_shapes(without_weights(model)).graph
    known = {info.name: info.type.tensor_type for info in (*shapes.value_info, *shapes.input, *shapes.output)}
    readers: dict[str, int] = {}
    for node in model.graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    results = {output.name for output in model.graph.output}
    found = []
    for node in (node for node in model.graph.node if node.op_type == "Softmax"):
        data, result = str(node.input[0]), str(node.output[0])
        sizes = [int(size.dim_value) for size in known[data].shape.dim] if data in known else []
        last = bool(sizes) and int(attribute_of(node, "axis", -1)) % len(sizes) == len(sizes) - 1
        alone = readers[data] == 1 and data not in results and data not in targets.activations
        if last and alone and result in targets.activations and columns[0] <= sizes[-1] <= columns[1]:
            found.append(SoftmaxRows(data, result))
    return tuple(found)


def with_softmaxes(targets: Targets, softmaxes: Sequence[SoftmaxRows]) -> Targets:
    """Returns the targets whose activations are what softmaxes read, too."""
    return replace(targets, activations=(*targets.activations, *(each.data for each in softmaxes)))


def observed_rows(values: Array) -> Array:
    """Returns what a softmax reads without what leaves nothing: a mask is far below, and would leave no levels."""
    return np.asarray(np.maximum(values, values.max(-1, keepdims=True) - np.float32(_REACH)))


def with_softmax_grids(
    grids: Mapping[str, Grid], softmaxes: Sequence[SoftmaxRows], together: Sequence[Collection[str]]
) -> dict[str, Grid]:
    """Returns the grids, of which those of results have their unit; ``together`` are tensors of one scale each."""
    results = {each.result for each in softmaxes}
    moved = {name for group in together if not results.isdisjoint(group) for name in group}
    return {name: grid.with_base(UNIT_BASE) if name in moved else grid for name, grid in grids.items()}


def softmax_losses(losses: Mapping[str, Loss], softmaxes: Sequence[SoftmaxRows], grid: Grid) -> dict[str, Loss]:
    """Returns the losses, of which those at scales that no integers have are infinite."""
    coarsest = grid.ceiling(_HALVINGS * math.log(2) / _DIFFERENCES) - 1
    found = dict(losses)
    for each in softmaxes:
        finest = -grid.density * (_MOST_OCTAVES + math.ceil(math.log2(INT8_MAX)))
        allowed = range(finest, -grid.density * math.ceil(math.log2(INT8_MAX)) + 1, grid.density)
        found[each.result] = _without(
            losses[each.result], [at for at in losses[each.result].errors if at not in allowed]
        )
        found[each.data] = _data_loss(losses[each.data], grid, coarsest)
    return found


def _without(loss: Loss, indices: Collection[int]) -> Loss:
    return replace(loss, errors=loss.errors | dict.fromkeys(indices, math.inf))


def _data_loss(loss: Loss, grid: Grid, coarsest: int) -> Loss:
    """The loss at scales that are fine enough; where none is, these hold as much of the range from its end on."""
    if min(loss.errors) <= coarsest:
        return _without(loss, [at for at in loss.errors if at > coarsest])
    widest = min(loss.errors, key=loss.errors.__getitem__)
    largest = (INT8_MAX - loss.zero_points[widest]) * grid.scale(widest)
    fine = range(coarsest - grid.density + 1, coarsest + 1)
    points = {at: max(INT8_MAX - round(largest / grid.scale(at)), -INT8_MAX - 1) for at in fine}
    return replace(loss, errors={at: float(coarsest - at) for at in fine}, zero_points=points)
