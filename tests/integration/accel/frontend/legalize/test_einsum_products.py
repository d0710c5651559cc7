"""Einsums as products: what they compute, against onnxruntime, and that products of every sort are found."""

import string

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.frontend.read.load_model import load_model
from tests.reference.host import draw_inputs, run_onnx


def einsum(equation: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], constant: str = "") -> onnx.ModelProto:
    """Of ``a`` and ``b``, of which one may be constant."""
    result = np.einsum(equation, *map(np.zeros, shapes)).shape
    given = dict(zip("ab", shapes, strict=True))
    values = np.random.default_rng(0).normal(size=given[constant]).astype(np.float32) if constant else None
    graph = helper.make_graph(
        [helper.make_node("Einsum", ["a", "b"], ["y"], name="product", equation=equation)],
        "einsum",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, given[name]) for name in "ab" if name != constant],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [] if values is None else [numpy_helper.from_array(values, constant)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def operators(model: onnx.ModelProto) -> list[str]:
    """Of the model as loaded, whose result is compared with that of the file."""
    loaded = load_model(model.SerializeToString()).model
    inputs = draw_inputs(model)
    for ours, theirs in zip(run_onnx(loaded, inputs), run_onnx(model, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    return [node.op_type for node in loaded.graph.node]


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Of products: axes of each sort, in any order."""
    labels = iter(draw(st.permutations(string.ascii_letters)))
    batch, summed, rows, columns = (
        [next(labels) for _ in range(draw(st.integers(least, 2)))] for least in (0, 1, 1, 0)
    )
    extents = {label: draw(st.integers(1, 4)) for label in (*batch, *summed, *rows, *columns)}
    first, second, result = (
        "".join(draw(st.permutations(axes)))
        for axes in (batch + rows + summed, batch + summed + columns, batch + rows + columns)
    )
    if draw(st.booleans()):
        first, second = second, first
    shapes = tuple(tuple(extents[label] for label in operand) for operand in (first, second))
    return f"{first},{second}->{result}", (shapes[0], shapes[1])


@given(equation=equations(), constant=st.sampled_from(["", "a", "b"]))
def test_any_product_is_one(equation: tuple[str, tuple[tuple[int, ...], tuple[int, ...]]], constant: str) -> None:
    assert operators(einsum(*equation, constant)).count("MatMul") == 1


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("...x,xy->...y", ((2, 3, 4), (4, 5))), ("...ij,...jk", ((2, 3, 4), (2, 4, 5))), ("ij,jk", ((3, 4), (4, 5)))],
)
def test_an_ellipsis_and_no_arrow(equation: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    assert "MatMul" in operators(einsum(equation, shapes))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,ij->ij", ((3, 4), (3, 4))),  # no sum
        ("ij,jk->k", ((3, 4), (4, 5))),  # over one alone
        ("ij,ij->i", ((3, 4), (3, 4))),  # of elements
        ("ii,ij->ij", ((3, 3), (3, 4))),  # a diagonal
    ],
)
def test_others_stay(equation: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    assert operators(einsum(equation, shapes)) == ["Einsum"]


@pytest.mark.parametrize(
    ("equation", "shapes", "constant"),
    [
        ("bqhd,bkhd->bhqk", ((2, 5, 3, 8), (2, 6, 3, 8)), ""),
        ("abc,cde->abde", ((2, 3, 4), (4, 5, 6)), "b"),
        ("cd,abc->dab", ((4, 5), (2, 3, 4)), "a"),
    ],
)
def test_its_products_run_on_the_accelerator(
    equation: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], constant: str
) -> None:
    """Fails if an Einsum, as attention and dense layers are written with it, stays on the host."""
    plan = plan_model(einsum(equation, shapes, constant).SerializeToString(), load_accelerator("vta"))
    assert plan.macs.share == 1
