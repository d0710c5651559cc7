"""Attributes of ONNX nodes."""

from typing import Any

import onnx
from onnx import helper


def attribute_of(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """The value of an attribute, or ``default`` if the node has none of that name."""
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def set_attributes(node: onnx.NodeProto, **values: Any) -> None:
    """Replace or add attributes; those whose value is None are removed."""
    for index in reversed(range(len(node.attribute))):
        if node.attribute[index].name in values:
            del node.attribute[index]
    given = {name: value for name, value in values.items() if value is not None}
    node.attribute.extend(helper.make_attribute(name, value) for name, value in given.items())
