"""Layer norms that are quantised at both ends: which of a model they are, what has their gains, and their scales."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from accel.frontend.onnx_model.onnx_nodes import name_nodes
from accel.frontend.onnx_model.ort_session import session
from accel.frontend.quantize.quantization_targets import find_targets
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.quantize.scale_grid import Scheme
from accel.frontend.quantize.stored_functions.layer_norms import NormRows, with_plain_norms
from accel.region.row_layer_norm import layer_norm_of_integers
from examples.graph import Graph

_COLUMNS, _ROWS, _SIZE = (1, 512), 12, 32
_SCHEME = Scheme("free", zero_points="all", layer_norm_columns=_COLUMNS)


def _model(
    readers: Sequence[str] = ("dense",), *, columns: int = _SIZE, axis: int = -1, plain: bool = False
) -> onnx.ModelProto:
    """A norm behind an addition, and what reads it."""
    random, graph = np.random.default_rng(0), Graph("norm")
    a, b = (graph.input(name, (1, _ROWS, columns)) for name in "ab")
    gains = np.ones(columns) if plain else np.exp(random.normal(0, 0.5, columns))
    offsets = np.zeros(columns) if plain else random.normal(0, 0.3, columns)
    parameters = [graph.constant(name, value.astype(np.float32)) for name, value in (("g", gains), ("o", offsets))]
    if axis == 1:
        parameters = [graph.constant(f"{name}2", np.ones((_ROWS, columns), np.float32)) for name in "go"]
    norm = graph.node("LayerNormalization", "norm", [graph.node("Add", "sum", [a, b]), *parameters], axis=axis)
    for at, reader in enumerate(readers):
        if reader == "dense":
            weight = graph.constant(f"weight{at}", random.normal(0, 0.2, (columns, 8)).astype(np.float32))
            graph.node("MatMul", f"dense{at}", [norm, weight], f"y{at}")
        elif reader == "biased":
            weight = graph.constant(f"weight{at}", random.normal(0, 0.2, (columns, 8)).astype(np.float32))
            bias = graph.constant(f"bias{at}", random.normal(0, 0.2, 8).astype(np.float32))
            graph.node("Add", f"biased{at}", [graph.node("MatMul", f"dense{at}", [norm, weight]), bias], f"y{at}")
        elif reader == "add":
            graph.node("Add", f"add{at}", [norm, a], f"y{at}")
        graph.output(
            norm if reader == "output" else f"y{at}", (1, _ROWS, 8 if reader in ("dense", "biased") else columns)
        )
    model = graph.model()
    name_nodes(model)
    return model


def _plain(model: onnx.ModelProto) -> tuple[onnx.ModelProto, tuple[NormRows, ...]]:
    return with_plain_norms(model, find_targets(model).activations, _COLUMNS)


@pytest.mark.parametrize(
    ("model", "operators"),
    [
        (_model(), ["Add", "LayerNormalization", "MatMul", "Add"]),
        (_model(("biased", "biased")), ["Add", "LayerNormalization", "MatMul", "Add", "MatMul", "Add"]),
        (_model(("biased", "add")), ["Add", "LayerNormalization", "MatMul", "Add", "MatMul", "Add", "Add"]),
        (_model(("add",)), ["Add", "LayerNormalization", "MatMul", "Add", "Add"]),
    ],
    ids=["a product", "products", "an addition too", "an addition"],
)
def test_products_have_the_gains_of_norms(model: onnx.ModelProto, operators: list[str]) -> None:
    """The model computes what it did, but for how float32 rounds, and its norms have neither gains nor offsets."""
    changed, found = _plain(model)
    (norm,) = [node for node in changed.graph.node if node.op_type == "LayerNormalization"]
    assert found == (NormRows(str(norm.input[0]), str(norm.output[0]), _SIZE),)
    assert [node.op_type for node in changed.graph.node] == operators
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in changed.graph.initializer}
    assert (constants[norm.input[1]] == 1).all()
    assert not constants[norm.input[2]].any()
    random = np.random.default_rng(1)
    feeds = {name: random.standard_normal((1, _ROWS, _SIZE)).astype(np.float32) for name in "ab"}
    results = [session(each).run(None, feeds) for each in (model, changed)]
    for wanted, result in zip(*results, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [_model(("output", "dense")), _model(columns=513), _model(axis=1), _model(())],
    ids=["output", "long", "axis", "not quantised"],
)
def test_norms_that_stay(model: onnx.ModelProto) -> None:
    """Floats that a user wants, rows that no store takes, and what has no scale."""
    changed, found = _plain(model)
    assert not found
    assert changed is model


def test_a_norm_without_gains_has_none_to_give() -> None:
    model = _model(plain=True)
    changed, found = _plain(model)
    assert found == (NormRows("sum", "norm", _SIZE),)
    assert [node.op_type for node in changed.graph.node] == [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("readers", [("dense",), ("biased", "add")])
def test_results_have_scales_that_weights_have(readers: tuple[str, ...]) -> None:
    model = quantize_model(_model(readers), scheme=_SCHEME)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    (norm,) = [node for node in model.graph.node if node.op_type == "LayerNormalization"]
    (quantize,) = [
        node for node in model.graph.node if node.op_type == "QuantizeLinear" and node.input[0] in norm.output
    ]
    scale, zero_point = (constants[name] for name in quantize.input[1:])
    assert layer_norm_of_integers(float(scale), _SIZE) is not None
    assert zero_point.dtype == np.int8
    assert not zero_point.any()
    assert any(node.op_type == "DequantizeLinear" and node.output[0] == norm.input[0] for node in model.graph.node)
