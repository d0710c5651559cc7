"""Operators that ONNX defines by others: what is read computes what ONNX's own reference does of the node."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from accel.errors import UnsupportedOperator
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.onnx_model.node_origins import origins_of
from accel.frontend.read.load_model import load_model
from tests.helpers.marking import rest_slow
from tests.helpers.models.exported_files import constant, info, model, node, untyped, weights
from tests.reference.host import draw_inputs, reference_outputs

HEADS = (1, 4, 16)
SPLIT = (1, 2, 4, 8)


def one(
    op: str, shapes: dict[str, tuple[int, ...]], opset: int, *inits: onnx.TensorProto, **more: Any
) -> onnx.ModelProto:
    """The node ``it`` of inputs, and of constants behind them."""
    names = [*shapes, *(each.name for each in inits)]
    made = model(
        [node(op, names, ["y"], name="it", **more)],
        [info(name, *shape) for name, shape in shapes.items()],
        [untyped("y")],
        inits,
        opset=opset,
    )
    made.ir_version = 10
    return made


def three(shape: tuple[int, ...], grouped: tuple[int, ...] | None = None) -> dict[str, tuple[int, ...]]:
    return {"q": shape, "k": grouped or shape, "v": grouped or shape}


MODELS = {
    "attention": one("Attention", three(SPLIT), 23),
    "causal": one("Attention", three(HEADS), 23, is_causal=1, q_num_heads=2, kv_num_heads=2),
    "grouped heads": one("Attention", three(HEADS, (1, 4, 8)), 23, q_num_heads=2, kv_num_heads=1, scale=0.5),
    "softcap": one("Attention", three(SPLIT), 23, softcap=2.0),
    "masked": one("Attention", three(SPLIT), 23, constant("mask", np.triu(np.full((4, 4), -1e9), 1), np.float32)),
    "rotary": one("RotaryEmbedding", {"x": SPLIT}, 23, weights("cos", 1, 4, 4), weights("sin", 1, 4, 4)),
    "rotary, interleaved": one(
        "RotaryEmbedding", {"x": SPLIT}, 23, weights("cos", 1, 4, 4), weights("sin", 1, 4, 4), interleaved=1
    ),
    "crop": one("CenterCropPad", {"x": (4, 5)}, 18, constant("to", [2, 8])),
    "group norm": one("GroupNormalization", {"x": (2, 8, 3, 5)}, 21, weights("g", 8), weights("b", 8), num_groups=2),
    "group norm of lines": one(
        "GroupNormalization", {"x": (2, 6, 5)}, 21, weights("g", 6), weights("b", 6), num_groups=3, epsilon=0.1
    ),
    "moments": one("MeanVarianceNormalization", {"x": (2, 3, 4, 4)}, 13),
    "moments of axes": one("MeanVarianceNormalization", {"x": (2, 3, 4, 4)}, 13, axes=[2, 3]),
    "cast like": one("CastLike", {"x": (2, 3), "like": (1,)}, 17),
}
QUICK = ("grouped heads", "group norm")


@pytest.mark.parametrize("name", [*QUICK, *rest_slow(tuple(name for name in MODELS if name not in QUICK), keep=0)])
def test_a_body_computes_what_the_operator_is_defined_as(name: str) -> None:
    made = MODELS[name]
    loaded = load_model(made.SerializeToString())
    assert loaded.info.operators == {made.graph.node[0].op_type: 1}  # it is described as it was uploaded
    assert {origin for each in loaded.model.graph.node for origin in origins_of(each)} == {"it"}
    feeds = draw_inputs(made)
    (expected,) = ReferenceEvaluator(made).run(None, feeds)
    (found,) = reference_outputs(import_integer_model(loaded.model), list(feeds.values()))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_body_within_a_body_is_written_out_too() -> None:
    """Attention's has a CastLike, whose other operand would be read for its data."""
    loaded = load_model(MODELS["causal"].SerializeToString()).model
    assert {"Attention", "CastLike"}.isdisjoint(each.op_type for each in loaded.graph.node)


def test_a_withdrawn_operator_is_refused_by_its_node() -> None:
    made = one("GroupNormalization", {"x": (2, 8, 3)}, 18, weights("g", 2), weights("b", 2), num_groups=2)
    with pytest.raises(UnsupportedOperator, match="withdrawn in opset 18") as caught:
        load_model(made.SerializeToString())
    assert caught.value.field == "node:it"
