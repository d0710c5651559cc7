"""A whole nest of a layer becomes one instruction with operands in DRAM."""

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.semantics import LayerSemantics
from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.lowering.inject.layer_matching import LayerMatch, match_within
from accel.lowering.ir import instruction_calls
from accel.lowering.ir.affine_nest import constant_value, in_loops
from accel.lowering.ir.document_paths import INSTRUCTIONS


def inject_layer(statement: tirx.Stmt, known: Sequence[LayerSemantics], target: Target) -> tirx.Stmt:
    """The instruction for a nest, inside the outer loops that it does not make itself.

    Raises:
        CompileError: none does; the message says what stands against the one that comes nearest.
    """
    around, match = match_within(statement, known, target)
    check_fields(match, target.accelerator)
    layer, fields = match.meaning.instruction, dict[str, Any]()
    for name, access in match.bases.items():
        fields[instruction_calls.operand(name)] = access.buffer.data
        fields[instruction_calls.index(name)] = access.base
    made = instruction_calls.call(layer.name, fields | match.fields)
    return in_loops([variable for variable, _ in around], [extent for _, extent in around], made)


def check_fields(match: LayerMatch, accelerator: Accelerator) -> None:
    """Refuses numbers that are constant and that their fields cannot hold.

    Raises:
        CompileError: the first of them.
    """
    layer = match.meaning.instruction
    limits = {loop.extent: loop.limit for loop in layer.loops}
    for name, value in match.fields.items():
        number, (low, high) = constant_value(value), accelerator.field(layer, name).limits
        high = min(high, (limits.get(name) or high) + 1)
        if number is not None and not low <= number < high:
            raise CompileError(f"{layer.name}: {name} = {number}; it is {low} to {high - 1}", field=INSTRUCTIONS)


def answering(pragma: str, target: Target) -> list[LayerSemantics]:
    """The operations of layers that answer to a pragma."""
    return [meaning for meaning in target.layers if meaning.instruction.pragma == pragma]
