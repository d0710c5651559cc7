"""Direct moves of documents, and the loops that an instruction makes of any points."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.isa.explicit.operations import InstructionOperation, sorts_of
from accel.isa.explicit.residency.direct_moves import direct_moves
from accel.isa.explicit.residency.point_loops import LoopShapes, points_of
from accel.isa.explicit.residency.scratchpad_places import TensorPlace, least_ring

TEXT = (Path(__file__).parents[5] / "docs" / "machines" / "tpu-v1.yaml").read_text(encoding="utf-8")
TPU = parse_accelerator(TEXT.encode())
SCALED = "Y[n] = i8(clip(rint(f32(ACC[n]) * scale), -128, 127))"


def moved(text: str) -> Accelerator:
    assert SCALED in TEXT
    return parse_accelerator(TEXT.replace(SCALED, text).encode())


def test_a_store_and_a_load_are_one_instruction_where_their_expressions_are() -> None:
    """Catches operations that are paired with another's bits, and scalars that get another field."""
    found = {(move.store.meaning.operation.name, move.compute.meaning.operation.name) for move in direct_moves(TPU)}
    assert found == {("scale", "scale"), ("scale_relu", "scale_relu")}
    assert {move.scalars for move in direct_moves(TPU)} == {(("scale", "scale"),)}
    assert not direct_moves(load_accelerator("npu"))


@pytest.mark.parametrize(
    "text",
    [
        "Y[n] = i8(clip(floor(f32(ACC[n]) * scale), -128, 127))",
        "Y[n] = i8(clip(rint(f32(ACC[n]) * scale), -127, 127))",
        "Y[n] = i8(clip(rint(scale * f32(ACC[n])), -128, 127))",  # the same, and not known to be
        "Y[n] = i8(clip(rint(f32(ACC[n]) + scale), -128, 127))",
        "Y[n] = i8(clip(rint(f32(ACC[0]) * scale), -128, 127))",
    ],
)
def test_another_expression_is_no_direct_move(text: str) -> None:
    """Catches arithmetic that is taken for another."""
    assert [move.compute.meaning.operation.name for move in direct_moves(moved(text))] == ["scale_relu"]


def multiply(accelerator: Accelerator) -> InstructionOperation:
    return next(sort for sort in sorts_of(accelerator) if sort.instruction.name == "matrix_multiply")


@st.composite
def points(draw: st.DrawFn) -> list[np.ndarray]:
    """Addresses of X, W and ACC: nests of up to three loops, one after the other, W at one place in each."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        loops = draw(st.integers(0, 3))
        extents = [draw(st.integers(1, 6)) for _ in range(loops)]
        steps = [[draw(st.integers(0, 40)), 0, draw(st.integers(0, 9))] for _ in range(loops)]
        begins = [draw(st.integers(0, 99)), 3, draw(st.integers(0, 99))]
        found.append(points_of([*begins], extents, steps))
    return np.concatenate(found)


LOOP = "{ extent: columns, factors: { X: ub_column, ACC: acc_column } }"
LIMITED = parse_accelerator(TEXT.replace(LOOP, LOOP.replace("columns,", "columns, limit: 3,", 1)).encode())


@settings(deadline=None, max_examples=30)
@given(wanted=points(), most=st.sampled_from([3, (1 << 16) - 1]))
def test_executions_make_the_points_in_their_order(wanted: np.ndarray, most: int) -> None:
    """Catches points that are left out, made twice or in another order, and extents that no field holds."""
    document = LIMITED if most == 3 else TPU
    sort = multiply(document)
    own = np.empty_like(wanted)
    own[:, [[tensor.name for tensor in sort.tensors].index(name) for name in ("X", "W", "ACC")]] = wanted
    executions = list(LoopShapes(document, sort).executions(own))
    made = [points_of(each.begin.tolist(), each.extents, [step.tolist() for step in each.steps]) for each in executions]
    np.testing.assert_array_equal(np.concatenate(made), own)
    assert all(each.extents[1] <= most for each in executions)


def test_an_image_within_a_border_is_one_execution() -> None:
    """Catches a tile that becomes an instruction a row."""
    sort = multiply(TPU)
    rows, columns = np.divmod(np.arange(64), 16)
    by_name = {"X": 1000 + 34 * rows + columns, "W": np.full(64, 2), "ACC": np.arange(64)}
    executions = LoopShapes(TPU, sort).executions(np.stack([by_name[tensor.name] for tensor in sort.tensors], axis=1))
    assert [each.extents for each in executions] == [(4, 16)]


@settings(deadline=None, max_examples=50)
@given(data=st.data(), outer=st.integers(1, 2), extent=st.integers(1, 7), inner=st.integers(1, 3))
def test_rows_in_a_ring_are_never_there_together(data: st.DataObject, outer: int, extent: int, inner: int) -> None:
    """Catches a row that takes the place of one that is still read, and rings that are larger than they must be."""
    count = outer * extent * inner
    begin = np.array(data.draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)))
    begin += np.arange(count) // inner % extent * data.draw(st.integers(0, 9))
    end = begin + np.array(data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)))
    ring = least_ring(begin, end, extent, inner)

    def meet(ring: int) -> bool:
        first = begin.reshape(outer, extent, inner).min(axis=(0, 2))
        last = end.reshape(outer, extent, inner).max(axis=(0, 2))
        pairs = [(one, other) for one in range(extent) for other in range(one) if (one - other) % ring == 0]
        return any(first[one] <= last[other] and first[other] <= last[one] for one, other in pairs)

    assert not meet(ring)
    assert ring == 1 or all(meet(less) for less in range(1, ring))
    places = TensorPlace(outer, extent, ring, inner, 5).of(np.arange(count))
    assert places.min() >= 5
    assert places.max() < 5 + outer * ring * inner
    for one in range(count):
        shared = np.flatnonzero(places == places[one])
        assert ((begin[shared] > end[one]) | (end[shared] < begin[one]) | (shared == one)).all()
