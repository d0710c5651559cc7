"""An ONNX graph that a random model grows, node by node."""

import random

import numpy as np
import onnx
from onnx import helper, numpy_helper


class GrowingGraph:
    """Nodes and constants so far, and what chooses and draws the next ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._draws = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def _node(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, list(inputs), [name], name=f"{op}_{name}", **attributes))
        return name

    def _constant(self, value: object) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name
