"""What a framework's ONNX exporter decides: names, padding, the epsilon of batch norms."""

import itertools
from collections.abc import Iterator
from typing import Protocol

_TORCH_ROLES = {"weight": "weight", "bias": "bias", "mean": "running_mean", "variance": "running_var"}
_KERAS_OPS = {
    "Conv": "Conv2D",
    "Depthwise": "depthwise",
    "BatchNormalization": "FusedBatchNormV3",
    "Clip": "Relu6",
    "AveragePool": "AvgPool",
    "GlobalAveragePool": "Mean",
    "Flatten": "Reshape",
    "Add": "BiasAdd",
}
_KERAS_NORM = {
    "weight": "ReadVariableOp",
    "bias": "ReadVariableOp_1",
    "mean": "FusedBatchNormV3/ReadVariableOp",
    "variance": "FusedBatchNormV3/ReadVariableOp_1",
}


class Exporter(Protocol):
    """A framework as its exporter shows it. ``module`` is a layer's path in the framework's network."""

    epsilon: float

    def node(self, module: str, op: str) -> str:
        """The name of a node."""

    def output(self, node: str, index: int = 0) -> str:
        """The name of a result of the node called ``node``."""

    def parameter(self, module: str, op: str, role: str) -> str:
        """The name of a constant; ``role`` is weight, bias, mean or variance."""

    def pads(self, size: int, kernel: int, stride: int) -> tuple[int, int]:
        """Elements of padding before and after an axis of ``size`` elements."""


class Torch:
    """PyTorch: modules such as ``layer1.0.conv1``; half the kernel is padded on each side."""

    def __init__(self, epsilon: float = 1e-5) -> None:
        self.epsilon = epsilon

    def node(self, module: str, op: str) -> str:
        """A number is the place in a sequence, which goes by its owner's name: ``/layer1/layer1.0/conv1/Conv``."""
        steps: list[str] = []
        for step in filter(None, module.split(".")):
            steps.append(f"{steps[-1]}.{step}" if step.isdigit() else step)
        return "/".join(["", *steps, "Conv" if op == "Depthwise" else op])

    def output(self, node: str, index: int = 0) -> str:
        """As ``torch.onnx`` calls it."""
        return f"{node}_output_{index}"

    def parameter(self, module: str, op: str, role: str) -> str:
        """The key in the state dictionary."""
        del op
        return f"{module}.{_TORCH_ROLES[role]}"

    def pads(self, size: int, kernel: int, stride: int) -> tuple[int, int]:
        """As torchvision's networks have it."""
        del size, stride
        return kernel // 2, kernel // 2


class Keras:
    """Keras by way of tf2onnx, with inputs as NCHW; ``scope`` is the model's name. Padding is "same"."""

    epsilon = 1e-3

    def __init__(self, scope: str) -> None:
        self.scope = scope

    def node(self, module: str, op: str) -> str:
        """As TensorFlow calls the operation."""
        return f"{self.scope}/{module}/{_KERAS_OPS.get(op, op)}"

    def output(self, node: str, index: int = 0) -> str:
        """As TensorFlow calls an operation's results."""
        return f"{node}:{index}"

    def parameter(self, module: str, op: str, role: str) -> str:
        """The operation that reads the variable."""
        if op == "BatchNormalization":
            return f"{self.scope}/{module}/{_KERAS_NORM[role]}:0"
        reader = "BiasAdd" if role == "bias" else _KERAS_OPS.get(op, op)
        return f"{self.scope}/{module}/{reader}/ReadVariableOp:0"

    def pads(self, size: int, kernel: int, stride: int) -> tuple[int, int]:
        """Such that ceil(size / stride) results come out; the odd element goes behind."""
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        return total // 2, total - total // 2


def numbered(name: str) -> Iterator[str]:
    """The names of Keras' layers of a kind, and of PyTorch's uses of a module: name, name_1, name_2, ..."""
    yield name
    for number in itertools.count(1):
        yield f"{name}_{number}"
