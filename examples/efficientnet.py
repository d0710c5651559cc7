"""EfficientNet-B0 for 1000 classes of 224x224 images, float32, seeded weights (see ``weights``).

Tan and Le 2019, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", table 1, exported as
torchvision's; its SiLU is a Sigmoid and a Mul. 0.39 billion multiply-accumulates.

    python -m examples efficientnet_b0 OUT.onnx
"""

import onnx

from examples.exporters import Torch
from examples.graph import OPSET
from examples.layers import Layers

CLASSES = 1000
# expansion, kernel, stride of the first, filters, blocks
_STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


def efficientnet_b0(seed: int = 0, *, batch_norm: bool = False, opset: int = OPSET) -> onnx.ModelProto:
    """The model: input ``input`` float32 [1, 3, 224, 224], output the logits [1, 1000]."""
    layers = Layers("efficientnet_b0", Torch(), opset)
    x = layers.input("input", (1, 3, 224, 224))
    x = _activated(layers, "features.0", layers.conv("features.0.0", x, 32, 3, 2))
    for stage, (expansion, kernel, stride, filters, blocks) in enumerate(_STAGES, 1):
        for block in range(blocks):
            module = f"features.{stage}.{block}"
            x = _inverted_residual(layers, module, x, (expansion, kernel, stride if block == 0 else 1, filters))
    last = f"features.{len(_STAGES) + 1}"
    x = _activated(layers, last, layers.conv(f"{last}.0", x, 1280))
    x = layers.flatten("", layers.global_pool("avgpool", x))
    layers.output(layers.gemm("classifier.1", x, CLASSES))
    return layers.finish(seed, batch_norm=batch_norm)


def _inverted_residual(layers: Layers, module: str, x: str, settings: tuple[int, int, int, int]) -> str:
    """Expand, convolve depthwise, weigh the channels, project; ``settings`` are as those of a stage, of one block."""
    expansion, kernel, stride, filters = settings
    y, place = x, 0
    if expansion > 1:
        y = layers.conv(f"{module}.block.0.0", y, layers.shapes[x][1] * expansion)
        y, place = _activated(layers, f"{module}.block.0", y), 1
    y = layers.depthwise(f"{module}.block.{place}.0", y, stride, kernel)
    y = _activated(layers, f"{module}.block.{place}", y)
    y = _weighed(layers, f"{module}.block.{place + 1}", y, layers.shapes[x][1] // 4)
    step = f"{module}.block.{place + 2}"
    y = layers.batch_norm(f"{step}.1", layers.conv(f"{step}.0", y, filters))
    return layers.add(module, y, x) if layers.shapes[x] == layers.shapes[y] else y


def _weighed(layers: Layers, module: str, x: str, squeezed: int) -> str:
    """Squeeze and excitation: each channel times a factor that the means of all channels give."""
    y = layers.conv(f"{module}.fc1", layers.global_pool(f"{module}.avgpool", x), squeezed, bias=True)
    y = layers.conv(f"{module}.fc2", layers.silu(f"{module}.activation", y), layers.shapes[x][1], bias=True)
    return layers.multiply(module, layers.sigmoid(f"{module}.scale_activation", y), x)


def _activated(layers: Layers, module: str, x: str) -> str:
    """Batch norm and SiLU, the second and third of a sequence whose first is a convolution."""
    return layers.silu(f"{module}.2", layers.batch_norm(f"{module}.1", x))
