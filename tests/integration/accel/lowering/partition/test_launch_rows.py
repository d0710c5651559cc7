"""Which launches run as one, as far as the integer graph tells."""

import numpy as np
from onnx import TensorProto

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.partition.composite_graph import read_graph
from accel.lowering.partition.launch_rows import launches_of
from examples.graph import Graph
from tests.helpers.models.build_models import imported
from tests.helpers.models.integer_layers import SCALE, ZERO, convolution

VTA = load_accelerator("vta")


def test_an_operand_that_the_host_makes_of_a_result_parts_launches() -> None:
    """Catches rows that run through a host step: an addition of what the host spreads over an image."""
    graph = Graph("spread")
    image, small, weights = (1, 16, 4, 4), (1, 16, 1, 1), np.ones((16, 16, 1, 1), np.int8)
    data = [
        graph.dequantize(graph.input(name, shape, TensorProto.INT8), SCALE, ZERO)
        for name, shape in (("x", image), ("y", small))
    ]
    results = [convolution(graph, name, each, weights) for name, each in zip("ab", data, strict=True)]
    total = graph.dequantize(graph.quantize(graph.node("Add", "sum", results), SCALE, ZERO), SCALE, ZERO)
    kernel = graph.dequantize(graph.constant("w_last", weights), SCALE, ZERO)
    graph.output(graph.quantize(graph.node("Conv", "last", [total, kernel]), SCALE, ZERO, "z"), image, TensorProto.INT8)
    composites = read_graph(imported(graph.model(), VTA).module, Capabilities.of(Target(VTA)))
    reads = launches_of(composites, {}, composites.composites)
    assert [sorted(map(bool, each)) for each in reads.values()] == [[False], [False], [False, False], [True]]


def test_a_composite_that_the_host_has_parts_launches() -> None:
    """Catches rows that run through a pooling without a region, as of a machine that has no maximum."""
    graph, weights = Graph("pooled"), np.ones((32, 32, 1, 1), np.int8)
    data = graph.dequantize(graph.input("x", (1, 32, 4, 4), TensorProto.INT8), SCALE, ZERO)
    data = convolution(graph, "a", data, weights)
    data = graph.node("MaxPool", "pool", [data], kernel_shape=[2, 2], strides=[2, 2])
    data = graph.dequantize(graph.quantize(data, SCALE, ZERO), SCALE, ZERO)
    data = convolution(graph, "b", data, weights)
    graph.output(graph.quantize(data, SCALE, ZERO, "z"), (1, 32, 2, 2), TensorProto.INT8)
    composites = read_graph(imported(graph.model(), VTA).module, Capabilities.of(Target(VTA)))
    first, pooling, last = composites.composites
    assert launches_of(composites, {}, [first, pooling, last])[last] == [pooling]
    assert launches_of(composites, {}, [first, last]) == {first: [""], last: [""]}
