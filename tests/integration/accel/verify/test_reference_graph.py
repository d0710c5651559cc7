"""The integer graph piece by piece, against all of it compiled by TVM."""

import math

import numpy as np
import onnx
import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.job_stages import requantisation
from accel.frontend.integer_recovery.recover_integers import ImportedModel, import_integer_model
from accel.frontend.quantize.quantize_model import ensure_quantised
from accel.frontend.read.load_model import load_model
from accel.host.host_executor import compile_module, run_compiled
from accel.util.deadline import Deadline, OutOfTimeError
from accel.verify.reference_graph import run_reference
from examples.ds_cnn import keyword_spotting
from examples.graph import Graph
from examples.resnet8 import resnet8
from examples.single import Conv, conv_model
from tests.helpers.marking import rest_slow


def imported(model: onnx.ModelProto, accelerator: str) -> ImportedModel:
    requantize, scales = requantisation(Target(load_accelerator(accelerator)))
    quantised = ensure_quantised(load_model(model.SerializeToString()).model, scales=scales)
    return import_integer_model(quantised, requantize=requantize)


def several_results() -> onnx.ModelProto:
    """Results in the middle, at the end, twice, and one that only the host makes."""
    graph = Graph("several")
    x = graph.input("x", (1, 16, 8, 8))
    weight = graph.constant("w", np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype(np.float32))
    first = graph.node("Conv", "first", [x, weight], pads=[1, 1, 1, 1])
    second = graph.node("Conv", "second", [graph.node("Sigmoid", "between", [first]), weight], pads=[1, 1, 1, 1])
    halves = graph.node("Add", "sum", [first, second])
    for name in (first, halves, graph.node("Softmax", "soft", [x])):
        graph.output(name, (1, 16, 8, 8))
    return graph.model()


@pytest.mark.parametrize("accelerator", ["vta", "gemmini"])
@pytest.mark.parametrize("make", rest_slow([several_results, resnet8, keyword_spotting]))
def test_every_output(make, accelerator: str) -> None:
    module = imported(make(), accelerator).module
    shape = [int(extent) for extent in module["main"].params[0].ty.shape]
    inputs = [np.random.default_rng(1).standard_normal(shape).astype(np.float32)]
    expected = run_compiled(compile_module(module), inputs)
    found = run_reference(module, inputs, Deadline(math.inf))
    for got, wanted in zip(found, expected, strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        assert got.tobytes() == wanted.tobytes()


def test_it_stops() -> None:
    module = imported(conv_model(Conv(channels=16, filters=16, height=8, width=8)), "vta").module
    shape = [int(extent) for extent in module["main"].params[0].ty.shape]
    with pytest.raises(OutOfTimeError):
        run_reference(module, [np.zeros(shape, str(module["main"].params[0].ty.dtype))], Deadline(0))


def test_what_cannot_be_stopped_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph("large")
    x = graph.input("x", (1, 1))
    wide = graph.node("Expand", "wide", [x, graph.constant("shape", np.array([1 << 13, 1 << 13], np.int64))])
    graph.output(graph.node("ReduceMax", "most", [graph.node("Exp", "exp", [wide])], keepdims=0), ())
    module = imported(graph.model(), "vta").module
    monkeypatch.setattr("accel.verify.reference_graph.relax.VirtualMachine", None)
    with pytest.raises(OutOfTimeError):
        run_reference(module, [np.zeros((1, 1), np.float32)], Deadline(0.1))
