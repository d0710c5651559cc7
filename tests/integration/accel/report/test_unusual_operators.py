"""Operators that few export: each runs, or is refused by its node, with what would change that."""

import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.errors import CyclopsError
from tests.helpers.marking import rotated
from tests.helpers.models.exported_files import constant, info, model, node, untyped, weights

IMAGE = (1, 8, 8, 8)
PRESETS = ("vta", "gemmini", "output-stationary", "vector")


def one(
    op: str, *inits: onnx.TensorProto, shape: tuple[int, ...] = (4, 8), opset: int = 18, **more: Any
) -> onnx.ModelProto:
    """The node ``it`` of an input and of constants."""
    domain = more.pop("domain", "")
    made = model(
        [node(op, ["x", *(each.name for each in inits)], ["y"], name="it", domain=domain, **more)],
        [info("x", *shape)], [untyped("y")], inits, opset=opset,
    )  # fmt: skip
    if domain:
        made.opset_import.add(domain=domain, version=1)
    made.ir_version = 10
    return made


def twice(op: str) -> onnx.ModelProto:
    """Of two activations."""
    nodes = [node("Relu", ["x"], ["a"], name="act"), node(op, ["x", "a"], ["y"], name="it")]
    return model(nodes, [info("x", 4, 8)], [untyped("y")])


def indexed() -> onnx.ModelProto:
    made = one("MaxPool", shape=IMAGE, kernel_shape=[2, 2])
    made.graph.node[0].output.append("places")
    made.graph.output.append(info("places", kind=TensorProto.INT64))
    del made.graph.output[1].type.tensor_type.shape.dim[:]
    made.graph.output[1].type.tensor_type.ClearField("shape")
    return made


RUN: dict[str, tuple[onnx.ModelProto, str]] = {
    "Einsum": (one("Einsum", weights("w", 4, 8), equation="ij,ij->i"), "what is one product of matrices"),
    "CumSum": (one("CumSum", constant("axis", 1)), "a constant triangle of ones would be"),
    "TopK": (one("Hardmax"), "no instruction for sorting"),
    "ScatterND": (
        one("ScatterND", constant("at", [[0], [2]]), weights("new", 2, 8)), "no stores at places that a tensor says"
    ),
    "GatherND": (one("GatherND", constant("at", [[0], [2]])), "only moves elements"),
    "Resize": (
        one("Upsample", constant("by", [1, 1, 2, 2], np.float32), shape=IMAGE, opset=9, mode="linear"),
        "a ConvTranspose with its factors as weights would be",
    ),
    "nearest": (
        one("Upsample", constant("by", [1, 1, 2, 2], np.float32), shape=IMAGE, opset=9), "only moves elements"
    ),
    "LeakyRelu": (one("LeakyRelu"), "a table of 256 entries"),
    "Sigmoid": (one("Sigmoid"), "a table of 256 entries"),
    "GlobalMaxPool": (one("GlobalMaxPool", shape=IMAGE), "one with the image's size as its kernel would be"),
    "ReduceMax": (one("ReduceMax", constant("axes", [1])), "as its kernel would be"),
    "ReduceSum": (one("ReduceSum", constant("axes", [1])), "means over all places"),
    "Trilu": (one("Trilu"), "only moves elements"),
    "matrices": (one("MatMul", weights("w", 2, 8, 8), shape=(4, 8)), "one product for each of these matrices"),
    "a norm alone": (
        one("BatchNormalization", *(constant(name, np.ones(8), np.float32) for name in "gbmv"), shape=IMAGE),
        "this one has no such neighbour",
    ),
    "Mul": (twice("Mul"), "others it maps in a model that is quantised around them"),
    "MatMul": (
        model([node("MatMul", ["x", "z"], ["y"], name="it")], [info("x", 8), info("z", 8, 4)], [untyped("y")]),
        "those of two matrices, or stacks of them",
    ),
    "Gemm": (
        model([node("Gemm", ["x", "z"], ["y"], name="it")], [info("x", 4, 8), info("z", 8, 4)], [untyped("y")]),
        "of products of two activations MatMul",
    ),
    "Add": (one("Add", constant("c", np.arange(8), np.float32)), "this one has no such layer"),
    "InstanceNormalization": (
        one("InstanceNormalization", weights("g", 8), weights("b", 8), shape=IMAGE), "square roots or division"
    ),
    "GroupNormalization": (
        one("GroupNormalization", weights("g", 8), weights("b", 8), shape=IMAGE, opset=21, num_groups=2),
        "is computed as InstanceNormalization, Mul, Add; InstanceNormalization: ",
    ),
    "MaxPool": (one("MaxPool", shape=(1, 8, 4, 4, 4), kernel_shape=[2] * 3), "maxima of int8 images"),
}  # fmt: skip
REFUSED: dict[str, tuple[onnx.ModelProto, str, str]] = {
    "NonZero": (
        model([node("NonZero", ["x"], ["n"], name="it"), node("Cast", ["n"], ["y"], to=1)],
              [info("x", 4)], [untyped("y")]),
        "unsupported-shape", "depends on the inputs' data",
    ),
    "Unique": (one("Unique"), "unsupported-shape", "depends on the inputs' data"),
    "Det": (one("Det", shape=(3, 3)), "unsupported-operator", "export it as the simpler operators"),
    "QAttention": (one("QAttention", domain="com.microsoft"), "unsupported-operator", "onnxruntime's optimiser"),
    "FusedConv": (one("FusedConv", domain="com.microsoft"), "unsupported-operator", "onnxruntime's optimiser"),
    "a domain": (one("Foo", domain="my.own"), "unsupported-operator", "with its local function in the file"),
    "SimplifiedLayerNormalization": (
        one("SimplifiedLayerNormalization", weights("g", 8)), "unsupported-operator", "onnxruntime's optimiser"
    ),
    "an opset too old": (one("LayerNormalization", weights("g", 8), opset=13), "unsupported-operator", "from opset 17"),
    "places of maxima": (indexed(), "unsupported-operator", "return_indices=False"),
    "random": (one("RandomNormalLike"), "unsupported-operator", "cannot be verified"),
    "a sequence": (
        model([node("SequenceConstruct", ["x"], ["s"], name="it"), node("ConcatFromSequence", ["s"], ["y"], axis=0)],
              [info("x", 4, 8)], [untyped("y")]),
        "unsupported-type", "not a dense tensor",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "preset"), rotated(RUN, PRESETS))
def test_a_reason_says_what_would_change_it(name: str, preset: str) -> None:
    made, told = RUN[name]
    plan = plan_model(made.SerializeToString(), load_accelerator(preset))
    reason = next(each.reason for each in plan.nodes if each.name == "it")
    assert reason is not None
    assert told in reason
    assert not re.search(r"by anybody|quantise them|makes no ", reason)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_node_and_what_to_export(name: str) -> None:
    made, kind, told = REFUSED[name]
    with pytest.raises(CyclopsError) as caught:
        plan_model(made.SerializeToString(), load_accelerator("vta"))
    assert (caught.value.type, caught.value.field) == (kind, "node:it")
    assert told in caught.value.detail
