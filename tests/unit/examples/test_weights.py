import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from examples.graph import Graph
from examples.networks import build
from examples.weights import draw_weights, is_placeholder
from tests.reference.host import draw_inputs, run_onnx

WEIGHTED = ("Conv", "Gemm", "MatMul")


def every_result(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """What each node with weights computes on a random input."""
    observed = onnx.ModelProto.FromString(model.SerializeToString())
    names = [node.output[0] for node in model.graph.node if node.op_type in WEIGHTED]
    del observed.graph.output[:]
    observed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return dict(zip(names, run_onnx(observed, draw_inputs(model, seed)), strict=True))


@pytest.mark.parametrize("name", ["keyword_spotting", "visual_wake_words", "light_squeezenet"])
def test_every_layer_computes_values_of_a_common_size(name: str) -> None:
    for tensor, value in every_result(build(name), 7).items():
        assert 0.02 < value.std() < 10, tensor


def test_weights_depend_on_the_seed_alone() -> None:
    one, same, other = (build("keyword_spotting", seed).SerializeToString() for seed in (1, 1, 2))
    assert one == same != other


def test_batch_norms_carry_the_statistics_of_what_they_read() -> None:
    model = build("keyword_spotting", batch_norm=True)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    norm = next(node for node in model.graph.node if node.op_type == "BatchNormalization")
    (conv,) = [node for node in model.graph.node if node.output[0] == norm.input[0]]
    results = np.stack([every_result(model, seed)[conv.output[0]] for seed in range(32)])
    mean, variance = (constants[name] for name in norm.input[3:])
    np.testing.assert_allclose(mean, results.mean((0, 1, 3, 4)), atol=0.3)
    np.testing.assert_allclose(variance, results.var((0, 1, 3, 4)), rtol=0.5)


@pytest.mark.parametrize("name", ["autoencoder", "visual_wake_words"])
def test_variances_are_positive(name: str) -> None:
    model = build(name, batch_norm=True)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    assert norms
    assert all(constants[node.input[4]].min() > 0 for node in norms)


def test_only_what_has_no_values_is_drawn() -> None:
    graph = Graph("dense")
    weight = graph.constant("weight", np.full((3, 2), 0.5, np.float32))
    dense = graph.node("Gemm", "dense", [graph.input("x", (1, 3)), weight, graph.placeholder("bias", (2,))])
    graph.output(dense, (1, 2))
    model = graph.unchecked()
    draw_weights(model)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    assert (numpy_helper.to_array(constants["weight"]) == 0.5).all()
    assert not any(map(is_placeholder, model.graph.initializer))
    onnx.checker.check_model(model, full_check=True)


def test_a_weight_of_an_unknown_kind_is_refused() -> None:
    graph = Graph("power")
    graph.output(graph.node("Pow", "power", [graph.input("x", (1, 3)), graph.placeholder("exponent", (3,))]), (1, 3))
    with pytest.raises(ValueError, match=r"'exponent', which Pow reads"):
        draw_weights(graph.unchecked())
