"""Check of a stream: its bounds, what is said of an instruction that breaks them, and reads of what nothing wrote.

The reservation station orders all accesses of what is on the chip: there are races in DRAM alone.
"""

import numpy as np

from accel.accelerator.document import Accelerator
from accel.errors import Diagnosis, SimulationError
from accel.isa.decode import Decoded
from accel.isa.dram_windows import address_of
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream import bounds_kernel as of
from accel.isa.gemmini.stream.bounds_kernel import check_bounds
from accel.isa.gemmini.stream.configuration_registers import sizes
from accel.isa.gemmini.stream.dram_races import find_dram_races
from accel.isa.gemmini.stream.errata import find_errata
from accel.isa.gemmini.stream.launch_context import LaunchContext, takes_decoded_launch
from accel.isa.gemmini.stream.loop_expansion import ExpandedStream, expand_loops
from accel.isa.hazard_findings import Hazards, Unwritten
from accel.util.arrays import Bytes, Int32, Int64, Words

_MESSAGES: dict[int, tuple[Diagnosis, str]] = {
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


def new_written_flags(parameters: GemminiParameters, dram_bytes: int) -> Bytes:
    """What was written since power-on, one flag each: rows of the two memories, then bytes of the array DRAM."""
    return np.zeros(parameters.scratchpad_rows + parameters.accumulator_rows + dram_bytes, np.uint8)


def check_expanded(
    expanded: ExpandedStream,
    parameters: GemminiParameters,
    windows: Int64,
    state: Int64,
    bits: Int32,
    known: Bytes | None = None,
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
    checked = of.BoundsState(numbers, state.copy(), windows, np.zeros(0, np.uint8) if known is None else known)
    check_bounds(checked, expanded.words, expanded.origin, bits.copy())
    if numbers[of.CODE] != of.FINE:
        index = int(expanded.origin[numbers[of.INDEX]])
        kind, text = _MESSAGES[int(numbers[of.CODE])]
        value, limit = (int(numbers[at]) & _UNSIGNED for at in (of.VALUE, of.LIMIT))
        raise SimulationError.at_instruction(index, kind, text.format(value=value, limit=limit))
    return numbers[of.NUMBERS :].reshape(room, of.FINDING)[: numbers[of.FOUND]]


def check_stream(words: Words, parameters: GemminiParameters, context: LaunchContext, dram_bytes: int) -> None:
    """Check a stream (n, 3) that finds ``context``.

    Raises:
        SimulationError: the first instruction that is undefined, out of range or impossible to configure.
    """
    expanded = expand_loops(words, parameters, context.loops.copy())
    check_expanded(expanded, parameters, context.map(dram_bytes), context.state, context.bits)


_ROOM = 1000  # findings of a launch that are told apart; there may be more


class GemminiHazardChecker:
    """Checks launch after launch: what was written stays. An element of a memory is a row of it."""

    def __init__(self, accelerator: Accelerator, dram_bytes: int) -> None:
        self._memories = [memory.name for memory in accelerator.memories]
        self._known = new_written_flags(parameters_of(accelerator), dram_bytes)
        self._dram = len(self._known) - dram_bytes

    def wrote(self, begin: int, end: int) -> None:
        """Note that bytes ``[begin, end)`` of the array DRAM hold something: the image, or what the host wrote."""
        self._known[self._dram + begin : self._dram + end] = 1

    def check(self, decoded: Decoded, dram: Bytes) -> Hazards:
        """Returns a launch's races in DRAM, its reads of what nothing wrote, and its errata.

        Of ``dram`` only its size matters.

        Raises:
            SimulationError: an instruction that is out of range.
        """
        return takes_decoded_launch(self._hazards)(decoded, decoded.first, len(dram))

    def _hazards(
        self, words: Words, parameters: GemminiParameters, context: LaunchContext, first: int, dram_bytes: int
    ) -> Hazards:
        windows = context.map(dram_bytes)
        expanded = expand_loops(words, parameters, context.loops.copy())
        unwritten = self._unwritten(expanded, parameters, windows, context, first)
        races = find_dram_races(expanded, parameters, context, first)
        errata = find_errata(expanded, parameters, context.state, first)
        return Hazards(tuple(races), tuple(unwritten), (), tuple(errata))

    def _unwritten(
        self,
        expanded: ExpandedStream,
        parameters: GemminiParameters,
        windows: Int64,
        context: LaunchContext,
        first: int,
    ) -> list[Unwritten]:
        found = check_expanded(expanded, parameters, windows, context.state, context.bits, self._known, _ROOM)
        unwritten = []
        for instruction, memory, low, high in found.tolist():
            if memory == of.IN_DRAM:
                begin, end = address_of(windows, low), address_of(windows, high) + 1
                unwritten.append(Unwritten(first + instruction, "dram", begin, end))
            else:
                unwritten.append(Unwritten(first + instruction, self._memories[memory], low, high + 1))
        return unwritten
