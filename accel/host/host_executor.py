"""Execution of host graphs: by numpy where that is all they need, else by onnxruntime without its optimisations.

Nothing is fused and one thread computes, so that an operator gives the same bits wherever the graph is cut.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnxruntime

from accel.errors import InvalidProgram, InvalidTensors, SimulationError
from accel.host.host_graph import HostNode, onnx_model
from accel.host.host_graph_reader import CheckedGraph, read_host_graph
from accel.host.host_operators import index_bounds, scratch_of, work_of
from accel.host.numpy_operators import is_exact, is_exact_float, is_movement, run_node
from accel.host.operator_work import OperatorWork, graph_work
from accel.util.arrays import Array

MOST_SECONDS = 300.0
WORK_PER_SECOND = (1 << 38) / MOST_SECONDS  # about
_MOST_BYTES = 1 << 32  # of what a node takes beside its tensors

Values = dict[str, Array]


class HostFunctions:
    """Host graphs by their text, ready to run; identical graphs once."""

    def __init__(self) -> None:
        self._ready: dict[str, HostFunction] = {}

    def prepare(self, text: str) -> "HostFunction":
        """Returns the graph ready to run.

        Raises:
            SimulationError: the text is no host graph, onnxruntime has no implementation of a node, or running it
                would need more than the limits.
        """
        if text not in self._ready:
            try:
                self._ready[text] = HostFunction(read_host_graph(text))
            except InvalidProgram as error:
                raise SimulationError(f"a host step is no host graph: {error.detail}", kind="host-step") from error
        return self._ready[text]

    def run(self, text: str, inputs: Sequence[Array]) -> list[Array]:
        """Returns the outputs of the graph.

        Raises:
            SimulationError: as :meth:`prepare`, or the inputs do not fit the graph's.
            InvalidTensors: an index lies outside what it selects from.
        """
        return self.prepare(text).run(inputs)


class HostFunction:
    """A host graph ready to run.

    Raises:
        SimulationError: onnxruntime has no implementation of a node, or running it would need more than the limits.
    """

    def __init__(self, checked: CheckedGraph, seconds: float = MOST_SECONDS) -> None:
        self._checked = checked
        check_work(checked, seconds)
        self._stages = [_Stage(checked, *stage) for stage in _stages(checked)]

    @cached_property
    def works(self) -> list[OperatorWork]:
        """What its operators have to do."""
        return graph_work(self._checked)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Returns the outputs, in new arrays, in the order of the graph.

        Raises:
            SimulationError: the inputs do not fit the graph's.
            InvalidTensors: an index lies outside what it selects from.
        """
        graph = self._checked.graph
        values: Values = {}
        for (name, (shape, dtype)), array in zip(graph.inputs.items(), inputs, strict=True):
            if array.shape != shape or array.dtype != np.dtype(dtype):
                raise SimulationError(
                    f"a host step takes {dtype}{list(shape)} as {name}; got {array.dtype}{list(array.shape)}",
                    kind="host-step",
                )
            values[name] = array
        last = {name: at for at, stage in enumerate(self._stages) for name in stage.reads}
        for at, stage in enumerate(self._stages):
            stage.run(values)
            for name in stage.reads:
                if last[name] == at and name not in graph.outputs:
                    values.pop(name, None)
        return [np.array(values.get(name, graph.constants.get(name)), order="C") for name in graph.outputs]


def check_work(checked: CheckedGraph, seconds: float = MOST_SECONDS) -> None:
    """Refuses a graph that would take more work or memory than the limits, which is known before it runs.

    Raises:
        SimulationError: of kind ``work-limit``.
    """
    work = 0
    for node in checked.graph.nodes:
        work += work_of(node, checked.types)
        if scratch_of(node, checked.types) > _MOST_BYTES:
            raise SimulationError(
                f"a host step's {node.op} takes {scratch_of(node, checked.types)} bytes at once; the limit is "
                f"{_MOST_BYTES}",
                kind="work-limit",
            )
    most = int(WORK_PER_SECOND * min(seconds, MOST_SECONDS))
    if work > most:
        raise SimulationError(f"a host step takes {work} steps of work; the limit is {most}", kind="work-limit")


def _stages(checked: CheckedGraph) -> Iterator[tuple[bool, list[HostNode]]]:
    """The nodes as runs for numpy (true) and for onnxruntime; what both can goes with what is there before it."""
    graph, types = checked.graph, checked.types
    makers = {name: node for node in graph.nodes for name in node.outputs}
    whole = all(np.dtype(dtype).kind in "iub" for _, dtype in graph.inputs.values())
    exact = [is_exact(node, graph, types) for node in graph.nodes]
    moves = [is_movement(node, graph) for node in graph.nodes]
    if all(
        known or moved or (whole and is_exact_float(node, graph, types, makers))
        for node, known, moved in zip(graph.nodes, exact, moves, strict=True)
    ):
        yield True, list(graph.nodes)
        return
    run: list[HostNode] = []
    in_numpy = checks = False  # the latter: whether one of the run is checked
    for node, known, moved in zip(graph.nodes, exact, moves, strict=True):
        wanted = in_numpy if moved and run else known or moved
        if run and (wanted != in_numpy or checks or node.op in _CHECKED):
            yield in_numpy, run
            run, checks = [], False
        in_numpy = wanted
        run.append(node)
        checks = checks or node.op in _CHECKED
    if run:
        yield in_numpy, run


