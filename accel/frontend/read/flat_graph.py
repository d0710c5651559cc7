"""Graphs without functions and control flow: calls of local functions, If, Loop and Scan as the nodes that they run.

A program is a fixed sequence of steps. So the condition of If, and the number of iterations of Loop and Scan, must
follow from constants and shapes; values are computed node by node on the way, as far as they do. A node from within is
called ``<call or loop>/<iteration>/<node>``; what it reads from scopes around it is resolved as ONNX does. Constants
of a body are one for all of its iterations.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from accel.errors import InvalidModel, ModelTooLarge, UnsupportedOperator, UnsupportedShape
from accel.frontend.onnx_model.model_limits import ModelLimits
from accel.frontend.onnx_model.onnx_nodes import ONNX_DOMAINS, attribute_of, opset_of, unique_name
from accel.frontend.onnx_model.shape_inference import PartialInference
from accel.frontend.read.constant_forms import DenseConstants
from accel.util.safe_names import shown

_CONTROL = ("If", "Loop", "Scan")
_MOST_CALLS = 64  # functions that call each other
_AXES_ARE_INPUT = 13  # the first opset in which the axes of Unsqueeze are an input
_FIXED = "a program is one fixed sequence of steps"

Function = tuple[str, str, str]


def flatten(model: onnx.ModelProto, limits: ModelLimits, constants: DenseConstants) -> None:
    """Replaces the calls of local functions, If, Loop and Scan in ``model`` by the nodes that run, in place.

    Args:
        model: whose inputs have static shapes, and whose nodes at the top have unique names.
        limits: of nodes, and of the iterations of a loop.
        constants: makes constants of the bodies dense.

    Raises:
        UnsupportedOperator: which nodes run depends on the inputs' data; ``field`` names the node.
        UnsupportedShape: a loop has more iterations than ``limits`` allow, or none and a result of them.
        ModelTooLarge: more nodes would run than ``limits`` allow.
        InvalidModel: a call or a body does not fit its signature.
    """
    functions = {(each.domain, each.name, each.overload): each for each in model.functions}
    called = any((node.domain, node.op_type, node.overload) in functions for node in model.graph.node)
    if called or any(node.op_type in _CONTROL and node.domain in ONNX_DOMAINS for node in model.graph.node):
        _Flattening(model, functions, limits, constants).run()
    own = {each.domain for each in model.functions}
    model.ClearField("functions")
    used = {node.domain for node in model.graph.node}
    imports = [entry for entry in model.opset_import if entry.domain not in own or entry.domain in used]
    imports = [onnx.OperatorSetIdProto.FromString(entry.SerializeToString()) for entry in imports]
    del model.opset_import[:]
    model.opset_import.extend(imports)


@dataclass
class _Scope:
    """The names of a body's tensors, and what they are in the flat graph.

    Attributes:
        prefix: of its nodes' names.
        parent: the scope around it; None of the graph and of functions.
        names: its own, by the names in the flat graph; those of the graph itself are what they are.
        attributes: of the call that it belongs to; None outside functions.
        depth: calls around it.
    """

    prefix: str = ""
    parent: "_Scope | None" = None
    names: dict[str, str] = field(default_factory=dict)
    attributes: Mapping[str, onnx.AttributeProto] | None = None
    depth: int = 0

    def inner(self, prefix: str, names: dict[str, str]) -> "_Scope":
        """Returns the scope of a subgraph."""
        return _Scope(prefix, self, names, self.attributes, self.depth)

    def find(self, name: str) -> str:
        """Returns what ``name`` is in the flat graph."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        if name and self.attributes is not None:
            raise InvalidModel(f"a function reads {name!r}, which is neither its own nor an input of it", field="model")
        return name


