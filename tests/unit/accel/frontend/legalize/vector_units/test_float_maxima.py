"""Maxima over windows of floats as maxima of slices, against onnxruntime's own."""

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper

from accel.frontend.legalize.vector_units.float_maxima import with_float_maxima
from tests.reference.host import run_onnx


def pooled(shape: list[int], **attributes: object) -> onnx.ModelProto:
    """A MaxPool, of the result of another node."""
    nodes = [
        helper.make_node("Neg", ["x"], ["a"], "first"),
        helper.make_node("MaxPool", ["a"], ["y"], "pool", **attributes),
    ]
    ends = [helper.make_tensor_value_info("x", 1, shape), helper.make_tensor_value_info("y", 1, None)]
    model = helper.make_model(helper.make_graph(nodes, "pooled", ends[:1], ends[1:]), ir_version=9)
    model.opset_import[0].version = 18
    return onnx.shape_inference.infer_shapes(model)


@given(
    st.sampled_from([1, 3, 8, 20]),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.data(),
)
def test_maxima_of_slices_are_what_it_makes(channels: int, image: list[int], data: st.DataObject) -> None:
    """It would catch a border that is a maximum, a window that begins elsewhere, and a last one that is left out."""

    def each(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=len(image), max_size=len(image)))

    taps, strides, apart, automatic = each(1, 4), each(1, 3), each(1, 2), data.draw(st.booleans())
    pads = [] if automatic else each(0, 2) + each(0, 2)
    reach = [(count - 1) * step + 1 for count, step in zip(taps, apart, strict=True)]
    around = [0] * len(image) if automatic else np.add(pads[: len(image)], pads[len(image) :]).tolist()
    assume(automatic or all(wide <= have + more for wide, have, more in zip(reach, image, around, strict=True)))
    assume(max(pads, default=0) < min(taps))
    assume(not automatic or all(step <= count for step, count in zip(strides, taps, strict=True)))
    attributes = {"kernel_shape": taps, "strides": strides}
    if automatic:
        attributes["auto_pad"] = data.draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER"]))
    else:
        attributes |= {"dilations": apart, "pads": pads, "ceil_mode": data.draw(st.sampled_from([0, 1]))}
    model = pooled([2, channels, *image], **attributes)
    made = with_float_maxima(model)
    onnx.checker.check_model(made, full_check=True)
    fed = {"x": np.random.default_rng(0).standard_normal((2, channels, *image)).astype(np.float32)}
    (found,), (expected,) = run_onnx(made, fed), run_onnx(model, fed)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [6, 6]},  # one reduction
        {"kernel_shape": [1, 1]},
        {"kernel_shape": [17, 17], "pads": [8] * 4},
    ],
)
def test_other_maxima_stay(attributes: dict) -> None:
    """It would catch hundreds of slices, and maxima of one slice alone."""
    model = pooled([1, 8, 6, 6], **attributes)
    assert with_float_maxima(model) is model


def test_integers_that_are_pooled_as_floats_stay() -> None:
    """It would catch a maximum of a layer's integers that no pooling instruction takes any more."""
    model = pooled([1, 8, 6, 6], kernel_shape=[3, 3])
    graph = model.graph
    graph.node[0].CopyFrom(helper.make_node("DequantizeLinear", ["x", "s"], ["a"], "first"))
    graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT8
    graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0.1), "s"))
    assert with_float_maxima(model) is model
