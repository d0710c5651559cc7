"""What a document's instructions touch on the chip, and copies of nothing: what it takes to join its launches."""

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.errors import SimulationError
from accel.isa.decode import Decoded, decode, encoding_arrays
from accel.isa.explicit.accesses import HIGH, LOW, MEMORY, WRITES, ranges_of
from accel.isa.explicit.costs import cycles_of
from accel.isa.family import ReadDram, Touches
from accel.util.arrays import Int64, Words


def touches_of(decoded: Decoded, rows: Int64, read: ReadDram) -> Touches:
    """Returns what the instructions ``rows`` of a launch touch on the chip; nothing of that lies in DRAM."""
    del read
    accesses = decoded.derived(ranges_of)
    instruction = np.repeat(np.arange(len(decoded)), np.diff(accesses.start))
    table = accesses.table
    some = (table[:, MEMORY] < len(decoded.accelerator.memories)) & np.isin(instruction, rows)
    table = table[some]
    return Touches(instruction[some], table[:, MEMORY], table[:, LOW], table[:, HIGH], table[:, WRITES] != 0)


def idle_words(accelerator: Accelerator) -> dict[str, Words]:
    """Returns for units the words (words_each,) of their copy of nothing that takes the fewest cycles.

    Copies whose size is no field, and those whose cost is no number for nothing, are none.
    """
    values, found = encoding_arrays(accelerator).values, dict[str, tuple[int, Words]]()
    for number, instruction in enumerate(accelerator.instructions):
        if not isinstance(instruction, Copy) or instruction.sequence:
            continue
        fields = instruction.copy_fields
        if fields.rows is None and fields.columns is None:
            continue
        try:
            decoded = decode(accelerator, values[number][np.newaxis])
            cycles = int(cycles_of(decoded)[0])
        except SimulationError:
            continue
        if decoded.kind[0] == number and (instruction.unit not in found or cycles < found[instruction.unit][0]):
            found[instruction.unit] = cycles, values[number]
    return {unit: words for unit, (_, words) in found.items()}
