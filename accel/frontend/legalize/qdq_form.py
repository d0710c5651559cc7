"""Models of quantised operators to QDQ form: QLinearConv, ConvInteger, QGemm and their like.

A quantised operator becomes DequantizeLinear, the float operator of the same name and attributes, QuantizeLinear:
what the operator means by its own definition. The operators of integers (``integer_operators.py``) have an
int32 result and no scales; theirs is one a unit. Every tensor of the model keeps its name, and so does every node.
"""

from collections.abc import Callable, Mapping

import onnx

from accel.errors import InvalidModel
from accel.frontend.legalize.integer_operators import INTEGER_RULES
from accel.frontend.legalize.qdq_writer import MICROSOFT, QdqWriter
from accel.frontend.legalize.qlinear_operators import LINEAR_RULES, softmax
from accel.frontend.onnx_model.onnx_nodes import ONNX_DOMAINS

Key = tuple[str, str]
Rules = Mapping[Key, Callable[[QdqWriter, onnx.NodeProto], None]]

# these ask for shapes, which are inferred once the others have only ONNX's operators
_SHAPED_RULES: Rules = {**INTEGER_RULES, (MICROSOFT, "QLinearSoftmax"): softmax}
OPERATORS = frozenset((*LINEAR_RULES, *_SHAPED_RULES))


def has_operator_form(model: onnx.ModelProto) -> bool:
    """Returns whether there are quantised operators in ``model``."""
    return any(_key(node) in OPERATORS for node in model.graph.node)


def in_qdq_form(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns ``model`` itself if it has no quantised operators, else a copy with QDQ in their place.

    Shapes must be static, and nodes have unique names. Constants are initializers or Constant nodes. Where a tensor
    has a scale for each channel, the model must be of opset 13 to run, as models of ``load_model`` are.

    Raises:
        InvalidModel: an operator lacks an input; ``field`` is ``node:<name>``.
        UnsupportedOperator: QDQ form cannot express an attribute, or scales along more than one axis.
    """
    if not has_operator_form(model):
        return model
    return _rewritten(_rewritten(model, LINEAR_RULES), _SHAPED_RULES)


def _rewritten(model: onnx.ModelProto, rules: Rules) -> onnx.ModelProto:
    if not any(_key(node) in rules for node in model.graph.node):
        return model
    writer = QdqWriter(model)
    for node in model.graph.node:
        rule = rules.get(_key(node))
        if rule is None:
            writer.keep(node)
            continue
        if not node.output or not node.output[0]:
            raise InvalidModel(f"{node.op_type} has no output", field=f"node:{node.name}")
        rule(writer, node)
    return writer.model()


def _key(node: onnx.NodeProto) -> Key:
    return ("" if node.domain in ONNX_DOMAINS else node.domain, node.op_type)
