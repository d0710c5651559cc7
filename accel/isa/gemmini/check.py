"""A stream's bounds, and what is said of one that breaks them."""

import numpy as np
import numpy.typing as npt

from accel.errors import Diagnosis, SimulationError
from accel.isa.gemmini import bounds_ranges as of
from accel.isa.gemmini.bounds import check_bounds
from accel.isa.gemmini.configure import fresh, sizes
from accel.isa.gemmini.expand import Expanded, Words, expand
from accel.isa.gemmini.parameters import GemminiParameters
from accel.isa.windows import window_map

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Flags = npt.NDArray[np.uint8]

_SAID: dict[int, tuple[Diagnosis, str]] = {
    of.BAD_DATAFLOW: ("field-range", "this dataflow cannot have these transposed operands"),
    of.BAD_SHIFT: ("field-range", "a shift of {value}; at most {limit}"),
    of.BAD_STATE: ("field-range", "load configuration {value}; there are 0 to {limit}"),
    of.BAD_STRIDE: ("field-range", "a row stride of {value} bytes; less than {limit}"),
    of.BAD_STATISTIC: ("field-range", "statistics {value}; there are 0 to {limit}"),
    of.BAD_ACTIVATION: ("field-range", "activation {value}; there are 0 to {limit}"),
    of.BAD_ROWS: ("field-range", "{value} rows; at most {limit}"),
    of.BAD_COLUMNS: ("field-range", "{value} columns; at most {limit}"),
    of.BAD_PIXELS: ("field-range", "repeats as far as column {value}; there are {limit}"),
    of.BAD_SCRATCHPAD: ("memory-range", "row {value} of the scratchpad; the last is {limit}"),
    of.BAD_ACCUMULATOR: ("memory-range", "row {value} of the accumulator; the last is {limit}"),
    of.BAD_DRAM: ("dram-range", "DRAM address {value:#x}, where there is none; it ends at {limit:#x}"),
    of.BAD_DRAM_END: ("dram-range", "DRAM from address {value:#x} to {limit:#x}, not all of which there is"),
    of.BAD_OPERAND: ("memory-range", "an operand at {value:#x}; the mesh reads the scratchpad"),
}
_UNSIGNED = (1 << 64) - 1


def known_flags(parameters: GemminiParameters, dram_bytes: int) -> Flags:
    """What was written since power-on, one flag each: rows of the two memories, then bytes of the array DRAM."""
    return np.zeros(parameters.scratchpad_rows + parameters.accumulator_rows + dram_bytes, np.uint8)


def check_expanded(
    expanded: Expanded,
    parameters: GemminiParameters,
    windows: Int64,
    state: Int64,
    bits: Int32,
    known: Flags | None = None,
    room: int = 0,
) -> Int64:
    """Check primitive instructions on a machine whose registers are ``state`` and ``bits``, which stay as they are.

    Args:
        expanded: the instructions.
        parameters: of the accelerator.
        windows: (windows, 3) where DRAM lies.
        state: (CONFIGURATION,)
        bits: (SCALES,)
        known: the flags of what was written before, which are updated; None: nobody asks.
        room: how many reads of what nothing wrote are told.

    Returns those reads, (at most room, FINDING).

    Raises:
        SimulationError: the first instruction that would read or write out of range, or cannot be configured so.
    """
    numbers = np.zeros(of.NUMBERS + room * of.FINDING, np.int64)
    numbers[of.SIZES : of.NUMBERS] = sizes(parameters)
    numbers[of.KNOWN] = known is not None
    checked = of.Checked(numbers, state.copy(), windows, np.zeros(0, np.uint8) if known is None else known)
    check_bounds(checked, expanded.words, expanded.origin, bits.copy())
    if numbers[of.CODE] != of.FINE:
        index = int(expanded.origin[numbers[of.INDEX]])
        kind, text = _SAID[int(numbers[of.CODE])]
        value, limit = (int(numbers[at]) & _UNSIGNED for at in (of.VALUE, of.LIMIT))
        raise SimulationError(
            f"instruction {index}: {text.format(value=value, limit=limit)}",
            field=f"instruction:{index}",
            kind=kind,
            instruction=index,
        )
    return numbers[of.NUMBERS :].reshape(room, of.FINDING)[: numbers[of.FOUND]]


def check(words: Words, parameters: GemminiParameters, dram_bytes: int) -> None:
    """Check a stream (n, 3) that is run after power-on.

    Raises:
        SimulationError: the first instruction that is undefined, out of range or impossible to configure.
    """
    check_expanded(expand(words, parameters), parameters, window_map((), dram_bytes), *fresh(parameters))