class _Flattening:
    """A graph on its way."""

    def __init__(
        self,
        model: onnx.ModelProto,
        functions: Mapping[Function, onnx.FunctionProto],
        limits: ModelLimits,
        constants: DenseConstants,
    ) -> None:
        self._model, self._functions, self._limits, self._constants = model, functions, limits, constants
        self._opset = opset_of(model)
        self._inference = PartialInference(model)
        self._nodes: list[onnx.NodeProto] = []
        self._visited = 0
        graph = model.graph
        self._outputs = {info.name for info in graph.output}
        self._tensors = {each.name for each in (*graph.input, *graph.initializer, *graph.output)}
        self._tensors.update(name for node in graph.node for name in node.output)
        self._names = {node.name for node in graph.node}
        # bodies and constants within, held so that no other object gets their address, and what they are here
        self._shared: dict[int, tuple[object, dict[str, str]]] = {}

    def run(self) -> None:
        """Write the nodes that run back to the model."""
        graph = self._model.graph
        self._write(list(graph.node), _Scope())
        del graph.node[:]
        graph.node.extend(self._nodes)
        made = {name for node in self._nodes for name in node.output}
        infos = [info for info in graph.value_info if info.name in made]
        infos = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in infos]
        del graph.value_info[:]
        graph.value_info.extend(infos)

    def _write(self, nodes: Iterable[onnx.NodeProto], scope: _Scope) -> None:
        for index, node in enumerate(nodes):
            self._count()
            name = node.name or f"{node.op_type}_{index}"
            key = (node.domain, node.op_type, node.overload)
            if key in self._functions:
                self._call(node, name, scope, self._functions[key])
            elif node.op_type in _CONTROL and node.domain in ONNX_DOMAINS:
                {"If": self._if, "Loop": self._loop, "Scan": self._scan}[node.op_type](node, name, scope)
            else:
                self._keep(node, name, scope)

    def _count(self) -> None:
        """Counts what takes time: nodes, calls, iterations."""
        self._visited += 1
        if self._visited > 2 * self._limits.nodes or len(self._nodes) > self._limits.nodes:
            raise ModelTooLarge(
                f"with its functions and loops laid out the graph has more than {self._limits.nodes} nodes, which is "
                "the limit",
                field="model",
            )

    def _keep(self, node: onnx.NodeProto, name: str, scope: _Scope) -> None:
        """Write a node that is neither call nor control flow."""
        inside = bool(scope.prefix)
        if inside and node.op_type == "Constant" and not any(a.ref_attr_name for a in node.attribute):
            scope.names[node.output[0]] = self._constant_of(node)
            return
        made = onnx.NodeProto()
        made.CopyFrom(node)
        _set_references(made, scope.attributes)
        made.name = self._node_name(scope, name) if inside else name
        made.input[:] = [scope.find(each) for each in node.input]
        if inside:
            for at, each in enumerate(node.output):
                made.output[at] = scope.names[each] = self._fresh(f"{scope.prefix}{each}") if each else ""
        self._constants.convert(made)
        self._emit(made)

    def _emit(self, node: onnx.NodeProto) -> None:
        self._nodes.append(node)
        self._inference.add(node)

    def _call(self, node: onnx.NodeProto, name: str, scope: _Scope, function: onnx.FunctionProto) -> None:
        """Write the body of a function."""
        where = self._field(scope, name)
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            raise InvalidModel(f"the call of {function.name} has more inputs or outputs than the function", field=where)
        if scope.depth >= _MOST_CALLS:
            # the place is as long as the calls are deep
            raise InvalidModel(
                f"{function.name} is called by itself, or too deep in other functions", field=shown(where)
            )
        self._check_versions(function, where)
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        _set_references(copy, scope.attributes)
        attributes = {each.name: each for each in function.attribute_proto} | {
            each.name: each for each in copy.attribute
        }
        given = [scope.find(each) for each in node.input]
        names = dict.fromkeys(function.input, "") | dict(zip(function.input, given, strict=False))
        inside = _Scope(f"{self._node_name(scope, name)}/", None, names, attributes, scope.depth + 1)
        self._write(function.node, inside)
        self._bind(scope, node.output, [inside.find(each) for each in function.output])

    def _check_versions(self, function: onnx.FunctionProto, where: str) -> None:
        """What the function's operators mean is what they mean in the model."""
        own = next((entry.version for entry in function.opset_import if entry.domain in ONNX_DOMAINS), self._opset)
        if own == self._opset:
            return
        for node in function.node:
            if node.domain not in ONNX_DOMAINS or not onnx.defs.has(node.op_type):
                continue
            try:
                versions = {onnx.defs.get_schema(node.op_type, opset).since_version for opset in (own, self._opset)}
            except onnx.defs.SchemaError:
                versions = set()
            if len(versions) != 1:
                raise InvalidModel(
                    f"{function.name} is of opset {own}, in which {node.op_type} is another than in the model's, "
                    f"{self._opset}: export it for one opset",
                    field=where,
                )

    def _if(self, node: onnx.NodeProto, name: str, scope: _Scope) -> None:
        """Write the branch that is taken."""
        condition = self._value(scope.find(node.input[0])) if node.input else None
        if condition is None or condition.size != 1:
            raise UnsupportedOperator(
                f"If: its condition is computed from the model's inputs, and {_FIXED}: export the model with the "
                "branch that is to run; a condition of shapes alone is known once these are (options.dims, "
                "options.shapes)",
                field=self._field(scope, name),
            )
        branch = "then_branch" if bool(condition.item()) else "else_branch"
        body = self._body(node, branch, scope, name)
        inside = scope.inner(f"{self._node_name(scope, name)}/", dict(self._initializers(body)))
        self._write(body.node, inside)
        if len(body.output) != len(node.output):
            raise self._misfit("If", branch, scope, name)
        self._bind(scope, node.output, [inside.find(info.name) for info in body.output])

    def _loop(self, node: onnx.NodeProto, name: str, scope: _Scope) -> None:
        """Write all iterations."""
        body, given = self._body(node, "body", scope, name), [scope.find(each) for each in node.input]
        carried, where = given[2:], self._field(scope, name)
        scanned = len(body.output) - 1 - len(carried)
        fits = len(given) >= 2 and len(body.input) == len(given) and len(node.output) <= len(carried) + scanned
        if not fits or scanned < 0:
            raise self._misfit("Loop", "body", scope, name)
        most = self._known_number(given[0], "number of iterations", where) if given[0] else None
        goes_on = bool(self._known_number(given[1], "condition", where)) if given[1] else True
        if most is not None and goes_on and most <= 0:
            goes_on = False
        shared, path = self._initializers(body), self._node_name(scope, name)
        results: list[list[str]] = [[] for _ in range(scanned)]
        count = 0
        while goes_on and (most is None or count < most):
            self._check_steps("Loop", count, most, where)
            names = [self._number(np.int64(count)), self._number(np.bool_(True)), *carried]
            formals = dict(zip((info.name for info in body.input), names, strict=True))
            inside = scope.inner(f"{path}/{count}/", shared | formals)
            self._write(body.node, inside)
            ends = [inside.find(info.name) for info in body.output]
            carried = ends[1 : 1 + len(carried)]
            for found, each in zip(results, ends[1 + len(carried) :], strict=True):
                found.append(each)
            count += 1
            if most is None or count < most:
                goes_on = bool(self._known_number(ends[0], "condition", where))
        stacked = [
            self._stack(found, 0, path, where) if wanted else ""
            for found, wanted in zip(results, self._wanted(node, len(carried), scanned), strict=True)
        ]
        self._bind(scope, node.output, [*carried, *stacked])

    def _scan(self, node: onnx.NodeProto, name: str, scope: _Scope) -> None:
        """Write a step for each slice."""
        body, given = self._body(node, "body", scope, name), [scope.find(each) for each in node.input]
        where, path = self._field(scope, name), self._node_name(scope, name)
        count = attribute_of(node, "num_scan_inputs", 0)
        carried, scans = given[: len(given) - count], given[len(given) - count :]
        results = len(body.output) - len(carried)
        axes = attribute_of(node, "scan_input_axes", [0] * count)
        turned = attribute_of(node, "scan_input_directions", [0] * count)
        out_axes = attribute_of(node, "scan_output_axes", [0] * results)
        out_turned = attribute_of(node, "scan_output_directions", [0] * results)
        fits = 0 < count <= len(given) == len(body.input) and results >= 0 and len(node.output) <= len(body.output)
        if not fits or {len(axes), len(turned)} != {count} or {len(out_axes), len(out_turned)} != {results}:
            raise self._misfit("Scan", "body", scope, name)
        lengths = {self._extent(each, axis, where) for each, axis in zip(scans, axes, strict=True)}
        if len(lengths) != 1:
            raise InvalidModel(
                f"Scan reads sequences of {sorted(lengths)} elements; of one length expected", field=where
            )
        (steps,) = lengths
        shared = self._initializers(body)
        found: list[list[str]] = [[] for _ in range(results)]
        for at in range(steps):
            self._check_steps("Scan", at, steps, where)
            slices = [
                self._slice(each, axis, steps - 1 - at if back else at, f"{path}/{at}/")
                for each, axis, back in zip(scans, axes, turned, strict=True)
            ]
            formals = dict(zip((info.name for info in body.input), [*carried, *slices], strict=True))
            inside = scope.inner(f"{path}/{at}/", shared | formals)
            self._write(body.node, inside)
            ends = [inside.find(info.name) for info in body.output]
            carried = ends[: len(carried)]
            for each, end in zip(found, ends[len(carried) :], strict=True):
                each.append(end)
        stacked = [
            self._stack(each[::-1] if back else each, axis, path, where) if wanted else ""
            for each, axis, back, wanted in zip(
                found, out_axes, out_turned, self._wanted(node, len(carried), results), strict=True
            )
        ]
        self._bind(scope, node.output, [*carried, *stacked])

    def _check_steps(self, op: str, count: int, most: int | None, where: str) -> None:
        self._count()
        if count >= self._limits.steps or (most is not None and most > self._limits.steps and op == "Scan"):
            told = (
                f"{op} has more than {self._limits.steps} iterations" if most is None else f"{op} has {most} iterations"
            )
            raise UnsupportedShape(
                f"{told}, each of which is laid out by itself; the limit is {self._limits.steps}: run it on shorter "
                "sequences",
                field=where,
            )

    def _wanted(self, node: onnx.NodeProto, first: int, count: int) -> list[bool]:
        """Which of the results that are gathered have a name outside."""
        given = [bool(each) for each in node.output[first:]]
        return given + [False] * (count - len(given))

    def _body(self, node: onnx.NodeProto, attribute: str, scope: _Scope, name: str) -> onnx.GraphProto:
        for each in node.attribute:
            if each.name == attribute and each.HasField("g"):
                found: onnx.GraphProto = each.g
                return found
        raise self._misfit(node.op_type, attribute, scope, name)

    def _misfit(self, op: str, body: str, scope: _Scope, name: str) -> InvalidModel:
        return InvalidModel(
            f"{op}: its {body} is missing, or has not the inputs and outputs that it needs",
            field=self._field(scope, name),
        )

    def _bind(self, scope: _Scope, outside: Sequence[str], inside: Sequence[str]) -> None:
        """Let the results of a body be what they are called outside it."""
        for name, found in zip(outside, inside, strict=False):
            if not name:
                continue
            if not found:
                raise InvalidModel(f"nothing computes {name!r}", field="model")
            if scope.prefix or name not in self._outputs:
                scope.names[name] = found
            else:
                made = unique_name(f"{name}_result", self._names)
                self._emit(helper.make_node("Identity", [found], [name], name=made))

    def _initializers(self, graph: onnx.GraphProto) -> dict[str, str]:
        """The constants of a body."""
        if id(graph) not in self._shared:
            self._constants.convert_graph(graph)
            names = {tensor.name: self._add(tensor, tensor.name) for tensor in graph.initializer}
            self._shared[id(graph)] = (graph, names)
        return self._shared[id(graph)][1]

    def _constant_of(self, node: onnx.NodeProto) -> str:
        """The constant that a node within a body is."""
        if id(node) not in self._shared:
            self._constants.convert(node)
            self._shared[id(node)] = (node, {"": self._add(node.attribute[0].t, node.output[0])})
        return self._shared[id(node)][1][""]

    def _add(self, tensor: TensorProto, like: str) -> str:
        made = self._model.graph.initializer.add()
        made.CopyFrom(tensor)
        made.name = self._fresh(like)
        self._inference.add_constant(made)
        return str(made.name)

    def _number(self, value: np.generic) -> str:
        """A scalar constant."""
        return self._add(numpy_helper.from_array(np.array(value)), f"{value.dtype.name}_{value}")

    def _value(self, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]] | None:
        """The value of a tensor in the flat graph, if it follows from constants and shapes."""
        tensor = self._inference.values.get(name)
        return None if tensor is None else np.asarray(numpy_helper.to_array(tensor))

    def _known_number(self, name: str, what: str, where: str) -> int:
        value = self._value(name)
        if value is None or value.size != 1:
            raise UnsupportedOperator(
                f"Loop: its {what} is computed from the model's inputs, and {_FIXED}: export the model for a fixed "
                f"number of iterations, up to {self._limits.steps}",
                field=where,
            )
        return int(value.item())

    def _extent(self, name: str, axis: int, where: str) -> int:
        shape = self._inference.shape(name)
        if shape is None or not -len(shape) <= axis < len(shape):
            raise InvalidModel(f"Scan: the shape of {name!r} is not known, or has no axis {axis}", field=where)
        return shape[axis]

    def _slice(self, name: str, axis: int, at: int, path: str) -> str:
        out = self._fresh(f"{path}slice")
        index = self._number(np.int64(at))
        made = unique_name(f"{path}Gather", self._names)
        self._emit(helper.make_node("Gather", [name, index], [out], name=made, axis=axis))
        return out

    def _stack(self, parts: Sequence[str], axis: int, path: str, where: str) -> str:
        """The results of all iterations, one after the other along a new axis."""
        if not parts:
            raise UnsupportedShape("the loop has no iterations, and so a result without elements", field=where)
        lines = []
        axes = [self._add(numpy_helper.from_array(np.array([axis])), f"{path}/axis")]
        for at, part in enumerate(parts):
            lines.append(self._fresh(f"{path}/{at}/line"))
            made = unique_name(f"{path}/{at}/Unsqueeze", self._names)
            if self._opset >= _AXES_ARE_INPUT:
                node = helper.make_node("Unsqueeze", [part, *axes], lines[-1:], name=made)
            else:
                node = helper.make_node("Unsqueeze", [part], lines[-1:], name=made, axes=[axis])
            self._emit(node)
        out = self._fresh(f"{path}/lines")
        made = unique_name(f"{path}/Concat", self._names)
        self._emit(helper.make_node("Concat", lines, [out], name=made, axis=axis))
        return out

    def _fresh(self, like: str) -> str:
        short = like if len(like) <= self._limits.name_length // 2 else like[-self._limits.name_length // 2 :]
        return unique_name(short, self._tensors)

    def _node_name(self, scope: _Scope, name: str) -> str:
        if not scope.prefix:
            return name
        full = f"{scope.prefix}{name}"
        half = self._limits.name_length // 2
        return unique_name(full if len(full) <= half else full[-half:], self._names)

    def _field(self, scope: _Scope, name: str) -> str:
        return f"node:{scope.prefix}{name}"


def _set_references(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto] | None) -> None:
    """Gives a node of a function the attributes of the call that it refers to."""
    if attributes is None or not any(each.ref_attr_name for each in node.attribute):
        return
    found: list[onnx.AttributeProto] = []
    for each in node.attribute:
        if not each.ref_attr_name:
            found.append(each)
        elif each.ref_attr_name in attributes:
            given = onnx.AttributeProto()
            given.CopyFrom(attributes[each.ref_attr_name])
            given.name = each.name
            found.append(given)
    found = [onnx.AttributeProto.FromString(each.SerializeToString()) for each in found]
    del node.attribute[:]
    node.attribute.extend(found)
