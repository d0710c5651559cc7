"""Models of every opset and IR version that is read mean the same, up to what the newest onnx writes."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from accel.errors import InvalidModel, UnsupportedOperator
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.legalize.opset_downgrade import IMPLIED
from accel.frontend.onnx_model.model_limits import NEWEST_IR_VERSION, OPSETS, RUNTIME_IR_VERSION, RUNTIME_OPSET
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_inspection import inspect_model
from accel.frontend.relax_import.relax_importer import import_onnx
from accel.verify.output_comparison import reference_outputs
from tests.helpers.models.exporter_habits import IMAGE, Habit, i64, layer
from tests.reference.host import draw_inputs, run_onnx

NETWORK = Habit(
    (1, 4, 8, 8),
    (
        layer("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        layer("BatchNormalization", "a scale shift mean var", "b"),
        layer("Relu", "b", "c"),
        layer("MaxPool", "c", "d", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        layer("HardSigmoid", "d", "e"),
        layer("GlobalAveragePool", "e", "f"),
        layer("Shape", "f", "s"),
        layer("Gather", "s zero", "n"),
        layer("Concat", "n rest", "to", axis=0),
        layer("Reshape", "f to", "g"),
        layer("MatMul", "g v", "h"),
        layer("Clip", "h", "i"),
        layer("Softmax", "i", "y"),
    ),
    (18,),
    {"w": (6, 4, 3, 3), "scale": (6,), "shift": (6,), "mean": (6,), "var": np.ones(6, np.float32), "v": (6, 5),
     "zero": i64(0), "rest": i64(-1)},
)  # fmt: skip


def versions(model: onnx.ModelProto, opset: int, ir_version: int) -> bytes:
    model.opset_import[0].version = opset
    model.ir_version = ir_version
    return model.SerializeToString()


def imported(data: bytes) -> str:
    return import_onnx(quantize_model(load_model(data).model)).module.script()


@pytest.mark.parametrize("opset", range(19, OPSETS.stop))
def test_a_network_of_a_newer_opset_is_quantised_and_imported_as_that_of_18(opset: int) -> None:
    model = NETWORK.model(18)
    data = versions(model, opset, NEWEST_IR_VERSION)
    assert inspect_model(data).opset == opset
    assert imported(data) == imported(NETWORK.model(18).SerializeToString())


def test_what_the_newest_onnx_writes_by_itself_is_read() -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4))],
    )
    model = helper.make_model(graph)
    assert (model.ir_version, model.opset_import[0].version) == (onnx.IR_VERSION, onnx.defs.onnx_opset_version())
    loaded = load_model(model.SerializeToString()).model
    inputs = draw_inputs(loaded)
    np.testing.assert_array_equal(run_onnx(loaded, inputs)[0], np.maximum(inputs["x"], 0))


def test_the_newest_versions_are_those_of_the_libraries() -> None:
    assert NEWEST_IR_VERSION == onnx.IR_VERSION
    assert OPSETS.stop - 1 == onnx.defs.onnx_opset_version()
    assert loads(RUNTIME_OPSET, RUNTIME_IR_VERSION)
    assert not loads(RUNTIME_OPSET + 1, RUNTIME_IR_VERSION)
    assert not loads(RUNTIME_OPSET, RUNTIME_IR_VERSION + 1)


def loads(opset: int, ir_version: int) -> bool:
    """Whether onnxruntime does."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        data = versions(NETWORK.model(18), opset, ir_version)
        onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 - its exceptions have no common base
        return False
    return True


def test_all_that_newer_opsets_added_to_operators_is_known() -> None:
    names = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
    old = {name: onnx.defs.get_schema(name, RUNTIME_OPSET) for name in names if onnx.defs.has(name, RUNTIME_OPSET, "")}
    added = set()
    for name, before in old.items():
        now = onnx.defs.get_schema(name, OPSETS.stop - 1)
        added |= {(name, attribute) for attribute in set(now.attributes) - set(before.attributes)}
        kept = set(now.attributes) & set(before.attributes)
        assert kept == set(before.attributes)
        assert all(now.attributes[a].default_value == before.attributes[a].default_value for a in kept), name
        assert [i.name for i in now.inputs] == [i.name for i in before.inputs]
    assert added == set(IMPLIED)


