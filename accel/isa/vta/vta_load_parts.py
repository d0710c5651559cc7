"""Loads of VTA in parts, and a VTA with nominal cycles, which tell where the unit that loads waits."""

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.field_bits import put_field
from accel.accelerator.instructions import Copy
from accel.accelerator.memories import Dram
from accel.isa.decode import Decoded, encoding_arrays
from accel.isa.vta.document.vta_parameters import VtaParameters
from accel.isa.vta.function import functional_table as f
from accel.isa.vta.function.launch_table import launch_table
from accel.util.arrays import Words

_QUEUE = 512  # instructions that wait for a unit


def nominal(accelerator: Accelerator) -> Accelerator:
    """Returns the VTA with the bus and the times of the Chisel design, whatever its document says."""
    parameters = VtaParameters(queue_depths=dict.fromkeys(accelerator.units, _QUEUE))
    dram = Dram(alignment_bytes=accelerator.dram.alignment_bytes)
    return accelerator.model_copy(update={"dram": dram, "parameters": parameters.model_dump()})


def load_grain(decoded: Decoded, row: int) -> int:
    """Returns of how many elements a part of a load is: any of one row, or of rows behind one another; else whole rows.

    A load that pads is not cut.
    """
    load = launch_table(decoded)[row]
    if load[f.HEIGHT] * load[f.WIDTH] != load[f.ROWS] * load[f.COLUMNS]:
        return 0
    return 1 if _is_line(decoded, row) else int(load[f.COLUMNS])


def load_part(decoded: Decoded, row: int, begin: int, size: int) -> Words | None:
    """Returns the words (words_each,) of a load of elements ``[begin, begin + size)`` of those that a load fills.

    It has no tokens; None: no field holds it.
    """
    load, copy = launch_table(decoded)[row], decoded.accelerator.instructions[decoded.kind[row]]
    assert isinstance(copy, Copy)
    line, fields, columns, stride = _is_line(decoded, row), copy.copy_fields, int(load[f.COLUMNS]), int(load[f.STRIDE])
    before = begin if line else begin // columns * stride
    columns, stride = (size, size) if line else (columns, stride)
    values = [
        (fields.sram, int(load[f.SRAM]) + begin),
        (fields.dram, int(load[f.DRAM]) + before),
        (fields.rows, size // columns),
        (fields.columns, columns),
        (fields.row_stride, stride),
    ]
    words: Words = encoding_arrays(decoded.accelerator).values[decoded.kind[row]][None].copy()
    try:
        for name, value in values:
            if name is None:
                return None
            put_field(words, np.array([0]), decoded.accelerator.field(copy, name), value)
    except ValueError:
        return None
    return np.asarray(words[0])


def _is_line(decoded: Decoded, row: int) -> bool:
    """Whether what a load moves lies behind one another in DRAM, and can be one row."""
    load, copy = launch_table(decoded)[row], decoded.accelerator.instructions[decoded.kind[row]]
    assert isinstance(copy, Copy)
    most = min(
        1 << decoded.accelerator.bits(copy, name) if name else 1
        for name in (copy.copy_fields.columns, copy.copy_fields.row_stride)
    )
    behind = load[f.STRIDE] == load[f.COLUMNS] and load[f.ROWS] * load[f.COLUMNS] < most
    return bool(load[f.ROWS] == 1 or behind)
