"""Linear Resize as sums of slices, against onnxruntime's own."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from accel.frontend.legalize.vector_units.interpolations import with_interpolations
from tests.reference.host import run_onnx


def resize(shape: list[int], extents: list[int], coordinates: str, *, by_sizes: bool) -> onnx.ModelProto:
    """A Resize of an image."""
    if by_sizes:
        inputs, given = ["x", "", "", "sizes"], numpy_helper.from_array(np.array(extents), "sizes")
    else:
        ratios = np.array(extents, np.float32) / np.array(shape, np.float32)
        inputs, given = ["x", "", "scales"], numpy_helper.from_array(ratios, "scales")
    node = helper.make_node("Resize", inputs, ["y"], mode="linear", coordinate_transformation_mode=coordinates)
    ends = [helper.make_tensor_value_info(name, 1, dims) for name, dims in (("x", shape), ("y", extents))]
    graph = helper.make_graph([node], "resize", ends[:1], ends[1:], [given])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@given(
    st.sampled_from([1, 3, 8, 20]),
    st.lists(st.integers(1, 20), min_size=2, max_size=2),
    st.lists(st.integers(1, 9), min_size=2, max_size=2),
    st.sampled_from(["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]),
)
def test_sums_of_slices_are_what_it_makes(
    channels: int, extents: list[int], image: list[int], coordinates: str
) -> None:
    """It would catch a weight at the wrong place, an end that is not the nearest, and axes that change places."""
    whole = all(max(pair) % min(pair) == 0 for pair in zip(extents, image, strict=True))
    by_sizes = not whole or coordinates == "align_corners"  # scales of other numbers may make one element fewer
    model = resize([2, channels, *image], [2, channels, *extents], coordinates, by_sizes=by_sizes)
    made = with_interpolations(model)
    onnx.checker.check_model(made, full_check=True)
    assert ("Resize" in {node.op_type for node in made.graph.node}) == (image == extents)
    fed = {"x": np.random.default_rng(0).standard_normal((2, channels, *image)).astype(np.float32)}
    (found,), (expected,) = run_onnx(made, fed), run_onnx(model, fed)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_what_lies_otherwise_between_each_two_neighbours_stays_where_these_are_many() -> None:
    """It would catch a model of thousands of slices, and a machine's time for rows of one element each."""
    model = resize([1, 8, 100, 6], [1, 8, 199, 6], "align_corners", by_sizes=True)
    assert with_interpolations(model) is not model  # whose results lie alike behind every element
    model = resize([1, 8, 100, 6], [1, 8, 200, 6], "align_corners", by_sizes=True)
    assert with_interpolations(model) is model


@pytest.mark.parametrize("again", [False, True])
def test_what_quantises_it_alone_does_so_before_it_is_moved(again: bool) -> None:
    """It would catch a node that quantises twice, or what somebody else reads as floats too."""
    model = resize([1, 8, 3, 4], [1, 8, 6, 12], "half_pixel", by_sizes=False)
    graph = model.graph
    graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in (("s", np.float32(0.02)), ("z", np.int8(3)))
    )
    graph.node.append(helper.make_node("QuantizeLinear", ["y", "s", "z"], ["q"]))
    (floats,) = graph.output
    graph.output.append(helper.make_tensor_value_info("q", 3, [1, 8, 6, 12]))
    if not again:
        graph.output.remove(floats)
    made = with_interpolations(model)
    onnx.checker.check_model(made, full_check=True)
    assert (made.graph.node[-1].op_type == "Transpose") is not again
    fed = {"x": np.random.default_rng(0).standard_normal((1, 8, 3, 4)).astype(np.float32)}
    assert (run_onnx(made, fed)[-1] == run_onnx(model, fed)[-1]).all()


def test_integers_that_are_enlarged_stay() -> None:
    """It would catch floats that are multiplied with an image of bytes, which is no model."""
    model = resize([1, 8, 3, 4], [1, 8, 6, 8], "half_pixel", by_sizes=False)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.UINT8
    assert with_interpolations(model) is model
