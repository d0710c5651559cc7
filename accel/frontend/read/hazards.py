"""Nodes that would end the process: onnx's C++ code indexes with what they say, and asserts that it fits.

The list is of what random changes of models have shown to end it.
"""

import onnx

from accel.errors import InvalidModel
from accel.frontend.model.attributes import attribute_of


def check_hazards(model: onnx.ModelProto) -> None:
    """Refuse such nodes.

    Raises:
        InvalidModel: ``field`` names the node.
    """
    for node in model.graph.node:
        if node.op_type == "Split":
            _check_split(node)


def _check_split(node: onnx.NodeProto) -> None:
    parts = attribute_of(node, "num_outputs", None)
    if parts is not None and parts != len(node.output):
        raise InvalidModel(f"Split in {parts} parts has {len(node.output)} outputs", field=f"node:{node.name}")
