"""Matrix products and sums in canonical form: data by a constant matrix, and additions of two."""

import math

import numpy as np
import onnx
from onnx import helper

from accel.frontend.fold.float_network import FloatNetwork
from accel.frontend.onnx_model.onnx_nodes import attribute_of, set_attributes
from accel.util.arrays import Float32

_MATRIX = 2  # axes
_BIAS = 2  # the place of the bias among the inputs
_CLIPS = ("Clip", "Relu")


def canonicalize_products(network: FloatNetwork) -> None:
    """Rewrites matrix products: constants on the right, data not transposed, weights of two axes, biases of one.

    Products of stacks of matrices, of which one is constant, become convolutions of groups.
    """
    for node in list(network.nodes):
        if node.op_type == "Gemm":
            _add_matrix_apart(network, node)
            _turn_data(network, node)
        elif node.op_type == "MatMul":
            _flatten_left(network, node)
            _swap(network, node)
            _flatten_weight(network, node)
            _group(network, node)


def _turn_data(network: FloatNetwork, node: onnx.NodeProto) -> None:
    """Gemm of transposed data, which a Transpose does."""
    if not attribute_of(node, "transA", 0) or network.constant(node.input[1]) is None:
        return
    set_attributes(node, transA=None)
    source = str(node.input[0])
    node.input[0] = network.name(f"{source}_turned")
    _put(network, node, before=[_transpose(network, node, source, str(node.input[0]), (1, 0))])


def _add_matrix_apart(network: FloatNetwork, node: onnx.NodeProto) -> None:
    """Gemm that adds more than a row of constants, which an Add does."""
    value = network.constant(node.input[_BIAS]) if len(node.input) > _BIAS and node.input[_BIAS] else None
    shape = network.shapes.get(node.output[0], ())
    if value is None or len(shape) != _MATRIX or value.size == 1 or value.shape[-1] == value.size == shape[1]:
        return
    scaled = (value * np.float32(attribute_of(node, "beta", 1.0))).astype(np.float32)
    added = network.add_constant(scaled, f"{node.name}_added")
    result = str(node.output[0])
    node.output[0] = network.name(f"{result}_product")
    del node.input[_BIAS]
    set_attributes(node, beta=None)
    add = helper.make_node("Add", [node.output[0], added], [result], name=network.name(f"{node.name}_add"))
    _put(network, node, after=[add])


def _flatten_left(network: FloatNetwork, node: onnx.NodeProto) -> None:
    """A constant matrix in front with axes of one element before it, as a matrix."""
    left, data = network.constant(node.input[0]), network.shapes.get(node.input[1], ())
    if left is not None and _MATRIX < left.ndim <= len(data) and (matrix := _as_matrix(left)) is not None:
        node.input[0] = network.add_constant(matrix, f"{node.name}_left")
        network.replace([], [], changed=[node])


def _group(network: FloatNetwork, node: onnx.NodeProto) -> None:
    """A stack of constant matrices by one of data: each is a group of channels, and the columns of data are places."""
    is_left = network.is_constant(node.input[0])
    weight, data = network.constant(node.input[not is_left]), network.shapes.get(node.input[is_left], ())
    result = network.shapes.get(node.output[0])
    if weight is None or result is None or len(data) <= _MATRIX or network.is_constant(node.input[is_left]):
        return
    stack = tuple(data[:-_MATRIX])
    if math.prod(stack) == 1 or (1,) * (len(stack) + _MATRIX - weight.ndim) + weight.shape[:-_MATRIX] != stack:
        return
    source, made = str(node.input[is_left]), str(node.output[0])
    channels, product = network.name(f"{source}_channels"), network.name(f"{made}_channels")
    before, after = list[onnx.NodeProto](), list[onnx.NodeProto]()
    if not is_left:
        axes = (*range(len(stack)), len(stack) + 1, len(stack))
        turned, whole = network.name(f"{source}_turned"), network.name(f"{made}_turned")
        before.append(_transpose(network, node, source, turned, axes))
        after.append(_transpose(network, node, whole, made, axes))
        source, made, weight = turned, whole, weight.swapaxes(-1, -_MATRIX)
    groups, places = math.prod(stack), network.shapes[source][-1]
    before.append(_reshape(network, node, source, channels, (1, groups * weight.shape[-1], places)))
    after.insert(0, _reshape(network, node, product, made, (*stack, weight.shape[-2], places)))
    network.shapes[product] = (1, groups * weight.shape[-2], places)
    node.op_type, node.output[0] = "Conv", product
    kernel = weight.reshape(-1, weight.shape[-1], 1)
    node.input[:] = [channels, network.add_constant(kernel, f"{node.name}_kernel")]
    set_attributes(node, group=groups, kernel_shape=[1])
    _put(network, node, before=before, after=after)


