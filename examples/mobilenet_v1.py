"""MobileNet V1, float32, seeded weights (see ``weights``): for ImageNet, and for the visual wake words of MLPerf Tiny.

Howard et al. 2017, "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications", table 1.
With width 1.0, 224x224 and 1000 classes as Keras has it, with ReLU6 and a 1x1 convolution as the classifier: 0.57
billion multiply-accumulates. With width 0.25, 96x96 and 2 classes as mlcommons/tiny has it,
``benchmark/training/visual_wake_words/vww_model.py``, with biases, ReLU and a dense layer: 7.5 million.

    python -m examples visual_wake_words OUT.onnx
"""

import onnx

from examples.exporters import Keras
from examples.graph import OPSET
from examples.layers import Layers

# filters at width 1.0, stride
_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))


def mobilenet_v1(seed: int = 0, *, batch_norm: bool = False, opset: int = OPSET) -> onnx.ModelProto:
    """Width 1.0: input ``input_1`` float32 [1, 3, 224, 224], output the probabilities [1, 1000]."""
    layers = Layers("mobilenet_1.00_224", Keras("mobilenet_1.00_224"), opset)
    x = _features(layers, layers.input("input_1", (1, 3, 224, 224)), 1.0, six=True, bias=False)
    x = layers.global_pool("global_average_pooling2d", x)
    x = layers.flatten("reshape_2", layers.conv("conv_preds", x, 1000, bias=True))
    layers.output(layers.softmax("predictions", x))
    return layers.finish(seed, batch_norm=batch_norm)


def visual_wake_words(seed: int = 0, *, batch_norm: bool = False, opset: int = OPSET) -> onnx.ModelProto:
    """Width 0.25: input ``input_1`` float32 [1, 3, 96, 96], output the probabilities [1, 2]."""
    layers = Layers("visual_wake_words", Keras("mobilenet_0.25_96"), opset)
    x = _features(layers, layers.input("input_1", (1, 3, 96, 96)), 0.25, six=False, bias=True)
    x = layers.flatten("flatten", layers.average_pool("average_pooling2d", x, (3, 3)))
    layers.output(layers.softmax("dense", layers.dense("dense", x, 2)))
    return layers.finish(seed, batch_norm=batch_norm)


def _features(layers: Layers, x: str, width: float, *, six: bool, bias: bool) -> str:
    """Everything before the classifier; ``six`` where the activation is ReLU6, ``bias`` where convolutions have one."""

    def activated(module: str, y: str) -> str:
        y = layers.batch_norm(f"{module}_bn", y)
        return layers.relu6(f"{module}_relu", y) if six else layers.relu(f"{module}_relu", y)

    x = activated("conv1", layers.conv("conv1", x, round(32 * width), 3, 2, bias=bias))
    for index, (filters, stride) in enumerate(_BLOCKS, 1):
        depthwise, pointwise = f"conv_dw_{index}", f"conv_pw_{index}"
        x = activated(depthwise, layers.depthwise(depthwise, x, stride, bias=bias))
        x = activated(pointwise, layers.conv(pointwise, x, round(filters * width), bias=bias))
    return x
