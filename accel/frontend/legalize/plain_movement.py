"""Movement of elements in fewer and simpler operators: none that leave all where it is, and Gather for GatherND.

Exporters write a Reshape to the shape that a tensor has already, or a Resize to its size, where a model's code does so
for other inputs. What only goes by another name then would be a step of the host where no instruction moves it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from accel.frontend.legalize.node_writer import NodeWriter
from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.onnx_nodes import ONNX_DOMAINS, attribute_of, constants_of
from accel.frontend.onnx_model.shape_inference import Shape
from accel.util.arrays import Array

_KEEPING_ORDER = ("Concat", "Expand", "Flatten", "Reshape", "Slice", "Tile")  # if no shape changes
_SCALES = 2  # their place among the inputs of a Resize
_STEPS = 4  # their place among the inputs of a Slice

_Constants = Mapping[str, onnx.TensorProto]


def simplify_movement(model: onnx.ModelProto, shapes: Mapping[str, Shape]) -> None:
    """Removes nodes that leave each element in its place, and makes Gathers of GatherNDs at constant places, in place.

    Args:
        model: whose nodes have unique names. A node that makes an output stays.
        shapes: of its tensors.
    """
    graph, constants = model.graph, constants_of(model.graph)
    outputs = {value.name for value in graph.output}
    taken = {name for node in graph.node for name in (node.name, *node.input, *node.output)} | {*constants}
    same: dict[str, str] = {}
    nodes = list[onnx.NodeProto]()
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = same.get(name, name)
        own = node.domain in ONNX_DOMAINS
        if own and node.output[0] not in outputs and _moves_nothing(node, shapes, constants):
            same[node.output[0]] = node.input[0]
            continue
        places = _places(node, shapes, constants) if own and node.op_type == "GatherND" else None
        if places is None:
            nodes.append(node)
            continue
        writer = NodeWriter(model, node, taken)
        _gather(writer, shapes[node.input[0]], places)
        nodes += writer.made
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _moves_nothing(node: onnx.NodeProto, shapes: Mapping[str, Shape], constants: _Constants) -> bool:
    shape = shapes.get(node.input[0]) if node.input and node.output else None
    if shape is None or shapes.get(node.output[0]) != shape:
        return False
    if node.op_type == "Transpose":
        order = attribute_of(node, "perm", range(len(shape) - 1, -1, -1))
        long = [axis for axis in order if shape[axis] != 1]
        return bool(long == sorted(long))
    if node.op_type == "Resize":
        return _keeps_size(node, constants)
    if node.op_type == "Slice" and len(node.input) > _STEPS and node.input[_STEPS]:
        steps = constants.get(node.input[_STEPS])
        return steps is not None and bool((array_of(steps) > 0).all())
    return str(node.op_type) in _KEEPING_ORDER and (node.op_type != "Concat" or len(node.input) == 1)


def _keeps_size(node: onnx.NodeProto, constants: _Constants) -> bool:
    """Whether a Resize to the same shape samples each element itself: not within a part, nor by a scale beside 1."""
    if attribute_of(node, "coordinate_transformation_mode", b"half_pixel") == b"tf_crop_and_resize":
        return False
    if len(node.input) > _SCALES and node.input[_SCALES]:
        scales = constants.get(node.input[_SCALES])
        return scales is not None and bool((array_of(scales) == 1).all())
    return bool(attribute_of(node, "keep_aspect_ratio_policy", b"stretch") == b"stretch")


@dataclass(frozen=True)
class _Places:
    """Where a GatherND reads: ``flat`` places, counted along the first ``axes`` axes as if they were one."""

    flat: Array
    axes: int


def _places(node: onnx.NodeProto, shapes: Mapping[str, Shape], constants: _Constants) -> _Places | None:
    """Where a GatherND reads; None of one that is not at constant places of the whole tensor."""
    shape, given = shapes.get(node.input[0]), constants.get(node.input[1])
    if shape is None or given is None or attribute_of(node, "batch_dims", 0):
        return None
    places = array_of(given)
    extents = np.array(shape[: places.shape[-1]])
    if (places < -extents).any() or (places >= extents).any():
        return None
    ahead = np.moveaxis(np.where(places < 0, places + extents, places), -1, 0)
    return _Places(np.ravel_multi_index(tuple(ahead), tuple(extents)), len(extents))


def _gather(writer: NodeWriter, shape: Shape, places: _Places) -> None:
    """Emit a Gather in place of a GatherND, behind a Reshape that makes one axis of those that it reads along."""
    data = str(writer.node.input[0])
    if places.axes > 1:
        data = writer.reshaped(data, [-1, *shape[places.axes :]])
    writer.emit("Gather", data, writer.constant(places.flat), name=writer.node.output[0], axis=0)
