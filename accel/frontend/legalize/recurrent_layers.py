"""Recurrent layers, LSTM, GRU and RNN, as the operators that they consist of, one step after the other.

All steps' products with the input are one MatMul, whose pieces the steps take; each step has one with its state. So the
calibration sees the tensors of both, and they are quantised as any dense layer is. What a step does beside them
(``recurrent_cells.py``) stays in float. Every node made says that it computes a part of the layer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import onnx
from onnx import helper

from accel.errors import InvalidModel, UnsupportedOperator, UnsupportedShape
from accel.frontend.legalize.qdq_writer import QdqWriter
from accel.frontend.legalize.recurrent_cells import CELLS, DEFAULTS, RECURRENT, CellWriter, activations_of
from accel.frontend.onnx_model.external_data import array_of, with_embedded_data
from accel.frontend.onnx_model.model_limits import LIMITS, ModelLimits
from accel.frontend.onnx_model.ort_session import session
from accel.util.arrays import Array

_DIRECTIONS = {b"forward": (False,), b"reverse": (True,), b"bidirectional": (False, True)}
_INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
_CONSTANTS = {"W": 1, "R": 2, "B": 3, "sequence_lens": 4, "P": 7}


def with_layers_unrolled(model: onnx.ModelProto, limits: ModelLimits = LIMITS) -> onnx.ModelProto:
    """Returns ``model`` itself if it has no recurrent layer, else a copy with the steps of each in its place.

    Shapes must be static, opset 13 or later, and nodes must have unique names.

    Raises:
        InvalidModel: a shape or attribute that the operator cannot have; ``field`` is ``node:<name>``.
        UnsupportedOperator: weights or sequence lengths that are not constant, or an unknown activation.
        UnsupportedShape: more steps than ``limits`` allow, or more nodes than they do once all are unrolled.
    """
    layers = [node for node in model.graph.node if node.op_type in RECURRENT]
    if not layers:
        return model
    writer = QdqWriter(model)
    values = _constants(model, layers)
    written = len(model.graph.node)
    for node in model.graph.node:
        if node.op_type not in RECURRENT:
            writer.keep(node)
            continue
        layer = _Layer.of(writer, node, values)
        steps = layer.steps * len(layer.directions)
        if steps > limits.steps:
            raise UnsupportedShape(
                f"{node.op_type} takes {steps} steps, each direction by itself, which are unrolled; the limit is "
                f"{limits.steps}: run it on shorter sequences",
                field=f"node:{node.name}",
            )
        before = writer.count
        layer.write()
        written += writer.count - before
        if written > limits.nodes:
            raise UnsupportedShape(
                f"{node.op_type} of {layer.steps} steps brings the graph to {written} nodes; the limit is "
                f"{limits.nodes}: run it on shorter sequences",
                field=f"node:{node.name}",
            )
    return writer.model()


def _constants(model: onnx.ModelProto, layers: Sequence[onnx.NodeProto]) -> dict[str, Array]:
    """The values of the layers' constants by name, those included that nodes make of constants alone."""
    wanted = {node.input[at] for node in layers for at in _CONSTANTS.values() if at < len(node.input)} - {""}
    values = {tensor.name: array_of(tensor) for tensor in model.graph.initializer if tensor.name in wanted}
    fixed, nodes = {tensor.name for tensor in model.graph.initializer}, []
    for node in model.graph.node:
        if all(name in fixed or not name for name in node.input):
            fixed.update(node.output)
            nodes.append(node)
    computed = sorted((wanted & fixed) - set(values))
    if computed:
        values |= zip(computed, _computed(model, nodes, computed), strict=True)
    return values


def _computed(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], names: Sequence[str]) -> list[Array]:
    """What ``nodes``, which read constants alone, make."""
    needed, kept = set(names), []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            needed.update(node.input)
            kept.append(node)
    graph = helper.make_graph(
        kept[::-1],
        "constants",
        [],
        [onnx.ValueInfoProto(name=name) for name in names],
        [tensor for tensor in model.graph.initializer if tensor.name in needed],
    )
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        return list(session(with_embedded_data(alone)).run(list(names), {}))
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise InvalidModel(f"onnxruntime cannot compute {names[0]!r}: {error}", field="model") from error


