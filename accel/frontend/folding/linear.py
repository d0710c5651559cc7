"""Layers that an affine function of the channels can be folded into: behind them, or ahead of them."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from accel.frontend.folding.affine import Doubles, Run, is_single, run_from, run_to
from accel.frontend.folding.network import Floats, Network
from accel.frontend.model.attributes import attribute_of, set_attributes

_CONVOLUTIONS = ("Conv", "ConvTranspose")
_MATRICES = ("Gemm", "MatMul")
_MATRIX = 2  # axes
_BIAS = 2  # the place of the bias among the inputs


def fold_behind(network: Network) -> None:
    """Fold the norms, scales and biases behind layers into their constants."""
    for node in list(network.nodes):
        layer = _constants(network, node) if node.op_type in (*_CONVOLUTIONS, *_MATRICES) else None
        reader = network.only_reader(node.output[0]) if layer is not None else None
        if layer is None or reader is None:
            continue
        axis = 1 if node.op_type in _CONVOLUTIONS else len(network.shapes.get(node.output[0], ())) - 1
        run = run_from(network, reader, str(node.output[0]), axis) if axis > 0 else None
        if run is not None and not _is_bias(node, run):
            _change(network, node, run, *_scaled(node, *layer, run.affine.scale, run.affine.shift), behind=True)


def fold_ahead(network: Network) -> None:
    """Fold those that are ahead of a layer which alone reads them, and which pads nothing."""
    for node in list(network.nodes):
        layer = _constants(network, node) if node.op_type in ("Conv", *_MATRICES) else None
        if layer is None or attribute_of(node, "transA", 0):
            continue
        axis = 1 if node.op_type == "Conv" else len(network.shapes.get(node.input[0], ())) - 1
        run = run_to(network, str(node.input[0]), axis) if axis > 0 else None
        if run is not None and not (run.affine.shift.any() and _pads(node)):
            _change(network, node, run, *_fed(node, *layer, run.affine.scale, run.affine.shift), behind=False)


def _scaled(
    node: onnx.NodeProto, weight: Doubles, bias: Doubles, scale: Doubles, shift: Doubles
) -> tuple[Doubles, Doubles]:
    """The constants of a layer whose result is scaled and shifted."""
    if node.op_type == "Conv":
        weight = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
    elif node.op_type == "ConvTranspose":  # [C, O / groups, ...]
        groups = attribute_of(node, "group", 1)
        parts = weight.reshape(groups, -1, *weight.shape[1:])
        weight = (parts * scale.reshape(groups, 1, -1, *[1] * (weight.ndim - 2))).reshape(weight.shape)
    else:
        weight = weight * (scale[:, None] if attribute_of(node, "transB", 0) else scale)
    return weight, bias.reshape(-1) * attribute_of(node, "beta", 1.0) * scale + shift


def _fed(
    node: onnx.NodeProto, weight: Doubles, bias: Doubles, scale: Doubles, shift: Doubles
) -> tuple[Doubles, Doubles]:
    """The constants of a layer whose data are scaled and shifted."""
    if node.op_type == "Conv":
        groups = attribute_of(node, "group", 1)
        outputs = weight.shape[0] // groups
        scale, shift = (np.repeat(v.reshape(groups, -1), outputs, 0)[..., None] for v in (scale, shift))
        kernels = weight.reshape(*weight.shape[:2], -1)
        return (kernels * scale).reshape(weight.shape), bias.reshape(-1) + (kernels * shift).sum((1, 2))
    turned = bool(attribute_of(node, "transB", 0))
    more = (weight @ shift if turned else shift @ weight) * attribute_of(node, "alpha", 1.0)
    return weight * (scale if turned else scale[:, None]), bias.reshape(-1) * attribute_of(node, "beta", 1.0) + more


def _change(network: Network, node: onnx.NodeProto, run: Run, weight: Doubles, bias: Doubles, *, behind: bool) -> None:
    """Give the layer new constants, for others may read the old ones, and let it do what the run did."""
    if not (is_single(weight) and is_single(bias)):
        return
    shape = network.shapes[node.output[0]]
    set_attributes(node, beta=None)
    node.input[1] = network.add_constant(weight.astype(np.float32), f"{node.name}_folded_weight")
    if behind:
        node.output[0] = run.result
    else:
        node.input[0] = run.source
    network.replace(run.nodes, [])
    if node.op_type != "MatMul":
        row = network.add_constant(bias.astype(np.float32), f"{node.name}_folded_bias")
        node.input[:] = [*node.input[:_BIAS], row]
    elif bias.any():
        row = network.add_constant(bias.astype(np.float32), f"{node.name}_folded_bias")
        result, product = str(node.output[0]), network.name(f"{node.output[0]}_product")
        node.output[0] = product
        name = run.nodes[-1].name if behind else network.name(f"{node.name}_bias")
        add = helper.make_node("Add", [product, row], [result], name=name)
        network.replace([node], [node, add], shape)


def _constants(network: Network, node: onnx.NodeProto) -> tuple[Doubles, Doubles] | None:
    """The weight and the bias, zero where there is none; None if they are not constants or of other forms."""
    weight = network.constant(node.input[1])
    if weight is None or (node.op_type in _MATRICES and weight.ndim != _MATRIX):
        return None
    if len(node.input) <= _BIAS or not node.input[_BIAS]:
        return weight.astype(np.float64), np.zeros(1)
    bias = network.constant(node.input[_BIAS])
    columns = network.shapes.get(node.output[0], (0,))[-1]
    if bias is None or (node.op_type == "Gemm" and not _is_row(bias, columns)):
        return None
    if node.op_type == "Conv" and bias.size != weight.shape[0]:  # which onnx's shape inference lets pass
        return None
    return weight.astype(np.float64), bias.astype(np.float64)


def _is_row(bias: Floats, columns: int) -> bool:
    return bias.size == 1 or (bias.size == columns and bias.shape[-1] == columns)


def _is_bias(node: onnx.NodeProto, run: Run) -> bool:
    """A MatMul has no bias of its own: the Add of a vector is one."""
    added = [other.op_type for other in run.nodes] == ["Add"]
    return node.op_type == "MatMul" and added and bool((run.affine.scale == 1).all())


def _pads(node: onnx.NodeProto) -> bool:
    pads: Sequence[int] = attribute_of(node, "pads", [])
    return any(pads) or attribute_of(node, "auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")
