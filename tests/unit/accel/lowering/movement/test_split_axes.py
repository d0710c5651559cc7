"""Axes that end where blocks do: each element has the address that it had."""

import numpy as np

from accel.lowering.movement.split_axes import with_split_axes
from accel.region.affine_view import AffineView, whole
from accel.region.kinds import VectorRegion
from accel.region.vector_program import UNIT, VectorProgram, VectorTensor

AT = "[a0, a1, a2]"


def region(*statements: str) -> VectorRegion:
    """A program over 64 channels of an image of 3x5, whose operand lies in blocks of 32 and whose result does not."""
    program = VectorProgram(
        extents=(64, 3, 5),
        tile=(64, 1, 5),
        tensors=(
            VectorTensor("x", "int8", (UNIT, 0, 1, 2)),
            VectorTensor("y", "float32", (UNIT, 0, 1, 2)),
            VectorTensor("b0", "float32", (1, 2, 0), "v"),
            VectorTensor("b1", "float32", (1, 2), "v"),
        ),
        results=1,
        statements=statements,
        contexts=2,
    )
    return VectorRegion(program, (in_blocks(),))


def in_blocks() -> AffineView:
    """[1, 64, 3, 5] as it lies in [1, 2, 3, 5, 32]."""
    return whole((1, 64, 3, 5)).reshaped((1, 2, 32, 3, 5)).permuted((0, 1, 4, 2, 3)).view()


def test_an_axis_is_cut_where_blocks_end() -> None:
    split = with_split_axes(region(f"b0[a1, a2, a0] = f32(x{AT})", f"y{AT} = b0[a1, a2, a0]"))
    assert split is not None
    assert split.shape.extents == (2, 32, 3, 5)
    assert split.shape.statements == (
        "b0[a2, a3, a0, a1] = f32(x[a0, a1, a2, a3])",
        "y[a0, a1, a2, a3] = b0[a2, a3, a0, a1]",
    )
    assert [tensor.axes for tensor in split.shape.tensors[:3]] == [(-1, 0, 1, 2, 3), (-1, 0, 1, 2, 3), (2, 3, 0, 1)]
    elements = np.arange(64 * 3 * 5)
    for found, before in zip(split.views, (in_blocks(), whole((1, 64, 3, 5)).view()), strict=True):
        assert found is not None
        assert found.tensor == (1, 2, 32, 3, 5)
        np.testing.assert_array_equal(found.of(elements).ravel(), before.of(elements).ravel())


def test_what_is_summed_is_one_axis() -> None:
    """Would catch a sum over two axes, which instructions have no loops for."""
    load = f"b0[a1, a2, a0] = f32(x{AT})"
    assert with_split_axes(region(load, "b1[a1, a2] = 0.0", "b1[a1, a2] += b0[a1, a2, a0]")) is None
