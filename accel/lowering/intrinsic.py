"""Calls of the accelerator's instructions inside TIR.

A call is ``T.call_extern("int32", instruction, "field", value, "field", value, ...)``: the fields by name, so
that a dump can be read. Until ``allocate``, an operand in memory is two fields, ``&operand``, the buffer, and
``&operand.index``, an index into it in elements of its memory; ``dram`` and ``sram`` are the operands of a copy.
"""

from collections.abc import Mapping
from typing import Any

from tvm import ir, tirx

MICROOP_LOOP = "microop_loop"
CALL_OP = "tirx.call_extern"


def operand(name: str) -> str:
    """The key under which a call holds the buffer of an operand."""
    return f"&{name}"


def index(name: str) -> str:
    """The key under which a call holds an operand's index into its buffer, elements."""
    return f"&{name}.index"


def call(name: str, fields: Mapping[str, Any], microop_loops: list[tuple[int, ...]] | None = None) -> tirx.Stmt:
    """The statement that calls instruction ``name``.

    ``microop_loops`` are (extent, step of each operand): loops that walk the micro-op table, outermost first.
    """
    arguments: list[Any] = [name]
    for key, value in fields.items():
        arguments += [key, value]
    for loop in microop_loops or []:
        arguments += [MICROOP_LOOP, len(loop), *loop]
    return tirx.Evaluate(tirx.call_extern("int32", *arguments))


def is_call(node: Any) -> bool:
    """Whether ``node`` is a statement made by ``call``."""
    return isinstance(node, tirx.Evaluate) and isinstance(node.value, ir.Call) and node.value.op.name == CALL_OP


def parse(statement: tirx.Evaluate) -> tuple[str, dict[str, Any], list[tuple[int, ...]]]:
    """The instruction's name, its fields, and its micro-op loops: the inverse of ``call``."""
    name, *rest = statement.value.args
    fields: dict[str, Any] = {}
    loops = []
    position = 0
    while position < len(rest):
        key = str(rest[position].value)
        if key == MICROOP_LOOP:
            length = int(rest[position + 1])
            loops.append(tuple(int(value) for value in rest[position + 2 : position + 2 + length]))
            position += 2 + length
        else:
            fields[key] = rest[position + 1]
            position += 2
    return str(name.value), fields, loops


def buffer_of(value: Any) -> tirx.Var | None:
    """The buffer whose ``.data`` a field holds, or None."""
    if isinstance(value, ir.Call) and value.args and hasattr(value.args[0], "scope"):
        return value.args[0]
    return None
