"""Calls of the accelerator's instructions inside TIR.

A call is ``T.call_extern("int32", instruction, "field", value, "field", value, ...)``: the fields by name, so
that a dump can be read. Until ``allocate``, an operand in memory is two fields, ``&operand``, the buffer, and
``&operand.index``, an index into it in elements of its memory; ``dram`` and ``sram`` are the operands of a copy, and
the index of ``dram`` counts numbers where the copy's fields count bytes.

The last argument is the call's site, ``"site 4"``: the number that the trace has of it. ``inject`` numbers its calls, a
later stage gives those that it adds further numbers, and none ever changes.
"""

import re
from collections.abc import Mapping
from typing import Any

from tvm import ir, tirx
from tvm_ffi import _ffi_api

MICROOP_LOOP = "microop_loop"
CALL_OP = "tirx.call_extern"
_SITE = re.compile(r"site ([0-9]+)")  # no name of a field has a space


def operand(name: str) -> str:
    """The key under which a call holds the buffer of an operand."""
    return f"&{name}"


def index(name: str) -> str:
    """The key under which a call holds an operand's index into its buffer."""
    return f"&{name}.index"


def call(
    name: str,
    fields: Mapping[str, Any],
    microop_loops: list[tuple[int, ...]] | None = None,
    *,
    site: int | None = None,
) -> tirx.Stmt:
    """The statement that calls instruction ``name``.

    ``microop_loops`` are (extent, step of each operand): loops that walk the micro-op table, outermost first. A call
    without a ``site`` gets one from the stage that puts it into a function.
    """
    arguments: list[Any] = [name]
    for key, value in fields.items():
        arguments += [key, value]
    for loop in microop_loops or []:
        arguments += [MICROOP_LOOP, len(loop), *loop]
    if site is not None:
        arguments.append(f"site {site}")
    return _statement(arguments)


def _statement(arguments: list[Any]) -> tirx.Stmt:
    """As ``tirx.call_extern`` makes it, which would look at each argument first."""
    return tirx.Evaluate(ir.Call(CALL_OP, arguments, ret_ty="int32"))


def _arguments(statement: tirx.Evaluate) -> list[Any]:
    """The arguments of a call; TVM's own iterator takes twice as long."""
    arguments = statement.value.args
    return [_ffi_api.ArrayGetItem(arguments, place) for place in range(len(arguments))]


def is_call(node: Any) -> bool:
    """Whether ``node`` is a statement made by ``call``."""
    return isinstance(node, tirx.Evaluate) and isinstance(node.value, ir.Call) and node.value.op.name == CALL_OP


def site_of(statement: tirx.Evaluate) -> int | None:
    """The site of a call, None where it has none yet."""
    found = _SITE.fullmatch(str(getattr(statement.value.args[-1], "value", "")))
    return None if found is None else int(found[1])


def with_site(statement: tirx.Evaluate, site: int) -> tirx.Stmt:
    """The same call at another site."""
    arguments = _arguments(statement)
    if site_of(statement) is not None:
        arguments.pop()
    return _statement([*arguments, f"site {site}"])


def name_of(statement: tirx.Evaluate) -> str:
    """The name of a call's instruction."""
    return str(statement.value.args[0].value)


def parse(statement: tirx.Evaluate) -> tuple[str, dict[str, Any], list[tuple[int, ...]]]:
    """The instruction's name, its fields, and its micro-op loops; with ``site_of`` the inverse of ``call``."""
    name, *rest = _arguments(statement)
    if _SITE.fullmatch(str(getattr(rest[-1] if rest else name, "value", ""))):
        rest.pop()
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
