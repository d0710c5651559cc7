"""Writing of a host step's module as text."""

import base64
import json
import math
from typing import Any

import numpy as np
from tvm import ir, relax, tirx

from accel.host.host_operators import OPERATORS, Field, attribute_fields, attributes_type


class _NotPlainError(Exception):
    """The module has an expression that a host graph cannot hold."""


def write_host_graph(module: ir.IRModule) -> str:
    """Returns the text of a module as :func:`accel.host.host_operators.host_graph` makes it.

    A module with anything but calls of the allowed operators becomes ``{"tvm": ...}``, TVM's own JSON, which is
    read back only where it is trusted.
    """
    try:
        document = _Writer().document(module)
    except _NotPlainError:
        document = {"tvm": str(ir.save_json(module))}
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


class _Writer:
    def __init__(self) -> None:
        self._names: dict[relax.Var, str] = {}
        self._taken: set[str] = set()

    def document(self, module: ir.IRModule) -> dict[str, Any]:
        functions = dict(module.functions.items())
        if len(functions) != 1:
            raise _NotPlainError
        (main,) = functions.values()
        (block,) = main.body.blocks
        body = main.body.body
        leaving = list(body.fields) if isinstance(body, ir.Tuple) else [body]
        inside, leave = block.bindings[: -len(leaving)], block.bindings[-len(leaving) :]
        if [binding.var for binding in leave] != leaving:
            raise _NotPlainError
        return {
            "parameters": [{"name": self._name(var), **_tensor(var.ty)} for var in main.params],
            "bindings": [self._binding(binding) for binding in inside],
            "results": [self._argument(binding.value)["var"] for binding in leave],
        }

    def _name(self, var: relax.Var) -> str:
        name, count = str(var.name), 0
        while name in self._taken:
            count += 1
            name = f"{var.name}.{count}"
        self._taken.add(name)
        self._names[var] = name
        return name

    def _binding(self, binding: relax.Binding) -> dict[str, Any]:
        if not isinstance(binding, relax.VarBinding):
            raise _NotPlainError
        value = binding.value
        entry = self._call(value) if isinstance(value, ir.Call) else {"value": self._argument(value)}
        return {"name": self._name(binding.var), **entry}

    def _call(self, call: ir.Call) -> dict[str, Any]:
        name = str(getattr(call.op, "name", ""))
        if not isinstance(call.op, ir.Op) or name not in OPERATORS or call.ty_args:
            raise _NotPlainError
        entry: dict[str, Any] = {"op": name, "args": [self._argument(argument) for argument in call.args]}
        key = attributes_type(name)
        if call.attrs is not None and key:
            values = {field: getattr(call.attrs, field) for field in attribute_fields(key)}
            entry["attrs"] = {field: attribute(attribute_fields(key)[field], value) for field, value in values.items()}
        return entry

    def _argument(self, value: Any) -> dict[str, Any]:
        if isinstance(value, relax.Var):
            return {"var": self._names[value]}
        if isinstance(value, ir.Tuple):
            return {"tuple": [self._argument(item) for item in value.fields]}
        if isinstance(value, ir.TupleGetItem):
            return {"item": int(value.index), "of": self._argument(value.tuple_value)}
        return _leaf(value)


def _leaf(value: Any) -> dict[str, Any]:
    if isinstance(value, ir.GenericConst):
        return {"constant": _constant(value.value.numpy())}
    if isinstance(value, relax.ShapeExpr):
        return {"shape": [_integer(extent) for extent in value.values]}
    if isinstance(value, tirx.IntImm):
        return {"int": int(value.value), "dtype": str(value.ty.dtype)}
    if isinstance(value, tirx.FloatImm):
        return {"float": number(float(value.value)), "dtype": str(value.ty.dtype)}
    raise _NotPlainError


def _integer(value: Any) -> int:
    if not isinstance(value, tirx.IntImm):
        raise _NotPlainError
    return int(value.value)


def _tensor(ty: Any) -> dict[str, Any]:
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        raise _NotPlainError
    return {"dtype": str(ty.dtype), "shape": [_integer(extent) for extent in ty.shape.values]}


def _constant(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": base64.b64encode(data).decode()}


def attribute(field: Field, value: Any) -> Any:
    """Returns a field's value as JSON."""
    if value is None:
        return None
    if field.kind == "sections":
        return int(value) if isinstance(value, tirx.IntImm) else [int(cut) for cut in value]
    if field.many:
        return [_scalar(field, item) for item in value]
    return _scalar(field, value)


def _scalar(field: Field, value: Any) -> Any:
    if field.kind == "float":
        return number(float(value))
    return {"int": int, "bool": bool}.get(field.kind, str)(value)


def number(value: float) -> float | str:
    """Returns a float as JSON, which has no infinities and no NaN."""
    return value if math.isfinite(value) else str(value)
