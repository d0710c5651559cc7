"""Reads of what nothing wrote; the reservation station orders all accesses, so there are no races."""

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.isa.decode import Decoded
from accel.isa.gemmini import bounds_ranges as of
from accel.isa.gemmini.check import check_expanded, known_flags
from accel.isa.gemmini.context import context_of
from accel.isa.gemmini.document_check import parameters_of
from accel.isa.gemmini.expand import expand
from accel.isa.hazards import Hazards, Unwritten
from accel.isa.windows import address_of

_ROOM = 1000  # findings of a launch that are told apart; there may be more


class GemminiHazardChecker:
    """Checks launch after launch: what was written stays. An element of a memory is a row of it."""

    def __init__(self, accelerator: Accelerator, dram_bytes: int) -> None:
        self._memories = [memory.name for memory in accelerator.memories]
        self._known = known_flags(parameters_of(accelerator), dram_bytes)
        self._dram = len(self._known) - dram_bytes

    def wrote(self, begin: int, end: int) -> None:
        """Note that bytes ``[begin, end)`` of the array DRAM hold something: the image, or what the host wrote."""
        self._known[self._dram + begin : self._dram + end] = 1

    def check(self, decoded: Decoded, dram: npt.NDArray[np.uint8]) -> Hazards:
        """The reads of a launch of what nothing wrote; of ``dram`` only its size matters.

        Raises:
            SimulationError: an instruction that is out of range.
        """
        parameters = parameters_of(decoded.accelerator)
        context = context_of(decoded, parameters)
        windows = context.map(len(dram))
        expanded = expand(decoded.words, parameters, context.loops.copy())
        found = check_expanded(expanded, parameters, windows, context.state, context.bits, self._known, _ROOM)
        unwritten = []
        for instruction, memory, low, high in found.tolist():
            if memory == of.IN_DRAM:
                begin, end = address_of(windows, low), address_of(windows, high) + 1
                unwritten.append(Unwritten(decoded.first + instruction, "dram", begin, end))
            else:
                unwritten.append(Unwritten(decoded.first + instruction, self._memories[memory], low, high + 1))
        return Hazards((), tuple(unwritten))
