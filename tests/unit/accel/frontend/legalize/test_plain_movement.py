"""Movement in fewer and simpler operators, against onnxruntime's own."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from accel.frontend.legalize.plain_movement import simplify_movement
from accel.frontend.onnx_model.shape_inference import known_shapes
from tests.reference.host import run_onnx

SHAPE = [2, 1, 3, 4]


def moved(op: str, values: list[np.ndarray | None], **attributes: object) -> onnx.ModelProto:
    """A node between two others, given a tensor of [2, 1, 3, 4]."""
    names = ["a", *("" if value is None else f"v{at}" for at, value in enumerate(values))]
    stored = [numpy_helper.from_array(value, f"v{at}") for at, value in enumerate(values) if value is not None]
    nodes = [
        helper.make_node("Neg", ["x"], ["a"], "first"),
        helper.make_node(op, names, ["b"], "moves", **attributes),
        helper.make_node("Neg", ["b"], ["y"], "last"),
    ]
    ends = [helper.make_tensor_value_info("x", 1, SHAPE), helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "moved", ends[:1], ends[1:], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def simplified(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in fewer operators, whose results are held against those of the model as it was."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    simplify_movement(made, known_shapes(made))
    onnx.checker.check_model(made, full_check=True)
    fed = {"x": np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)}
    (found,), (expected,) = run_onnx(made, fed), run_onnx(model, fed)
    np.testing.assert_array_equal(found, expected)
    return made


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("op", "values", "attributes", "goes"),
    [
        ("Reshape", [integers(2, 1, -1, 4)], {}, True),
        ("Reshape", [integers(2, 3, 1, 4)], {}, False),
        ("Expand", [integers(1, 4)], {}, True),
        ("Tile", [integers(1, 1, 1, 1)], {}, True),
        ("Tile", [integers(1, 2, 1, 1)], {}, False),
        ("Transpose", [], {"perm": [0, 1, 2, 3]}, True),
        ("Transpose", [], {"perm": [1, 0, 2, 3]}, False),
        ("Slice", [integers(0), integers(99), integers(2)], {}, True),
        ("Slice", [integers(-1), integers(-99), integers(2), integers(-1)], {}, False),
        ("Slice", [integers(0), integers(99), integers(2), integers(1)], {}, True),
        ("Concat", [], {"axis": 0}, True),
        ("Resize", [None, None, integers(2, 1, 3, 4)], {"mode": "linear"}, True),
        ("Resize", [None, np.array([1, 1, 1.2, 1], np.float32)], {"mode": "nearest"}, False),
        ("Resize", [None, np.ones(4, np.float32)], {"mode": "cubic"}, True),
    ],
)
def test_what_leaves_all_in_its_place_goes(op: str, values: list, attributes: dict, goes: bool) -> None:
    """It would catch a slice that goes backwards, a scale of nearly 1, and places that change."""
    made = simplified(moved(op, values, **attributes))
    assert ([node.name for node in made.graph.node] == ["first", "last"]) is goes


def test_square_matrices_that_turn_stay() -> None:
    """It would catch an order that is told from shapes alone."""
    shapes = {"x": (4, 4), "y": (4, 4), "z": (4, 4)}
    nodes = [helper.make_node("Transpose", ["x"], ["y"], "turns"), helper.make_node("Neg", ["y"], ["z"], "last")]
    ends = [helper.make_tensor_value_info(name, 1, [4, 4]) for name in ("x", "z")]
    model = helper.make_model(helper.make_graph(nodes, "square", ends[:1], ends[1:]))
    simplify_movement(model, shapes)
    assert [node.name for node in model.graph.node] == ["turns", "last"]


def test_a_result_of_the_model_keeps_its_name() -> None:
    """It would catch an output that no node makes."""
    model = moved("Reshape", [integers(2, 1, 3, 4)])
    del model.graph.node[2], model.graph.value_info[:]
    model.graph.output[0].name = "b"
    assert [node.name for node in simplified(model).graph.node] == ["first", "moves"]


@given(st.integers(1, 4), st.lists(st.integers(1, 3), min_size=1, max_size=2), st.randoms(use_true_random=False))
def test_constant_places_are_gathered(axes: int, shape: list[int], random: object) -> None:
    """It would catch steps of another axis, places that count from the end, and axes of the result in another order."""
    low, high = -np.array(SHAPE[:axes]), np.array(SHAPE[:axes])
    places = np.random.default_rng(random.randint(0, 99)).integers(low, high, (*shape, axes))  # type: ignore[attr-defined]
    made = simplified(moved("GatherND", [places]))
    assert [node.op_type for node in made.graph.node].count("Gather") == 1


def test_places_of_each_matrix_of_a_stack_stay() -> None:
    """It would catch places within a batch that are taken to be of the whole tensor."""
    made = simplified(moved("GatherND", [np.zeros((2, 1, 1), np.int64)], batch_dims=2))
    assert "GatherND" in {node.op_type for node in made.graph.node}
