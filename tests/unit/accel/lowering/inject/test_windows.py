"""Stores of windows: what fields say of a nest that takes the largest of each window."""

import functools
from typing import Any

import pytest
from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import CopyWindows, WindowAxis, takes_windows
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.errors import CompileError
from accel.lowering.inject.window_injection import inject_windows
from accel.lowering.ir.affine_nest import nest_of
from tests.unit.accel.lowering.inject.test_inject import buffers, fields, loops

GEMMINI = load_accelerator("gemmini")


def apart() -> Accelerator:
    """A Gemmini whose windows have fields of their own for rows and columns."""
    rows = WindowAxis(
        size="mvout.rows",
        stride="config_st.pool_top",
        count="config_st.pool_rows",
        extent="config_st.out_rows",
    )
    columns = WindowAxis(
        size="config_st.pool_size",
        stride="config_st.pool_stride",
        count="config_st.pool_columns",
        extent="config_st.out_columns",
    )
    windows = CopyWindows(rows=rows, columns=columns, pitch="config_st.pool_out_dim")
    made = [
        each.model_copy(update={"windows": windows}) if takes_windows(each) else each for each in GEMMINI.instructions
    ]
    return GEMMINI.model_copy(update={"instructions": tuple(made)})


def stored(
    sizes: tuple[int, int], strides: tuple[int, int], counts: tuple[int, int], width: int, accelerator: Accelerator,
    scales: tuple[float, ...] = (0.5,),
) -> dict[str, Any]:  # fmt: skip
    sram, dram = buffers(("acc", 1 << 14, "int32", "local.accumulator"), ("y", 1 << 14, "int8", "global"))

    def element(place: tirx.Expr, number: int) -> tirx.Expr:
        scale = tirx.const(scales[number % len(scales)], "float32")
        value = tirx.nearbyint(sram[place].astype("float32") * scale)
        low, high = (tirx.const(bound, "float32") for bound in (-128.0, 127.0))
        return tirx.max(tirx.min(value, high), low).astype("int8")

    def body(y: Any, x: Any, n: Any) -> tirx.Stmt:
        places = [(y * strides[0] + q) * width * 16 + (x * strides[1] + p) * 16 + n
                  for q in range(sizes[0]) for p in range(sizes[1])]  # fmt: skip
        value = functools.reduce(tirx.max, [element(place, number) for number, place in enumerate(places)])
        return tirx.BufferStore(dram, value, [y * 640 + x * 64 + n + 32])

    target = Target(accelerator)
    known = [meaning for meaning in target.semantics if takes_windows(meaning.instruction)]
    return fields(inject_windows(nest_of(loops([*counts, 16], body)), known, target))


def said(found: dict[str, Any], *names: str) -> list[Any]:
    return [found[f"config_st.{name}"] for name in names]


def test_square_windows_share_their_fields() -> None:
    found = stored((3, 3), (2, 2), (4, 5), 11, GEMMINI)
    names = (
        "pool_size",
        "pool_stride",
        "pool_rows",
        "pool_columns",
        "out_rows",
        "out_columns",
        "pool_out_dim",
        "stride",
    )
    assert said(found, *names) == [3, 2, 4, 5, 9, 11, 10, 64]
    assert said(found, "pool_top", "pool_left", "scale") == [0, 0, "T.float32(0.5)"]
    assert found["&dram.index"] == 32


def test_a_column_of_windows_as_wide_as_its_image_is_no_line() -> None:
    """Its elements lie side by side, as those of one long row would."""
    assert said(stored((3, 3), (2, 2), (4, 1), 3, GEMMINI), "pool_size", "out_rows", "out_columns") == [3, 9, 3]


def test_windows_need_not_be_square_where_fields_are_apart() -> None:
    found = stored((2, 3), (1, 2), (4, 5), 11, apart())
    names = ("pool_size", "pool_stride", "pool_top", "out_rows", "out_columns")
    assert [found["mvout.rows"], *said(found, *names)] == [2, 3, 2, 1, 5, 11]


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (((2, 3), (2, 2), (4, 5), 11, GEMMINI), "windows must be square"),
        (((3, 3), (2, 2), (4, 5), 300, GEMMINI), "config_st.out_columns is 300, and holds 255 at most"),
        (((2, 2), (2, 2), (4, 5), 11, GEMMINI, (0.5, 0.25)), "not treated alike"),
    ],
)
def test_what_its_fields_cannot_say_is_told(case: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(CompileError, match=reason):
        stored(*case)
