"""One step of an LSTM, a GRU or an RNN, as ONNX states it: https://onnx.ai/onnx/operators/onnx__LSTM.html."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from accel.errors import InvalidModel, UnsupportedOperator
from accel.frontend.legalize.qdq_writer import QdqWriter
from accel.util.arrays import Array


@dataclass(frozen=True)
class Activation:
    """An activation function: its name in lower case, and its parameters."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


DEFAULTS: Mapping[str, Sequence[str]] = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}
"""The activations of each operator, of gates first."""

# the parameters of each activation that has any, with the values that they have if none are given; None where
# onnxruntime takes 0, which makes the function nothing, and ONNX says nothing or another value
_PARAMETERS: Mapping[str, Mapping[str, float | None]] = {
    "affine": {"alpha": None, "beta": None},
    "elu": {"alpha": 1.0},
    "hardsigmoid": {"alpha": 0.2, "beta": 0.5},
    "leakyrelu": {"alpha": 0.01},
    "scaledtanh": {"alpha": None, "beta": None},
    "thresholdedrelu": {"alpha": None},
}
_OPERATORS = {
    "elu": "Elu",
    "hardsigmoid": "HardSigmoid",
    "leakyrelu": "LeakyRelu",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "tanh": "Tanh",
    "thresholdedrelu": "ThresholdedRelu",
}
_COMPOSED = ("affine", "scaledtanh")


def activations_of(node: onnx.NodeProto, default: Sequence[str], directions: int) -> list[list[Activation]]:
    """Returns the activations of each direction.

    ``activation_alpha`` and ``activation_beta`` go, in order, to those functions that have such a parameter.

    Raises:
        InvalidModel: there are not as many as the operator has.
        UnsupportedOperator: ONNX names no such function.
    """
    field = f"node:{node.name}"
    attributes = {attribute.name: attribute for attribute in node.attribute}
    given = (
        [bytes(text).decode(errors="replace") for text in attributes["activations"].strings]
        if ("activations" in attributes)
        else [*default] * directions
    )
    if len(given) != len(default) * directions:
        raise InvalidModel(
            f"{node.op_type} has {len(given)} activations; {len(default)} for each direction were expected", field=field
        )
    left = {
        name: list(attributes[f"activation_{name}"].floats) if f"activation_{name}" in attributes else []
        for name in ("alpha", "beta")
    }
    found = []
    for name in given:
        key = name.lower()
        if key not in _OPERATORS and key not in _COMPOSED:
            known = ", ".join(sorted((*_OPERATORS.values(), "Affine", "ScaledTanh")))
            raise UnsupportedOperator(
                f"{node.op_type} has the activation {name!r:.100}; those of ONNX were expected: {known}", field=field
            )
        parameters: dict[str, float] = {}
        for parameter, value in _PARAMETERS.get(key, {}).items():
            number = left[parameter].pop(0) if left[parameter] else value
            if number is None:
                raise InvalidModel(
                    f"{node.op_type} has the activation {name}, and no activation_{parameter} for it; it has no "
                    "default that runtimes agree on: state it",
                    field=field,
                )
            parameters[parameter] = float(number)
        found.append(Activation(key, **parameters))
    return [found[at : at + len(default)] for at in range(0, len(found), len(default))]


@dataclass(frozen=True)
class Cell:
    """An operator: the number of its gates, and what writes a step of it."""

    gates: int
    step: Callable[["CellWriter", str, Sequence[str], str], list[str]]


