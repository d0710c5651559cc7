"""Folding of affine functions of the channels into the layer behind or ahead of them, in the order of all folding.

What follows no layer becomes a depthwise 1 x 1 convolution of its own.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from accel.frontend.fold.affine_channels import OPERATORS, Affine, Run, is_single, run_from, run_to
from accel.frontend.fold.canonical_operators import canonicalize_products, count_padding, split_sums
from accel.frontend.fold.float_network import FloatNetwork
from accel.frontend.onnx_model.node_origins import note_origin
from accel.frontend.onnx_model.onnx_nodes import attribute_of, set_attributes
from accel.util.arrays import Float32, Float64

_CONVOLUTIONS = ("Conv", "ConvTranspose")
_MATRICES = ("Gemm", "MatMul")
_MATRIX = 2  # axes
_BIAS = 2  # the place of the bias among the inputs


def fold_behind(network: FloatNetwork) -> None:
    """Folds the norms, scales and biases behind layers into their constants.

    Behind a product of matrices rows may be counted in other axes between: norms of rows are of two axes.
    """
    for node in list(network.nodes):
        _fold_behind(network, node)


def _fold_behind(network: FloatNetwork, node: onnx.NodeProto) -> None:
    """Fold what is behind a layer into it."""
    layer = layer_constants(network, node) if node.op_type in (*_CONVOLUTIONS, *_MATRICES) else None
    last = _counting_rows(network, node) if layer is not None else node
    reader = network.only_reader(last.output[0]) if layer is not None else None
    if layer is None or reader is None:
        return
    axis = 1 if node.op_type in _CONVOLUTIONS else len(network.shapes.get(last.output[0], ())) - 1
    run = run_from(network, reader, str(last.output[0]), axis) if axis > 0 else None
    if run is not None and not _is_bias(node, run):
        changed = scaled_layer(node, *layer, run.affine.scale, run.affine.shift)
        _change(network, node, run, *changed, last=last)


def fold_ahead(network: FloatNetwork) -> None:
    """Folds affine functions ahead of a layer into it, if it alone reads them and pads nothing."""
    for node in list(network.nodes):
        layer = layer_constants(network, node) if node.op_type in ("Conv", *_MATRICES) else None
        if layer is None or attribute_of(node, "transA", 0):
            continue
        axis = 1 if node.op_type == "Conv" else len(network.shapes.get(node.input[0], ())) - 1
        run = run_to(network, str(node.input[0]), axis) if axis > 0 else None
        if run is not None and not (run.affine.shift.any() and _pads(node)):
            _change(network, node, run, *fed_layer(node, *layer, run.affine.scale, run.affine.shift))


def takes_channels(network: FloatNetwork, node: onnx.NodeProto, name: str) -> bool:
    """Returns whether a product with constant weights reads ``name`` as its data, of channels along the last axis."""
    data = node.op_type in _MATRICES and node.input[0] == name and name not in node.input[1:]
    return data and not attribute_of(node, "transA", 0) and layer_constants(network, node) is not None


def feed_product(network: FloatNetwork, node: onnx.NodeProto, source: str, affine: Affine) -> None:
    """Lets a product that :func:`takes_channels` read ``source``, of which ``affine`` makes what it has read.

    Where float32 does not hold its constants then, it stays.
    """
    layer = layer_constants(network, node)
    assert layer is not None
    changed = fed_layer(node, *layer, affine.scale, affine.shift)
    result = str(node.output[0])
    _change(network, node, Run(source, (), affine, uniform=False), *changed)
    added = network.maker(result)
    if added is not None and added.name != node.name:
        note_origin(added, node)
    _fold_behind(network, node)


def _counting_rows(network: FloatNetwork, node: onnx.NodeProto) -> onnx.NodeProto:
    """The Reshape that alone reads a product of matrices, if each row stays one; else the product."""
    reader = network.only_reader(node.output[0]) if node.op_type in _MATRICES else None
    if reader is None or reader.op_type not in ("Flatten", "Reshape"):
        return node
    before, after = (network.shapes.get(name, ()) for name in (str(node.output[0]), str(reader.output[0])))
    return reader if before and after and before[-1] == after[-1] else node


def scaled_layer(
    node: onnx.NodeProto, weight: Float32, bias: Float64, scale: Float64, shift: Float64
) -> tuple[Float64, Float64]:
    """Returns the constants of a layer whose result is scaled and shifted."""
    if node.op_type == "Conv":
        scaled = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
    elif node.op_type == "ConvTranspose":  # [C, O / groups, ...]
        groups = attribute_of(node, "group", 1)
        parts = weight.reshape(groups, -1, *weight.shape[1:])
        scaled = (parts * scale.reshape(groups, 1, -1, *[1] * (weight.ndim - 2))).reshape(weight.shape)
    else:
        scaled = weight * (scale[:, None] if attribute_of(node, "transB", 0) else scale)
    return scaled, bias.reshape(-1) * attribute_of(node, "beta", 1.0) * scale + shift


def fed_layer(
    node: onnx.NodeProto, weight: Float32, bias: Float64, scale: Float64, shift: Float64
) -> tuple[Float64, Float64]:
    """Returns the constants of a layer whose data are scaled and shifted."""
    if node.op_type == "Conv":
        groups, taps = attribute_of(node, "group", 1), math.prod(weight.shape[2:])
        scale, shift = (np.repeat(v.reshape(groups, 1, -1), taps, 2) for v in (scale, shift))
        kernels = weight.reshape(groups, -1, scale.shape[2])  # a row of each output: long rows are multiplied faster
        added = (kernels * shift).sum(2).reshape(-1) if shift.any() else np.zeros(len(weight))
        return (kernels * scale).reshape(weight.shape), bias.reshape(-1) + added
    turned = bool(attribute_of(node, "transB", 0))
    more = (weight @ shift if turned else shift @ weight) * attribute_of(node, "alpha", 1.0)
    return weight * (scale if turned else scale[:, None]), bias.reshape(-1) * attribute_of(node, "beta", 1.0) + more


def _change(
    network: FloatNetwork,
    node: onnx.NodeProto,
    run: Run,
    weight: Float64,
    bias: Float64,
    *,
    last: onnx.NodeProto | None = None,
) -> None:
    """Give the layer new constants, for others may read the old ones, and let it do what the run did.

    ``last`` makes what the run reads, if that is behind the layer: it, or what moves its result.
    """
    if not (is_single(weight) and is_single(bias)):
        return
    shape = network.shapes[node.output[0]]
    set_attributes(node, beta=None)
    node.input[1] = network.add_constant(weight.astype(np.float32), f"{node.name}_folded_weight")
    if last is not None:
        last.output[0] = run.result
    else:
        node.input[0] = run.source
    network.replace(run.nodes, [], changed=[node] if last in (None, node) else [node, last])
    if node.op_type != "MatMul":
        row = network.add_constant(bias.astype(np.float32), f"{node.name}_folded_bias")
        node.input[:] = [*node.input[:_BIAS], row]
    elif bias.any():
        row = network.add_constant(bias.astype(np.float32), f"{node.name}_folded_bias")
        result, product = str(node.output[0]), network.name(f"{node.output[0]}_product")
        node.output[0] = product
        name = run.nodes[-1].name if last is not None else network.name(f"{node.name}_bias")
        add = helper.make_node("Add", [product, row], [result], name=name)
        network.replace([node], [node, add], shape)


def layer_constants(network: FloatNetwork, node: onnx.NodeProto) -> tuple[Float32, Float64] | None:
    """Returns the weight and the bias, zero where there is none; None if they are not constants or of other forms.

    The weight is as it is, for most layers are only looked at: products with factors of float64 are of that.
    """
    weight = network.constant(node.input[1])
    if weight is None or (node.op_type in _MATRICES and weight.ndim != _MATRIX):
        return None
    if len(node.input) <= _BIAS or not node.input[_BIAS]:
        return weight, np.zeros(1)
    bias = network.constant(node.input[_BIAS])
    columns = network.shapes.get(node.output[0], (0,))[-1]
    if bias is None or (node.op_type == "Gemm" and not _is_row(bias, columns)):
        return None
    if node.op_type == "Conv" and bias.size != weight.shape[0]:  # which onnx's shape inference lets pass
        return None
    return weight, bias.astype(np.float64)


def _is_row(bias: Float32, columns: int) -> bool:
    return bias.size == 1 or (bias.size == columns and bias.shape[-1] == columns)


def _is_bias(node: onnx.NodeProto, run: Run) -> bool:
    """A MatMul has no bias of its own: the Add of a vector is one."""
    added = [other.op_type for other in run.nodes] == ["Add"]
    return node.op_type == "MatMul" and added and bool((run.affine.scale == 1).all())


def _pads(node: onnx.NodeProto) -> bool:
    pads: Sequence[int] = attribute_of(node, "pads", [])
    return any(pads) or attribute_of(node, "auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")


_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_BETWEEN = ("AveragePool", "Clip", "Concat", "Dropout", "Flatten", "GlobalAveragePool", "MaxPool", "Relu", "Reshape")
_PLACES = (3, 4)  # axes of lines and images


def fold_standalone(network: FloatNetwork) -> None:
    """Replaces the affine functions that remain by depthwise 1 x 1 convolutions.

    What works on an input of the model stays: the host quantises that anyway, and does so more exactly afterwards. So
    does what meets no layer on either side.
    """
    done: set[str] = set()
    for node in list(network.nodes):
        run = _starting(network, node) if node.op_type in OPERATORS and node.name not in done else None
        if run is None:
            continue
        done.update(other.name for other in run.nodes)
        if run.source in network.inputs or (run.uniform and _is_arithmetic(run)):
            continue
        if _meets_layer(network, run.source, ahead=False) or _meets_layer(network, run.result, ahead=True):
            network.replace(run.nodes, [_depthwise(network, run)])


def _starting(network: FloatNetwork, node: onnx.NodeProto) -> Run | None:
    """The run over the channels of a line or an image that begins with ``node``."""
    for source in node.input:
        if not network.is_constant(source) and len(network.shapes.get(source, ())) in _PLACES:
            return run_from(network, node, str(source), 1)
    return None


def _depthwise(network: FloatNetwork, run: Run) -> onnx.NodeProto:
    channels, rank = len(run.affine.scale), len(network.shapes[run.source])
    name = run.nodes[0].name
    kernel = [1] * (rank - 2)
    weight = network.add_constant(run.affine.scale.astype(np.float32).reshape(-1, 1, *kernel), f"{name}_weight")
    bias = network.add_constant(run.affine.shift.astype(np.float32), f"{name}_bias")
    inputs, outputs = [run.source, weight, bias], [run.result]
    return helper.make_node("Conv", inputs, outputs, name=name, group=channels, kernel_shape=kernel)


def _meets_layer(network: FloatNetwork, name: str, *, ahead: bool) -> bool:
    """Whether a layer reads the tensor, or makes it, with nothing between but what keeps integers as they are."""
    pending, seen = [name], {name}
    while pending:
        at = pending.pop()
        maker = network.maker(at)
        for node in network.readers(at) if ahead else [maker] if maker is not None else []:
            if node.op_type in _LAYERS:
                return True
            more = [other for other in (node.output if ahead else node.input) if other not in seen]
            if node.op_type in _BETWEEN:
                pending += more
                seen.update(more)
    return False


def _is_arithmetic(run: Run) -> bool:
    """Numbers for the whole tensor, which are not what a layer is for."""
    return all(node.op_type != "BatchNormalization" for node in run.nodes)


def fold_layers(model: onnx.ModelProto, directory: Path | None = None) -> None:
    """Folds biases, scales and batch norms into layers of ``model``, a float model of named nodes, in place.

    Large new constants are in a file in ``directory``, as :class:`FloatNetwork` has them.

    What each node left computes of the user's nodes is for ``note_covers`` to find.
    """
    network = FloatNetwork(model, directory)
    split_sums(network)
    count_padding(network)
    canonicalize_products(network)
    fold_behind(network)
    fold_ahead(network)
    fold_behind(network)
    fold_standalone(network)
    network.finish()
