"""Small graphs of one thing each on a vector unit, against onnxruntime."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options

NPU = load_accelerator("npu")


def check(
    nodes: Sequence[onnx.NodeProto],
    shapes: Mapping[str, Sequence[int]],
    constants: Mapping[str, ArrayLike],
    folder: Path,
    *,
    opset: int = 18,
) -> None:
    """All that nodes do runs on the accelerator, and is what onnxruntime computes.

    ``shapes`` has the inputs, which no node makes, and the results.
    """
    made = {name for node in nodes for name in node.output}
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    ends = (
        [value for name, value in values.items() if name not in made],
        [values[name] for name in shapes if name in made],
    )
    body = helper.make_graph(nodes, "operators", *ends, stored)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    random = np.random.default_rng(0)
    given = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items() if name not in made}
    options = Options(trace=False, schedule="quick")
    report = run_model(model.SerializeToString(), NPU, options, folder, inputs=given)
    assert report.verified
    assert not report.host_ops, report.host_ops
    assert report.floats
    assert all(found.independent for found in report.floats)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [value.name for value in ends[1]]
    with np.load(folder / "outputs.npz") as outputs:
        for name, expected in zip(names, session.run(names, given), strict=True):
            assert outputs[name].shape == expected.shape
            np.testing.assert_allclose(outputs[name], expected, rtol=1e-4, atol=1e-5)


def test_numbers_without_axes(tmp_path: Path) -> None:
    """It would catch tensors of rank 0 that are given an index, or none, as inputs, between programs and as results."""
    nodes = [
        helper.make_node("Exp", ["scale"], ["factor"]),
        helper.make_node("Mul", ["x", "factor"], ["scaled"]),
        helper.make_node("ReduceSum", ["scaled"], ["total"], keepdims=0),
        helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0]),
        helper.make_node("Div", ["turned", "total"], ["y"]),
        helper.make_node("Sqrt", ["largest"], ["root"]),
        helper.make_node("ReduceMax", ["scaled"], ["largest"], keepdims=0),
    ]
    nodes[-2:] = nodes[:-3:-1]
    check(nodes, {"x": [5, 37], "scale": [], "y": [37, 5], "root": [], "total": []}, {}, tmp_path)


def test_maxima_of_lines_and_volumes(tmp_path: Path) -> None:
    """It would catch ONNX's evaluator, which takes the maxima of channels over two axes whatever the rank is."""
    nodes = [
        helper.make_node("GlobalMaxPool", ["x"], ["y"]),
        helper.make_node("GlobalMaxPool", ["v"], ["w"]),
    ]
    shapes = {"x": [1, 6, 20], "y": [1, 6, 1], "v": [1, 3, 2, 5, 4], "w": [1, 3, 1, 1, 1]}
    check(nodes, shapes, {}, tmp_path)


def test_powers(tmp_path: Path) -> None:
    """It would catch a root that is its inverse, a power of another exponent, and one that goes to the host."""
    exponents = (-2, -1, -0.5, 0.5, 1, 2, 3, 4)
    nodes = [helper.make_node("Exp", ["x"], ["above_0"])]
    nodes += [helper.make_node("Pow", ["above_0", f"e{place}"], [f"y{place}"]) for place in range(len(exponents))]
    shapes = {"x": [3, 37]} | {f"y{place}": [3, 37] for place in range(len(exponents))}
    check(nodes, shapes, {f"e{place}": np.float32(each) for place, each in enumerate(exponents)}, tmp_path)


def test_selections_by_constants(tmp_path: Path) -> None:
    """Masks of bools as exporters write them, before a softmax and behind one, of a number and of two tensors.

    It would catch bounds that are the other way round, a constant of bools that is read along other axes, one that
    selects everything, and what is not selected and no number.
    """
    causal = np.tri(9, dtype=bool)
    some = np.random.default_rng(3).random((2, 1, 9)) < 0.5
    lowest, infinity = np.finfo(np.float32).min, np.float32(-np.inf)
    constants = {"causal": causal[None], "later": ~causal, "some": some, "none": np.zeros((1, 9, 9), bool)}
    constants |= {
        "lowest": lowest,
        "infinity": infinity,
        "zero": np.float32(0),
        "half": np.float32(0.5),
        "far": np.float32(500),
    }
    nodes = [
        helper.make_node("Where", ["causal", "x", "lowest"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["p"], axis=-1),
        helper.make_node("Where", ["later", "infinity", "x"], ["masked_again"]),
        helper.make_node("Softmax", ["masked_again"], ["q"], axis=-1),
        helper.make_node("Where", ["none", "zero", "q"], ["all"]),
        helper.make_node("Where", ["some", "all", "z"], ["either"]),
        helper.make_node("And", ["some", "causal"], ["both"]),
        helper.make_node("Where", ["both", "x", "half"], ["one"]),
        helper.make_node("Add", ["z", "far"], ["large"]),
        helper.make_node("Exp", ["large"], ["endless"]),
        helper.make_node("Where", ["causal", "z", "endless"], ["kept"]),
        helper.make_node("Where", ["causal", "kept", "half"], ["finite"]),
    ]
    shapes = {
        "x": [2, 9, 9],
        "z": [2, 9, 9],
        "p": [2, 9, 9],
        "either": [2, 9, 9],
        "one": [2, 9, 9],
        "finite": [2, 9, 9],
    }
    check(nodes, shapes, constants, tmp_path)
