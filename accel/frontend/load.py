"""Loading of an uploaded model, as the rest of the compiler wants it."""

import onnx

from accel.frontend.limits import LIMITS, Limits
from accel.frontend.names import fresh
from accel.frontend.operator_form import in_qdq_form
from accel.frontend.parse import parse_model
from accel.frontend.shapes import Inferred, infer, tensor_shapes
from accel.frontend.tensors import is_static
from accel.frontend.upgrade import upgrade


def load_model(data: bytes, limits: Limits = LIMITS) -> onnx.ModelProto:
    """Parse and check ``data``, and bring what is of an old opset up to opset 13.

    In the result every node has a unique name, no initializer is also an input, and each output has a static shape.

    Raises:
        InvalidModel, and its subclasses: as for ``inspect_model``.
    """
    model = parse_model(data, limits)
    plain = in_qdq_form(model)
    inferred = infer(plain)
    shapes = tensor_shapes(plain, inferred, limits)
    for info in model.graph.output:
        if not is_static(info):
            tensor = info.type.tensor_type
            tensor.shape.Clear()
            for extent in shapes[info.name]:
                tensor.shape.dim.add(dim_value=extent)
    _use_values(model, inferred)
    upgrade(model, shapes)
    return model


def _use_values(model: onnx.ModelProto, inferred: Inferred) -> None:
    """Give the nodes that must be run constants in place of what is computed of shapes; the rest stays, unused."""
    values = dict(inferred.values)
    for node in model.graph.node:
        if node.op_type == "Constant":
            values.pop(node.output[0], None)
    taken = {*inferred.types, *(tensor.name for tensor in model.graph.initializer)}
    constants: dict[str, str] = {}
    for node in model.graph.node:
        if all(name in inferred.values for name in node.output if name):
            continue
        for index, name in enumerate(node.input):
            if name in values and name not in constants:
                constants[name] = fresh(f"{name}_value", taken)
                model.graph.initializer.add().CopyFrom(values[name])
                model.graph.initializer[-1].name = constants[name]
            node.input[index] = constants.get(name, name)
