"""What multiplies each channel by a number and adds one: batch norms, and arithmetic with constants."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import onnx

from accel.frontend.fold.float_network import FloatNetwork
from accel.frontend.onnx_model.onnx_nodes import attribute_of
from accel.util.arrays import Array, Float32, Float64

OPERATORS = ("Add", "BatchNormalization", "Div", "Mul", "Neg", "Sub")
"""What may be such a node. None of them counts as multiply-accumulates, whatever computes it."""

_EPSILON = 1e-5  # of BatchNormalization, where the node states none
_PARAMETERS = 5  # inputs of BatchNormalization: its data and four of C elements


@dataclass(frozen=True)
class Affine:
    """``scale * x + shift``, both [C]."""

    scale: Float64
    shift: Float64

    def then(self, after: "Affine") -> "Affine":
        """First this, then ``after``."""
        return Affine(self.scale * after.scale, self.shift * after.scale + after.shift)


@dataclass(frozen=True)
class Run:
    """Nodes that each alone read the one before, and what all of them do to ``source``.

    ``uniform``: each does the same to all channels.
    """

    source: str
    nodes: tuple[onnx.NodeProto, ...]
    affine: Affine
    uniform: bool

    @property
    def result(self) -> str:
        """What the last one makes."""
        return str(self.nodes[-1].output[0])


def run_from(network: FloatNetwork, first: onnx.NodeProto, source: str, axis: int) -> Run | None:
    """The longest run over the channels, which are ``axis`` of ``source``, that begins with ``first``; None if none."""
    nodes: list[onnx.NodeProto] = []
    steps: list[Affine] = []
    node: onnx.NodeProto | None = first
    at = source
    while node is not None and (step := _affine(network, node, at, axis)) is not None:
        nodes.append(node)
        steps.append(step)
        at = str(node.output[0])
        node = network.only_reader(at)
    return _run(source, nodes, steps)


def run_to(network: FloatNetwork, result: str, axis: int) -> Run | None:
    """The longest run whose ``result`` one node alone reads; None if there is none."""
    nodes: list[onnx.NodeProto] = []
    steps: list[Affine] = []
    at = result
    while network.only_reader(at) is not None and (found := _step_to(network, at, axis)) is not None:
        node, at, step = found
        nodes.insert(0, node)
        steps.insert(0, step)
    return _run(at, nodes, steps)


def _step_to(network: FloatNetwork, result: str, axis: int) -> tuple[onnx.NodeProto, str, Affine] | None:
    """The node that makes ``result``, what it reads, and what it does to that."""
    node = network.maker(result)
    for data in node.input if node is not None else ():
        step = _affine(network, node, data, axis) if node is not None and not network.is_constant(data) else None
        if node is not None and step is not None:
            return node, str(data), step
    return None


def _run(source: str, nodes: Sequence[onnx.NodeProto], steps: Sequence[Affine]) -> Run | None:
    """The run, if float32 holds its numbers."""
    if not nodes:
        return None
    whole = reduce(Affine.then, steps)
    if not (is_single(whole.scale) and is_single(whole.shift)):
        return None
    return Run(source, tuple(nodes), whole, all(_is_uniform(step) for step in steps))


def _affine(network: FloatNetwork, node: onnx.NodeProto, data: str, axis: int) -> Affine | None:
    """What ``node`` does to the channels of ``data``; None if it is no such node."""
    shape = network.shapes.get(data, ())
    if list(node.input).count(data) != 1 or len(shape) <= axis or network.shapes.get(node.output[0]) != shape:
        return None
    if node.op_type == "Neg":
        return Affine(np.full(shape[axis], -1.0), np.zeros(shape[axis]))
    if node.op_type == "BatchNormalization":
        return _norm(network, node, data) if axis == 1 and node.input[0] == data else None
    if node.op_type not in ("Add", "Sub", "Mul", "Div"):
        return None
    place = list(node.input).index(data)
    value = network.constant(node.input[1 - place])
    channels = _along(value, shape, axis) if value is not None else None
    if channels is None:
        return None
    return _arithmetic(node.op_type, channels, first=place == 0)


def _arithmetic(op: str, value: Float64, *, first: bool) -> Affine | None:
    """Arithmetic of the data, which are the ``first`` operand or the second, with ``value``."""
    ones, zeros = np.ones_like(value), np.zeros_like(value)
    if op == "Add":
        return Affine(ones, value)
    if op == "Mul":
        return Affine(value, zeros)
    if op == "Sub":
        return Affine(ones, -value) if first else Affine(-ones, value)
    with np.errstate(divide="ignore"):
        return Affine(1 / value, zeros) if first else None


def _norm(network: FloatNetwork, node: onnx.NodeProto, data: str) -> Affine | None:
    parameters = [network.constant(name) for name in node.input[1:]]
    trains = attribute_of(node, "training_mode", 0) or len(node.output) > 1
    if trains or len(node.input) != _PARAMETERS or any(parameter is None for parameter in parameters):
        return None
    scale, shift, mean, variance = (np.asarray(parameter, np.float64) for parameter in parameters)
    if scale.shape != (network.shapes[data][1],):
        return None
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + attribute_of(node, "epsilon", _EPSILON))
    return Affine(factor, shift - mean * factor)


def _along(value: Float32, shape: Sequence[int], axis: int) -> Float64 | None:
    """A constant that broadcasts along all axes but ``axis``, as one number a channel."""
    aligned = (1,) * (len(shape) - value.ndim) + value.shape
    wide = [index for index, extent in enumerate(aligned) if extent > 1]
    if len(aligned) > len(shape) or any(index != axis for index in wide):
        return None
    if wide and aligned[axis] != shape[axis]:
        return None
    return np.broadcast_to(value.reshape(-1).astype(np.float64), (shape[axis],))


def is_single(values: Array) -> bool:
    """Whether float32 holds all of them."""
    return bool((np.abs(values) <= np.finfo(np.float32).max).all())


def _is_uniform(affine: Affine) -> bool:
    return bool((affine.scale == affine.scale[0]).all() and (affine.shift == affine.shift[0]).all())
