"""Random graphs of float operators on a vector unit, against onnxruntime.

It would catch a tile that lacks its last rows, a buffer that is given away too early, a broadcast along the wrong axis,
a reduction that begins with the wrong number, and an operator that is left to the host though instructions do it.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options

UNARY = ("Sigmoid", "Tanh", "Erf", "Relu", "Abs", "Neg", "Floor", "Ceil", "Exp")
PAIRS = ("Add", "Sub", "Mul", "Max", "Min")
REDUCTIONS = ("ReduceMax", "ReduceMin", "ReduceSum")  # a mean over places is quantised, as pooling is
ROWS = ("Softmax", "LayerNormalization", *REDUCTIONS)
NPU = load_accelerator("npu")


def graph(shape: tuple[int, ...], steps: tuple[tuple[str, int], ...]) -> onnx.ModelProto:
    """The operators one after the other on ``x`` of a shape, each with what it takes beside drawn from a number."""
    nodes, constants, value, extents = [], [], "x", list(shape)
    for number, (op, seed) in enumerate(steps):
        inputs, result, attributes = [value], f"v{number}", {}
        random = np.random.default_rng(seed)
        if op in PAIRS:
            kept = [n if random.integers(2) else 1 for n in extents[int(random.integers(len(extents))) :]]
            inputs.append(f"c{number}")
            constants.append(numpy_helper.from_array(random.normal(size=kept).astype(np.float32), inputs[-1]))
        elif op == "LayerNormalization":
            for name in ("gain", "bias"):
                inputs.append(f"{name}{number}")
                drawn = random.normal(size=extents[-1]).astype(np.float32)
                constants.append(numpy_helper.from_array(drawn, inputs[-1]))
            attributes = {"axis": -1, "epsilon": 1e-3}
        elif op in ("Softmax", *REDUCTIONS):
            attributes = {"axis": -1} if op == "Softmax" else {"keepdims": 1}
            if op in REDUCTIONS:
                inputs.append(f"c{number}")
                constants.append(numpy_helper.from_array(np.array([-1]), inputs[-1]))
                extents[-1] = 1
        nodes.append(helper.make_node(op, inputs, [result], name=f"{op}_{number}", **attributes))
        value = result
    given_type, made = ((n, TensorProto.FLOAT, e) for n, e in (("x", list(shape)), (value, extents)))
    body = helper.make_graph(
        nodes, "floats", [helper.make_tensor_value_info(*given_type)], [helper.make_tensor_value_info(*made)], constants
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def check(shape: tuple[int, ...], steps: tuple[tuple[str, int], ...], folder: Path) -> None:
    """All operators run on the accelerator, within their rounding bounds, and are what onnxruntime computes."""
    model = graph(shape, steps)
    x = np.random.default_rng(len(steps)).normal(size=shape).astype(np.float32)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    report = run_model(path, NPU, Options(), folder, inputs={"x": x})
    assert report.verified
    assert report.floats
    assert all(found.independent for found in report.floats)
    assert not report.host_ops, report.host_ops
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    with np.load(folder / "outputs.npz") as outputs:
        (found,) = (outputs[name] for name in outputs.files)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


STEPS = st.tuples(st.sampled_from((*UNARY, *PAIRS, *ROWS)), st.integers(0, 1 << 16))
SHAPES = st.lists(st.sampled_from([1, 2, 3, 5, 7, 64, 97, 130]), min_size=1, max_size=4).filter(
    lambda shape: np.prod(shape) <= 1 << 15
)


@pytest.mark.parametrize(
    ("shape", "steps"),
    [
        ((3, 197, 64), (("Softmax", 1), ("Mul", 2), ("LayerNormalization", 3))),  # 197 rows are no whole tiles
        ((2, 5, 7, 130), (("Add", 4), ("Erf", 0), ("ReduceSum", 0), ("Tanh", 0))),
        ((1,), (("Neg", 0), ("Sub", 5), ("Relu", 0))),
        ((97, 3), (("ReduceMax", 0), ("Exp", 0), ("ReduceSum", 0))),  # a row of one number is reduced again
    ],
    ids=["attention", "gelu-like", "one-number", "reduced-twice"],
)
def test_a_graph_of_floats(shape: tuple[int, ...], steps: tuple[tuple[str, int], ...], tmp_path: Path) -> None:
    check(shape, steps, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("op", ["Softmax", "LayerNormalization", "ReduceMax"])
def test_rows_that_do_not_fit_take_two_steps(op: str, tmp_path: Path) -> None:
    """It would catch a row of 80,000 floats that goes to the host: the memory that they are computed in has 65,536."""
    check((2, 80000), (("Neg", 0), (op, 1)), tmp_path)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SHAPES, st.lists(STEPS, min_size=1, max_size=7))
@example([2, 64, 130], [("LayerNormalization", 7), ("Softmax", 0), ("LayerNormalization", 8)])
def test_random_graphs_of_floats(tmp_path: Path, shape: list[int], steps: list[tuple[str, int]]) -> None:
    check(tuple(shape), tuple(steps), tmp_path)


def test_what_is_no_number_is_replaced_where_it_is_made(tmp_path: Path) -> None:
    """A softmax as exporters of attention write it, 0 in rows in which all is masked; a sum over two axes; and a norm.

    It would catch bools, axes that are an operand, and results that nobody reads, which send the operator to the host,
    and a NaN that stays.
    """
    mask = np.where(np.tri(6, dtype=bool), 0, -np.inf).astype(np.float32)
    mask[2] = -np.inf
    constants = {"mask": mask, "zero": np.float32(0), "axes": np.array([1, 2])}
    constants |= {name: np.random.default_rng(1).uniform(0.5, 1.5, 6).astype(np.float32) for name in "gbmv"}
    nodes = [
        helper.make_node("Add", ["x", "mask"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["rows"], axis=-1),
        helper.make_node("IsNaN", ["rows"], ["none"]),
        helper.make_node("Where", ["none", "zero", "rows"], ["y"]),
        helper.make_node("ReduceSum", ["y", "axes"], ["sums"], keepdims=0),
        helper.make_node("BatchNormalization", ["y", *"gbmv"], ["normed"]),
    ]
    ends = {"x": [2, 6, 6], "y": [2, 6, 6], "sums": [2], "normed": [2, 6, 6]}
    given, *made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends.items())
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    body = helper.make_graph(nodes, "masked", [given], made, stored)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    x = np.random.default_rng(0).normal(size=ends["x"]).astype(np.float32)
    report = run_model(model.SerializeToString(), NPU, Options(trace=False), tmp_path, inputs={"x": x})
    assert report.verified
    assert not report.host_ops, report.host_ops
    session = onnxruntime.InferenceSession(model.SerializeToString())
    with np.load(tmp_path / "outputs.npz") as outputs:
        for name, expected in zip(("y", "sums", "normed"), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(outputs[name], expected, rtol=1e-5, atol=1e-6)
        assert not outputs["y"][:, 2].any()
