"""A model of one addition."""

import numpy as np
import onnx

from examples.graph import Graph


def addition() -> onnx.ModelProto:
    """The sum of two int8 tensors [1, 8, 4, 3] whose scales are a factor 2 apart."""
    graph, zero = Graph("addition"), np.array(0, np.int8)
    terms = [
        graph.dequantize(graph.input(name, (1, 8, 4, 3), onnx.TensorProto.INT8), scale, zero)
        for name, scale in (("a", 2.0**-5), ("b", 2.0**-4))
    ]
    total = graph.node("Add", "add", terms)
    graph.output(graph.quantize(total, 2.0**-4, zero, "y"), (1, 8, 4, 3), onnx.TensorProto.INT8)
    return graph.model()
