"""What an instruction as large as a layer touches, against every element of its loops."""

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.errors import SimulationError
from accel.isa.explicit.hazards.accesses import MEMORY, WRITES, ranges_of
from accel.isa.explicit.hazards.boxes import boxes_of, check_bounds
from accel.util.arrays import Int64
from tests.helpers.programs.streams import stream

Fields = dict[str, int]
ENGINE = load_accelerator("conv-engine")
_BYTES = {"x": 16, "w": 256, "bias": 64, "y": 16}


def drawn(rng: np.random.Generator) -> Fields:
    """A convolution whose operands lie apart."""
    most = {
        **dict.fromkeys(("blocks", "in_blocks", "kernel_rows", "kernel_columns"), 4),
        **dict.fromkeys(("rows", "columns"), 5),
        **dict.fromkeys(("stride_rows", "stride_columns", "dilation_rows", "dilation_columns"), 4),
        **dict.fromkeys(("height", "width"), 9),
    }
    found = {name: int(rng.integers(1, high)) for name, high in most.items()}
    found |= {name: int(rng.integers(0, 7)) for name in ("pad_top", "pad_left")}
    steps = ("x_group", "x_block", "x_row", "w_block", "w_in_block", "w_row", "w_column", "y_block", "y_row")
    found |= {name: int(rng.integers(0, 40)) for name in steps}
    return found | {"x": 0, "w": 1 << 12, "bias": 1 << 16, "y": 1 << 20}


def elements(f: Fields) -> dict[str, set[int]]:
    """The elements of each operand in DRAM that a convolution reads or writes, point by point."""
    found: dict[str, set[int]] = {name: set() for name in _BYTES}
    loops = ("blocks", "rows", "columns", "in_blocks", "kernel_rows", "kernel_columns")
    for block, row, column, part, down, along in np.ndindex(*(f[name] for name in loops)):
        found["y"].add(f["y"] + block * f["y_block"] + row * f["y_row"] + column)
        found["bias"].add(f["bias"] + block)
        found["w"].add(
            f["w"] + block * f["w_block"] + part * f["w_in_block"] + down * f["w_row"] + along * f["w_column"]
        )
        y = row * f["stride_rows"] + down * f["dilation_rows"] - f["pad_top"]
        at = column * f["stride_columns"] + along * f["dilation_columns"] - f["pad_left"]
        if 0 <= y < f["height"] and 0 <= at < f["width"]:
            found["x"].add(f["x"] + block * f["x_group"] + part * f["x_block"] + y * f["x_row"] + at)
    return found


def as_bytes(found: dict[str, set[int]], *names: str) -> Int64:
    """The bytes of elements, ascending."""
    wide = [
        np.add.outer(np.array(sorted(found[name]), np.int64) * _BYTES[name], np.arange(_BYTES[name])) for name in names
    ]
    return np.unique(np.concatenate([each.ravel() for each in wide]))


@pytest.mark.parametrize("seed", range(30))
def test_rectangles_have_every_byte(seed: int) -> None:
    """Catches bytes that a report does not count, or that a check of bounds and hazards does not see."""
    fields = drawn(np.random.default_rng(seed))
    boxes = boxes_of(stream(ENGINE, [("convolve", fields)]))
    touched: dict[bool, list[Int64]] = {True: [], False: []}
    for begin, rows, step, span, write in zip(
        boxes.begin, boxes.rows, boxes.row_stride, boxes.row_bytes, boxes.write, strict=True
    ):
        touched[bool(write)].append(np.add.outer(begin + np.arange(rows) * step, np.arange(span)).ravel())
    found = elements(fields)
    for write, names in ((True, ("y",)), (False, ("x", "w", "bias"))):
        wanted, seen = as_bytes(found, *names), np.unique(np.concatenate(touched[write]))
        assert np.isin(wanted, seen).all()
        assert seen.max() <= wanted.max() + 16 * fields["width"] * (1 + fields["x_row"])
    assert np.array_equal(np.unique(np.concatenate(touched[True])), as_bytes(found, "y"))  # three loops are exact


def test_ranges_have_what_it_uses_on_the_chip() -> None:
    """Catches a layer that runs beside another instruction of the memories that it takes."""
    fields = drawn(np.random.default_rng(1)) | {"in_blocks": 3, "height": 5, "width": 6, "columns": 4}
    table = ranges_of(stream(ENGINE, [("convolve", fields)])).table
    chip = {int(row[MEMORY]): (row[2], row[3]) for row in table if row[MEMORY] < len(ENGINE.memories)}
    assert chip == {
        0: (0, 3 * 5 * 6),
        1: (0, 3 * fields["kernel_rows"] * fields["kernel_columns"]),
        2: (0, 4),
    }
    assert all(row[WRITES] for row in table if row[MEMORY] < len(ENGINE.memories))


def test_what_it_uses_must_be_there() -> None:
    """Catches a program written by hand that takes more of a memory than there is, or leaves the DRAM."""
    fields = drawn(np.random.default_rng(2)) | {"columns": 4096}
    with pytest.raises(SimulationError, match="index 4095 of sums is out of range"):
        check_bounds(stream(ENGINE, [("convolve", fields)]), 1 << 40)
    with pytest.raises(SimulationError, match="the program's DRAM has 4096"):
        check_bounds(stream(ENGINE, [("convolve", drawn(np.random.default_rng(2)))]), 4096)
