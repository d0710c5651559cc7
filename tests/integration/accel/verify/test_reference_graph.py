"""The reference: against all of it compiled by TVM, from the model's own nodes, and within its time."""

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from tvm import ir, relax

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.quantisation_scheme import requantisation
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.frontend.integer_recovery.recover_integers import ImportedModel, import_integer_model
from accel.frontend.quantize.quantize_model import ensure_quantised
from accel.frontend.quantize.scale_grid import Scheme
from accel.frontend.read.load_model import load_model
from accel.host.onnx_calls import read_onnx_call
from accel.util.deadline import Deadline, OutOfTimeError
from accel.verify.reference_graph import run_reference
from examples.ds_cnn import keyword_spotting
from examples.graph import Graph
from examples.resnet8 import resnet8
from examples.single import Conv, conv_model
from tests.helpers.marking import rest_slow
from tests.reference.host import compile_module, run_compiled


def imported(model: onnx.ModelProto, accelerator: str) -> ImportedModel:
    requantize, scales = requantisation(Target(load_accelerator(accelerator)))
    quantised = ensure_quantised(load_model(model.SerializeToString()).model, scheme=Scheme(scales))
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


def tvms_view(imported: ImportedModel) -> ir.IRModule:
    """``main`` whose nodes of the model are quantisation and Relax's own operators again, for TVM's compiler."""
    operators = {"Sigmoid": relax.op.sigmoid, "Relu": relax.op.nn.relu}
    builder = relax.BlockBuilder()

    def restored(call: ir.Call) -> relax.Expr:
        node = read_onnx_call(call)
        if node is None:
            return call
        if node.op == "QuantizeLinear":
            return builder.normalize(relax.op.quantize(*node.operands, out_dtype=str(call.ty_args[0].dtype)))
        if node.op == "DequantizeLinear":
            return builder.normalize(relax.op.dequantize(*node.operands, out_dtype="float32"))
        if node.op == "Softmax":
            return builder.normalize(relax.op.nn.softmax(node.operands[0], node.attributes.get("axis", -1)))
        return builder.normalize(operators[node.op](*node.operands))

    module = imported.module.clone()
    main = module["main"]
    (block,) = main.body.blocks
    bindings = [
        relax.VarBinding(b.var, restored(b.value) if isinstance(b.value, ir.Call) else b.value) for b in block.bindings
    ]
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], main.body.body)
    module["main"] = relax.Function(main.params, builder.normalize(body), main.ret_ty, main.is_pure, main.attrs)
    return module


@pytest.mark.parametrize("accelerator", ["vta", "gemmini"])
@pytest.mark.parametrize("make", rest_slow([several_results, resnet8, keyword_spotting]))
def test_every_output(make, accelerator: str) -> None:
    """Against all of it compiled by TVM; its exponentials round otherwise than onnxruntime's."""
    model = imported(make(), accelerator)
    main = model.module["main"]
    shape = [int(extent) for extent in main.params[0].ty.shape]
    inputs = [np.random.default_rng(1).standard_normal(shape).astype(np.float32)]
    expected = run_compiled(compile_module(tvms_view(model)), inputs)
    found = run_reference(model, inputs, Deadline(math.inf)).outputs
    for got, wanted in zip(found, expected, strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("accelerator", ["vta", "gemmini"])
def test_float_operators_are_the_nodes_of_the_model(accelerator: str) -> None:
    """Not what the importer made of them, in which nothing changes."""
    model = imported(several_results(), accelerator)
    inputs = [np.random.default_rng(1).standard_normal((1, 16, 8, 8)).astype(np.float32)]
    right = run_reference(model, inputs, Deadline(math.inf)).outputs
    softs = [node for node in model.model.graph.node if node.op_type == "Softmax"]
    assert len(softs) == 1
    softs[0].op_type = "LogSoftmax"
    changed = run_reference(model, inputs, Deadline(math.inf)).outputs
    assert [a.tobytes() == b.tobytes() for a, b in zip(right, changed, strict=True)] == [True, True, False]


def test_it_stops() -> None:
    model = imported(conv_model(Conv(channels=16, filters=16, height=8, width=8)), "vta")
    parameter = model.module["main"].params[0].ty
    shape = [int(extent) for extent in parameter.shape]
    with pytest.raises(OutOfTimeError):
        run_reference(model, [np.zeros(shape, str(parameter.dtype))], Deadline(0))


def wide() -> ImportedModel:
    graph = Graph("large")
    x = graph.input("x", (1, 1))
    wide = graph.node("Expand", "wide", [x, graph.constant("shape", np.array([1 << 13, 1 << 13], np.int64))])
    graph.output(graph.node("ReduceMax", "most", [graph.node("Exp", "exp", [wide])], keepdims=0), ())
    return imported(graph.model(), "vta")


def test_what_cannot_be_stopped_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accel.verify.onnx_reference.open_session", None)
    with pytest.raises(OutOfTimeError):
        run_reference(wide(), [np.zeros((1, 1), np.float32)], Deadline(0.1))


def test_it_stops_between_two_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an estimate of the work was too low."""
    monkeypatch.setattr("accel.verify.reference_graph.work_of", lambda _node, _types: 0)
    model = wide()
    with pytest.raises(OutOfTimeError):
        run_reference(model, [np.zeros((1, 1), np.float32)], Deadline(0.05))


@pytest.mark.parametrize("gated", [False, True])
def test_what_is_moved_behind_a_float_operator_is_compared_in_double_precision(gated: bool, tmp_path: Path) -> None:
    """Catches onnxruntime's float32, moved, in place of the other way to a result, which is in double precision."""
    graph = Graph("moved")
    x = graph.input("x", (1, 24, 40))
    made = graph.node("Sigmoid", "sigmoid", [x])
    made = graph.node("Mul", "silu", [x, made]) if gated else made
    graph.output(graph.node("Transpose", "moved", [made], perm=[0, 2, 1]), (1, 40, 24))
    model = graph.model().SerializeToString()
    report = run_model(model, load_accelerator("npu"), Options(), tmp_path)
    assert report.verified
    assert [result.independent for result in report.floats] == [True]
