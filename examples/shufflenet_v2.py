"""ShuffleNet V2 (width 1.0) for 1000 classes of 224x224 images, float32, seeded weights (see ``weights``).

Ma et al. 2018, "ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture Design", table 5, exported as
torchvision's: channels are shuffled by Reshape, Transpose, Reshape. 0.15 billion multiply-accumulates.

    python -m examples shufflenet_v2 OUT.onnx
"""

import onnx

from examples.exporters import Torch
from examples.graph import OPSET
from examples.layers import Layers

CLASSES = 1000
_STAGES = ((116, 4), (232, 8), (464, 4))  # filters, blocks


def shufflenet_v2(seed: int = 0, *, batch_norm: bool = False, opset: int = OPSET) -> onnx.ModelProto:
    """The model: input ``input`` float32 [1, 3, 224, 224], output the logits [1, 1000]."""
    layers = Layers("shufflenet_v2", Torch(), opset)
    x = layers.input("input", (1, 3, 224, 224))
    x = _activated(layers, "conv1", layers.conv("conv1.0", x, 24, 3, 2), 1)
    x = layers.max_pool("maxpool", x, 3, 2)
    for stage, (filters, blocks) in enumerate(_STAGES, 2):
        for block in range(blocks):
            x = _block(layers, f"stage{stage}.{block}", x, filters, halves=block > 0)
    x = layers.mean("", _activated(layers, "conv5", layers.conv("conv5.0", x, 1024), 1))
    layers.output(layers.gemm("fc", x, CLASSES))
    return layers.finish(seed, batch_norm=batch_norm)


def _block(layers: Layers, module: str, x: str, filters: int, *, halves: bool) -> str:
    """Half of the channels go by unchanged; or, in a stage's first block, both branches halve the image."""
    if halves:
        passed, read = layers.halves(module, x)
    else:
        branch = f"{module}.branch1"
        passed, read = layers.batch_norm(f"{branch}.1", layers.depthwise(f"{branch}.0", x, 2)), x
        passed = _activated(layers, branch, layers.conv(f"{branch}.2", passed, filters // 2), 3)
    branch = f"{module}.branch2"
    y = _activated(layers, branch, layers.conv(f"{branch}.0", read, filters // 2), 1)
    y = layers.batch_norm(f"{branch}.4", layers.depthwise(f"{branch}.3", y, 1 if halves else 2))
    y = _activated(layers, branch, layers.conv(f"{branch}.5", y, filters // 2), 6)
    return _shuffled(layers, module, layers.concat(module, passed, y))


def _shuffled(layers: Layers, module: str, x: str) -> str:
    """The channels of the two halves by turns."""
    batch, channels, height, width = layers.shapes[x]
    y = layers.reshape(module, x, (batch, 2, channels // 2, height, width))
    y = layers.transpose(module, y, (0, 2, 1, 3, 4))
    return layers.reshape(f"{module}.1", y, layers.shapes[x])


def _activated(layers: Layers, module: str, x: str, place: int) -> str:
    """Batch norm and ReLU, at ``place`` of a sequence and behind."""
    return layers.relu(f"{module}.{place + 1}", layers.batch_norm(f"{module}.{place}", x))
