"""Recurrent layers as exporters write them: one node, weights of all gates together, optional inputs left out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
OUTPUTS = ("Y", "Y_h", "Y_c")


def recurrent_model(
    op: str,
    *,
    steps: int = 5,
    batch: int = 2,
    inputs: int = 3,
    hidden: int = 4,
    direction: str = "forward",
    bias: bool = True,
    states: bool = False,
    lengths: Sequence[int] | None = None,
    peepholes: bool = False,
    opset: int = 17,
    spread: float = 0.5,
    layout: int = 0,
    **attributes: Any,
) -> onnx.ModelProto:
    """Returns a model of one layer called ``cell`` with all outputs, of drawn weights."""
    drawn = np.random.default_rng(0)
    directions, gates = 2 if direction == "bidirectional" else 1, GATES[op]
    shapes = {"W": (gates * hidden, inputs), "R": (gates * hidden, hidden)}
    shapes |= {"B": (2 * gates * hidden,)} if bias else {}
    shapes |= {"P": (3 * hidden,)} if peepholes else {}
    constants = {name: drawn.normal(size=(directions, *shape)) * spread for name, shape in shapes.items()}
    tensors = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()]
    if lengths is not None:
        tensors.append(numpy_helper.from_array(np.array(lengths, np.int32), "lengths"))
    state = [batch, directions, hidden] if layout else [directions, batch, hidden]
    given = {"X": [batch, steps, inputs] if layout else [steps, batch, inputs]}
    given |= {"h0": state} if states else {}
    given |= {"c0": state} if states and op == "LSTM" else {}
    names = ["X", "W", "R", "B" * bias, "lengths" * (lengths is not None), "h0" * states]
    names += ["c0" * states, "P" * peepholes] if op == "LSTM" else []
    while not names[-1]:
        names.pop()
    outputs = OUTPUTS[: 3 if op == "LSTM" else 2]
    attributes |= {"layout": 1} if layout else {}
    node = helper.make_node(op, names, outputs, name="cell", hidden_size=hidden, direction=direction, **attributes)
    sequences = [batch, steps, directions, hidden] if layout else [steps, directions, batch, hidden]
    graph = helper.make_graph(
        [node],
        "recurrent",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in given.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, sequences if n == "Y" else state) for n in outputs],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
