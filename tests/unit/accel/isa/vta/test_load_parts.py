"""Loads of VTA in parts, against the whole."""

import numpy as np
import pytest

from accel.accelerator.field_bits import put_field
from accel.accelerator.instructions import Copy
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.decode import Decoded, decode, encoding_arrays
from accel.isa.vta.document.instruction_view import instructions_of
from accel.isa.vta.function import functional_table as f
from accel.isa.vta.function.launch_table import launch_table
from accel.isa.vta.vta_load_parts import load_grain, load_part
from accel.util.arrays import Words

VTA = load_accelerator("vta")
WEIGHTS = next(
    number
    for number, each in enumerate(VTA.instructions)
    if isinstance(each, Copy) and each.direction == "load" and each.memory == instructions_of(VTA).weights
)


def load(**fields: int) -> Decoded:
    copy, words = VTA.instructions[WEIGHTS], encoding_arrays(VTA).values[WEIGHTS][None].copy()
    assert isinstance(copy, Copy)
    for role, value in fields.items():
        put_field(words, np.array([0]), VTA.field(copy, getattr(copy.copy_fields, role)), value)
    return decode(VTA, words)


def moved(words: Words) -> dict[int, int]:
    """From where in DRAM each element comes that a load fills."""
    row = launch_table(decode(VTA, words[None]))[0]
    rows, columns = np.arange(row[f.ROWS])[:, None], np.arange(row[f.COLUMNS])
    source = row[f.DRAM] + rows * row[f.STRIDE] + columns
    return dict(enumerate(source.ravel().tolist(), int(row[f.SRAM])))


@pytest.mark.parametrize(
    ("rows", "columns", "stride", "grain"),
    [(1, 30, 1, 1), (6, 5, 5, 1), (6, 5, 9, 5), (17, 1, 17, 1), (17, 1, 1, 1), (1, 1, 1, 1)],
)
def test_parts_load_what_the_whole_does(rows: int, columns: int, stride: int, grain: int) -> None:
    """Catches rows of one element each that are taken for a line, as their grain is one too."""
    whole = load(sram=40, dram=1000, rows=rows, columns=columns, row_stride=stride)
    assert load_grain(whole, 0) == grain
    found = dict[int, int]()
    for begin in range(0, rows * columns, 2 * grain):
        part = load_part(whole, 0, begin, min(2 * grain, rows * columns - begin))
        assert part is not None
        found |= moved(part)
    assert found == moved(whole.words[0])


def test_a_load_that_pads_is_not_cut() -> None:
    assert load_grain(load(sram=0, dram=0, rows=2, columns=2, row_stride=2, pad_left=1), 0) == 0
