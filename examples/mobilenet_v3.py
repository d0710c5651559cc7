"""MobileNet V3 (large) for 1000 classes of 224x224 images, float32, seeded weights (see ``weights``).

Howard et al. 2019, "Searching for MobileNetV3", table 1, exported as torchvision's. Its squeeze-and-excitation blocks
scale channels by a HardSigmoid, and its deeper half has HardSwish. 0.22 billion multiply-accumulates.

    python -m examples mobilenet_v3 OUT.onnx
"""

from dataclasses import dataclass

import onnx

from examples.exporters import Torch
from examples.graph import OPSET
from examples.layers import Layers

CLASSES = 1000


@dataclass(frozen=True)
class _Block:
    kernel: int
    expanded: int
    filters: int
    stride: int = 1
    squeezes: bool = False
    hard_swish: bool = False


_BLOCKS = (
    _Block(3, 16, 16),
    _Block(3, 64, 24, stride=2),
    _Block(3, 72, 24),
    _Block(5, 72, 40, stride=2, squeezes=True),
    _Block(5, 120, 40, squeezes=True),
    _Block(5, 120, 40, squeezes=True),
    _Block(3, 240, 80, stride=2, hard_swish=True),
    _Block(3, 200, 80, hard_swish=True),
    _Block(3, 184, 80, hard_swish=True),
    _Block(3, 184, 80, hard_swish=True),
    _Block(3, 480, 112, squeezes=True, hard_swish=True),
    _Block(3, 672, 112, squeezes=True, hard_swish=True),
    _Block(5, 672, 160, stride=2, squeezes=True, hard_swish=True),
    _Block(5, 960, 160, squeezes=True, hard_swish=True),
    _Block(5, 960, 160, squeezes=True, hard_swish=True),
)


def mobilenet_v3(seed: int = 0, *, batch_norm: bool = False, opset: int = OPSET) -> onnx.ModelProto:
    """The model: input ``input`` float32 [1, 3, 224, 224], output the logits [1, 1000]."""
    layers = Layers("mobilenet_v3", Torch(epsilon=1e-3), opset)
    x = layers.input("input", (1, 3, 224, 224))
    x = layers.batch_norm("features.0.1", layers.conv("features.0.0", x, 16, 3, 2))
    x = layers.hard_swish("features.0.2", x)
    for index, block in enumerate(_BLOCKS, 1):
        x = _inverted_residual(layers, f"features.{index}", x, block)
    last = f"features.{len(_BLOCKS) + 1}"
    x = layers.batch_norm(f"{last}.1", layers.conv(f"{last}.0", x, layers.shapes[x][1] * 6))
    x = layers.flatten("", layers.global_pool("avgpool", layers.hard_swish(f"{last}.2", x)))
    x = layers.hard_swish("classifier.1", layers.gemm("classifier.0", x, 1280))
    layers.output(layers.gemm("classifier.3", x, CLASSES))
    return layers.finish(seed, batch_norm=batch_norm)


def _inverted_residual(layers: Layers, module: str, x: str, block: _Block) -> str:
    """Expand, convolve depthwise, weigh the channels, project without activation."""
    activate = layers.hard_swish if block.hard_swish else layers.relu
    y, place = x, 0
    if block.expanded != layers.shapes[x][1]:
        y = layers.batch_norm(f"{module}.block.0.1", layers.conv(f"{module}.block.0.0", y, block.expanded))
        y, place = activate(f"{module}.block.0.2", y), 1
    step = f"{module}.block.{place}"
    y = layers.depthwise(f"{step}.0", y, block.stride, block.kernel)
    y, place = activate(f"{step}.2", layers.batch_norm(f"{step}.1", y)), place + 1
    if block.squeezes:
        y, place = _weighed(layers, f"{module}.block.{place}", y), place + 1
    step = f"{module}.block.{place}"
    y = layers.batch_norm(f"{step}.1", layers.conv(f"{step}.0", y, block.filters))
    return layers.add(module, y, x) if layers.shapes[x] == layers.shapes[y] else y


def _weighed(layers: Layers, module: str, x: str) -> str:
    """Squeeze and excitation: each channel times a factor that the means of all channels give."""
    channels = layers.shapes[x][1]
    y = layers.conv(f"{module}.fc1", layers.global_pool(f"{module}.avgpool", x), _eights(channels // 4), bias=True)
    y = layers.conv(f"{module}.fc2", layers.relu(f"{module}.activation", y), channels, bias=True)
    return layers.multiply(module, layers.hard_sigmoid(f"{module}.scale_activation", y), x)


def _eights(channels: int) -> int:
    """The multiple of 8 next to ``channels``, at most a tenth below."""
    near = max(8, (channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near
