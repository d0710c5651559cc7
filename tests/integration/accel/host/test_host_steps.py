"""Host steps: what they are made of."""

import numpy as np
import pytest
from onnx import TensorProto

from accel.catalog.load_accelerator import load_accelerator
from accel.errors import CompileError
from accel.host.host_graph_reader import read_host_graph
from accel.host.host_operators import OPERATORS
from accel.program.program_model import HostStep
from examples.graph import Graph
from tests.helpers.models.build_models import build


def test_a_selection_whose_size_depends_on_the_data_is_refused_by_name() -> None:
    graph = Graph("dynamic")
    kept = graph.input("kept", (4,), TensorProto.BOOL)
    graph.output(graph.node("Compress", "compress", [graph.input("x", (4, 6)), kept], axis=0), (2, 6))
    with pytest.raises(CompileError, match="depends on the data") as caught:
        build(graph.model(), load_accelerator("vta"))
    assert caught.value.field == "node:compress"


def test_a_host_step_names_the_nodes_it_computes_and_calls_no_function() -> None:
    """A requantisation on the host is a function until then, packing a few operators."""
    graph, zero = Graph("nodes"), np.array(0, np.int8)
    x = graph.quantize(graph.input("x", (3, 20)), 2.0**-5, zero, "quantised")
    weight = graph.constant("w", np.arange(20 * 9, dtype=np.int8).reshape(20, 9))
    y = graph.node("MatMul", "product", [graph.dequantize(x, 2.0**-5, zero), graph.dequantize(weight, 0.007, zero)])
    y = graph.dequantize(graph.quantize(y, 2.0**-3, zero, "z"), 2.0**-3, zero)
    graph.output(graph.node("Softmax", "softmax", [y]), (3, 9))
    steps = [step for step in build(graph.model(), load_accelerator("vta-chisel")).steps if isinstance(step, HostStep)]
    assert [step.nodes for step in steps] == [("x_quantized",), ("product_quantized", "z_dequantized", "softmax")]
    for step in steps:
        assert {node.op for node in read_host_graph(step.module).graph.nodes} <= OPERATORS
