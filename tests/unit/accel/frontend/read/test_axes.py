"""Dynamic axes: how they are described, set, and what follows from them."""

import numpy as np
import pytest
from onnx import TensorProto

from accel.errors import InvalidAxes, InvalidModel
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_info import Axes, ModelTensor, fix_axes
from accel.frontend.read.model_inspection import inspect_model, inspect_upload
from accel.frontend.relax_import.relax_importer import import_onnx
from tests.helpers.models.dynamic_models import convolving, flattening
from tests.reference.host import draw_inputs, run_onnx


@pytest.mark.parametrize("axes", [Axes({"batch": 4}), Axes(shapes={"x": (4, 3, 4, 4)})], ids=["dims", "shapes"])
def test_what_is_computed_of_a_dynamic_axis_is_folded_once_it_is_set(axes: Axes) -> None:
    data = flattening("batch").SerializeToString()
    info = inspect_model(data, axes=axes)
    assert [tensor.shape for tensor in (*info.inputs, *info.outputs)] == [(4, 3, 4, 4), (4, 5)]
    assert (info.macs, info.unset) == (4 * 48 * 5, ())
    loaded = load_model(data, axes=axes).model
    assert {node.op for node in import_onnx(loaded).origin.values()} == {"Reshape", "MatMul"}
    import_onnx(quantize_model(loaded))
    inputs = draw_inputs(loaded)
    assert inputs["x"].shape == (4, 3, 4, 4)
    np.testing.assert_array_equal(run_onnx(loaded, inputs)[0], run_onnx(flattening("batch"), inputs)[0])


@pytest.mark.parametrize(("axis", "told"), [("batch", "'batch'"), (None, "axis 0 of 'x'")])
def test_what_nothing_sets_is_one_and_told(axis: str | None, told: str) -> None:
    info = inspect_model(flattening(axis).SerializeToString())
    assert [tensor.shape for tensor in (*info.inputs, *info.outputs)] == [(1, 3, 4, 4), (1, 5)]
    assert info.unset == (told,)


@pytest.mark.parametrize("axis", ["batch", None])
def test_an_upload_is_described_as_it_is(axis: str | None) -> None:
    contents = inspect_upload(flattening(axis).SerializeToString())
    assert [tensor.shape for tensor in (*contents.inputs, *contents.outputs)] == [(axis, 3, 4, 4), (axis, 5)]
    assert contents.macs == 48 * 5


def test_an_output_of_no_stated_shape_is_described_by_its_rank() -> None:
    model = flattening("batch")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert inspect_upload(model.SerializeToString()).outputs[0].shape == (None, None)


def test_a_model_that_does_not_work_with_ones_is_accepted_and_told_of_when_it_is_run_so() -> None:
    data = convolving("height", "width").SerializeToString()
    contents = inspect_upload(data)
    assert (contents.inputs[0].shape, contents.macs) == ((1, 3, "height", "width"), None)
    with pytest.raises(InvalidModel, match=r"'height', 'width' taken as 1, as nothing sets it: give options\.dims"):
        inspect_model(data)
    info = inspect_model(data, axes=Axes({"height": 8, "width": 9}))
    assert info.outputs[0].shape == (1, 6, 6, 7)


def test_what_is_wrong_with_any_extents_is_refused_at_once() -> None:
    model = convolving("height", "width")
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    with pytest.raises(InvalidModel, match="elem type") as caught:
        inspect_upload(model.SerializeToString())
    assert "options" not in caught.value.detail


@pytest.mark.parametrize("extents", [(2**15, 2**15), (2**31 - 1, 2**31 - 1)])
def test_extents_beyond_the_limits_are_refused(extents: tuple[int, int]) -> None:
    with pytest.raises(InvalidModel, match="elements; the limit is") as caught:
        inspect_model(convolving("h", "w").SerializeToString(), axes=Axes(dict(zip("hw", extents, strict=True))))
    assert caught.value.field == "input:x"


def tensor(name: str, *shape: int | str | None) -> ModelTensor:
    return ModelTensor(name=name, dtype="float32", shape=shape)


INPUTS = [tensor("x", "batch", 3, None), tensor("y", "batch", "time"), tensor("z", 2)]


def test_a_shape_sets_the_axes_of_other_inputs_that_are_called_the_same() -> None:
    fixed = fix_axes(INPUTS, Axes({"time": 7}, {"x": (4, 3, 5)}))
    assert [tensor.shape for tensor in fixed.inputs] == [(4, 3, 5), (4, 7), (2,)]
    assert (fixed.dims, fixed.unset, fixed.hint) == ({"batch": 4, "time": 7}, (), "")


def test_each_axis_that_nothing_sets_is_listed() -> None:
    fixed = fix_axes(INPUTS, Axes({"time": 7}))
    assert [tensor.shape for tensor in fixed.inputs] == [(1, 3, 1), (1, 7), (2,)]
    assert fixed.unset == ("'batch'", "axis 2 of 'x'")


FAULTS = {
    "no such axis": (Axes({"bath": 4}), "options.dims.bath", "'bath'; there are 'batch', 'time'"),
    "no such input": (Axes(shapes={"w": (4,)}), "options.shapes.w", "no input 'w'; there are 'x', 'y', 'z'"),
    "another rank": (Axes(shapes={"x": (4, 3)}), "options.shapes.x", r"has 2 axes; .*has 3: \[batch, 3, \?\]"),
    "a fixed axis": (Axes(shapes={"x": (4, 5, 1)}), "options.shapes.x", "axis 1 of 'x' is 3 in the model"),
    "a fixed input": (Axes(shapes={"z": (3,)}), "options.shapes.z", "axis 0 of 'z' is 2 in the model"),
    "two ways": (Axes({"batch": 2}, {"x": (4, 3, 1)}), "options.shapes.x", "'batch', which is set to 2 and to 4"),
    "two shapes": (
        Axes(shapes={"x": (4, 3, 1), "y": (5, 1)}),
        "options.shapes.y",
        "'batch', which is set to 4 and to 5",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_extents_that_do_not_fit_the_model_are_refused(name: str) -> None:
    axes, field, told = FAULTS[name]
    with pytest.raises(InvalidAxes, match=told) as caught:
        fix_axes(INPUTS, axes)
    assert caught.value.field == field


def test_one_name_for_two_axes_of_an_input_is_one_extent() -> None:
    square = [tensor("x", "side", "side")]
    assert fix_axes(square, Axes({"side": 3})).inputs[0].shape == (3, 3)
    with pytest.raises(InvalidAxes, match="set to 3 and to 4"):
        fix_axes(square, Axes(shapes={"x": (3, 4)}))


def test_a_model_without_names_says_so() -> None:
    with pytest.raises(InvalidAxes, match="none of its inputs' axes has a name"):
        fix_axes([tensor("z", 2)], Axes({"batch": 1}))


def test_the_name_of_an_axis_is_a_name_like_any_other() -> None:
    with pytest.raises(InvalidModel, match="longer than"):
        inspect_upload(flattening("b" * 1000).SerializeToString())
    with pytest.raises(InvalidModel, match="UTF-8"):
        inspect_upload(flattening("batch").SerializeToString().replace(b"batch", b"bat\xffh"))
