"""GELUs that a float model has, in every form that exporters write, and what is like one and is none."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from accel.frontend.quantize.quantization_targets import find_targets
from accel.frontend.quantize.stored_functions.gelu_functions import find_gelus
from examples.graph import Graph

Form = Callable[[Graph, str], str]


def _number(graph: Graph, name: str, value: float) -> str:
    return graph.constant(name, np.float32(value))


def _by_erf(graph: Graph, x: str) -> str:
    erf = graph.node("Erf", "erf", [graph.node("Div", "div", [x, _number(graph, "root", 2**0.5)])])
    scaled = graph.node("Mul", "mul", [x, graph.node("Add", "plus", [erf, _number(graph, "one", 1)])])
    return graph.node("Mul", "y", [scaled, _number(graph, "half", 0.5)])


def _without_its_half(graph: Graph, x: str) -> str:
    erf = graph.node("Erf", "erf", [graph.node("Mul", "div", [x, _number(graph, "root", 0.5**0.5)])])
    return graph.node("Mul", "y", [graph.node("Add", "plus", [erf, _number(graph, "one", 1)]), x])


def _by_tanh(graph: Graph, x: str) -> str:
    cube = graph.node(
        "Mul", "cube", [graph.node("Pow", "pow", [x, _number(graph, "n", 3)]), _number(graph, "c", 0.044715)]
    )
    inner = graph.node("Mul", "inner", [graph.node("Add", "sum", [x, cube]), _number(graph, "k", (2 / np.pi) ** 0.5)])
    gate = graph.node("Add", "gate", [graph.node("Tanh", "tanh", [inner]), _number(graph, "one", 1)])
    return graph.node("Mul", "y", [graph.node("Mul", "halved", [x, _number(graph, "half", 0.5)]), gate])


def _one_node(graph: Graph, x: str) -> str:
    return graph.node("Gelu", "y", [x])


def _of_another(graph: Graph, x: str) -> str:
    """The gate of one tensor times another."""
    erf = graph.node("Erf", "erf", [x])
    other = graph.node("Softplus", "other", [x])
    return graph.node("Mul", "y", [graph.node("Add", "plus", [erf, _number(graph, "one", 1)]), other])


def _wider(graph: Graph, x: str) -> str:
    erf = graph.node("Erf", "erf", [graph.node("Div", "div", [x, _number(graph, "root", 2)])])
    return graph.node("Mul", "y", [graph.node("Add", "plus", [erf, _number(graph, "one", 1)]), x])


def _tanh_alone(graph: Graph, x: str) -> str:
    return graph.node("Tanh", "y", [x])


def _model(form: Form) -> onnx.ModelProto:
    graph = Graph("functions")
    sums = graph.node("MatMul", "sums", [graph.input("x", (4, 8)), graph.constant("w", np.eye(8, dtype=np.float32))])
    biased = graph.node("Add", "biased", [sums, graph.constant("b", np.ones(8, np.float32))])
    y = graph.node("MatMul", "z", [form(graph, biased), graph.constant("v", np.eye(8, dtype=np.float32))])
    graph.output(y, (4, 8))
    return graph.model(opset=20)


@pytest.mark.parametrize("form", [_by_erf, _without_its_half, _by_tanh, _one_node])
def test_every_form(form: Form) -> None:
    """A form that is not looked for, a bias taken for a part of it, or a factor left out."""
    model = _model(form)
    (found,) = find_gelus(model)
    assert found.result == "y"
    assert found.nodes.isdisjoint({"sums", "biased", "z"})
    assert "y" in found.nodes


@pytest.mark.parametrize("form", [_of_another, _wider, _tanh_alone])
def test_what_is_none(form: Form) -> None:
    """A form without its values."""
    model = _model(form)
    assert find_gelus(model) == ()


def test_a_sum_within_one_is_not_quantised() -> None:
    """A scale of its own for x + c * x**3, so that it is no function of int8."""
    model = _model(_by_tanh)
    (found,) = find_gelus(model)
    assert [node.name for node in find_targets(model).additions] == ["sum"]
    assert find_targets(model, within=found.nodes).additions == ()
