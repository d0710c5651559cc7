"""Padding of slices, against onnxruntime's own."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from accel.frontend.legalize.vector_units.mirrored_padding import with_mirrored_padding
from tests.reference.host import run_onnx

SHAPE = [2, 5, 4, 6]


def padded(mode: str, pads: list[int], axes: list[int], kind: int = onnx.TensorProto.FLOAT) -> onnx.ModelProto:
    """A Pad of [2, 5, 4, 6]."""
    stored = [numpy_helper.from_array(np.array(value), name) for name, value in (("pads", pads), ("axes", axes))]
    node = helper.make_node("Pad", ["x", "pads", "", "axes"], ["y"], "pad", mode=mode)
    extents = list(SHAPE)
    for place, axis in enumerate(axes):
        extents[axis] += pads[place] + pads[place + len(axes)]
    ends = [helper.make_tensor_value_info(name, kind, shape) for name, shape in (("x", SHAPE), ("y", extents))]
    graph = helper.make_graph([node], "padded", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@given(
    st.sampled_from(["reflect", "edge", "wrap"]),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.sampled_from([[2, 3], [3, 1], [-1, -2]]),
    st.sampled_from([np.float32, np.int8]),
)
def test_slices_are_what_it_pads_with(mode: str, pads: list[int], axes: list[int], dtype: type) -> None:
    """It would catch an element too many at an end, an order that is not mirrored, and sides that change places."""
    model = padded(mode, pads, axes, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    made = with_mirrored_padding(model)
    onnx.checker.check_model(made, full_check=True)
    assert ("Pad" in {node.op_type for node in made.graph.node}) == (not any(pads))
    fed = {"x": (100 * np.random.default_rng(0).standard_normal(SHAPE)).astype(dtype)}
    (found,), (expected,) = run_onnx(made, fed), run_onnx(model, fed)
    assert (found == expected).all()


@pytest.mark.parametrize(("mode", "pads"), [("constant", [1, 1]), ("edge", [9, 0]), ("reflect", [-1, 1])])
def test_other_padding_stays(mode: str, pads: list[int]) -> None:
    """It would catch padding with a number, which loads do, or of hundreds of parts."""
    model = padded(mode, pads, [2])
    assert with_mirrored_padding(model) is model
