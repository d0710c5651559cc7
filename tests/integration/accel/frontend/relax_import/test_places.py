"""Operators on the places of elements, and others that TVM cannot import or run: the host does as onnxruntime does."""

import numpy as np
import pytest
from onnx import TensorProto

from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_inspection import inspect_model
from tests.helpers.models.exporter_habits import IMAGE, LINES, ROWS, Habit, f32, i64, layer, one
from tests.reference.host import draw_inputs, run_host, run_onnx

FLOAT = TensorProto.FLOAT
HABITS = {
    "gather, one": one(IMAGE, "Gather", "x c_i", (9, 13), c_i=np.array(1), axis=1),
    "gather, from the end": one(IMAGE, "Gather", "x c_i", (11,), c_i=np.array([[0, 1], [1, -2]]), axis=3),
    "gather, int32": one(IMAGE, "Gather", "x c_i", (11,), c_i=np.array([1], np.int32)),
    "gather, computed": Habit(IMAGE, (layer("ArgMax", "x", "a", axis=1, keepdims=0), layer("Gather", "w a")), (11, 13),
                              {"w": (4, 3)}),
    "gather elements": Habit(IMAGE, (layer("ArgMax", "x", "a", axis=1, keepdims=1),
                                     layer("GatherElements", "x a", axis=1)), (11, 13)),
    "gather slices": one(IMAGE, "GatherND", "x c_i", (11, 13), c_i=np.array([[0, 1], [1, 2]])),
    "scatter slices": Habit(ROWS, (layer("ScatterND", "x at u"),), (11, 16),
                            {"at": np.array([[0], [2]]), "u": (2, 8)}),
    "top": Habit(ROWS, (layer("TopK", "x k", "y i"),), (10, 11), {"k": i64(3)}),
    "top, smallest": Habit(IMAGE, (layer("TopK", "x k", "y i", axis=1, largest=0),), (11,), {"k": i64(3)}),
    "top, where": Habit(ROWS, (layer("TopK", "x k", "v i"), layer("Cast", "i", to=FLOAT)), (11,), {"k": i64(3)}),
    "top of equals": Habit(ROWS, (layer("Round", "x", "r"), layer("TopK", "r k", "v i"),
                                  layer("Cast", "i", to=FLOAT)), (11,), {"k": i64(8)}),
    "cumulative sum": one(IMAGE, "CumSum", "x c_a", (11, 14), c_a=np.array(1)),
    "cumulative sum, backwards": one(IMAGE, "CumSum", "x c_a", (14,), c_a=np.array(-1), reverse=1, exclusive=1),
    "one hot": Habit(ROWS, (layer("ArgMax", "x", "a", axis=1, keepdims=0), layer("OneHot", "a d v", axis=0)), (11,),
                     {"d": i64(8), "v": f32(0.5, 2)}),
    "celu": one(IMAGE, "Celu", opsets=(12,), alpha=0.7),
    "norm": one(IMAGE, "LpNormalization", opsets=(9,), axis=1, p=2),
    "norm of absolutes": one(IMAGE, "LpNormalization", opsets=(9,), axis=-1, p=1),
    "square by an integer": one(IMAGE, "Pow", "x c_e", (13, 15), c_e=np.array(2, np.int64)),
    "cube by an integer": one(IMAGE, "Pow", "x c_e", (13,), c_e=np.array(3, np.int32)),
    "equality of comparisons": Habit(
        IMAGE, (layer("LessOrEqual", "x z", "c"), layer("GreaterOrEqual", "x z", "d"), layer("Equal", "c d", "e"),
                layer("Cast", "e", to=FLOAT)), (12, 16), {"z": np.float32(0.3)}),
    "group norm": one(IMAGE, "GroupNormalization", "x c_s c_b", (21,), c_s=(4,), c_b=(4,), num_groups=2),
    "instance norm of lines": one(LINES, "InstanceNormalization", "x c_s c_b", (9,), c_s=(4,), c_b=(4,)),
}  # fmt: skip


@pytest.mark.parametrize("name", HABITS)
def test_the_host_computes_what_onnxruntime_does(name: str) -> None:
    for opset in HABITS[name].opsets:
        model = HABITS[name].model(opset)
        data, inputs = model.SerializeToString(), draw_inputs(model)
        inspect_model(data)
        imported = import_integer_model(load_model(data).model)  # which refuses what cannot be compiled
        result = run_host(imported.module, *inputs.values())[0]
        expected = run_onnx(model, inputs)[0]
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
