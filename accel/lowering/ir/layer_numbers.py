"""What the fields of a layer hold before it is encoded, and what of a document's costs follows from that."""

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import tirx

from accel.accelerator.cost_ranges import cost_fields, costs_of_dram, depths_of_memories
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Layer
from accel.expression.cost_expression import parse_cost
from accel.expression.syntax_tree import ExpressionError
from accel.lowering.ir.affine_nest import constant_value
from accel.util.arrays import Float64
from accel.util.same_object import SameObject


def layer_numbers(layer: Layer, fields: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers in fields; of what varies with loops around, the most that a window reaches, or nothing."""
    found: dict[str, float] = {}
    for name, value in fields.items():
        number = value.value if isinstance(value, tirx.FloatImm) else constant_value(value)
        if number is not None:
            found[name] = float(number)
    for operand in layer.operands.values():
        for window in operand.windows:
            reach = sum((found.get(extent, 1.0) - 1) * found.get(step, 1.0) for extent, step in window.over.items())
            found.setdefault(window.extent, reach + 1)
    return found


def number_of_cost(
    text: str, layer: Layer, numbers: Mapping[str, float] | Mapping[str, Float64], accelerator: Accelerator
) -> Float64:
    """Returns a cost of a layer with these numbers in fields, and 0 in others; infinite if it is none.

    Numbers may be many, (n,) each, and so is the cost then.
    """
    dram = costs_of_dram(accelerator)
    cost = parse_cost(text)
    fields = _fields_of_cost(SameObject(accelerator), layer.name, text)
    known = {name: dram[field] if field in dram else numbers.get(field, 0.0) for name, field in fields}
    try:
        return np.asarray(cost.evaluate(known))
    except ExpressionError:
        return np.asarray(math.inf)


def elements_used(
    memory: str, layer: Layer, numbers: Mapping[str, float] | Mapping[str, Float64], accelerator: Accelerator
) -> Float64:
    """Returns how many elements of a memory a layer needs with these numbers in fields, as ``number_of_cost`` does."""
    known: dict[str, Any] = {**depths_of_memories(accelerator), **numbers}
    return number_of_cost(layer.uses[memory], layer, known, accelerator)


def numbers_used(memory: str, layer: Layer, numbers: Mapping[str, float], accelerator: Accelerator) -> dict[str, float]:
    """Returns what :func:`elements_used` reads of ``numbers``."""
    fields = {field for _, field in _fields_of_cost(SameObject(accelerator), layer.name, layer.uses[memory])}
    return {name: number for name, number in numbers.items() if name in fields}


@functools.lru_cache(maxsize=256)
def _fields_of_cost(same: SameObject[Accelerator], layer: str, text: str) -> tuple[tuple[str, str], ...]:
    """The names that a cost has, each with the whole name of its field, or of what else it is."""
    fields = cost_fields(same.value, same.value.instruction(layer))
    return tuple((name, fields.get(name, name)) for name in parse_cost(text).names)
