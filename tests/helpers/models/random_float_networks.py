"""Random float networks for machines with vector units: layers, functions, reductions and movement between them."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.helpers.models.growing_graph import GrowingGraph

_FUNCTIONS = (
    *("Sigmoid", "Tanh", "Erf", "Relu", "HardSwish", "HardSigmoid", "LeakyRelu", "Elu", "Softplus", "Abs", "Neg"),
    *("Clip", "Floor", "Exp", "Softsign", "Celu", "Mish"),
)
_REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2")
_PAIRS = ("Add", "Mul", "Sub", "Max", "Min", "Div")


class _Network(GrowingGraph):
    """A network that grows operator by operator; ``known`` are the tensors so far with their shapes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        rows, width = self._random.choice([1, 3, 8, 12, 33]), self._random.choice([8, 16, 16, 32, 32, 10, 17, 48])
        self._given = [self._random.choice([1, 1, 2]), rows, width]
        self._known = [("x", self._given)]

    def model(self) -> onnx.ModelProto:
        """The model."""
        for _ in range(self._random.randint(2, 6)):
            self._known.append(self._grown(*self._random.choice(self._known[-2:])))
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, self._given)
        read = {name for node in self._nodes for name in node.input}
        left = [(name, shape) for name, shape in self._known if name not in read and name != "x"]
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in left]
        graph = helper.make_graph(self._nodes, "random", [given], made, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    def _numbers(self, *shape: int) -> str:
        return self._constant(self._draws.uniform(0.3, 1.5, shape).astype(np.float32))

    def _grown(self, value: str, shape: list[int]) -> tuple[str, list[int]]:  # noqa: PLR0911 - one a kind
        kind = self._random.choice(
            ["product", "function", "function", "softmax", "norm", "pair", "constant", "reduction", "moved", "scores"]
        )
        axis = self._random.randrange(1, len(shape))
        match kind:
            case "product":
                wide = self._random.choice([8, 16, 24, 32])
                weight = self._draws.standard_normal((shape[-1], wide)).astype(np.float32) / shape[-1] ** 0.5
                return self._node("MatMul", value, self._constant(weight)), [*shape[:-1], wide]
            case "softmax":
                return self._node("Softmax", value, axis=self._random.choice([-1, -1, axis])), shape
            case "norm":
                return self._node("LayerNormalization", value, self._numbers(shape[-1]), epsilon=1e-3), shape
            case "function":
                return self._function(value), shape
            case "constant":
                wanted = self._random.choice([(), (shape[-1],), (shape[-2], 1), tuple(shape[1:])])
                operands = [value, self._numbers(*wanted)]
                self._random.shuffle(operands)
                op = self._random.choice(_PAIRS if operands[0] == value else _PAIRS[:-1])
                return self._node(op, *operands), shape
            case "pair":
                others = [name for name, other in self._known if other == shape]
                return self._node(self._random.choice(_PAIRS[:-1]), value, self._random.choice(others)), shape
            case "reduction":
                axes = self._constant(np.array([axis], np.int64))
                reduced = self._node(self._random.choice(_REDUCTIONS), value, axes, keepdims=1)
                return self._node(self._random.choice(["Sub", "Mul", "Add"]), value, reduced), shape
            case "scores":
                turned = self._node("Transpose", value, perm=[0, 2, 1])
                return self._node("MatMul", value, turned), [*shape[:-1], shape[-2]]
        return self._moved(value, shape)

    def _function(self, value: str) -> str:
        kind = self._random.choice([*_FUNCTIONS, "gelu", "silu", "scaled"])
        if kind == "gelu":
            erf = self._node("Erf", self._node("Mul", value, self._constant(np.float32(2**-0.5))))
            whole = self._node("Add", erf, self._constant(np.float32(1)))
            return self._node("Mul", self._node("Mul", value, whole), self._constant(np.float32(0.5)))
        if kind == "silu":
            return self._node("Mul", value, self._node("Sigmoid", value))
        if kind == "scaled":
            shifted = self._node("Sub", value, self._constant(np.float32(self._random.uniform(-1, 1))))
            return self._node("Div", shifted, self._constant(np.float32(self._random.uniform(0.5, 3))))
        if kind == "Clip":
            bounds = sorted(self._random.uniform(-1, 2) for _ in range(2))
            return self._node("Clip", value, *(self._constant(np.float32(bound)) for bound in bounds))
        return self._node(kind, value)

    def _moved(self, value: str, shape: list[int]) -> tuple[str, list[int]]:
        axis = self._random.randrange(1, len(shape))
        kind = self._random.choice(["Transpose", "Slice", "Concat"])
        if kind == "Transpose":
            return self._node("Transpose", value, perm=[0, 2, 1]), [shape[0], shape[2], shape[1]]
        if kind == "Slice":
            first = self._random.randrange(-(-shape[axis] // 2))
            bounds = (self._constant(np.array([each])) for each in (first, shape[axis], axis))
            return self._node("Slice", value, *bounds), [*shape[:axis], shape[axis] - first, *shape[axis + 1 :]]
        other = self._node("Tanh", value)
        return self._node("Concat", value, other, axis=axis), [*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]]


def random_float_network(seed: int) -> onnx.ModelProto:
    """Returns a network of a few operators; equal seeds give equal networks."""
    return _Network(seed).model()
