"""Fields of the parts of a layer that follow from its numbers: arithmetic of a document, in numbers or in TIR.

What varies with the loops around an instruction, as what is padded of a tile does, is an expression of their variables.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from tvm import tirx

from accel.accelerator.cost_ranges import cost_fields
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Layer
from accel.errors import CompileError
from accel.expression.cost_expression import parse_cost
from accel.expression.syntax_tree import Binary, Call, Expression, Literal, Negate, Scalar, children, walk
from accel.lowering.ir.affine_nest import constant_value
from accel.lowering.ir.document_paths import INSTRUCTIONS
from accel.lowering.ir.layer_numbers import layer_numbers, number_of_cost

_WIDE = "int64"
_EXACT: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": tirx.floordiv,
    "min": tirx.min,
    "max": tirx.max,
}


def fields_of_parts(layer: Layer, fields: Mapping[str, Any], accelerator: Accelerator) -> dict[str, Any]:
    """Returns the fields of a layer's parts, of all its fields; numbers of its own are not among them.

    Raises:
        CompileError: one that is no integer.
    """
    found = {name: value for name, value in fields.items() if name not in layer.numbers}
    known, names = layer_numbers(layer, fields), cost_fields(accelerator, layer)
    for field, text in layer.follows.items():
        tree = parse_cost(text).tree
        if isinstance(tree, Scalar):
            found[field] = fields.get(names[tree.name], tirx.const(0, _WIDE))
            continue
        varies = [node.name for node in walk(tree) if isinstance(node, Scalar) and _varies(names[node.name], fields)]
        if varies:
            found[field] = _expression(tree, fields, names)
            continue
        number = float(number_of_cost(text, layer, known, accelerator))
        if not number.is_integer():
            raise CompileError(f"{layer.name}: {field} = {text} is {number:g}, no integer", field=INSTRUCTIONS)
        found[field] = tirx.const(int(number), _WIDE)
    return found


def _varies(name: str, fields: Mapping[str, Any]) -> bool:
    return name in fields and constant_value(fields[name]) is None


def _expression(node: Expression, fields: Mapping[str, Any], names: Mapping[str, str]) -> Any:
    """The arithmetic as TIR, of integers that vary."""
    below = [_expression(child, fields, names) for child in children(node)]
    match node:
        case Literal(int(value)):
            return tirx.const(value, _WIDE)
        case Scalar(name):
            return tirx.Cast(_WIDE, fields[names[name]]) if names[name] in fields else tirx.const(0, _WIDE)
        case Negate():
            return tirx.const(0, _WIDE) - below[0]
        case Binary(sign) if sign in _EXACT:
            return _EXACT[sign](*below)
        case Call(name) if name in _EXACT:
            return functools.reduce(_EXACT[name], below)
    raise CompileError(f"{node} varies from tile to tile, and is no sum, product or bound", field=INSTRUCTIONS)
