import numpy as np
import onnx

from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.onnx_model.node_origins import origins_of
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.relax_import.relax_importer import import_onnx
from examples.graph import Graph


def names(model: onnx.ModelProto) -> dict[str, list[str]]:
    return {node.name: list(origins_of(node)) for node in model.graph.node}


def convolution() -> tuple[Graph, str]:
    graph = Graph("folded")
    random = np.random.default_rng(1)
    weight = graph.constant("weight", random.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32))
    x = graph.node("Identity", "same", [graph.input("x", (1, 3, 6, 6))])
    return graph, graph.node("Conv", "conv", [x, weight])


def test_what_is_folded_into_a_convolution_is_among_its_nodes() -> None:
    graph, y = convolution()
    scales = [
        graph.constant(name, np.full(8, value, np.float32)) for name, value in zip("sbmv", (2, 0, 1, 3), strict=True)
    ]
    y = graph.node("Dropout", "dropout", [graph.node("BatchNormalization", "norm", [y, *scales])])
    graph.output(graph.node("Relu", "relu", [y]), (1, 8, 4, 4))
    quantised = quantize_model(graph.model())
    assert names(quantised)["conv"] == ["conv", "same", "norm"]
    assert names(quantised)["relu"] == ["relu", "dropout"]
    assert import_onnx(quantised).operators["norm"] == "BatchNormalization"
    (function,) = [f for f in import_integer_model(quantised).module.functions.values() if f.attrs.get("op")]
    assert list(function.attrs["nodes"]) == ["conv", "same", "norm", "relu", "dropout"]


def test_a_decomposed_operator_keeps_its_name() -> None:
    graph, y = convolution()
    graph.output(graph.node("HardSwish", "swish", [y]), (1, 8, 4, 4))
    found = names(quantize_model(graph.model()))
    assert [node for node, covers in found.items() if "swish" in covers] == ["Mul_2"]


def test_nodes_of_constants_alone_are_nobodys() -> None:
    graph = Graph("constants")
    weight = graph.constant("weight", np.full((8, 3, 1, 1), 0.25, np.float32))
    y = graph.node("Conv", "conv", [graph.input("x", (1, 3, 6, 6)), graph.node("Neg", "negated", [weight])])
    graph.output(y, (1, 8, 6, 6))
    assert names(quantize_model(graph.model()))["conv"] == ["conv"]


def test_a_note_that_is_no_note_is_ignored() -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"], name="relu")
    node.metadata_props.add(key="cyclops.covers", value="[1]")
    assert origins_of(node) == {"relu": "Relu"}
