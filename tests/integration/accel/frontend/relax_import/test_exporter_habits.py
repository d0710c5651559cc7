"""What frameworks export imports, and computes on the host what it does in onnxruntime."""

import numpy as np
import pytest
import tvm_ffi

from accel.errors import UnsupportedOperator
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_inspection import inspect_model
from accel.frontend.relax_import.relax_importer import import_onnx
from tests.helpers.models.exporter_habits import HABITS, IMAGE, i64, one
from tests.reference.host import draw_inputs, run_onnx, run_relax


@pytest.mark.parametrize("name", HABITS)
def test_it_computes_what_onnxruntime_does(name: str) -> None:
    results: dict[int, np.ndarray] = {}  # of modules, by their hash
    for opset in HABITS[name].opsets:
        model = HABITS[name].model(opset)
        info, inputs = inspect_model(model.SerializeToString()), draw_inputs(model)
        loaded = load_model(model.SerializeToString()).model
        module = import_onnx(loaded).module
        key = tvm_ffi.structural_hash(module)
        if key not in results:
            (results[key],) = run_relax(module, *inputs.values())
        (expected,) = run_onnx(model, inputs)
        assert info.opset == opset
        assert info.outputs[0].shape == results[key].shape == expected.shape
        assert {node.name for node in model.graph.node} <= {node.name for node in loaded.graph.node}
        np.testing.assert_allclose(results[key], expected, rtol=1e-5, atol=1e-5)


def test_what_only_computes_a_shape_is_not_run() -> None:
    model = load_model(HABITS["arithmetic on shapes"].model(13).SerializeToString()).model
    imported = import_onnx(model)
    assert {node.op for node in imported.origin.values()} == {"Reshape"}
    assert {"Shape.0", "Gather.1", "Div.2"} < set(imported.operators)


REFUSED = {
    "antialiasing": one(IMAGE, "Resize", "x _ _ c_n", (18,), c_n=i64(2, 4, 4, 4), mode="linear", antialias=1),
    "an aspect that is kept": one(
        IMAGE, "Resize", "x _ _ c_n", (18,), c_n=i64(2, 4, 4, 4), keep_aspect_ratio_policy="not_larger"
    ),
    # onnx's shape inference has one more window than onnxruntime
    "a window in the padding": one(
        IMAGE, "MaxPool", opsets=(11,), kernel_shape=[3, 3], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_by_the_name_of_the_node(name: str) -> None:
    habit = REFUSED[name]
    model = load_model(habit.model(habit.opsets[0]).SerializeToString()).model
    with pytest.raises(UnsupportedOperator) as caught:
        import_onnx(model)
    assert caught.value.field == f"node:{habit.layers[0].op}.0"
