"""Layer norms of a float model that are quantised at both ends, for stores that compute them of rows of integers.

Such a store has no gains and no offsets: the products that read a norm have them in their constants, and a product with
a diagonal matrix makes what everything else reads. Its results are worth a quotient of two weights, without a zero
point.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from accel.frontend.fold.affine_channels import Affine, is_single
from accel.frontend.fold.float_network import FloatNetwork
from accel.frontend.fold.layer_folding import fed_layer, feed_product, layer_constants, takes_channels
from accel.frontend.onnx_model.node_origins import note_origin
from accel.frontend.onnx_model.onnx_nodes import attribute_of
from accel.frontend.quantize.quantization_targets import Targets
from accel.frontend.quantize.scale_grid import Grid, Loss
from accel.region.row_layer_norm import layer_norm_of_integers

_MATRIX = 2  # axes


@dataclass(frozen=True)
class NormRows:
    """A layer norm along the last axis, without gains and offsets: the tensor that it reads, and its result."""

    data: str
    result: str
    columns: int


def with_plain_norms(
    model: onnx.ModelProto, quantised: Sequence[str], columns: tuple[int, int]
) -> tuple[onnx.ModelProto, tuple[NormRows, ...]]:
    """Returns the model with layer norms that have no gains and offsets, and these norms.

    Args:
        model: of named nodes, which stays as it is.
        quantised: the tensors that have a scale.
        columns: the least and the most of the rows that a store takes.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    network = FloatNetwork(changed)
    known = set(quantised)
    nodes = [node for node in network.nodes if node.op_type == "LayerNormalization" and node.input[0] in known]
    found = [norm for node in nodes if (norm := _plain(network, node, known, columns)) is not None]
    if not found:
        return model, ()
    network.finish()
    return changed, tuple(found)


def _plain(
    network: FloatNetwork, node: onnx.NodeProto, known: Collection[str], columns: tuple[int, int]
) -> NormRows | None:
    """Let products have the gains and offsets of a norm whose result is quantised; None where it stays as it is."""
    shape, result = network.shapes.get(node.input[0], ()), str(node.output[0])
    affine = _affine(network, node, shape)
    last = len(shape) >= _MATRIX and int(attribute_of(node, "axis", -1)) % len(shape) == len(shape) - 1
    if affine is None or not last or not columns[0] <= shape[-1] <= columns[1] or len(node.output) > 1:
        return None
    if result not in known or network.is_output(result):
        return None
    if (affine.scale == 1).all() and not affine.shift.any():
        return NormRows(str(node.input[0]), result, shape[-1])
    readers = {each.name: each for each in network.readers(result)}.values()
    products = [each for each in readers if _holds(network, each, result, affine)]
    plain = network.name(f"{result}_norm")  # which is no tensor of the user's
    ones = network.add_constant(np.ones(shape[-1], np.float32), f"{node.name}_ones")
    zeros = network.add_constant(np.zeros(shape[-1], np.float32), f"{node.name}_zeros")
    node.input[1:], node.output[0] = [ones, zeros], plain
    apart = _of_channels(network, node, affine, result) if len(products) < len(readers) else []
    network.replace([node], [node, *apart], shape)
    network.shapes[plain] = shape
    for product in products:
        feed_product(network, product, plain, affine)
    return NormRows(str(node.input[0]), plain, shape[-1])


def _of_channels(network: FloatNetwork, node: onnx.NodeProto, affine: Affine, result: str) -> list[onnx.NodeProto]:
    """The product with a diagonal matrix that makes of a plain norm what it was, and its bias."""
    gains = network.add_constant(np.diag(affine.scale.astype(np.float32)), f"{node.name}_gains")
    offset = affine.shift.any()
    product = network.name(f"{result}_gained") if offset else result
    nodes = [onnx.helper.make_node("MatMul", [node.output[0], gains], [product], network.name(f"{node.name}_product"))]
    if offset:
        row = network.add_constant(affine.shift.astype(np.float32), f"{node.name}_offsets")
        nodes.append(onnx.helper.make_node("Add", [product, row], [result], network.name(f"{node.name}_sum")))
    for each in nodes:
        note_origin(each, node)
    return nodes


def _affine(network: FloatNetwork, node: onnx.NodeProto, shape: Sequence[int]) -> Affine | None:
    """The gains and the offsets of a norm; None if they are not constants of its channels."""
    gains = network.constant(node.input[1])
    absent = len(node.input) < 3 or not node.input[2]
    offsets = np.zeros(shape[-1:], np.float32) if absent else network.constant(node.input[2])
    if gains is None or offsets is None or not gains.shape == offsets.shape == tuple(shape[-1:]):
        return None
    return Affine(gains.astype(np.float64), offsets.astype(np.float64))


def _holds(network: FloatNetwork, node: onnx.NodeProto, name: str, affine: Affine) -> bool:
    """Whether a product can have the gains and offsets of its data."""
    layer = layer_constants(network, node) if takes_channels(network, node, name) else None
    return layer is not None and all(map(is_single, fed_layer(node, *layer, affine.scale, affine.shift)))


def with_norms(targets: Targets, norms: Sequence[NormRows]) -> Targets:
    """Returns of ``targets`` what is to be observed of the results of norms: these, and the layers that read them."""
    results = tuple(norm.result for norm in norms)
    layers = tuple(layer for layer in targets.layers if layer.node.input[0] in results)
    return Targets(layers, (), results, ())


def norm_losses(losses: Mapping[str, Loss], norms: Sequence[NormRows], grids: Mapping[str, Grid]) -> dict[str, Loss]:
    """Returns the losses, of which those of results at scales that no weights have are infinite."""
    found = dict(losses)
    for norm in norms:
        loss, grid = losses[norm.result], grids[norm.result]
        none = [at for at in loss.errors if layer_norm_of_integers(grid.scale(at), norm.columns) is None]
        found[norm.result] = replace(loss, errors=loss.errors | dict.fromkeys(none, math.inf))
    return found
