"""Layers of int8 in QDQ form, all of one scale."""

import numpy as np
import numpy.typing as npt

from examples.graph import Graph

SCALE, ZERO = 2.0**-3, np.array(0, np.int8)


def convolution(graph: Graph, name: str, data: str, weights: npt.NDArray[np.int8], **attributes: object) -> str:
    """Add a convolution of dequantised data, its result quantised; returns what that is as floats."""
    kernel = graph.dequantize(graph.constant(f"w_{name}", weights), SCALE, ZERO)
    made = graph.quantize(graph.node("Conv", f"conv_{name}", [data, kernel], **attributes), SCALE, ZERO)
    return graph.dequantize(made, SCALE, ZERO)
