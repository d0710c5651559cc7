"""Models whose large constants are in a file."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.frontend.onnx_model.external_data import (
    LARGE,
    all_finite,
    array_of,
    externalize,
    is_external,
    with_embedded_data,
)
from accel.frontend.onnx_model.ort_session import session
from accel.frontend.quantize.quantize_model import ensure_quantised, quantize_model
from accel.frontend.quantize.scale_grid import Scheme
from accel.frontend.read.load_model import load_externalized, load_model
from accel.frontend.read.model_inspection import inspect_model
from examples.ds_cnn import keyword_spotting
from examples.resnet8 import resnet8
from tests.helpers.marking import rotated


def model_of(arrays: dict[str, np.ndarray]) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    node = helper.make_node("Relu", ["x"], ["y"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    return helper.make_model(helper.make_graph([node], "g", [x], [y], constants), producer_name="somebody")


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int32", "int64", "bool"])
def test_they_come_back(tmp_path: Path, dtype: str) -> None:
    random = np.random.default_rng(0)
    arrays = {
        name: random.integers(0, 2, shape).astype(dtype)
        for name, shape in (("large", (LARGE + 1,)), ("small", (LARGE,)), ("other", (3, 50, 100)), ("none", (0,)))
    }
    model = model_of(arrays)
    light = externalize(model, tmp_path)
    tensors = {tensor.name: tensor for tensor in light.graph.initializer}
    assert {name for name, tensor in tensors.items() if is_external(tensor)} == {"large", "other"}
    for name, array in arrays.items():
        found = array_of(tensors[name])
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    assert with_embedded_data(light) == model
    assert with_embedded_data(model) is model


def test_what_is_apart_stays_where_it_is(tmp_path: Path) -> None:
    model = model_of({"large": np.arange(LARGE * 2, dtype=np.float32)})
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    light = externalize(model, tmp_path / "first")
    assert externalize(light, tmp_path / "second") == light
    assert with_embedded_data(light) == model


def test_onnxruntime_finds_them(tmp_path: Path) -> None:
    model = resnet8()
    feed = {model.graph.input[0].name: np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)}
    (expected,) = session(model).run(None, feed)
    (found,) = session(externalize(model, tmp_path)).run(None, feed)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "scales"), rotated([resnet8, keyword_spotting], ["power of two", "free"]))
def test_a_loaded_model_is_quantised_as_the_whole_one(tmp_path: Path, make, scales) -> None:
    data = make().SerializeToString()
    loaded = load_externalized(data, tmp_path)
    assert loaded.info == inspect_model(data)
    assert with_embedded_data(loaded.model) == load_model(data).model
    quantised = quantize_model(load_model(data).model, scheme=Scheme(scales))
    assert quantize_model(loaded.model, scheme=Scheme(scales)) == quantised
    (tmp_path / "again").mkdir()
    (tmp_path / "model.onnx").write_bytes(quantised.SerializeToString())
    again = load_externalized(tmp_path / "model.onnx", tmp_path / "again").model
    assert with_embedded_data(ensure_quantised(again)) == quantised


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    monkeypatch.setattr("accel.frontend.onnx_model.external_data._CHUNK", 10)
    array = np.zeros((5, 7), np.float32)
    assert all_finite(array)
    array[4, 6] = value
    assert not all_finite(array)
