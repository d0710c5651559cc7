"""Models as the compiler gets them: with the values of what is computed of shapes, and from damaged files too."""

import contextlib
import time

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from accel.errors import CyclopsError, InvalidModel, UnsupportedShape
from accel.frontend.onnx_model.shape_inference import infer_shapes, without_weights
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_inspection import inspect_model
from examples.resnet8 import resnet8
from tests.helpers.models.exporter_habits import COMPUTED, HABITS, IMAGE, NETWORKS, Habit, layer
from tests.reference.host import draw_inputs, run_onnx


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_of_shapes_becomes_a_constant(name: str) -> None:
    habit = COMPUTED[name]
    for opset in habit.opsets:
        model = habit.model(opset)
        loaded = load_model(model.SerializeToString()).model
        inputs = draw_inputs(model)
        np.testing.assert_array_equal(run_onnx(loaded, inputs)[0], run_onnx(model, inputs)[0])
        constants = {tensor.name for tensor in loaded.graph.initializer}
        reader = loaded.graph.node[-1]
        assert all(name in constants for name in reader.input[1:] if name)


def test_the_values_are_those_of_onnxruntime() -> None:
    model = COMPUTED["pads by a computed vector"].model(13)
    values = infer_shapes(model).values
    graph = onnx.ModelProto.FromString(model.SerializeToString()).graph
    del graph.output[:]
    graph.output.extend(helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in values)
    whole = helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)
    assert "widths" in values
    for name, expected in zip(values, run_onnx(whole, draw_inputs(model)), strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(values[name]), expected)


def test_a_shape_that_depends_on_the_data_is_refused() -> None:
    habit = Habit(IMAGE, (layer("Cast", "x", "n", to=TensorProto.INT64), layer("Reshape", "x n")), (13,))
    model = habit.model(13)
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]))
    with pytest.raises(UnsupportedShape) as caught:
        load_model(model.SerializeToString())
    assert caught.value.field == "node:Reshape.1"


def test_shapes_that_contradict_a_computed_one_are_refused() -> None:
    habit = COMPUTED["flatten by a computed shape"]
    more = (*habit.layers[:-1], layer("Reshape", "x to", "rows"), layer("MatMul", "rows w"))
    model = Habit(IMAGE, more, (11,), {**habit.constants, "w": (5, 5)}).model(11)
    with pytest.raises(InvalidModel) as caught:
        load_model(model.SerializeToString())
    assert caught.value.field == "node:MatMul.6"


def test_vectors_that_grow_are_not_computed() -> None:
    layers = [layer("Shape", "x", "s0"), *(layer("Concat", f"s{i} s{i}", f"s{i + 1}", axis=0) for i in range(24))]
    model = Habit(IMAGE, (*layers, layer("Reshape", "x s24")), (13,)).model(13)
    began = time.process_time()
    with pytest.raises(CyclopsError):
        inspect_model(model.SerializeToString())
    assert time.process_time() - began < 1


def test_weights_are_left_out_of_what_onnx_copies() -> None:
    large = np.ones((64, 65), np.float32)
    layers = (layer("Constant", "", "v", value=numpy_helper.from_array(large)), layer("MatMul", "x w", "y1"))
    model = Habit((2, 64), (*layers, layer("MatMul", "x v", "y2"), layer("Add", "y1 y2")), (13,), {"w": large}).model(
        13
    )
    light = without_weights(model)
    assert light.ByteSize() < 2000
    assert {info.name for info in light.graph.input} == {"x", "w", "v"}
    assert inspect_model(model.SerializeToString()).outputs[0].shape == (2, 65)
    load_model(model.SerializeToString())


def test_outputs_for_training_that_nobody_reads_are_left_out() -> None:
    loaded = load_model(NETWORKS["dropout with a mask"].model(9).SerializeToString()).model
    assert [list(node.output) for node in loaded.graph.node] == [["d"], ["y"]]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_a_damaged_file_never_escapes_as_another_error(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(HABITS)))
    whole = bytearray(HABITS[name].model(HABITS[name].opsets[0]).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4), label="changes")):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CyclopsError):
        load_model(bytes(whole))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_a_changed_graph_never_escapes_as_another_error(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(HABITS)))
    model = HABITS[name].model(HABITS[name].opsets[-1])
    node = data.draw(st.sampled_from(list(model.graph.node)))
    names = ["", "x", "nobody", *(output for other in model.graph.node for output in other.output)]
    change = data.draw(st.sampled_from(["input", "no input", "attribute", "no attribute", "opset", "size"]))
    number = data.draw(st.sampled_from([0, -1, 1, 2, 3, 7, 2**31, 2**62, -(2**62)]))
    if change == "input" and node.input:
        node.input[data.draw(st.integers(0, len(node.input) - 1))] = data.draw(st.sampled_from(names))
    elif change == "no input" and node.input:
        del node.input[-1]
    elif change.endswith("attribute") and node.attribute:
        attribute = data.draw(st.sampled_from(list(node.attribute)))
        if change.startswith("no"):
            node.attribute.remove(attribute)
        elif attribute.ints:
            attribute.ints[0] = number
        else:
            attribute.i = number
    elif change == "opset":
        model.opset_import[0].version = data.draw(st.integers(9, 21))
    else:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = number
    with contextlib.suppress(CyclopsError):
        load_model(model.SerializeToString())


def test_the_long_name_of_onnx_own_domain_is_the_same() -> None:
    model = resnet8()
    model.opset_import[0].domain = "ai.onnx"
    for node in model.graph.node:
        node.domain = "ai.onnx"
    assert (
        load_model(model.SerializeToString()).model.graph.node
        == load_model(resnet8().SerializeToString()).model.graph.node
    )
