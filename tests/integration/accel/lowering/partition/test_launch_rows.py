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

VTA = load_accelerator("vta")


def test_an_operand_that_the_host_makes_of_a_result_parts_launches() -> None:
    """Catches rows that run through a host step: an addition of what the host spreads over an image."""
    graph, zero, scale = Graph("spread"), np.array(0, np.int8), 2.0**-3
    image, small, weights = (1, 16, 4, 4), (1, 16, 1, 1), np.ones((16, 16, 1, 1), np.int8)
    data = [
        graph.dequantize(graph.input(name, shape, TensorProto.INT8), scale, zero)
        for name, shape in (("x", image), ("y", small))
    ]
    results = []
    for name, each in zip("ab", data, strict=True):
        kernel = graph.dequantize(graph.constant(f"w_{name}", weights), scale, zero)
        made = graph.quantize(graph.node("Conv", f"conv_{name}", [each, kernel]), scale, zero)
        results.append(graph.dequantize(made, scale, zero))
    total = graph.dequantize(graph.quantize(graph.node("Add", "sum", results), scale, zero), scale, zero)
    kernel = graph.dequantize(graph.constant("w_last", weights), scale, zero)
    graph.output(graph.quantize(graph.node("Conv", "last", [total, kernel]), scale, zero, "z"), image, TensorProto.INT8)
    composites = read_graph(imported(graph.model(), VTA).module, Capabilities.of(Target(VTA)))
    reads = launches_of(composites, {}, composites.composites)
    assert [sorted(map(bool, each)) for each in reads.values()] == [[False], [False], [False, False], [True]]


def test_a_composite_that_the_host_has_parts_launches() -> None:
    """Catches rows that run through a pooling without a region, as of a machine that has no maximum."""
    graph, zero, scale = Graph("pooled"), np.array(0, np.int8), 2.0**-3
    weights = np.ones((32, 32, 1, 1), np.int8)
    data = graph.dequantize(graph.input("x", (1, 32, 4, 4), TensorProto.INT8), scale, zero)
    for name in "ab":
        kernel = graph.dequantize(graph.constant(f"w_{name}", weights), scale, zero)
        data = graph.quantize(graph.node("Conv", f"conv_{name}", [data, kernel]), scale, zero)
        data = graph.dequantize(data, scale, zero)
        if name == "a":
            data = graph.node("MaxPool", "pool", [data], kernel_shape=[2, 2], strides=[2, 2])
            data = graph.dequantize(graph.quantize(data, scale, zero), scale, zero)
    graph.output(graph.quantize(data, scale, zero, "z"), (1, 32, 2, 2), TensorProto.INT8)
    composites = read_graph(imported(graph.model(), VTA).module, Capabilities.of(Target(VTA)))
    first, pooling, last = composites.composites
    assert launches_of(composites, {}, [first, pooling, last])[last] == [pooling]
    assert launches_of(composites, {}, [first, last]) == {first: [""], last: [""]}
