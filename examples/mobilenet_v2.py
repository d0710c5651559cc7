"""MobileNet V2 (width 1.0) for 1000 classes of 224x224 images, float32, seeded weights (see ``weights``).

Sandler et al. 2018, "MobileNetV2: Inverted Residuals and Linear Bottlenecks", table 2, exported as torchvision's;
its ReLU6 is Clip. 0.30 billion multiply-accumulates.

    python -m examples mobilenet_v2 OUT.onnx
"""

import onnx

from examples.exporters import Torch
from examples.graph import OPSET
from examples.layers import Layers

CLASSES = 1000
# expansion, filters, blocks, stride of the first
_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v2(seed: int = 0, *, batch_norm: bool = False, opset: int = OPSET) -> onnx.ModelProto:
    """The model: input ``input`` float32 [1, 3, 224, 224], output the logits [1, 1000]."""
    layers = Layers("mobilenet_v2", Torch(), opset)
    x = layers.input("input", (1, 3, 224, 224))
    x = _activated(layers, "features.0", layers.conv("features.0.0", x, 32, 3, 2))
    index = 1
    for expansion, filters, blocks, stride in _STAGES:
        for block in range(blocks):
            x = _inverted_residual(layers, f"features.{index}", x, (expansion, filters, stride if block == 0 else 1))
            index += 1
    x = _activated(layers, f"features.{index}", layers.conv(f"features.{index}.0", x, 1280))
    x = layers.flatten("", layers.global_pool("", x))
    layers.output(layers.gemm("classifier.1", x, CLASSES))
    return layers.finish(seed, batch_norm=batch_norm)


def _inverted_residual(layers: Layers, module: str, x: str, settings: tuple[int, int, int]) -> str:
    """Expand, convolve depthwise, project without activation; ``settings`` are expansion, filters, stride."""
    expansion, filters, stride = settings
    y, place = x, 0
    if expansion > 1:
        y = layers.conv(f"{module}.conv.0.0", y, layers.shapes[x][1] * expansion)
        y, place = _activated(layers, f"{module}.conv.0", y), 1
    y = layers.depthwise(f"{module}.conv.{place}.0", y, stride)
    y = _activated(layers, f"{module}.conv.{place}", y)
    y = layers.conv(f"{module}.conv.{place + 1}", y, filters)
    y = layers.batch_norm(f"{module}.conv.{place + 2}", y)
    return layers.add(module, x, y) if layers.shapes[x] == layers.shapes[y] else y


def _activated(layers: Layers, module: str, x: str) -> str:
    """Batch norm and ReLU6, the second and third of a sequence whose first is a convolution."""
    return layers.relu6(f"{module}.2", layers.batch_norm(f"{module}.1", x))
