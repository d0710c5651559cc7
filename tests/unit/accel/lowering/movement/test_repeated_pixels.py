"""Which nearest Resizes have each element so often, against onnxruntime."""

import itertools

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from accel.lowering.movement.movement_operators import _reads_each_so_often

COORDINATES = ("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "asymmetric")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def resized(given: int, times: int, coordinates: str, rounding: str) -> list[int]:
    """The elements of a row that onnxruntime reads; it wants opset 11 for what TensorFlow does."""
    node = helper.make_node(
        "Resize",
        ["x", "roi", "scales"],
        ["y"],
        mode="nearest",
        coordinate_transformation_mode=coordinates,
        nearest_mode=rounding,
    )
    given_and_made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
    stored = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 1, times], np.float32)}
    inputs, outputs = ([each] for each in given_and_made)
    constants = [numpy_helper.from_array(value, name) for name, value in stored.items()]
    graph = helper.make_graph([node], "g", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (made,) = session.run(None, {"x": np.arange(given, dtype=np.float32).reshape(1, 1, 1, given)})
    return [int(element) for element in made.ravel()]


def test_each_coordinate_and_rounding() -> None:
    """Would catch a tie that is rounded to the other side: then a pixel lies where its neighbour does."""
    cases = list(itertools.product((2, 3, 4), COORDINATES, ROUNDINGS))
    repeats = [case for case in cases if resized(7, *case) == [place // case[0] for place in range(7 * case[0])]]
    assert [case for case in cases if _reads_each_so_often(7, *case)] == repeats
    assert len(repeats) > 12
