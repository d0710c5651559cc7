from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from examples import light
from tests.helpers.marking import rest_all
from tests.reference.host import draw_inputs, run_onnx

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
SMALL = ["light_squeezenet", "light_shufflenet"]


def integers(model: onnx.ModelProto) -> dict[str, list[int]]:
    read = {name for node in model.graph.node if node.op_type != "ConstantOfShape" for name in node.input}
    tensors = [t for t in model.graph.initializer if t.data_type != TensorProto.FLOAT and t.name in read]
    return {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in tensors}


def test_the_package_has_these_networks() -> None:
    assert sorted(light.NAMES) == sorted(path.stem for path in FOLDER.glob("*.onnx"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_weights_are_constants_and_shapes_are_kept(name: str) -> None:
    model, original = light.light(name), onnx.load(FOLDER / f"{name}.onnx")
    assert "ConstantOfShape" not in {node.op_type for node in model.graph.node}
    constants = {tensor.name for tensor in original.graph.initializer}
    inputs = [info.name for info in original.graph.input if info.name not in constants]
    assert [info.name for info in model.graph.input] == inputs
    assert [info.name for info in model.graph.output] == [info.name for info in original.graph.output]
    kept = integers(original)
    assert kept.items() <= integers(model).items()
    assert kept or name == "light_squeezenet"  # which reshapes nothing


@pytest.mark.parametrize("opset", rest_all([9, 13, 21], keep=0))
def test_opset_changes_no_result(opset: int) -> None:
    model, newer = light.light("light_squeezenet", opset=opset), light.light("light_squeezenet")
    assert model.opset_import[0].version == opset
    inputs = draw_inputs(newer)
    np.testing.assert_allclose(run_onnx(model, inputs)[0], run_onnx(newer, inputs)[0], rtol=1e-4)


def test_unknown_network_is_refused() -> None:
    with pytest.raises(ValueError, match="no network 'light_lenet'; there are light_bvlc_alexnet, "):
        light.light("light_lenet")
