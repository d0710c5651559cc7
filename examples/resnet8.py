"""ResNet-8 of MLPerf Tiny (CIFAR-10 shape), float32 with batch norms, seeded weights.

Layers and shapes: mlcommons/tiny, ``benchmark/training/image_classification/keras_model.py``. The weights
are random, yet every layer stays lively: the batch norms carry the statistics that their layer really has
on seeded normal images.

    python -m examples.resnet8 OUT.onnx
"""

import numpy as np
import numpy.typing as npt
import onnx

from examples.command import write_model
from examples.fold import fold_batch_norms
from examples.graph import OPSET, Graph
from examples.numeric import conv2d

Activations = npt.NDArray[np.float32]

STACKS = ((1, 16, 1), (2, 32, 2), (3, 64, 2))
CLASSES = 10
_SAMPLES = 8


class _Network:
    """Builds the graph and, beside it, the activations of a few images: the batch norms' statistics."""

    def __init__(self, seed: int) -> None:
        self.graph = Graph("resnet8")
        self.random = np.random.default_rng(seed)
        self.values: dict[str, Activations] = {}

    def conv(self, name: str, x: str, channels: int, kernel: int, stride: int) -> str:
        """Convolution with bias and TensorFlow's "same" padding, which pads more below and to the right."""
        value = self.values[x]
        fan_in = value.shape[1] * kernel**2
        weight = self._normal((channels, value.shape[1], kernel, kernel), (2 / fan_in) ** 0.5)
        bias = self._normal((channels,), 0.1)
        total = max(kernel - stride, 0)
        pads = (total // 2, total // 2, total - total // 2, total - total // 2)
        inputs = [x, self.graph.constant(f"{name}_weight", weight), self.graph.constant(f"{name}_bias", bias)]
        self.values[name] = conv2d(value, weight, (stride, stride), pads) + bias[:, None, None]
        return self.graph.node(
            "Conv", name, inputs, kernel_shape=[kernel, kernel], strides=[stride, stride], pads=list(pads)
        )

    def batch_norm(self, name: str, x: str) -> str:
        """Batch norm whose mean and variance are those of ``x``."""
        value = self.values[x]
        mean, variance = value.mean((0, 2, 3)), value.var((0, 2, 3))
        gamma = self.random.uniform(0.6, 1.4, mean.shape).astype(np.float32)
        beta = self._normal(mean.shape, 0.2)
        parameters = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
        inputs = [x, *(self.graph.constant(f"{name}_{key}", array) for key, array in parameters.items())]
        factor = gamma / np.sqrt(variance + 1e-3)
        self.values[name] = (value - mean[:, None, None]) * factor[:, None, None] + beta[:, None, None]
        return self.graph.node("BatchNormalization", name, inputs, epsilon=1e-3)

    def relu(self, name: str, x: str) -> str:
        """Rectifier."""
        self.values[name] = np.maximum(self.values[x], 0)
        return self.graph.node("Relu", name, [x])

    def add(self, name: str, a: str, b: str) -> str:
        """Residual sum."""
        self.values[name] = self.values[a] + self.values[b]
        return self.graph.node("Add", name, [a, b])

    def stack(self, index: int, x: str, channels: int, stride: int) -> str:
        """Two convolutions and the shortcut, which is a 1x1 convolution where the shape changes."""
        y = self.conv(f"stack{index}_conv1", x, channels, 3, stride)
        y = self.relu(f"stack{index}_relu1", self.batch_norm(f"stack{index}_norm1", y))
        y = self.conv(f"stack{index}_conv2", y, channels, 3, 1)
        y = self.batch_norm(f"stack{index}_norm2", y)
        shortcut = x if stride == 1 else self.conv(f"stack{index}_shortcut", x, channels, 1, stride)
        return self.relu(f"stack{index}_relu2", self.add(f"stack{index}_add", shortcut, y))

    def classify(self, x: str) -> str:
        """Global average pool, dense layer, softmax."""
        graph = self.graph
        channels = self.values[x].shape[1]
        flat = graph.node("Flatten", "flatten", [graph.node("GlobalAveragePool", "pool", [x])])
        weight = graph.constant("dense_weight", self._normal((CLASSES, channels), (0.5 / channels) ** 0.5))
        bias = graph.constant("dense_bias", self._normal((CLASSES,), 0.1))
        return graph.node("Softmax", "softmax", [graph.node("Gemm", "dense", [flat, weight, bias], transB=1)])

    def _normal(self, shape: tuple[int, ...], deviation: float) -> Activations:
        return (self.random.standard_normal(shape) * deviation).astype(np.float32)


def resnet8(seed: int = 0, *, batch_norm: bool = True, opset: int = OPSET) -> onnx.ModelProto:
    """The model: input ``image`` float32 [1, 3, 32, 32], output ``softmax`` float32 [1, 10].

    Without ``batch_norm`` the batch norms are folded into the convolutions before them.
    """
    network = _Network(seed)
    x = network.graph.input("image", (1, 3, 32, 32))
    network.values[x] = network.random.standard_normal((_SAMPLES, 3, 32, 32)).astype(np.float32)
    x = network.conv("conv1", x, 16, 3, 1)
    x = network.relu("relu1", network.batch_norm("norm1", x))
    for index, channels, stride in STACKS:
        x = network.stack(index, x, channels, stride)
    network.graph.output(network.classify(x), (1, CLASSES))
    model = network.graph.model(opset)
    return model if batch_norm else fold_batch_norms(model)


def main() -> None:
    """Write the model to the file named on the command line."""
    write_model(resnet8, __doc__)


if __name__ == "__main__":
    main()
