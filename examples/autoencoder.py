"""An autoencoder of dense layers, as for detecting anomalies in sounds (MLPerf Tiny): 640 values in, 640 out.

Float32; its weights are drawn at random, scaled to the width of each layer.
"""

import itertools

import numpy as np
import onnx

from examples.command import write_model
from examples.graph import Graph

WIDTHS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)


def autoencoder(seed: int = 0, rows: int = 1) -> onnx.ModelProto:
    """The model: input ``x`` float32 [rows, 640], output ``y``; a relu between layers."""
    rng = np.random.default_rng(seed)
    graph = Graph("autoencoder")
    value = graph.input("x", (rows, WIDTHS[0]))
    for number, (width, wide) in enumerate(itertools.pairwise(WIDTHS)):
        weights = rng.normal(0, np.sqrt(2 / width), (width, wide)).astype(np.float32)
        bias = rng.normal(0, 0.1, wide).astype(np.float32)
        inputs = [value, graph.constant(f"w{number}", weights), graph.constant(f"b{number}", bias)]
        value = graph.node("Gemm", f"dense{number}", inputs)
        if number < len(WIDTHS) - 2:
            value = graph.node("Relu", f"relu{number}", [value])
    graph.output(value, (rows, WIDTHS[-1]))
    return graph.model()


def main() -> None:
    """Write the model to the file named on the command line."""
    write_model(autoencoder, __doc__)


if __name__ == "__main__":
    main()