def _reshape(
    network: FloatNetwork, node: onnx.NodeProto, source: str, result: str, shape: tuple[int, ...]
) -> onnx.NodeProto:
    """A Reshape of ``source`` around ``node``."""
    network.shapes[result] = shape
    extents = network.add_constant(np.array(shape, np.int64), f"{node.name}_shape")
    return helper.make_node("Reshape", [source, extents], [result], name=network.name(f"{node.name}_reshape"))


def _swap(network: FloatNetwork, node: onnx.NodeProto) -> None:
    """A constant matrix by data: the transposed result of their product the other way round."""
    left, data = network.constant(node.input[0]), network.shapes.get(node.input[1], ())
    if left is None or left.ndim != _MATRIX or len(data) < _MATRIX or network.is_constant(node.input[1]):
        return
    axes = (*range(len(data) - 2), len(data) - 1, len(data) - 2)
    source, result = str(node.input[1]), str(node.output[0])
    turned, product = network.name(f"{source}_turned"), network.name(f"{result}_turned")
    before = _transpose(network, node, source, turned, axes)
    after = _transpose(network, node, product, result, axes)
    node.input[:] = [turned, network.add_constant(left.T, f"{node.name}_right")]
    node.output[0] = product
    _put(network, node, before=[before], after=[after])
    _clip_before_turning(network, after)


def _clip_before_turning(network: FloatNetwork, turning: onnx.NodeProto) -> None:
    """A Relu or a Clip of what a Transpose makes, before it: a layer's store clips, if nothing stands between."""
    clip = network.only_reader(turning.output[0])
    if clip is None or clip.op_type not in _CLIPS or clip.input[0] != turning.output[0]:
        return
    product, result = str(turning.input[0]), str(clip.output[0])
    clip.input[0], clip.output[0] = product, network.name(f"{result}_turned")
    turning.input[0], turning.output[0] = clip.output[0], result
    network.replace([turning, clip], [clip, turning], network.shapes[product])


def _flatten_weight(network: FloatNetwork, node: onnx.NodeProto) -> None:
    """A vector, or a matrix with axes of one element before it, as a matrix."""
    weight, data = network.constant(node.input[1]), network.shapes.get(node.input[0], ())
    result = network.shapes.get(node.output[0])
    if weight is None or result is None or weight.ndim == _MATRIX or not data or network.is_constant(node.input[0]):
        return
    matrix = _as_matrix(weight)
    if matrix is None:
        return
    node.input[1] = network.add_constant(matrix, f"{node.name}_matrix")
    plain = (*data[:-1], matrix.shape[1])
    if plain == result:
        return
    name = str(node.output[0])
    node.output[0] = network.name(f"{name}_product")
    network.shapes[node.output[0]] = plain
    _put(network, node, after=[_reshape(network, node, str(node.output[0]), name, result)])


def _as_matrix(weight: Float32) -> Float32 | None:
    if weight.ndim == 1:
        return weight[:, None]
    return weight.reshape(weight.shape[-2:]) if all(extent == 1 for extent in weight.shape[:-2]) else None


