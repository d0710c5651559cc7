"""Branches that meet: vector programs that one operator reads are one, where nothing between them waits for either."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.report.documents.report_documents import Report

ROWS, WIDE = 24, 32


class Net:
    """Operators on [ROWS, WIDE], each called as its result."""

    def __init__(self) -> None:
        self._random, self._nodes, self._stored = np.random.default_rng(0), list[onnx.NodeProto](), []

    def node(self, op: str, result: str, *operands: str, **attributes: object) -> str:
        self._nodes.append(helper.make_node(op, operands, [result], result, **attributes))
        return result

    def layer(self, result: str, operand: str) -> str:
        weights = self._random.normal(size=(WIDE, WIDE)).astype(np.float32) / WIDE**0.5
        self._stored.append(numpy_helper.from_array(weights, f"{result}.weights"))
        return self.node("MatMul", result, operand, f"{result}.weights")

    def model(self, *results: str) -> bytes:
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, WIDE]) for name in ("x", *results)]
        graph = helper.make_graph(self._nodes, "branches", ends[:1], ends[1:], self._stored)
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


def gated(net: Net) -> list[str]:
    """SwiGLU: either branch begins with the result of a layer."""
    gate, up = net.layer("gate", "x"), net.layer("up", "x")
    net.node("Mul", "silu", gate, net.node("Sigmoid", "sigmoid", gate))
    return [net.layer("down", net.node("Mul", "product", up, "silu"))]


def normed(net: Net) -> list[str]:
    """Each branch has reductions of its own, and both read the same two tensors."""
    left, right = net.layer("left", "x"), net.layer("right", "x")
    first = net.node("Mul", "first", net.node("Softmax", "one", left, axis=-1), right)
    second = net.node("Mul", "second", net.node("Softmax", "two", right, axis=-1), left)
    return [net.layer("last", net.node("Mul", "product", first, second))]


def read_outside(net: Net) -> list[str]:
    """What each branch has is a result too."""
    left = net.node("Tanh", "tanh", net.layer("left", "x"))
    right = net.node("Exp", "exp", net.node("Tanh", "narrow", net.layer("right", "x")))
    return [net.node("Mul", "product", left, right), right, left]


def chained(net: Net) -> list[str]:
    """A residual: of what meets, one is made of the other by a layer between."""
    first = net.node("Tanh", "tanh", net.layer("first", "x"))
    second = net.node("Sigmoid", "sigmoid", net.layer("between", first))
    return [net.node("Mul", "product", second, net.node("Exp", "exp", first))]


def turned(net: Net) -> list[str]:
    """A mean along rows beside one along columns: their axes are not the same."""
    left, right = net.layer("left", "x"), net.layer("right", "x")
    rows = net.node("Sub", "rows", left, net.node("ReduceMean", "row_means", left, axes=[1], keepdims=1))
    columns = net.node("Sub", "columns", right, net.node("ReduceMean", "column_means", right, axes=[0], keepdims=1))
    return [net.node("Mul", "product", rows, columns)]


def run(make: Callable[[Net], list[str]], out: Path, accelerator: str = "npu") -> Report:
    net = Net()
    model = net.model(*make(net))
    options = Options(trace=False, schedule="quick")
    return run_model(model, load_accelerator(accelerator), options, out)


@pytest.mark.parametrize(
    ("make", "together"),
    [
        (gated, {"sigmoid", "silu", "product"}),
        (normed, {"one", "two", "first", "second", "product"}),
        (read_outside, {"tanh", "exp", "narrow", "product"}),
    ],
)
def test_what_meets_is_one_program(make: Callable[[Net], list[str]], together: set[str], tmp_path: Path) -> None:
    """Catches branches that are stored and loaded to meet, and values that are lost or stored twice on the way."""
    report = run(make, tmp_path)
    assert report.verified
    assert not [layer.nodes for layer in report.layers if 0 < len(together.intersection(layer.nodes)) < len(together)]


@pytest.mark.parametrize("make", [chained, turned])
def test_what_cannot_be_one_program_stays_several(make: Callable[[Net], list[str]], tmp_path: Path) -> None:
    """Catches a program that waits for itself, and axes that are taken for those of another branch."""
    report = run(make, tmp_path)
    assert report.verified
    programs = [layer.nodes for layer in report.layers if {"product", "exp", "rows", "tanh"}.intersection(layer.nodes)]
    assert len(programs) > 1


@pytest.mark.slow
@pytest.mark.parametrize("make", [gated, normed, read_outside, chained, turned])
def test_branches_meet_on_a_machine_that_multiplies_floats(make: Callable[[Net], list[str]], tmp_path: Path) -> None:
    """Catches sums of products that are read again for each tile of what they were merged with."""
    assert run(make, tmp_path, "docs/machines/float-array.yaml").verified
