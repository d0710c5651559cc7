"""Rows in parts against onnxruntime, which computes whole ones."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from accel.frontend.legalize.vector_units.long_rows import with_split_rows
from accel.frontend.onnx_model.node_origins import origins_of
from accel.frontend.onnx_model.onnx_nodes import set_attributes
from examples.graph import Graph
from tests.reference.host import run_onnx

ROOM = 5 * 16


def model_of(op: str, shape: tuple[int, ...], opset: int, **attributes: Any) -> onnx.ModelProto:
    """A model of one node, with operands along its rows or channels."""
    random, graph = np.random.default_rng(0), Graph("rows")
    own = shape[attributes.get("axis", -1) :] if op == "LayerNormalization" else shape[1:2]
    reduces, kept = op.startswith("Reduce"), shape[:-1]
    operands = [] if op == "Softmax" or reduces else [random.standard_normal(own).astype(np.float32) for _ in range(2)]
    names = [graph.constant(f"c{place}", value) for place, value in enumerate(operands)]
    if op == "ReduceSum":
        names.append(graph.constant("axes", np.array([-1])))
    elif reduces:
        attributes["axes"] = [-1]
    made = graph.node(op, "rows", [graph.input("x", shape), *names], **attributes)
    graph.output(made, shape if not reduces else (*kept, 1) if attributes.get("keepdims", 1) else kept)
    model = graph.model()
    model.opset_import[0].version = opset
    if reduces and op != "ReduceSum" and opset >= 18:
        (node,) = model.graph.node
        set_attributes(node, axes=None)
        node.input.append("axes")
        model.graph.initializer.append(numpy_helper.from_array(np.array([-1]), "axes"))
    return model


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize(
    ("op", "shape", "attributes"),
    [
        ("Softmax", (2, 3, 48), {"axis": -1}),
        ("Softmax", (60,), {"axis": 0}),
        ("LayerNormalization", (2, 5, 60), {}),
        ("LayerNormalization", (3, 4, 22), {"axis": 1, "epsilon": 1e-2}),
        ("InstanceNormalization", (2, 3, 6, 10), {"epsilon": 1e-3}),
        ("InstanceNormalization", (1, 4, 40), {}),
        ("ReduceSum", (2, 3, 48), {}),
        ("ReduceMax", (3, 60), {"keepdims": 0}),
        ("ReduceMin", (1, 22), {}),
        ("ReduceMean", (2, 2, 2, 30), {"keepdims": 0}),
    ],
)
def test_parts_of_rows_make_the_same(op: str, shape: tuple[int, ...], attributes: dict[str, Any], opset: int) -> None:
    """It would catch parts in another order, a mean of parts that are not alike, and operands along other axes."""
    model = model_of(op, shape, opset, **attributes)
    split = with_split_rows(model, ROOM)
    assert "rows" not in {node.name for node in split.graph.node}
    assert all(origins_of(node) == {"rows": op} for node in split.graph.node)
    data = np.random.default_rng(1).standard_normal(shape).astype(np.float32) * 3 + 1
    for one, other in zip(run_onnx(split, {"x": data}), run_onnx(model, {"x": data}), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "shape", "attributes"),
    [
        ("Softmax", (2, 16), {}),  # it fits
        ("Softmax", (48, 3), {"axis": 0}),  # columns
        ("Softmax", (2, 53), {}),  # of a prime number of elements
        ("LayerNormalization", (4, 11), {}),
    ],
)
def test_others_stay_as_they_are(op: str, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    model = model_of(op, shape, 17, **attributes)
    assert with_split_rows(model, ROOM) is model