@pytest.mark.parametrize("mode", [None, "DCR"])
def test_a_new_attribute_that_says_nothing_new_goes(mode: str | None) -> None:
    given = {} if mode is None else {"mode": mode}
    model = Habit((1, 2, 4, 4), (layer("SpaceToDepth", blocksize=2, **given),), (28,)).model(28)
    loaded = load_model(model.SerializeToString()).model
    inputs = draw_inputs(loaded)
    expected = inputs["x"].reshape(1, 2, 2, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 2)
    np.testing.assert_array_equal(run_onnx(loaded, inputs)[0], expected)


def one(op: str, inputs: str = "x", **attributes: Any) -> Habit:
    return Habit((1, 8, 4, 4), (layer(op, inputs, **attributes),), (28,))


NEW: dict[str, tuple[Habit, str]] = {
    "an operator": (one("SwiGLU", "x x"), "new in opset 28"),
    "a value of an attribute": (one("SpaceToDepth", blocksize=2, mode="CRD"), "mode=CRD is new in opset 28"),
    "the remainder of floats": (one("Mod", "x x"), "fmod=1"),
}


@pytest.mark.parametrize("name", NEW)
def test_what_onnxruntime_cannot_be_told_is_refused_when_the_model_is_inspected(name: str) -> None:
    habit, told = NEW[name]
    with pytest.raises(UnsupportedOperator, match=told) as caught:
        inspect_model(habit.model(28).SerializeToString())
    assert caught.value.field == f"node:{habit.layers[0].op}.0"


@pytest.mark.parametrize(
    ("opset", "ir_version", "told"),
    [
        (8, 8, f"of opset 8; {OPSETS.start} to {OPSETS.stop - 1} are read.*opset_version="),
        (OPSETS.stop, 13, f"of opset {OPSETS.stop}; {OPSETS.start} to {OPSETS.stop - 1} are read.*opset_version="),
        (18, NEWEST_IR_VERSION + 1, f"IR version {NEWEST_IR_VERSION + 1}; those up to {NEWEST_IR_VERSION} are read"),
    ],
)
def test_versions_that_are_not_read_are_refused_when_the_model_is_inspected(
    opset: int, ir_version: int, told: str
) -> None:
    with pytest.raises(InvalidModel, match=told) as caught:
        inspect_model(versions(NETWORK.model(18), opset, ir_version))
    assert caught.value.field == "model"


NEWER = {
    "swish": Habit(IMAGE, (layer("Swish", alpha=0.5),), (24,)),
    "norm by squares": Habit((2, 3, 8), (layer("RMSNormalization", "x scale"),), (23,), {"scale": (8,)}),
}


@pytest.mark.parametrize("name", NEWER)
def test_new_operators_compute_what_onnxruntime_does(name: str) -> None:
    model = NEWER[name].model(NEWER[name].opsets[0])
    inputs = draw_inputs(model)
    (found,) = reference_outputs(
        import_integer_model(load_model(model.SerializeToString()).model), list(inputs.values())
    )
    np.testing.assert_allclose(found, run_onnx(model, inputs)[0], rtol=1e-5, atol=1e-5)


def test_attention_is_not_taken_for_another_of_that_name() -> None:
    """TVM has a converter of com.microsoft's Attention alone, which it would use."""
    model = Habit((1, 2, 4, 8), (layer("Attention", "x x x"),), (23,)).model(23)
    loaded = load_model(model.SerializeToString()).model
    assert {"MatMul", "Softmax"} <= {node.op_type for node in loaded.graph.node}
    inputs = draw_inputs(model)
    (found,) = reference_outputs(import_integer_model(loaded), list(inputs.values()))
    np.testing.assert_allclose(found, run_onnx(model, inputs)[0], rtol=1e-5, atol=1e-5)
