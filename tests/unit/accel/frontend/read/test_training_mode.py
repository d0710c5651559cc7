"""Models exported in training mode are refused for that, and told how to export them; others are not."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.errors import UnsupportedOperator
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_inspection import inspect_model

STATISTICS = ("mean_out", "var_out", "mean_saved", "var_saved")


def _model(node: onnx.NodeProto, opset: int, constants: dict[str, np.ndarray], *more: onnx.NodeProto) -> bytes:
    image = [2, 3, 4, 4]
    graph = helper.make_graph(
        [*more, node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, image)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, image)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(model.SerializeToString())


def _norm(opset: int, outputs: tuple[str, ...], **attributes: int) -> bytes:
    names = ("scale", "shift", "mean", "var")
    node = helper.make_node("BatchNormalization", ["x", *names], ["y", *outputs], name="norm", **attributes)
    return _model(node, opset, {name: np.ones(3, np.float32) for name in names})


def _dropout(opset: int, mode: bool, *, as_node: bool = False) -> bytes:
    node = helper.make_node("Dropout", ["x", "ratio", "mode"], ["y", "mask"], name="norm")
    value = numpy_helper.from_array(np.array(mode))
    more = [helper.make_node("Constant", [], ["mode"], value=value)] if as_node else []
    constants = {"ratio": np.float32(0.5)} | ({} if as_node else {"mode": np.array(mode)})
    return _model(node, opset, constants, *more)


TRAINING = {
    "a norm of opset 9": _norm(9, STATISTICS),
    # nobody reads them, and still the node normalises by its batch
    "a norm of opset 13": _norm(13, STATISTICS),
    "a norm of opset 14": _norm(14, STATISTICS[:2], training_mode=1),
    "a norm of opset 15 without statistics": _norm(15, (), training_mode=1),
    "a dropout": _dropout(13, mode=True),
    "a dropout, as a node says": _dropout(17, mode=True, as_node=True),
}

INFERENCE = {
    "a norm of opset 13": _norm(13, ()),
    "a norm of opset 13 with outputs without names": _norm(13, ("",) * 4),
    "a norm of opset 15": _norm(15, (), training_mode=0),
    "a dropout": _dropout(13, mode=False),
    "a dropout, as a node says": _dropout(17, mode=False, as_node=True),
}


@pytest.mark.parametrize("name", TRAINING)
def test_training_mode_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(UnsupportedOperator, match=r"training mode.*model\.eval\(\).*TrainingMode\.EVAL") as caught:
        inspect_model(TRAINING[name])
    assert caught.value.field == "node:norm"


def test_a_mode_that_is_computed_is_refused() -> None:
    node = helper.make_node("Dropout", ["x", "ratio", "mode"], ["y"], name="norm")
    mode = helper.make_node("Not", ["no"], ["mode"])
    data = _model(node, 13, {"ratio": np.float32(0.5), "no": np.array(False)}, mode)
    with pytest.raises(UnsupportedOperator, match="'mode', which is no constant"):
        inspect_model(data)


@pytest.mark.parametrize("name", INFERENCE)
def test_inference_is_not_refused(name: str) -> None:
    load_model(INFERENCE[name])
