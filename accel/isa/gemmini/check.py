"""A stream's bounds, and what is said of one that breaks them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.errors import Diagnosis, SimulationError
from accel.isa.gemmini import bounds
from accel.isa.gemmini.configure import fresh, sizes
from accel.isa.gemmini.expand import Expanded, Words, expand
from accel.isa.gemmini.parameters import GemminiParameters

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Flags = npt.NDArray[np.uint8]

_SAID: dict[int, tuple[Diagnosis, str]] = {
    bounds.BAD_DATAFLOW: ("field-range", "this dataflow cannot have these transposed operands"),
    bounds.BAD_SHIFT: ("field-range", "a shift of {value}; at most {limit}"),
    bounds.BAD_STATE: ("field-range", "load configuration {value}; there are 0 to {limit}"),
    bounds.BAD_STRIDE: ("field-range", "a row stride of {value} bytes; less than {limit}"),
    bounds.BAD_STATISTIC: ("field-range", "statistics {value}; there are 0 to {limit}"),
    bounds.BAD_ACTIVATION: ("field-range", "activation {value}; there are 0 to {limit}"),
    bounds.BAD_ROWS: ("field-range", "{value} rows; at most {limit}"),
    bounds.BAD_COLUMNS: ("field-range", "{value} columns; at most {limit}"),
    bounds.BAD_PIXELS: ("field-range", "repeats as far as column {value}; there are {limit}"),
    bounds.BAD_SCRATCHPAD: ("memory-range", "row {value} of the scratchpad; the last is {limit}"),
    bounds.BAD_ACCUMULATOR: ("memory-range", "row {value} of the accumulator; the last is {limit}"),
    bounds.BAD_DRAM: ("dram-range", "DRAM address {value}; there are {limit} bytes"),
    bounds.BAD_OPERAND: ("memory-range", "an operand at {value:#x}; the mesh reads the scratchpad"),
}


@dataclass(frozen=True)
class Unwritten:
    """Reads of rows that no instruction wrote: how many rows, and the first instruction that reads one, or None."""

    rows: int
    instruction: int | None


@dataclass
class Seen:
    """What the check knows of the machine: configuration, scales' bits, and the rows that were written, as flags."""

    state: Int64
    bits: Int32
    scratchpad: Flags
    accumulator: Flags

    @staticmethod
    def fresh(parameters: GemminiParameters) -> "Seen":
        """After power-on."""
        state, bits = fresh(parameters)
        scratchpad = np.zeros(parameters.scratchpad_rows, np.uint8)
        return Seen(state, bits, scratchpad, np.zeros(parameters.accumulator_rows, np.uint8))

    def copy(self) -> "Seen":
        """One that changes apart."""
        return Seen(self.state.copy(), self.bits.copy(), self.scratchpad.copy(), self.accumulator.copy())


def check_expanded(expanded: Expanded, parameters: GemminiParameters, dram_bytes: int, seen: Seen) -> Unwritten:
    """Check primitive instructions on a machine that is as ``seen`` says, which is updated.

    Raises:
        SimulationError: the first instruction that would read or write out of range, or cannot be configured so.
    """
    answer = np.zeros(bounds.ANSWER, np.int64)
    answer[bounds.FIRST_UNWRITTEN] = -1
    checked = bounds.Checked(answer, sizes(parameters), seen.state, seen.scratchpad, seen.accumulator, dram_bytes)
    bounds.check_bounds(checked, expanded.words, seen.bits)
    if answer[bounds.CODE] != bounds.FINE:
        index = int(expanded.origin[answer[bounds.INDEX]])
        kind, text = _SAID[int(answer[bounds.CODE])]
        detail = text.format(value=int(answer[bounds.VALUE]), limit=int(answer[bounds.LIMIT]))
        raise SimulationError(
            f"instruction {index}: {detail}", field=f"instruction:{index}", kind=kind, instruction=index
        )
    first = int(answer[bounds.FIRST_UNWRITTEN])
    return Unwritten(int(answer[bounds.UNWRITTEN]), None if first < 0 else int(expanded.origin[first]))


def check(words: Words, parameters: GemminiParameters, dram_bytes: int) -> Unwritten:
    """Check a stream (n, 3) that is run after power-on; reads of rows that nothing wrote are told, not refused.

    Raises:
        SimulationError: the first instruction that is undefined, out of range or impossible to configure.
    """
    return check_expanded(expand(words, parameters), parameters, dram_bytes, Seen.fresh(parameters))
