"""Bools of a model's integers as bounds, against onnxruntime on the model as it was."""

import random
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from accel.frontend.legalize.vector_units.mask_bounds import with_mask_bounds
from tests.reference.host import run_onnx

SHAPE = [2, 1, 3, 4]
ENDS = [0.0, -1.0, 2.5, -float("inf"), float("inf"), -3.4028235e38, "scores"]


class Masks:
    """A random model of masks: ``mask`` int64, ``flag`` bool and ``scores`` float32, all [2, 1, 3, 4]."""

    def __init__(self, seed: int) -> None:
        self._random, self._nodes, self._constants = random.Random(seed), list[Any](), list[onnx.TensorProto]()
        bools = ["flag", self._node("Cast", "mask", to=TensorProto.BOOL)]
        bools.append(self._node("Less", "mask", self._constant(np.int64(1))))
        held = self._constant(np.random.default_rng(seed).random(SHAPE) < 0.5)
        for _ in range(self._random.randrange(6)):
            bools.append(self._another(self._random.choice(bools), self._random.choice([*bools, held])))
        ends = [self._end(), self._end()]
        whole = self._node("Where", bools[-1], *ends)
        number = self._node("Cast", self._random.choice(bools), to=TensorProto.FLOAT)
        self._node("Sum", "scores", whole, number, result="y")

    def _another(self, one: str, other: str) -> str:
        kind = self._random.choice(["And", "Or", "Xor", "Not", "Reshape", "Gather", "GatherND", "Expand"])
        if kind in ("And", "Or", "Xor"):
            return self._node(kind, one, other)
        if kind == "Reshape":
            flat = self._node("Flatten", one, axis=2)
            return self._node("Reshape", flat, self._constant(np.array(SHAPE, np.int64)))
        if kind == "Gather":
            places = self._random.choice([[0, 1, 2, 3], [3, 0, 0, 1]])
            return self._node("Gather", one, self._constant(np.array(places, np.int64)), axis=3)
        if kind == "GatherND":
            return self._node("GatherND", one, self._constant(np.moveaxis(np.indices(SHAPE), 0, -1)))
        if kind == "Expand":
            row = self._node("Slice", one, *(self._constant(np.array([each], np.int64)) for each in (1, 2, 2)))
            return self._node("Expand", row, self._constant(np.array(SHAPE, np.int64)))
        return self._node("Not", one)

    def _end(self) -> str:
        end = self._random.choice(ENDS)
        return end if isinstance(end, str) else self._constant(np.float32(end))

    def _constant(self, value: Any) -> str:
        self._constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self._constants)}"))
        return self._constants[-1].name

    def _node(self, op: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        result = result or f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [result], f"n{len(self._nodes)}", **attributes))
        return result

    def model(self) -> onnx.ModelProto:
        kinds = {"mask": TensorProto.INT64, "flag": TensorProto.BOOL, "scores": TensorProto.FLOAT}
        inputs = [helper.make_tensor_value_info(name, kind, SHAPE) for name, kind in kinds.items()]
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)
        graph = helper.make_graph(self._nodes, "masks", inputs, [result], self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@given(st.integers(0, 1 << 30))
def test_what_bounds_select_is_what_the_bools_did(seed: int) -> None:
    """Bit for bit: catches a bound of the wrong sign, an end that is taken for another, and a mask moved otherwise."""
    model, draws = Masks(seed).model(), np.random.default_rng(seed)
    fed = {
        "mask": draws.integers(-1, 3, SHAPE),
        "flag": draws.random(SHAPE) < 0.5,
        "scores": draws.standard_normal(SHAPE).astype(np.float32),
    }
    made = with_mask_bounds(model)
    onnx.checker.check_model(made, full_check=True)
    (found,), (expected,) = run_onnx(made, fed), run_onnx(model, fed)
    assert np.array_equal(found, expected, equal_nan=True)
    assert {node.op_type for node in made.graph.node}.isdisjoint({"And", "Or", "Xor", "Not"})


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.INT64])
def test_bools_of_floats_and_integers_that_bools_make_stay_as_they_are(dtype: int) -> None:
    """Catches a condition that programs have of their own floats, or an index, made of the host's bounds."""
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    nodes = [
        helper.make_node("Greater", ["x", "c"], ["b"], "compare"),
        helper.make_node("Cast", ["b"], ["y"], "cast", to=dtype),
    ]
    zero = numpy_helper.from_array(np.float32(0), "c")
    graph = helper.make_graph(nodes, "own", [given], [helper.make_tensor_value_info("y", dtype, [4])], [zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    assert with_mask_bounds(model) is model
