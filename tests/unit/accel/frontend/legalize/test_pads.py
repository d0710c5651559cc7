"""Pad nodes join the node after them where that changes nothing."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest

from accel.frontend.legalize.explicit_padding import join_pads
from accel.frontend.onnx_model.node_origins import origins_of
from accel.frontend.read.load_model import load_model
from tests.helpers.models.exporter_habits import IMAGE, LINES, Habit, Layer, i64, layer
from tests.reference.host import draw_inputs, run_onnx

AROUND = i64(0, 0, 1, 1, 0, 0, 1, 1)
CONSTANTS = {"w": (6, 4, 3, 3), "around": AROUND, "zero": np.float32(0), "one": np.float32(1), "six": np.float32(6)}
CONSTANTS |= {"low": np.float32(-np.inf), "batch": i64(1, 0, 1, 1, 0, 0, 1, 1), "cut": i64(0, 0, -1, 1, 0, 0, 1, 1)}
CONSTANTS |= {"wide": i64(0, 0, 3, 3, 0, 0, 3, 3), "two": i64(1, 0), "last": i64(-1), "sideways": i64(0, 1)}


def habit(*before: Layer, pad: str = "around zero", x: tuple[int, ...] = IMAGE, **given: Any) -> Habit:
    """``before``, which makes ``r`` if there is any, then a Pad, then the node ``last``."""
    constants = CONSTANTS | given.pop("constants", {})
    last = given.pop("last")
    padded = layer("Pad", f"{'r' if before else 'x'} {pad}", "p", **given)
    return Habit(x, (*before, padded, last), (18,), constants)


CONV = layer("Conv", "p w")
MAX = layer("MaxPool", "p", kernel_shape=[3, 3], strides=[2, 2])
MEAN = layer("AveragePool", "p", kernel_shape=[3, 3])
RELU = layer("Relu", "x", "r")

JOINED: Mapping[str, tuple[Habit, list[int]]] = {
    "convolution": (habit(last=CONV), [1, 1, 1, 1]),
    "one axis": (habit(pad="sideways _ last", last=CONV), [0, 0, 0, 1]),
    "lines": (habit(pad="two _ last", x=LINES, last=CONV, constants={"w": (6, 4, 3)}), [1, 0]),
    "to padding": (habit(last=layer("Conv", "p w", pads=[0, 1, 2, 0])), [1, 2, 3, 1]),
    "more than a window": (habit(pad="wide", last=CONV), [3, 3, 3, 3]),
    "average": (habit(last=MEAN), [1, 1, 1, 1]),
    "average with padding": (
        habit(last=layer("AveragePool", "p", kernel_shape=[3, 3], pads=[1, 0, 0, 1], count_include_pad=1)),
        [2, 1, 1, 2],
    ),
    "maximum of what is never negative": (habit(RELU, last=MAX), [1, 1, 1, 1]),
    "maximum of a clip": (habit(layer("Clip", "x zero six", "r"), last=MAX), [1, 1, 1, 1]),
    "maximum around which is the lowest number": (habit(pad="around low", last=MAX), [1, 1, 1, 1]),
}

APART = {
    "maximum of anything": habit(last=MAX),
    "maximum of a clip above": habit(layer("Clip", "x _ six", "r"), last=MAX),
    "another value": habit(pad="around one", last=CONV),
    "the batch": habit(pad="batch", last=CONV),
    "cut": habit(pad="cut", last=CONV),
    "reflected": habit(last=CONV, mode="reflect"),
    "average that does not count it": habit(last=layer("AveragePool", "p", kernel_shape=[3, 3], pads=[1, 1, 1, 1])),
    "windows of padding": habit(pad="wide", last=MEAN),
    "average rounded up": habit(last=layer("AveragePool", "p", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)),
}


def joined(habit: Habit) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model, and what is made of it; both give the same."""
    model = load_model(habit.model(18).SerializeToString()).model
    changed = onnx.ModelProto.FromString(model.SerializeToString())
    join_pads(changed)
    inputs = draw_inputs(model)
    np.testing.assert_allclose(run_onnx(changed, inputs)[0], run_onnx(model, inputs)[0], atol=1e-5)
    return model, changed


@pytest.mark.parametrize("name", JOINED)
def test_a_pad_joins(name: str) -> None:
    habit, pads = JOINED[name]
    model, changed = joined(habit)
    node, last = changed.graph.node[-1], model.graph.node[-1]
    assert "Pad" not in [other.op_type for other in changed.graph.node]
    assert [list(a.ints) for a in node.attribute if a.name == "pads"] == [pads]
    assert origins_of(node) == {last.name: last.op_type, model.graph.node[-2].name: "Pad"}


@pytest.mark.parametrize("name", APART)
def test_a_pad_that_means_something_else_stays(name: str) -> None:
    model, changed = joined(APART[name])
    assert changed == model


def test_a_pad_that_two_nodes_read_stays() -> None:
    nodes = [layer("Pad", "x around", "p"), layer("Conv", "p w", "c"), layer("GlobalMaxPool", "c", "d")]
    nodes += [layer("Neg", "p", "e"), layer("GlobalMaxPool", "e", "f"), layer("Concat", "d f", axis=1)]
    model, changed = joined(Habit(IMAGE, tuple(nodes), (18,), CONSTANTS))
    assert changed == model
