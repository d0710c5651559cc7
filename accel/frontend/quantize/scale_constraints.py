"""Constraints between scales: activations that are added share a factor beside their powers of two.

The mean of 49 numbers is their sum at a 49th of their scale. Where the result gets a scale with that factor too, a
shift makes one of the other; a layer that reads it takes the factor back in the scale of its weights.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import onnx

from accel.frontend.onnx_model.onnx_nodes import attribute_of
from accel.frontend.quantize.quantization_targets import Targets
from accel.frontend.quantize.scale_grid import Grid, Loss, ZeroPoints

_FAR_FINER = 0.6


def related_scale_groups(targets: Targets) -> list[list[str]]:
    """Returns the activations in groups whose scales are related.

    Operands of an addition are in one group, and so are tensors that are moved or concatenated. Both the groups
    and their members are in the order of ``targets.activations``.
    """
    operands = [tuple(str(name) for name in node.input) for node in targets.additions]
    return grouped(targets.activations, (*operands, *targets.moves, *targets.joins))


def equal_scale_groups(targets: Targets) -> list[list[str]]:
    """Returns the activations in groups that have one scale, because they are concatenated or moved."""
    return grouped(targets.activations, (*targets.moves, *targets.joins))


def shared_scales(
    targets: Targets, indices: Mapping[str, int], losses: Mapping[str, Loss]
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns ``indices``, and the zero points, with one for each group of equal scales.

    They are those of the group's tensor of the most energy.
    """
    found: dict[str, int] = {}
    zero_points: dict[str, int] = {}
    for group in equal_scale_groups(targets):
        most = max(group, key=lambda name: losses[name].energy)
        found |= dict.fromkeys(group, indices[most])
        zero_points |= dict.fromkeys(group, losses[most].zero_points[indices[most]])
    return found, zero_points


def loosened_joins(model: onnx.ModelProto, targets: Targets, losses: Mapping[str, Loss], grid: Grid) -> Targets:
    """Returns ``targets`` whose concatenations share no scale with an operand that would lose by it.

    That is one that something else reads, too, as over a skip connection, and whose own best step is less than
    ``_FAR_FINER`` of the result's. It is requantised where it is concatenated.
    """
    readers = Counter(str(name) for node in model.graph.node for name in node.input)
    steps = {name: grid.scale(min(loss.errors, key=loss.errors.__getitem__)) for name, loss in losses.items()}
    joins = [
        tuple(n for n in join if readers[n] < 2 or n == join[-1] or steps[n] >= _FAR_FINER * steps[join[-1]])
        for join in targets.joins
    ]
    return replace(targets, joins=tuple(joins))


def shiftable_tensors(
    model: onnx.ModelProto, targets: Targets, which: ZeroPoints, fixed: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Returns the activations that may have a zero point, none of which has the scale of one that is ``fixed``.

    Zeros around an image are what loads bring by themselves, and other numbers must be in DRAM; the largest
    of two tensors' integers stands for the largest number only if both have the same zero point; and what the zero
    point of a product's second matrix adds to its rows the host would have to take off.
    """
    if which == "none":
        return frozenset()
    padded = padded_tensors(model) if which in ("unpadded", "fused") else set[str]()
    if which == "fused":
        padded &= _of_relus_alone(model, targets)
    compared = {str(name) for node in targets.additions if node.op_type in ("Max", "Min") for name in node.input}
    second = {str(node.input[1]) for node in targets.products}
    found: set[str] = set()
    for group in equal_scale_groups(targets):
        if (padded | compared | second | fixed).isdisjoint(group):
            found.update(group)
    return frozenset(found)


def _of_relus_alone(model: onnx.ModelProto, targets: Targets) -> set[str]:
    """The results of relus and clips that read what has a scale, so that they follow no sums."""
    quantised = set(targets.activations)
    alone = (node for node in model.graph.node if node.op_type in ("Clip", "Relu"))
    return {str(node.output[0]) for node in alone if node.input[0] in quantised}


def padded_tensors(model: onnx.ModelProto) -> set[str]:
    """Returns the tensors around which an operator of windows reads zeros."""
    kernels = {tensor.name: tuple(tensor.dims[2:]) for tensor in model.graph.initializer}
    return {str(node.input[0]) for node in model.graph.node if _pads(node, kernels)}


def _pads(node: onnx.NodeProto, kernels: Mapping[str, tuple[int, ...]]) -> bool:
    pads = any(attribute_of(node, "pads", ()))
    if node.op_type != "ConvTranspose":
        return node.op_type in ("AveragePool", "Conv", "MaxPool") and pads
    # it is computed in phases, which pad nothing if each element of the result comes of one of the data
    kernel = kernels.get(str(node.input[1]), ())
    ones = [1] * len(kernel)
    strides, dilations = attribute_of(node, "strides", ones), attribute_of(node, "dilations", ones)
    more = attribute_of(node, "output_padding", [0] * len(kernel))
    apart = all(d * (k - 1) + 1 + o <= s for k, s, d, o in zip(kernel, strides, dilations, more, strict=True))
    explicit = attribute_of(node, "auto_pad", b"NOTSET") in (b"NOTSET", b"VALID")
    return pads or not (kernel and apart and explicit) or bool(attribute_of(node, "output_shape", ()))


def grouped(names: Sequence[str], together: Iterable[Sequence[str]]) -> list[list[str]]:
    """Returns ``names`` in groups; the names of each item of ``together`` share one."""
    parent = {name: name for name in names}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = name = parent[parent[name]]
        return name

    for first, *others in together:
        for other in others:
            parent[root(first)] = root(other)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(root(name), []).append(name)
    return list(groups.values())


def choose_scales(groups: Iterable[Sequence[str]], losses: Mapping[str, Loss], grid: Grid) -> dict[str, int]:
    """Returns for each tensor the index of its scale on ``grid``.

    In a group of one it is the scale of least error; in a larger group the choice whose errors, each as a share of its
    tensor's energy, have the least sum.
    """
    found: dict[str, int] = {}
    for group in groups:
        # each residue is a scale within the octave
        options = [{name: _best(losses[name], grid, residue) for name in group} for residue in range(grid.density)]
        shares = [sum(_share(losses[name], index) for name, index in option.items()) for option in options]
        found |= options[shares.index(min(shares))]
    return found


def _best(loss: Loss, grid: Grid, residue: int) -> int:
    return min((index for index in loss.errors if index % grid.density == residue), key=loss.errors.__getitem__)


def _share(loss: Loss, index: int) -> float:
    return loss.errors[index] / (loss.energy or 1)


def scale_factors(targets: Targets) -> dict[str, float]:
    """Returns for each activation a factor of its scale, at least 1 and less than 2.

    It is 1 except for averages of a number of elements that is no power of two, and for tensors that are moved or
    averaged from them, if layers alone read them: an addition needs one factor for all of its
    operands, and so does a concatenation.
    """
    groups = {name: group for group in related_scale_groups(targets) for name in group}
    added = {str(name) for node in targets.additions for name in node.input}
    added |= {name for join in targets.joins for name in join}
    found = dict.fromkeys(targets.activations, 1.0)
    for average in targets.averages:
        group = groups[average.result]
        made_otherwise = {other.result for other in targets.averages if other is not average} & set(group)
        if added.isdisjoint(group) and not made_otherwise:
            factor = _normal(found[average.source] / average.count)
            found |= dict.fromkeys(group, factor)
    return found


def reciprocal(base: float) -> float:
    """Returns the factor whose product with ``base`` is a power of two."""
    return _normal(1 / base)


def _normal(factor: float) -> float:
    return 2 * math.frexp(factor)[0]