@dataclass(frozen=True)
class _Layer:
    """A recurrent layer, checked. ``sizes`` are batch, inputs and hidden; ``lengths`` is [batch], or None."""

    writer: QdqWriter
    node: onnx.NodeProto
    values: dict[str, Array]
    steps: int
    sizes: tuple[int, int, int]
    directions: tuple[bool, ...]
    lengths: Array | None
    batch_first: bool

    @classmethod
    def of(cls, writer: QdqWriter, node: onnx.NodeProto, values: dict[str, Array]) -> "_Layer":
        """Returns the layer that ``node`` is.

        Raises:
            InvalidModel, UnsupportedOperator: as :func:`with_layers_unrolled`.
        """
        direction = _text(node, "direction", b"forward")
        batch_first = bool(writer.attribute(node, "layout", 0))
        shape = writer.shape_of(writer.operand(node, 0))
        if direction not in _DIRECTIONS:
            raise _invalid(node, f"the direction {direction.decode(errors='replace')!r} is none of ONNX's")
        if shape is None or len(shape) != 3:
            raise _invalid(node, f"X has the shape {shape}; three axes were expected")
        steps, batch = (shape[1], shape[0]) if batch_first else shape[:2]
        recurrent = writer.shape_of(writer.operand(node, 2)) or ()
        hidden = int(recurrent[-1]) if recurrent else 0
        layer = cls(writer, node, values, steps, (batch, shape[2], hidden), _DIRECTIONS[direction], None, batch_first)
        layer._check_shapes()
        lengths = layer.constant("sequence_lens")
        if lengths is None:
            return layer
        if lengths.shape != (batch,) or lengths.min() < 1 or lengths.max() > steps:
            raise _invalid(node, f"its sequence lengths are {lengths.ravel()[:8].tolist()}; 1 to {steps} were expected")
        if (lengths == steps).all():
            return layer
        return replace(layer, lengths=lengths)

    def _check_shapes(self) -> None:
        """Refuse what does not fit each other: onnx checks only ranks."""
        batch, inputs, hidden = self.sizes
        count, gates = len(self.directions), CELLS[self.node.op_type].gates
        state = (batch, count, hidden) if self.batch_first else (count, batch, hidden)
        wanted = {
            "W": (count, gates * hidden, inputs),
            "R": (count, gates * hidden, hidden),
            "B": (count, 2 * gates * hidden),
            "initial_h": state,
            "initial_c": state,
            "P": (count, 3 * hidden),
        }
        stated = self.writer.attribute(self.node, "hidden_size", hidden)
        if stated != hidden:
            raise _invalid(self.node, f"hidden_size is {stated}, and R has {hidden} columns")
        for name, shape in wanted.items():
            given = self.input(name)
            found = self.writer.shape_of(given) if given else shape
            if found != shape:
                raise _invalid(self.node, f"{name} has the shape {found}; {shape} was expected")

    def input(self, name: str) -> str:
        """Returns the tensor of an input; empty if there is none."""
        return self.writer.optional(self.node, _INPUTS.index(name))

    def constant(self, name: str) -> Array | None:
        """Returns the value of an optional input that must be constant.

        Raises:
            UnsupportedOperator: it is not.
        """
        given = self.input(name)
        if given and given not in self.values:
            raise UnsupportedOperator(
                f"{self.node.op_type}: its {name} is computed from the model's inputs; a constant was expected: "
                "its steps are laid out before the program runs",
                field=f"node:{self.node.name}",
            )
        return self.values[given] if given else None

    def write(self) -> None:
        """Write all steps of all directions, and the outputs that are asked for."""
        cell, data = CELLS[self.node.op_type], self.input("X")
        wanted = [self.node.output[at] if at < len(self.node.output) else "" for at in range(3)]
        if self.batch_first:
            data = self.writer.emit(self.node, "Transpose", "x", [data], perm=[1, 0, 2])
        functions = activations_of(self.node, DEFAULTS[self.node.op_type], len(self.directions))
        runs = [
            self._direction(index, data, CellWriter(self.writer, self.node, cell, functions[index], self.sizes[2]))
            for index in range(len(self.directions))
        ]
        if wanted[0]:
            self._sequences([run[0] for run in runs], wanted[0])
        for name, states in zip(wanted[1:], zip(*(run[1] for run in runs), strict=True), strict=False):
            if name:
                self._state(list(states), name)

    def _direction(self, index: int, data: str, cell: CellWriter) -> tuple[list[str], list[str]]:
        """The result of each step, [1, batch, hidden], and the last states."""
        reverse, suffix = self.directions[index], f"{index}" if len(self.directions) > 1 else ""
        bias, peephole = self.constant("B"), self.constant("P")
        cell.begin(
            self._weights("R", index),
            None if bias is None else bias[index],
            None if peephole is None else peephole[index],
            suffix,
        )
        product = cell.project(data, self._weights("W", index))
        pieces = self.writer.split(self.node, f"x_steps{suffix}", product, [1] * self.steps, axis=0)
        states = list(self._initial(index, 2 if self.node.op_type == "LSTM" else 1))
        results = [""] * self.steps
        for at in reversed(range(self.steps)) if reverse else range(self.steps):
            new = cell.step(pieces[at], states, f"{suffix}_{at}".strip("_"))
            within = None if self.lengths is None else self.lengths > at
            results[at] = new[0]
            if within is not None and not within.all():
                mask = self.writer.constant("within", within.reshape(1, -1, 1))
                results[at] = self._where(mask, new[0], self._zeros)
                new = [self._where(mask, one, other) for one, other in zip(new, states, strict=True)]
            states = new
        return results, states

    def _where(self, mask: str, one: str, other: str) -> str:
        return self.writer.emit(self.node, "Where", "masked", [mask, one, other])

    @cached_property
    def _zeros(self) -> str:
        return self.writer.constant("zeros", np.zeros((1, self.sizes[0], self.sizes[2]), np.float32))

    def _weights(self, name: str, index: int) -> str:
        """The weights of one direction as a matrix [inputs, gates * hidden], dequantised if the model's are."""
        given = self.input(name)
        self.constant(name)
        source = self.writer.producers.get(given)
        if source is not None and source.op_type == "DequantizeLinear":
            quantised = self.writer.dequantized_matrix(self.node, source, index)
            if quantised:
                return quantised
        matrix = np.ascontiguousarray(self.values[given][index].T)
        return self.writer.constant(f"{self.node.name}_{name}_{index}", matrix)

    def _initial(self, index: int, count: int) -> Iterator[str]:
        """The states before the first step, [1, batch, hidden]."""
        for name in ("initial_h", "initial_c")[:count]:
            given = self.input(name)
            if not given:
                yield self._zeros
                continue
            if self.batch_first:
                given = self.writer.emit(self.node, "Transpose", name, [given], perm=[1, 0, 2])
            directions = len(self.directions)
            parts = self.writer.split(self.node, name, given, [1] * directions, 0) if directions > 1 else [given]
            yield parts[index]

    def _sequences(self, results: Sequence[list[str]], name: str) -> None:
        """Y: [steps, directions, batch, hidden], or [batch, steps, directions, hidden]."""
        writer, node = self.writer, self.node
        axis = writer.constant("axis", np.array([1], np.int64))
        found = []
        for each in results:
            lines = writer.emit(node, "Concat", "steps", each, axis=0) if len(each) > 1 else each[0]
            found.append(writer.emit(node, "Unsqueeze", "directions", [lines, axis]))
        self._joined(found, name, axis=1, perm=[2, 0, 1, 3])

    def _state(self, states: Sequence[str], name: str) -> None:
        """Y_h or Y_c: [directions, batch, hidden], or [batch, directions, hidden]."""
        self._joined(states, name, axis=0, perm=[1, 0, 2])

    def _joined(self, parts: Sequence[str], name: str, axis: int, perm: Sequence[int]) -> None:
        last = "" if self.batch_first else name
        whole = parts[0]
        if len(parts) > 1:
            whole = self.writer.emit(self.node, "Concat", "joined", parts, last, axis=axis)
        elif last:
            self.writer.emit(self.node, "Identity", "result", parts, last)
        if self.batch_first:
            self.writer.emit(self.node, "Transpose", "batches", [whole], name, perm=list(perm))


def _text(node: onnx.NodeProto, name: str, default: bytes) -> bytes:
    found = next((attribute for attribute in node.attribute if attribute.name == name), None)
    return default if found is None else bytes(found.s)


def _invalid(node: onnx.NodeProto, told: str) -> InvalidModel:
    return InvalidModel(f"{node.op_type}: {told}", field=f"node:{node.name}")
