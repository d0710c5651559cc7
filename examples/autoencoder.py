"""An autoencoder of dense layers, as for detecting anomalies in sounds (MLPerf Tiny): 640 values in, 640 out.

Layers: mlcommons/tiny, ``benchmark/training/anomaly_detection/keras_model.py``, with a batch norm before each relu.
Float32; its weights are drawn at random, scaled to the width of each layer. 0.26 million multiply-accumulates a row.
"""

import itertools

import numpy as np
import onnx

from examples.command import write_model
from examples.graph import OPSET, Graph
from examples.weights import draw_weights

WIDTHS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
_SAMPLES = 64  # one row of each is all that a batch norm sees


def autoencoder(seed: int = 0, rows: int = 1, *, batch_norm: bool = False, opset: int = OPSET) -> onnx.ModelProto:
    """The model: input ``x`` float32 [rows, 640], output ``y``; a relu between layers.

    Without ``batch_norm`` the weights are to be thought of as those of layers that have theirs folded in.
    """
    rng = np.random.default_rng(seed)
    graph = Graph("autoencoder")
    value = graph.input("x", (rows, WIDTHS[0]))
    for number, (width, wide) in enumerate(itertools.pairwise(WIDTHS)):
        weights = rng.normal(0, np.sqrt(2 / width), (width, wide)).astype(np.float32)
        bias = rng.normal(0, 0.1, wide).astype(np.float32)
        inputs = [value, graph.constant(f"w{number}", weights), graph.constant(f"b{number}", bias)]
        value = graph.node("Gemm", f"dense{number}", inputs)
        if number < len(WIDTHS) - 2:
            value = _batch_norm(graph, number, value, wide) if batch_norm else value
            value = graph.node("Relu", f"relu{number}", [value])
    graph.output(value, (rows, WIDTHS[-1]))
    model = graph.unchecked(opset)
    draw_weights(model, seed, _SAMPLES)
    onnx.checker.check_model(model, full_check=True)
    return model


def _batch_norm(graph: Graph, number: int, value: str, width: int) -> str:
    parameters = [graph.placeholder(f"norm{number}_{key}", (width,)) for key in ("gamma", "beta", "mean", "variance")]
    return graph.node("BatchNormalization", f"norm{number}", [value, *parameters], epsilon=1e-3)


def main() -> None:
    """Write the model to the file named on the command line."""
    write_model(autoencoder, __doc__)


if __name__ == "__main__":
    main()
