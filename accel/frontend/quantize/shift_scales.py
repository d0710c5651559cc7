"""Scales for machines that shift: of any fraction of an octave, where only those of a layer have to fit each other.

A shift brings the sums of a layer to its result if the product of the scales of its data and its weights is that of the
result times a power of two. So each activation takes the fraction of an octave that suits it, and weights take what is
left between two of them. What no weights stand between has one fraction: an addition and its operands, an average and
what it is of, a tensor and what a relu or a constant factor makes of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from accel.frontend.quantize.quantization_targets import Targets, WeightedNode
from accel.frontend.quantize.scale_constraints import equal_scale_groups, grouped
from accel.frontend.quantize.scale_grid import Grid, Loss
from accel.frontend.quantize.sum_octaves import choose_octaves
from accel.util.arrays import Array

_STARTS = 16
_SWEEPS = 32
_PRODUCTS = ("Conv", "ConvTranspose", "Div", "Einsum", "Gemm", "MatMul", "Mul")
_SCALED = frozenset({
    *_PRODUCTS, "Abs", "Add", "AveragePool", "Clip", "GlobalAveragePool", "GlobalMaxPool", "LeakyRelu", "Max", "Mean",
    "Min", "Neg", "PRelu", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Relu", "Sub", "Sum", "Where",
})  # fmt: skip


@dataclass(frozen=True)
class _Edge:
    """A layer between two groups; ``costs`` are those of its weights' fractions."""

    data: int
    result: int
    costs: Array


@dataclass(frozen=True)
class ShiftScales:
    """The indices of scales: of each activation, and of each layer's weights by the name of its node."""

    activations: dict[str, int]
    weights: dict[str, Array]


def choose_shift_scales(
    model: onnx.ModelProto,
    targets: Targets,
    losses: Mapping[str, Loss],
    weights: Mapping[str, Mapping[int, float]],
    grid: Grid,
) -> ShiftScales:
    """Returns the scales whose errors, as shares of the energy of tensors and weights, have about the least sum.

    Args:
        model: the float model.
        targets: of its quantisation.
        losses: of the activations.
        weights: the error of each layer's weights as a share of their energy, by the index of the scale.
        grid: of all scales, but for their base.
    """
    groups, fixed = _fraction_groups(model, targets)
    place = {name: at for at, group in enumerate(groups) for name in group}
    most: dict[str, str] = {}
    for group in equal_scale_groups(targets):
        most |= dict.fromkeys(group, max(group, key=lambda name: losses[name].energy))
    shares = {
        name: {index: error / (losses[name].energy or 1) for index, error in losses[name].errors.items()}
        for name in dict.fromkeys(most.values())
    }
    sums = [
        (*(most[str(name)] for name in node.input), most[targets.ends[str(node.output[0])]])
        for node in targets.additions
        if str(node.output[0]) in targets.ends
    ]
    own = np.zeros((len(groups), grid.density))
    octaves = choose_octaves(shares, sums, grid.density)
    for part, (_, costs) in enumerate(octaves):
        for name, cost in costs.items():
            own[place[name], part] += cost
    edges = [
        _Edge(
            place[str(layer.node.input[0])],
            place[_result(targets, layer)],
            np.array([_least(weights[layer.node.name], grid, part) for part in range(grid.density)]),
        )
        for layer in targets.layers
    ]
    own[[place[name] for name in fixed], 1:] = np.inf
    found = _least_sum(own, edges)
    parts = {name: int(found[at]) for name, at in place.items()}
    chosen = {}
    for layer in targets.layers:
        part = (parts[_result(targets, layer)] - parts[str(layer.node.input[0])]) % grid.density
        chosen[layer.node.name] = np.array([_best(weights[layer.node.name], grid, part)])
    return ShiftScales({name: octaves[part][0][most[name]] for name, part in parts.items()}, chosen)


def _result(targets: Targets, layer: WeightedNode) -> str:
    return targets.ends[str((layer.bias_add or layer.node).output[0])]


def _fraction_groups(model: onnx.ModelProto, targets: Targets) -> tuple[list[list[str]], list[str]]:
    """The activations that have one fraction of an octave, in groups, and those whose scale is a power of two.

    These are factors of a product of activations, and the product; of a product of matrices the first alone, and the
    second has the fraction of the product.
    """
    known, constants = set(targets.activations), {tensor.name for tensor in model.graph.initializer}
    within = {layer.node.name for layer in targets.layers}
    within |= {node.name for node in targets.gates}
    within |= {layer.bias_add.name for layer in targets.layers if layer.bias_add is not None}
    tied: list[Sequence[str]] = [*targets.moves, *targets.joins, *((a.source, a.result) for a in targets.averages)]
    fixed: list[str] = []
    matrices = {node.name for node in targets.products}
    for node in model.graph.node:
        read = [str(name) for name in node.input if name in known]
        made = [targets.ends[name] for name in node.output[:1] if name in targets.ends]
        plain = all(not name or name in known or name in constants for name in node.input)
        if node.name in within or node.op_type not in _SCALED or not (read and plain):
            continue
        if node.name in matrices and made:
            fixed.append(read[0])
            tied.append([*read[1:], *made])
        elif node.op_type in _PRODUCTS and len(read) > 1:
            fixed += [*read, *made] if made else []
        else:
            tied.append([*read, *made])
    return grouped(targets.activations, tied), fixed


def _least_sum(own: Array, edges: Sequence[_Edge]) -> Array:
    """The fraction of each group [G] for about the least sum of its own costs [G, fractions] and those of edges.

    One group after the other takes its best fraction, given those of its neighbours, until none changes; from several
    starts at once, of which the best is kept.
    """
    count, density = own.shape
    random, every = np.random.default_rng(0), np.arange(density)
    at = random.integers(0, density, (_STARTS, count))
    at[0], at[1] = own.argmin(1) if count else 0, 0
    before: list[list[_Edge]] = [[] for _ in range(count)]
    behind: list[list[_Edge]] = [[] for _ in range(count)]
    for edge in edges:
        if edge.data != edge.result:
            before[edge.result].append(edge)
            behind[edge.data].append(edge)
    for _ in range(_SWEEPS):
        last = at.copy()
        for group in range(count):
            costs = np.tile(own[group], (_STARTS, 1))
            for edge in before[group]:
                costs += edge.costs[(every - at[:, edge.data, None]) % density]
            for edge in behind[group]:
                costs += edge.costs[(at[:, edge.result, None] - every) % density]
            at[:, group] = costs.argmin(1)
        if (at == last).all():
            break
    sums = own[np.arange(count), at].sum(1)
    for edge in edges:
        sums += edge.costs[(at[:, edge.result] - at[:, edge.data]) % density]
    best: Array = at[sums.argmin()]
    return best


def _best(errors: Mapping[int, float], grid: Grid, part: int) -> int:
    """The index of least error among those of a fraction of an octave."""
    return min((index for index in errors if index % grid.density == part), key=errors.__getitem__)


def _least(errors: Mapping[int, float], grid: Grid, part: int) -> float:
    return errors[_best(errors, grid, part)]
