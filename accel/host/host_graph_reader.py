"""Reading of host graphs from untrusted text: what is read can be run, within limits that are known before."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from accel.errors import InvalidProgram
from accel.host import json_fields
from accel.host.host_graph import LEAST_OPSET, HostGraph, HostNode, onnx_model
from accel.host.host_operators import OPERATORS, check_attributes
from accel.host.json_fields import Tensor
from accel.util.arrays import Array
from accel.util.strict_json import parse_json

MOST_OPSET = 26
_MOST_BYTES = 1 << 29  # of the text
_MOST_VALUES = 1 << 20
_MOST_NODES = 1 << 14
_MOST_TENSORS = 1 << 10  # of a node
_MOST_TOTAL_BYTES = 1 << 34  # of all tensors of a graph, which are not all alive at once
_STATED = 1 << 10  # elements of a constant that may say what shape a result has
_MOST_KEPT = 1 << 16  # characters of a text whose graph is kept


@dataclass(frozen=True)
class CheckedGraph:
    """A host graph, and the shape and type of each of its tensors."""

    graph: HostGraph
    types: Mapping[str, Tensor]

    def signature(self) -> tuple[list[Tensor], list[Tensor]]:
        """Returns the shapes and types of what goes in, and of what comes out."""
        return list(self.graph.inputs.values()), [self.types[name] for name in self.graph.outputs]


def read_host_graph(text: str) -> CheckedGraph:
    """Returns the graph of a text in the form of :func:`accel.host.host_graph.write_host_graph`.

    Raises:
        InvalidProgram: it is none, or one of its tensors has no static shape; the message names the node.
    """
    return _read_once(text) if len(text) <= _MOST_KEPT else _read(text)


def _read(text: str) -> CheckedGraph:
    document = parse_graph_document(text)
    entry = json_fields.keys(document, ("opset", "inputs", "constants", "nodes", "outputs"), "the host graph")
    return _Reader(entry).checked()


# a program's is read where the file is opened and where it is run, and programs of one network have the same
_read_once = functools.lru_cache(maxsize=64)(_read)


def parse_graph_document(text: str) -> Any:
    """Returns the JSON of a host graph of any version.

    Raises:
        InvalidProgram: it is not JSON, or larger than the limits.
    """
    try:
        return parse_json(text.encode(), most_bytes=_MOST_BYTES, most_values=_MOST_VALUES)
    except ValueError as error:
        raise InvalidProgram(str(error)) from error


class _Reader:
    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._entry = entry
        self._known: set[str] = set()
        self._opset = json_fields.integer(entry["opset"], "opset", LEAST_OPSET, MOST_OPSET)

    def checked(self) -> CheckedGraph:
        inputs = {}
        for index, value in enumerate(json_fields.array(self._entry["inputs"], "inputs")):
            item = json_fields.keys(value, ("name", "dtype", "shape"), f"input {index}")
            inputs[self._define(item["name"], f"input {index}")] = json_fields.tensor(item, f"input {index}")
        constants: dict[str, Array] = {}
        for index, value in enumerate(json_fields.array(self._entry["constants"], "constants")):
            where = f"constant {index}"
            if not isinstance(value, dict) or "name" not in value:
                raise json_fields.wrong(where, "an object with a name", value)
            constants[self._define(value["name"], where)] = json_fields.constant(
                {key: part for key, part in value.items() if key != "name"}, where
            )
        listed = json_fields.array(self._entry["nodes"], "nodes")
        if len(listed) > _MOST_NODES:
            raise InvalidProgram(f"there are {len(listed)} nodes; the limit is {_MOST_NODES}")
        nodes = tuple(self._node(value, f"node {index}") for index, value in enumerate(listed))
        outputs = tuple(self._use(name, "outputs") for name in json_fields.array(self._entry["outputs"], "outputs"))
        if not outputs:
            raise json_fields.wrong("outputs", "the name of a tensor", [])
        return check_graph(HostGraph(self._opset, inputs, constants, nodes, outputs))

    def _define(self, name: Any, where: str) -> str:
        name = json_fields.string(name, f"{where}.name")
        if not name or name in self._known:
            raise InvalidProgram(f"{where}: there is a tensor {name!r} already" if name else f"{where}: it has no name")
        self._known.add(name)
        return str(name)

    def _use(self, name: Any, where: str) -> str:
        if not isinstance(name, str) or name not in self._known:
            raise json_fields.wrong(where, "the name of a tensor that is there before", name)
        return name

    def _node(self, value: Any, where: str) -> HostNode:
        item = json_fields.keys(value, ("op", "inputs", "outputs"), where, optional=("attributes",))
        op = item["op"]
        if not isinstance(op, str) or op not in OPERATORS:
            raise json_fields.wrong(f"{where}.op", "an operator that a host graph may call", op)
        where = f"{where} ({op})"
        try:
            schema = onnx.defs.get_schema(op, self._opset)
        except Exception as error:
            raise InvalidProgram(f"{where}: opset {self._opset} has no such operator") from error
        given, made = (json_fields.array(item[key], f"{where}.{key}") for key in ("inputs", "outputs"))
        for key, names, low, high in (
            ("inputs", given, schema.min_input, schema.max_input),
            ("outputs", made, schema.min_output, schema.max_output),
        ):
            if not low <= len(names) <= min(high, _MOST_TENSORS):
                raise json_fields.wrong(f"{where}.{key}", f"{low} to {min(high, _MOST_TENSORS)} names", names)
        inputs = tuple("" if name == "" else self._use(name, f"{where}.inputs") for name in given)
        if any(not name for name in inputs[: schema.min_input]):
            raise InvalidProgram(f"{where}.inputs: one is missing that {op} needs")
        node = HostNode(op, inputs, (), _attributes(item.get("attributes", {}), schema, where))
        check_attributes(node, where)
        outputs = tuple("" if name == "" else self._define(name, f"{where}.outputs") for name in made)
        if not any(outputs):
            raise InvalidProgram(f"{where}.outputs: it makes nothing")
        return HostNode(op, inputs, outputs, node.attributes)


def _attributes(entry: Any, schema: onnx.defs.OpSchema, where: str) -> dict[str, Any]:
    where = f"{where}.attributes"
    if not isinstance(entry, dict):
        raise json_fields.wrong(where, "an object", entry)
    known = schema.attributes
    for name in entry:
        if name not in known:
            raise InvalidProgram(
                f"{where}: there is no attribute {name[:60]!r}; there are {', '.join(known) or 'none'}"
            )
    for name, attribute in known.items():
        if attribute.required and name not in entry:
            raise InvalidProgram(f"{where}: {name!r} is missing")
    return {
        name: _attribute(str(known[name].type).rpartition(".")[2], value, f"{where}.{name}")
        for name, value in entry.items()
    }


def _attribute(kind: str, value: Any, where: str) -> Any:
    if kind == "TENSOR":
        return json_fields.constant(value, where)
    single = {"INT": json_fields.integer, "FLOAT": json_fields.number, "STRING": json_fields.string}
    if kind in single:
        return single[kind](value, where)
    if kind[:-1] in single:
        return [single[kind[:-1]](item, where) for item in json_fields.array(value, where)]
    raise InvalidProgram(f"{where}: a host graph cannot have it")


def check_graph(graph: HostGraph) -> CheckedGraph:
    """Returns the graph with the shapes and types of its tensors, by ONNX's own inference.

    Raises:
        InvalidProgram: a node does not take what it is given, or the shape of a tensor depends on the data.
    """
    stated = {name: (array.shape, str(array.dtype)) for name, array in graph.constants.items()}
    apart = {name: tensor for name, tensor in stated.items() if math.prod(tensor[0]) > _STATED}
    made = [name for node in graph.nodes for name in node.outputs if name]
    types = dict(graph.inputs) | stated
    model = onnx_model(graph, graph.nodes, graph.inputs | apart, dict.fromkeys(made))
    left = _inferred(model, graph, types)
    while left:
        known = [node for node in left if node.op in _LIKE_THEIR_DATA and node.inputs[0] in types]
        if not known:
            raise InvalidProgram(f"{_place(graph.nodes.index(left[0]), left[0])} has no static shape")
        types |= {node.outputs[0]: types[node.inputs[0]] for node in known}
        told = {node.outputs[0]: types[node.outputs[0]] for node in known}
        model = onnx_model(graph, graph.nodes, graph.inputs | apart, dict.fromkeys(made) | told)
        left = _inferred(model, graph, types)
    total = 0
    for name, (shape, dtype) in types.items():
        total += math.prod(shape) * json_fields.element_bytes(dtype)
        if total > _MOST_TOTAL_BYTES:
            raise InvalidProgram(f"{name!r}: the tensors so far have {total} bytes; the limit is {_MOST_TOTAL_BYTES}")
    return CheckedGraph(graph, types)


_LIKE_THEIR_DATA = ("GroupNormalization", "RMSNormalization", "Swish")  # of which onnx infers nothing


def _inferred(model: onnx.ModelProto, graph: HostGraph, types: dict[str, Tensor]) -> list[HostNode]:
    """Adds to ``types`` what onnx infers, and returns the nodes of which it knows too little."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # its errors have no base class of their own
        raise InvalidProgram(f"the graph is not well formed: {_line(error)}") from error
    infos = {info.name: info for info in (*inferred.graph.output, *inferred.graph.value_info)}
    left = []
    for at, node in enumerate(graph.nodes):
        for name in filter(None, node.outputs):
            tensor = infos[name].type.tensor_type if name in infos else None
            if name in types:
                continue
            if tensor is None or not tensor.HasField("shape") or not tensor.elem_type:
                left.append(node)
            else:
                types[name] = _tensor(infos[name], _place(at, node))
    return left


def _place(at: int, node: HostNode) -> str:
    return f"node {at} ({node.op})"


def _tensor(info: onnx.ValueInfoProto, where: str) -> Tensor:
    tensor = info.type.tensor_type
    if not all(size.HasField("dim_value") for size in tensor.shape.dim):
        raise InvalidProgram(f"{where} has no static shape")
    try:
        dtype = _element(tensor.elem_type)
    except KeyError as error:
        raise InvalidProgram(f"{where} is no tensor of numbers") from error
    return json_fields.tensor({"shape": [size.dim_value for size in tensor.shape.dim], "dtype": dtype}, where)


@functools.cache
def _element(number: int) -> str:
    """The name of an element type that ONNX has under a number."""
    return str(onnx.helper.tensor_dtype_to_np_dtype(number))


def _line(error: Exception) -> str:
    """The last line of an error of onnx's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