def _transpose(
    network: FloatNetwork, node: onnx.NodeProto, source: str, result: str, axes: tuple[int, ...]
) -> onnx.NodeProto:
    """A Transpose of ``source`` around ``node``."""
    shape = network.shapes.get(source) or tuple(network.shapes[result][axis] for axis in axes)
    network.shapes.setdefault(source, shape)
    network.shapes.setdefault(result, tuple(shape[axis] for axis in axes))
    name = network.name(f"{node.name}_transpose")
    return helper.make_node("Transpose", [source], [result], name=name, perm=list(axes))


def _put(
    network: FloatNetwork,
    node: onnx.NodeProto,
    before: list[onnx.NodeProto] | None = None,
    after: list[onnx.NodeProto] | None = None,
) -> None:
    network.replace([node], [*(before or []), node, *(after or [])], network.shapes.get(node.output[0], ()))


def count_padding(network: FloatNetwork) -> None:
    """Makes means that leave padding out of means that count it, and a factor for each place."""
    for node in list(network.nodes):
        factors = _factors_of_places(network, node) if node.op_type == "AveragePool" else None
        if factors is None:
            continue
        set_attributes(node, count_include_pad=1)
        result = str(node.output[0])
        node.output[0] = network.name(f"{result}_counted")
        factor = network.add_constant(factors, f"{node.name}_factors")
        scaled = helper.make_node("Mul", [node.output[0], factor], [result], name=network.name(f"{node.name}_scaled"))
        _put(network, node, after=[scaled])
        network.shapes[node.output[0]] = network.shapes[result]


def _factors_of_places(network: FloatNetwork, node: onnx.NodeProto) -> Float32 | None:
    """Taps of a window by those within the data, [1, 1, places]; None where all are, or the node counts otherwise."""
    pads = attribute_of(node, "pads", [])
    data, result = (network.shapes.get(str(name), ())[2:] for name in (node.input[0], node.output[0]))
    plain = attribute_of(node, "auto_pad", b"NOTSET") == b"NOTSET" and not attribute_of(node, "ceil_mode", 0)
    if not any(pads) or attribute_of(node, "count_include_pad", 0) or not plain or not data or not result:
        return None
    kernel = attribute_of(node, "kernel_shape", [])
    strides, dilations = (attribute_of(node, name, [1] * len(kernel)) for name in ("strides", "dilations"))
    factors = np.ones((1, 1), np.float64)
    for axis, (size, places) in enumerate(zip(data, result, strict=True)):
        begins = np.arange(places) * strides[axis] - pads[axis]
        taps = begins[:, None] + np.arange(kernel[axis]) * dilations[axis]
        within = ((taps >= 0) & (taps < size)).sum(1)
        if not within.all():
            return None
        factors = factors[..., None] * (kernel[axis] / within)
    return factors.astype(np.float32)


def split_sums(network: FloatNetwork) -> None:
    """Replaces each Sum by an Add, or a row of them, from the left; that of one tensor by Identity."""
    for node in list(network.nodes):
        if node.op_type == "Sum":
            network.replace([node], _additions(network, node))


def _additions(network: FloatNetwork, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    first, *others = node.input
    if not others:
        return [helper.make_node("Identity", [first], list(node.output), name=node.name)]
    made: list[onnx.NodeProto] = []
    for index, other in enumerate(others):
        last = index == len(others) - 1
        total = str(node.output[0]) if last else network.name(f"{node.output[0]}_{index}")
        name = node.name if last else network.name(f"{node.name}_{index}")
        made.append(helper.make_node("Add", [first, other], [total], name=name))
        if not last:
            network.shapes[total] = _broadcast(network, first, other)
        first = total
    return made


def _broadcast(network: FloatNetwork, first: str, second: str) -> tuple[int, ...]:
    shapes = [network.shapes.get(name, ()) for name in (first, second)]
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(extents) for extents in zip(*aligned, strict=True))
