"""Reading of host steps as Program files of version 1 have them: calls of Relax operators."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import ir, relax, tirx

from accel.errors import InvalidProgram
from accel.host import json_fields
from accel.host.host_graph import write_host_graph
from accel.host.host_graph_reader import parse_graph_document
from accel.host.relax_operators import OPERATORS, Field, attribute_fields, attributes_type, host_graph
from accel.host.relax_rules import RULES
from accel.host.relax_translation import UntranslatableError, translate

_MOST_TOTAL_BYTES = 1 << 34  # of all tensors of a graph, which are not all alive at once
_MOST_BINDINGS = 1 << 14
_MOST_PARTS = 1 << 10  # of a tuple


def converted(text: str) -> str:
    """Returns the host graph of a step in the form of version 1.

    Raises:
        InvalidProgram: it is none, or has what no host graph can; the message names the binding.
    """
    document = parse_graph_document(text)
    if isinstance(document, dict) and set(document) == {"tvm"}:
        raise InvalidProgram(f"it holds code of a compiler; {_ADVICE}")
    entry = json_fields.keys(document, ("parameters", "bindings", "results"), "the host graph")
    try:
        return write_host_graph(translate(_Reader().module(entry), RULES))
    except UntranslatableError as error:
        raise InvalidProgram(f"it has no equal in ONNX: {error}; {_ADVICE}") from error


_ADVICE = "run it again from its model"


class _Reader:
    def __init__(self) -> None:
        self._variables: dict[str, relax.Var] = {}
        self._builder = relax.BlockBuilder()
        self._bytes = 0

    def module(self, entry: Mapping[str, Any]) -> ir.IRModule:
        parameters = [
            self._parameter(value, f"parameter {index}")
            for index, value in enumerate(json_fields.array(entry["parameters"], "parameters"))
        ]
        listed = json_fields.array(entry["bindings"], "bindings")
        if len(listed) > _MOST_BINDINGS:
            raise InvalidProgram(f"there are {len(listed)} bindings; the limit is {_MOST_BINDINGS}")
        bindings = [self._binding(value, f"binding {index}") for index, value in enumerate(listed)]
        results = [self._variable(name, "results") for name in json_fields.array(entry["results"], "results")]
        if not results:
            raise json_fields.wrong("results", "the name of a variable", [])
        for var in results:
            if not isinstance(var.ty, relax.TensorType):
                raise json_fields.wrong("results", "tensors", str(var.name))
        try:
            return host_graph(parameters, bindings, results)
        except Exception as error:  # TVM raises what it likes
            raise InvalidProgram(f"the graph is not well formed: {_line(error)}") from error

    def _parameter(self, value: Any, where: str) -> relax.Var:
        entry = json_fields.keys(value, ("name", "dtype", "shape"), where)
        shape, dtype = json_fields.tensor(entry, where)
        return self._define(entry["name"], relax.Var, relax.TensorType(list(shape), dtype), where)

    def _define(self, name: Any, kind: type[relax.Var], ty: Any, where: str) -> relax.Var:
        name = json_fields.string(name, f"{where}.name")
        if name in self._variables:
            raise InvalidProgram(f"{where}: there is a variable {name!r} already")
        self._check_type(ty, where)
        var = self._variables[name] = kind(name, ty)
        return var

    def _variable(self, name: Any, where: str) -> relax.Var:
        if not isinstance(name, str) or name not in self._variables:
            raise json_fields.wrong(where, "the name of a variable defined before", name)
        return self._variables[name]

    def _binding(self, value: Any, where: str) -> relax.VarBinding:
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            where = f"binding {value['name'][:60]!r}"
        if isinstance(value, dict) and "value" in value:
            entry = json_fields.keys(value, ("name", "value"), where)
            bound = self._argument(entry["value"], f"{where}.value")
        else:
            entry = json_fields.keys(value, ("name", "op", "args"), where, optional=("attrs",))
            bound = self._call(entry, where)
        try:
            bound = self._builder.normalize(bound)
        except Exception as error:  # type inference raises what it likes
            raise InvalidProgram(f"{where}: {_line(error)}") from error
        return relax.VarBinding(self._define(entry["name"], relax.DataflowVar, bound.ty, where), bound)

    def _call(self, entry: Mapping[str, Any], where: str) -> ir.Call:
        operator = entry["op"]
        if not isinstance(operator, str) or operator not in OPERATORS:
            raise json_fields.wrong(f"{where}.op", "an operator that a host graph may call", operator)
        arguments = [
            self._argument(value, f"{where}.args.{index}")
            for index, value in enumerate(json_fields.array(entry["args"], f"{where}.args"))
        ]
        return ir.Call(ir.Op.get(operator), arguments, self._attributes(operator, entry.get("attrs"), where))

    def _attributes(self, operator: str, entry: Any, where: str) -> Any:
        key = attributes_type(operator)
        if not key:
            if entry is not None:
                raise InvalidProgram(f"{where}.attrs: {operator} has none")
            return None
        fields = attribute_fields(key)
        where = f"{where}.attrs"
        given = json_fields.keys({} if entry is None else entry, tuple(fields), where)
        checked = {name: _attribute(field, given[name], f"{where}.{name}") for name, field in fields.items()}
        try:
            return ir.make_node(key, **checked)
        except Exception as error:
            raise InvalidProgram(f"{where}: {_line(error)}") from error

    def _argument(self, value: Any, where: str) -> Any:
        if isinstance(value, dict) and "tuple" in value:
            items = json_fields.array(json_fields.keys(value, ("tuple",), where)["tuple"], where)
            if len(items) > _MOST_PARTS:
                raise json_fields.wrong(where, f"a tuple of at most {_MOST_PARTS} parts", items)
            return ir.Tuple([self._leaf(item, f"{where}.{index}") for index, item in enumerate(items)])
        if isinstance(value, dict) and "item" in value:
            entry = json_fields.keys(value, ("item", "of"), where)
            of = self._leaf(entry["of"], f"{where}.of")
            size = len(of.ty.fields) if isinstance(of, relax.Var) and isinstance(of.ty, relax.TupleType) else 0
            return ir.TupleGetItem(of, json_fields.integer(entry["item"], f"{where}.item", 0, size - 1))
        return self._leaf(value, where)

    def _leaf(self, value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise json_fields.wrong(where, "an argument, an object with one of its tags", value)
        if "var" in value:
            return self._variable(json_fields.keys(value, ("var",), where)["var"], where)
        if "shape" in value:
            return relax.ShapeExpr(list(json_fields.shape(json_fields.keys(value, ("shape",), where)["shape"], where)))
        if "int" in value or "float" in value:
            return _scalar(value, where)
        array = json_fields.constant(json_fields.keys(value, ("constant",), where)["constant"], where)
        return relax.const(array, str(array.dtype))  # which it would narrow

    def _check_type(self, ty: Any, where: str) -> None:
        """Tensors of static shape within the limits, shapes, and a tuple of them."""
        if isinstance(ty, relax.TupleType):
            if len(ty.fields) > _MOST_PARTS or any(isinstance(field, relax.TupleType) for field in ty.fields):
                raise InvalidProgram(f"{where}: a tuple has at most {_MOST_PARTS} parts, and no tuples in it")
            for field in ty.fields:
                self._check_type(field, where)
        elif isinstance(ty, relax.TensorType):
            extents = getattr(ty.shape, "values", None)
            entry = {"shape": _integers(extents), "dtype": str(ty.dtype)}
            if entry["shape"] is None:
                raise InvalidProgram(f"{where}: its shape depends on the data")
            shape, dtype = json_fields.tensor(entry, where)
            self._bytes += math.prod(shape) * np.dtype(dtype).itemsize
        elif not isinstance(ty, relax.ShapeType | ir.PrimType) or _integers(getattr(ty, "values", [])) is None:
            raise InvalidProgram(f"{where}: it makes neither a tensor nor a shape")
        if self._bytes > _MOST_TOTAL_BYTES:
            raise InvalidProgram(
                f"{where}: the tensors so far have {self._bytes} bytes; the limit is {_MOST_TOTAL_BYTES}"
            )


def _integers(extents: Any) -> list[int] | None:
    if extents is None or not all(isinstance(extent, tirx.IntImm) for extent in extents):
        return None
    return [int(extent) for extent in extents]


def _scalar(value: dict[str, Any], where: str) -> Any:
    kind = "int" if "int" in value else "float"
    entry = json_fields.keys(value, (kind, "dtype"), where)
    dtype = json_fields.dtype(entry["dtype"], f"{where}.dtype")
    if kind == "float":
        if not dtype.startswith("float"):
            raise json_fields.wrong(f"{where}.dtype", "a float's", dtype)
        return _float(dtype, entry["float"], where)
    if dtype.startswith("float"):
        raise json_fields.wrong(f"{where}.dtype", "an integer's", dtype)
    low, high = (0, 1) if dtype == "bool" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    return tirx.IntImm(dtype, json_fields.integer(entry["int"], where, low, min(high, (1 << 63) - 1)))


def _float(dtype: str, value: Any, where: str) -> tirx.FloatImm:
    try:
        return tirx.FloatImm(dtype, json_fields.number(value, where))
    except ValueError as error:
        raise json_fields.wrong(where, f"a number that {dtype} has", value) from error


def _attribute(field: Field, value: Any, where: str) -> Any:
    if value is None and field.optional:
        return None
    if field.kind == "sections":
        if isinstance(value, list):
            return [tirx.IntImm("int64", json_fields.integer(cut, where)) for cut in value]
        return tirx.IntImm("int64", json_fields.integer(value, where))
    if field.many:
        return [_single(field, item, where) for item in json_fields.array(value, where)]
    return _single(field, value, where)


def _single(field: Field, value: Any, where: str) -> Any:
    if field.kind == "bool":
        if not isinstance(value, bool):
            raise json_fields.wrong(where, "true or false", value)
        return value
    if field.kind == "int":
        plain = json_fields.integer(value, where)
        return tirx.IntImm("int64", plain) if field.boxed else plain
    if field.kind == "float":
        return _float("float32", value, where) if field.boxed else json_fields.number(value, where)
    return json_fields.dtype(value, where) if field.kind == "dtype" else json_fields.string(value, where)


def _line(error: Exception) -> str:
    """The last line of an error of TVM's, which has its stack before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
