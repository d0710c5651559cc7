"""GELUs of a float model, which are quantised as a whole for stores that compute them as integers.

No form of it is known here: what elementwise nodes make of one tensor is evaluated, and compared with the function.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper
from onnxruntime import GraphOptimizationLevel

from accel.frontend.onnx_model.external_data import embedded
from accel.frontend.onnx_model.ort_session import session
from accel.util.arrays import Array

_PARTS = frozenset(("Add", "Cast", "Clip", "Div", "Erf", "Gelu", "Identity", "Mul", "Neg", "Pow", "Sub", "Tanh"))
_TELLING = frozenset(("Erf", "Gelu", "Tanh"))  # one of which each form has
_MOST_NODES = 16
_REACH, _POINTS = 8, 257  # what is evaluated, from -8 to 8
_LIKE = 0.01  # how far the function may be off, as with a hyperbolic tangent in place of erf


@dataclass(frozen=True)
class Gelu:
    """GELU of a tensor, but for a factor: its ``result``, and the names of the ``nodes`` that make it."""

    result: str
    nodes: frozenset[str]


def find_gelus(model: onnx.ModelProto) -> tuple[Gelu, ...]:
    """Returns the GELUs of ``model``, each with the factors behind it."""
    return tuple(_Finder(model).gelus())


class _Finder:
    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._makers = {str(name): node for node in model.graph.node for name in node.output}
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self._users: dict[str, list[onnx.NodeProto]] = {}
        for node in model.graph.node:
            for name in node.input:
                self._users.setdefault(str(name), []).append(node)

    def gelus(self) -> Iterator[Gelu]:
        """Each once: the longest run of nodes behind one that tells of it."""
        for node in self._model.graph.node:
            if node.op_type in _TELLING:
                ends = [str(node.output[0]), *self._behind(str(node.output[0]))]
                before = [name for name in self._before(str(node.output[0])) if name not in ends]
                found = (self._gelu(source, end) for end in reversed(ends) for source in before)
                yield from [gelu for gelu in found if gelu is not None][:1]

    def _behind(self, name: str) -> list[str]:
        """What comes of a tensor by nodes each of which alone reads the one before."""
        found: list[str] = []
        while len(users := self._users.get(name, [])) == 1 and users[0].op_type in _PARTS and len(found) < _MOST_NODES:
            name = str(users[0].output[0])
            found.append(name)
        return found

    def _before(self, name: str) -> list[str]:
        """What a tensor may be a function of, the nearest first."""
        found, pending = dict[str, None](), [name]
        while pending and len(found) < _MOST_NODES:
            node = self._makers.get(pending.pop(0))
            if node is not None and node.op_type in _PARTS:
                new = [str(each) for each in node.input if each and each not in found and each not in self._constants]
                found |= dict.fromkeys(new)
                pending += new
        return list(found)

    def _gelu(self, source: str, end: str) -> Gelu | None:
        """What makes ``end`` of ``source`` alone, if that is the function."""
        nodes, used, pending = dict[str, onnx.NodeProto](), set[str](), [end]
        while pending:
            name = pending.pop()
            node = self._makers.get(name)
            if name == source or name in nodes:
                continue
            if name in self._constants and math.prod(self._constants[name].dims) == 1:
                used.add(name)
            elif node is None or node.op_type not in _PARTS or len(nodes) >= _MOST_NODES:
                return None
            else:
                nodes[name] = node
                pending += filter(None, map(str, node.input))
        values = self._values(source, end, [nodes[name] for name in self._makers if name in nodes], used)
        if values is None or not _is_gelu(values):
            return None
        return Gelu(end, frozenset(str(node.name) for node in nodes.values()))

    def _values(self, source: str, end: str, nodes: Sequence[onnx.NodeProto], used: set[str]) -> Array | None:
        graph = helper.make_graph(
            nodes,
            "gelu",
            [helper.make_tensor_value_info(source, onnx.TensorProto.FLOAT, [_POINTS])],
            [onnx.ValueInfoProto(name=end)],
            [embedded(self._constants[name]) for name in sorted(used)],
        )
        opsets, version = self._model.opset_import, self._model.ir_version
        made = helper.make_model(graph, opset_imports=opsets, ir_version=version)
        try:
            running = session(made, GraphOptimizationLevel.ORT_DISABLE_ALL, threads=1)
            (found,) = running.run([end], {source: _points()})
        except Exception:  # noqa: BLE001 - onnxruntime's exceptions have no common base; then it is none
            return None
        return np.asarray(found).reshape(-1)


def _points() -> Array:
    return np.linspace(-_REACH, _REACH, _POINTS, dtype=np.float32)


def _is_gelu(values: Array) -> bool:
    gelu = np.array([x / 2 * (1 + math.erf(x / math.sqrt(2))) for x in _points().tolist()])
    if values.shape != gelu.shape:
        return False
    factor = float(values.astype(np.float64) @ gelu / (gelu @ gelu))
    return factor != 0 and bool(np.abs(values - factor * gelu).max() <= _LIKE * abs(factor))
