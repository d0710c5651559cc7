"""DS-CNN for keyword spotting (MLPerf Tiny), float32, seeded weights (see ``weights``).

Layers and shapes: mlcommons/tiny, ``benchmark/training/keyword_spotting/keras_model.py``. Its average pool of 24x5
leaves the last of the 25 rows out. 2.7 million multiply-accumulates.

    python -m examples keyword_spotting OUT.onnx
"""

import onnx

from examples.exporters import Keras, numbered
from examples.graph import OPSET
from examples.layers import Layers

FILTERS = 64
CLASSES = 12
_BLOCKS = 4


def keyword_spotting(seed: int = 0, *, batch_norm: bool = False, opset: int = OPSET) -> onnx.ModelProto:
    """The model: input ``input_1`` float32 [1, 1, 49, 10], time by coefficient; output the probabilities [1, 12]."""
    layers = Layers("keyword_spotting", Keras("model"), opset)
    convs, norms, activations = (numbered(kind) for kind in ("conv2d", "batch_normalization", "activation"))

    def activated(y: str) -> str:
        return layers.relu(next(activations), layers.batch_norm(next(norms), y))

    x = layers.input("input_1", (1, 1, 49, 10))
    x = activated(layers.conv(next(convs), x, FILTERS, (10, 4), 2, bias=True))
    for _, depthwise in zip(range(_BLOCKS), numbered("depthwise_conv2d"), strict=False):
        x = activated(layers.depthwise(depthwise, x, bias=True))
        x = activated(layers.conv(next(convs), x, FILTERS, bias=True))
    x = layers.flatten("flatten", layers.average_pool("average_pooling2d", x, (24, 5)))
    layers.output(layers.softmax("dense", layers.dense("dense", x, CLASSES)))
    return layers.finish(seed, batch_norm=batch_norm)