class CellWriter:
    """The writer of the steps of one direction; tensors of a step are [1, batch, gates * hidden] or parts of that."""

    def __init__(
        self, writer: QdqWriter, node: onnx.NodeProto, cell: Cell, functions: Sequence[Activation], hidden: int
    ) -> None:
        self.writer, self.node, self.cell, self.hidden = writer, node, cell, hidden
        self.functions = functions
        self.clip = float(writer.attribute(node, "clip", 0.0))
        self.coupled = bool(writer.attribute(node, "input_forget", 0)) and node.op_type == "LSTM"
        self.late_reset = bool(writer.attribute(node, "linear_before_reset", 0)) and node.op_type == "GRU"
        self.peepholes: list[str] = []
        self._suffix, self._one, self._bounds = "", "", list[str]()
        self.recurrent, self.recurrent_parts = "", list[str]()
        self._input_bias = self.state_bias = ""

    def begin(self, recurrent: str, bias: Array | None, peephole: Array | None, suffix: str) -> None:
        """Take the constants of the direction, whose names end with ``suffix``."""
        writer, hidden, size = self.writer, self.hidden, self.cell.gates * self.hidden
        self._suffix, self.recurrent = suffix, recurrent
        if peephole is not None and peephole.any():
            parts = np.split(peephole.reshape(1, 1, -1), 3, axis=2)
            self.peepholes = [self.constant(f"peephole{index}", part) for index, part in enumerate(parts)]
        if self.node.op_type == "GRU" and not self.late_reset:
            self.recurrent_parts = writer.columns(self.node, recurrent, [2 * hidden, hidden])
        if bias is None or not bias.any():
            return
        to_input, to_state = bias[:size].copy(), bias[size:].copy()
        late = 2 * hidden if self.late_reset else size  # from there on the state's bias is not simply added
        to_input[:late] += to_state[:late]
        to_state[:late] = 0
        self._input_bias = self.constant("bias", to_input)
        if to_state.any():
            self.state_bias = self.constant("state_bias", to_state)

    def project(self, data: str, weights: str) -> str:
        """Returns the product of all steps' data with the weights, and the bias."""
        product = self.emit("MatMul", f"x{self._suffix}", [data, weights])
        return self.emit("Add", f"x{self._suffix}_bias", [product, self._input_bias]) if self._input_bias else product

    def step(self, data: str, states: Sequence[str], suffix: str) -> list[str]:
        """Returns the states after a step."""
        return self.cell.step(self, data, states, suffix)

    def emit(self, op: str, suffix: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Adds a node; returns its output."""
        return self.writer.emit(self.node, op, suffix, inputs, **attributes)

    def constant(self, name: str, value: Array) -> str:
        """Adds a constant."""
        return self.writer.constant(f"{self.node.name}_{name}{self._suffix}", value.astype(np.float32))

    def split(self, tensor: str, suffix: str, sizes: Sequence[int]) -> list[str]:
        """Returns the parts of ``tensor`` along its last axis."""
        return self.writer.split(self.node, suffix, tensor, sizes, axis=2)

    def activate(self, index: int, tensor: str, suffix: str, *, clipped: bool = True) -> str:
        """Returns the activation of a tensor, clipped before as the node says."""
        function = self.functions[index]
        if self.clip and clipped:
            if not self._bounds:
                bounds = (-self.clip, self.clip)
                self._bounds = [self.writer.constant("bound", np.float32(bound)) for bound in bounds]
            tensor = self.emit("Clip", f"{suffix}_clip", [tensor, *self._bounds])
        if function.name in _OPERATORS:
            parameters = {name: getattr(function, name) for name in _PARAMETERS.get(function.name, ())}
            return self.emit(_OPERATORS[function.name], suffix, [tensor], **parameters)
        alpha, beta = (self.constant(name, np.asarray(getattr(function, name))) for name in ("alpha", "beta"))
        if function.name == "affine":
            return self.emit("Add", suffix, [self.emit("Mul", f"{suffix}_scaled", [tensor, alpha]), beta])
        inner = self.emit("Mul", f"{suffix}_scaled", [tensor, beta])
        return self.emit("Mul", suffix, [self.emit("Tanh", f"{suffix}_tanh", [inner]), alpha])

    def without(self, tensor: str, suffix: str) -> str:
        """Returns one less ``tensor``."""
        self._one = self._one or self.writer.constant("one", np.float32(1))
        return self.emit("Sub", suffix, [self._one, tensor])


def _lstm(cell: CellWriter, data: str, states: Sequence[str], at: str) -> list[str]:
    """The gates lie in the order input, output, forget, cell."""
    hidden, size = states[0], cell.hidden
    previous = states[1]
    sums = cell.emit("Add", f"gates_{at}", [data, cell.emit("MatMul", f"h_{at}", [hidden, cell.recurrent])])
    peepholes = cell.peepholes
    if peepholes:
        i, o, f, c = cell.split(sums, f"parts_{at}", [size] * 4)
        i, f = (
            cell.emit("Add", f"{name}_{at}_seen", [gate, cell.emit("Mul", f"{name}_{at}_seen_c", [previous, weight])])
            for name, gate, weight in (("i", i, peepholes[0]), ("f", f, peepholes[2]))
        )
        i, f = (cell.activate(0, gate, f"{name}_{at}") for name, gate in (("i", i), ("f", f)))
    else:
        gates, c = cell.split(sums, f"parts_{at}", [3 * size, size])
        i, o, f = cell.split(cell.activate(0, gates, f"sigmoid_{at}"), f"gates_{at}_parts", [size] * 3)
    if cell.coupled:
        f = cell.without(i, f"f_{at}_coupled")
    c = cell.activate(1, c, f"cell_{at}")
    kept = cell.emit("Mul", f"kept_{at}", [f, previous])
    state = cell.emit("Add", f"c_{at}", [kept, cell.emit("Mul", f"new_{at}", [i, c])])
    if peepholes:
        seen = cell.emit("Mul", f"o_{at}_seen_c", [state, peepholes[1]])
        o = cell.activate(0, cell.emit("Add", f"o_{at}_seen", [o, seen]), f"o_{at}")
    shown = cell.activate(2, state, f"shown_{at}", clipped=False)
    return [cell.emit("Mul", f"y_{at}", [o, shown]), state]


def _gru(cell: CellWriter, data: str, states: Sequence[str], at: str) -> list[str]:
    """The gates lie in the order update, reset, hidden."""
    hidden, size = states[0], cell.hidden
    gates_x, new_x = cell.split(data, f"parts_{at}", [2 * size, size])
    if cell.late_reset:
        product = cell.emit("MatMul", f"h_{at}", [hidden, cell.recurrent])
        if cell.state_bias:
            product = cell.emit("Add", f"h_{at}_bias", [product, cell.state_bias])
        gates_h, new_h = cell.split(product, f"h_{at}_parts", [2 * size, size])
    else:
        gates_h, new_h = cell.emit("MatMul", f"h_{at}", [hidden, cell.recurrent_parts[0]]), ""
    gates = cell.activate(0, cell.emit("Add", f"gates_{at}", [gates_x, gates_h]), f"sigmoid_{at}")
    update, reset = cell.split(gates, f"gates_{at}_parts", [size, size])
    if cell.late_reset:
        new_h = cell.emit("Mul", f"reset_{at}", [reset, new_h])
    else:
        held = cell.emit("Mul", f"reset_{at}", [reset, hidden])
        new_h = cell.emit("MatMul", f"new_{at}", [held, cell.recurrent_parts[1]])
    new = cell.activate(1, cell.emit("Add", f"new_{at}_sum", [new_x, new_h]), f"new_{at}_hidden")
    kept = cell.emit("Mul", f"kept_{at}", [update, cell.emit("Sub", f"change_{at}", [hidden, new])])
    return [cell.emit("Add", f"y_{at}", [new, kept])]


def _rnn(cell: CellWriter, data: str, states: Sequence[str], at: str) -> list[str]:
    product = cell.emit("MatMul", f"h_{at}", [states[0], cell.recurrent])
    return [cell.activate(0, cell.emit("Add", f"sum_{at}", [data, product]), f"y_{at}")]


CELLS: Mapping[str, Cell] = {"LSTM": Cell(4, _lstm), "GRU": Cell(3, _gru), "RNN": Cell(1, _rnn)}
RECURRENT = tuple(CELLS)
"""The names of the operators."""