class _Stage:
    """Nodes that run together."""

    def __init__(self, checked: CheckedGraph, in_numpy: bool, nodes: list[HostNode]) -> None:  # noqa: FBT001 # of a pair
        graph, types = checked.graph, checked.types
        self._graph, self._types, self._nodes = graph, types, nodes
        made = {name for node in nodes for name in node.outputs if name}
        used = dict.fromkeys(name for node in nodes for name in node.inputs if name)
        self.reads = [name for name in used if name not in made and name not in graph.constants]
        others = (node for node in graph.nodes if made.isdisjoint(node.outputs))
        elsewhere = {name for node in others for name in node.inputs} | {*graph.outputs}
        self._makes = [name for node in nodes for name in node.outputs if name in elsewhere]
        self._session: Any = None
        if not in_numpy and self._makes:
            stated = {name: types[name] for name in self.reads}
            model = onnx_model(graph, tuple(nodes), stated, {name: types[name] for name in self._makes})
            try:
                self._session = open_session(model.SerializeToString())
            except Exception as error:  # its errors have no base class of their own
                raise SimulationError(
                    f"onnxruntime does not run a host step: {_line(error)}", kind="host-step"
                ) from error

    def run(self, values: Values) -> None:
        if not self._makes:
            return
        if self._session is not None:
            first = self._nodes[0]
            self._check(first, [self._value(name, values) for name in first.inputs])
            fed = {name: np.asarray(values[name], order="C") for name in self.reads}
            try:
                results = self._session.run(self._makes, fed)
            except Exception as error:
                raise SimulationError(f"a host step does not run: {_line(error)}", kind="host-step") from error
            values.update(zip(self._makes, results, strict=True))
            return
        inner = dict(values)
        for node in self._nodes:
            operands = [self._value(name, inner) for name in node.inputs]
            self._check(node, operands)
            try:
                results = run_node(node, operands)
            except Exception as error:  # whatever numpy raises of what shape inference did not see
                raise SimulationError(
                    f"a host step's {node.op} does not run: {_line(error)}", kind="host-step"
                ) from error
            for name, result in zip(node.outputs, results, strict=True):
                inner[name] = self._checked(node, name, result)
        values.update((name, inner[name]) for name in self._makes)

    def _checked(self, node: HostNode, name: str, result: Array) -> Array:
        if name and (result.shape, str(result.dtype)) != self._types[name]:
            raise SimulationError(f"a host step's {node.op} makes {result.dtype}{list(result.shape)}", kind="host-step")
        return result

    def _check(self, node: HostNode, operands: Sequence[Any]) -> None:
        """Of a node that is alone, or in numpy: what it selects by lies in what it selects from."""
        if node.op in _CHECKED:
            _CHECKED[node.op](node, self._types, operands)

    def _value(self, name: str, values: Mapping[str, Array]) -> Any:
        if not name:
            return None
        return values[name] if name in values else self._graph.constants[name]


def open_session(model: bytes) -> onnxruntime.InferenceSession:
    """Returns a session of one thread that changes nothing of the model.

    Raises:
        Exception: whatever onnxruntime raises if it has no implementation of a node.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.disable_prepacking", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _check_indices(node: HostNode, types: Mapping[str, Any], operands: Sequence[Any]) -> None:
    found = index_bounds(node, types)
    assert found is not None
    place, extents = found
    at = operands[place]
    wrong = (at < -extents) | (at >= extents)
    if wrong.any():
        whole = "x".join(map(str, np.atleast_1d(extents)))
        raise InvalidTensors(f"{node.op} on the host selects element {at[wrong].flat[0]} of {whole}", field="inputs")


def _check_regions(node: HostNode, types: Mapping[str, Any], operands: Sequence[Any]) -> None:
    """Regions of interest lie about the image, so that what they take is bounded."""
    images, _, *plane = types[node.inputs[0]][0]
    _, regions, batch = operands
    scaled = np.abs(regions.astype(np.float64)) * abs(node.attributes.get("spatial_scale", 1.0))
    wide = not (scaled <= _AROUND * max(plane)).all()
    if wide or ((batch < 0) | (batch >= images)).any():
        size = "x".join(map(str, plane))
        raise InvalidTensors(
            f"RoiAlign on the host has regions that do not lie about its {images} images of {size}", field="inputs"
        )


_AROUND = 2  # how many times its size a region may lie beside an image
_CHECKED: Mapping[str, Callable[[HostNode, Mapping[str, Any], Sequence[Any]], None]] = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"), _check_indices),
    "RoiAlign": _check_regions,
}


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
