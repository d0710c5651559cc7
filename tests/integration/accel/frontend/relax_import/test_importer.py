import numpy as np
import pytest

from accel.errors import UnsupportedOperator
from accel.frontend.legalize.explicit_padding import make_padding_explicit
from accel.frontend.relax_import.relax_importer import identifier, import_onnx
from examples.graph import Graph
from examples.resnet8 import resnet8
from tests.reference.host import draw_inputs, run_onnx, run_relax


def test_every_variable_knows_its_node() -> None:
    model = resnet8()
    imported = import_onnx(model)
    (block,) = imported.module["main"].body.blocks
    names = [binding.var.name for binding in block.bindings]
    assert len(set(names)) == len(names)
    assert set(imported.origin) == set(names)
    assert {node.name for node in imported.origin.values()} == {node.name for node in model.graph.node}
    assert imported.origin["conv1"].op == "Conv"


def test_the_parts_of_a_split_belong_to_it() -> None:
    graph = Graph("split")
    x = graph.input("x", (4, 6))
    graph.node("Split", "split", [x, graph.constant("sizes", np.array([2, 4]))], "first", axis=1)
    graph._nodes[0].output.append("second")
    graph.output(graph.node("Relu", "relu", ["second"]), (4, 4))
    imported = import_onnx(graph.model())
    assert {node.name for node in imported.origin.values()} == {"split", "relu"}
    inputs = draw_inputs(graph.model())
    np.testing.assert_array_equal(run_relax(imported.module, *inputs.values()), run_onnx(graph.model(), inputs))


def test_names_that_are_no_identifiers_and_names_used_twice_stay_apart() -> None:
    graph = Graph("names")
    y = graph.node("Relu", "/block.0/relu:0", [graph.input("input.1", (2, 2))], "a")
    y = graph.node("Neg", "_block_0_relu_0", [y], "b")
    y = graph.node("Abs", "/block.0/relu:0", [y], "c")
    graph.output(graph.node("Neg", "", [y], "d"), (2, 2))
    imported = import_onnx(graph.model())
    nodes = list(dict.fromkeys((node.name, node.op) for node in imported.origin.values()))
    assert nodes == [("/block.0/relu:0", "Relu"), ("_block_0_relu_0", "Neg"), ("Abs_2", "Abs"), ("Neg_3", "Neg")]
    assert len(imported.origin) == 4 + 1  # the output is one more variable


def test_identifiers() -> None:
    assert identifier("conv1") == "conv1"
    assert identifier("/a.b:0") == "v__a_b_0"
    assert identifier("") == "v_"
    assert identifier("größe").isascii()


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (None, 1.0), (-np.inf, 0.5), (np.nan, 0.5), (-1.0, None)])
def test_clips_with_any_bounds(low: float | None, high: float | None) -> None:
    graph = Graph("clip")
    bounds = [graph.constant(n, np.array(b, np.float32)) if b is not None else "" for n, b in (("l", low), ("h", high))]
    graph.output(graph.node("Clip", "clip", [graph.input("x", (3, 7)), *bounds]), (3, 7))
    inputs = draw_inputs(graph.model())
    result = run_relax(import_onnx(graph.model()).module, *inputs.values())
    np.testing.assert_array_equal(result, run_onnx(graph.model(), inputs))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 1), (1, 2)])
def test_automatic_padding(mode: str, stride: int, dilation: int) -> None:
    graph = Graph("padding")
    weight = graph.constant("w", np.random.default_rng(0).standard_normal((2, 3, 3, 4)).astype(np.float32))
    operands = [graph.input("x", (1, 3, 11, 10)), weight]
    y = graph.node("Conv", "conv", operands, auto_pad=mode, strides=[stride, stride], dilations=[dilation, dilation])
    sizes = [-(-size // stride) for size in (11, 10)]
    if mode == "VALID":
        sizes = [(size - dilation * (kernel - 1) - 1) // stride + 1 for size, kernel in ((11, 3), (10, 4))]
    graph.output(y, (1, 2, *sizes))
    model = graph.model()
    inputs = draw_inputs(model)
    (result,) = run_relax(import_onnx(model).module, *inputs.values())
    assert result.shape == (1, 2, *sizes)
    if dilation > 1:  # onnxruntime has no automatic padding with it
        make_padding_explicit(model)
    (expected,) = run_onnx(model, inputs)
    np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.slow
def test_a_conversion_that_fails_names_the_node(capsys: pytest.CaptureFixture[str]) -> None:
    graph = Graph("fails")
    x = graph.input("x", (2, 8))
    scale = graph.constant("scale", np.ones((2, 2), np.float32))
    y = graph.node(
        "QuantizeLinear", "blocked", [x, scale, graph.constant("z", np.zeros((2, 2), np.int8))], block_size=4
    )
    graph.output(graph.node("DequantizeLinear", "back", [y, scale, "z"], block_size=4), (2, 8))
    with pytest.raises(UnsupportedOperator) as caught:
        import_onnx(graph.model(21))
    assert caught.value.field == "node:blocked"
    assert capsys.readouterr().out == ""


def test_a_node_may_bear_the_functions_own_name() -> None:
    graph = Graph("names")
    graph.output(graph.node("Neg", "gv", [graph.node("Relu", "main", [graph.input("x", (2, 2))])]), (2, 2))
    imported = import_onnx(graph.model())
    assert {node.name for node in imported.origin.values()} == {"main", "gv"}
    inputs = draw_inputs(graph.model())
    np.testing.assert_array_equal(run_relax(imported.module, *inputs.values()), run_onnx(graph.model(), inputs))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pooling_with_automatic_padding(op: str, mode: str) -> None:
    graph = Graph("pool")
    sizes = (3, 3) if mode != "VALID" else (2, 2)
    x = graph.input("x", (1, 2, 6, 5))
    graph.output(graph.node(op, "pool", [x], kernel_shape=[3, 2], strides=[2, 2], auto_pad=mode), (1, 2, *sizes))
    inputs = draw_inputs(graph.model())
    (result,) = run_relax(import_onnx(graph.model()).module, *inputs.values())
    np.testing.assert_allclose(result, run_onnx(graph.model(), inputs)[0], atol=1e-6)


def test_what_tvm_refuses_as_a_whole_is_an_unsupported_operator() -> None:
    graph = Graph("shapes")
    shape = graph.node("Shape", "shape", [graph.input("x", (2, 3))])
    graph.output(graph.node("Div", "halved", [shape, graph.constant("two", np.array([2]))]), (2,), 7)
    with pytest.raises(UnsupportedOperator, match="Div: this compiler cannot read it"):
        import_onnx(graph.model())


def test_an_output_that_is_no_tensor_for_tvm_is_refused_by_name() -> None:
    graph = Graph("shape")
    graph.output(graph.node("Shape", "shape", [graph.input("x", (2, 3))]), (2,), 7)
    with pytest.raises(UnsupportedOperator, match="is no tensor for TVM") as caught:
        import_onnx(graph.model())
    assert caught.value.field == "node:shape"
