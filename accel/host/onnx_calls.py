"""A node of a model in Relax: a call of ``onnx`` with the node as text, which keeps the operator as ONNX defines it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, relax

from accel.host import json_fields
from accel.host.host_graph import attribute_record

_FUNCTION = "onnx"


@dataclass(frozen=True)
class OnnxCall:
    """An operator of an opset: ``operands`` are those of the call, None where an optional input is absent.

    ``outputs`` tells of each output whether the call has it; several are a tuple.
    """

    opset: int
    op: str
    attributes: dict[str, Any]
    operands: tuple[relax.Expr | None, ...]
    outputs: tuple[bool, ...]


def make_onnx_call(call: OnnxCall, results: Sequence[ir.Type]) -> ir.Call:
    """Returns the call, of the types ``results``, one for each output that it has."""
    record = {
        "opset": call.opset,
        "op": call.op,
        "attributes": {name: attribute_record(value) for name, value in call.attributes.items()},
        "inputs": [operand is not None for operand in call.operands],
        "outputs": list(call.outputs),
    }
    given = [operand for operand in call.operands if operand is not None]
    result = results[0] if len(results) == 1 else relax.TupleType(list(results))
    return relax.op.call_pure_packed(_FUNCTION, ir.StringImm(json.dumps(record)), *given, ty_args=result)


def read_onnx_call(value: Any) -> OnnxCall | None:
    """Returns what :func:`make_onnx_call` was given; None for any other value."""
    if not isinstance(value, ir.Call) or getattr(value.op, "name", "") != "relax.call_pure_packed":
        return None
    function, text, *given = value.args
    if not isinstance(function, relax.ExternFunc) or str(function.global_symbol) != _FUNCTION:
        return None
    record = json.loads(str(text.value))
    operands = iter(given)
    return OnnxCall(
        record["opset"],
        record["op"],
        {name: _attribute(item, name) for name, item in record["attributes"].items()},
        tuple(next(operands) if there else None for there in record["inputs"]),
        tuple(record["outputs"]),
    )


def _attribute(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return json_fields.constant(value, name)
    return json_fields.number(value, name) if value in ("inf", "-inf", "nan") and name not in _TEXTS else value


_TEXTS = ("mode", "equation")
