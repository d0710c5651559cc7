"""ResNet-18, -34 and -50 for 1000 classes of 224x224 images, float32, seeded weights (see ``weights``).

He et al. 2015, "Deep Residual Learning for Image Recognition", table 1; ResNet-50 as torchvision has it ("v1.5"),
with the stride in the 3x3 convolution. Multiply-accumulates: 1.81, 3.66 and 4.09 billion.

    python -m examples resnet18 OUT.onnx
"""

from collections.abc import Callable

import onnx

from examples.exporters import Torch, numbered
from examples.graph import OPSET
from examples.layers import Layers

CLASSES = 1000
_WIDTHS = (64, 128, 256, 512)

Conv = tuple[int, int, int]  # filters, kernel, stride


def resnet18(seed: int = 0, *, batch_norm: bool = False, opset: int = OPSET) -> onnx.ModelProto:
    """ResNet-18: input ``input`` float32 [1, 3, 224, 224], output the logits [1, 1000]."""
    return _resnet("resnet18", (2, 2, 2, 2), _basic, opset).finish(seed, batch_norm=batch_norm)


def resnet34(seed: int = 0, *, batch_norm: bool = False, opset: int = OPSET) -> onnx.ModelProto:
    """ResNet-34: input ``input`` float32 [1, 3, 224, 224], output the logits [1, 1000]."""
    return _resnet("resnet34", (3, 4, 6, 3), _basic, opset).finish(seed, batch_norm=batch_norm)


def resnet50(seed: int = 0, *, batch_norm: bool = False, opset: int = OPSET) -> onnx.ModelProto:
    """ResNet-50: input ``input`` float32 [1, 3, 224, 224], output the logits [1, 1000]."""
    return _resnet("resnet50", (3, 4, 6, 3), _bottleneck, opset).finish(seed, batch_norm=batch_norm)


def _basic(width: int, stride: int) -> list[Conv]:
    return [(width, 3, stride), (width, 3, 1)]


def _bottleneck(width: int, stride: int) -> list[Conv]:
    return [(width, 1, 1), (width, 3, stride), (width * 4, 1, 1)]


def _resnet(name: str, depths: tuple[int, ...], branch: Callable[[int, int], list[Conv]], opset: int) -> Layers:
    layers = Layers(name, Torch(), opset)
    x = layers.conv("conv1", layers.input("input", (1, 3, 224, 224)), 64, 7, 2)
    x = layers.max_pool("maxpool", layers.relu("relu", layers.batch_norm("bn1", x)), 3, 2)
    for stage, (depth, width) in enumerate(zip(depths, _WIDTHS, strict=True), 1):
        for index in range(depth):
            x = _block(layers, f"layer{stage}.{index}", x, branch(width, 2 if stage > 1 and index == 0 else 1))
    x = layers.flatten("", layers.global_pool("avgpool", x))
    layers.output(layers.gemm("fc", x, CLASSES))
    return layers


def _block(layers: Layers, module: str, x: str, convs: list[Conv]) -> str:
    """The convolutions and their shortcut, which is a 1x1 convolution where the shape changes."""
    y, relus = x, numbered(f"{module}.relu")
    for number, (filters, kernel, stride) in enumerate(convs, 1):
        y = y if number == 1 else layers.relu(next(relus), y)
        y = layers.batch_norm(f"{module}.bn{number}", layers.conv(f"{module}.conv{number}", y, filters, kernel, stride))
    if layers.shapes[x] != layers.shapes[y]:
        stride = layers.shapes[x][2] // layers.shapes[y][2]
        x = layers.conv(f"{module}.downsample.0", x, layers.shapes[y][1], 1, stride)
        x = layers.batch_norm(f"{module}.downsample.1", x)
    return layers.relu(next(relus), layers.add(module, y, x))
