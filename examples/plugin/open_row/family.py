"""The family ``open_row``: the family ``explicit``, with a DRAM that keeps one row of each bank open.

A copy takes the cycles that the document says, and ``miss_cycles`` for each row that it must open first. Whether a
row is open depends on the copies before, which no cost in a document can see: hence the code.
"""

from collections.abc import Iterable
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from accel.accelerator.base import Count
from accel.accelerator.document import Accelerator
from accel.accelerator.require import require
from accel.accelerator.timing_model import TimingModel
from accel.isa.decode import Decoded
from accel.isa.explicit.clock.timing import units_of, units_waited_for
from accel.isa.explicit.clock.timing_in_order import run
from accel.isa.explicit.clock.timing_layout import (
    BLOCKERS,
    CAUSES,
    HAZARD,
    HELD_ADDRESSES,
    ORDER,
    PORT,
    STRETCH,
    TIMES,
    Stream,
)
from accel.isa.explicit.costs import cycles_of
from accel.isa.explicit.document_parameters import ExplicitParameters
from accel.isa.explicit.explicit_family import ExplicitFamily
from accel.isa.explicit.hazards.accesses import ranges_of
from accel.isa.explicit.hazards.boxes import boxes_of
from accel.isa.family import PREVIOUS, Boxes, Timing, places_back

Int64 = npt.NDArray[np.int64]


class OpenRowParameters(ExplicitParameters):
    """What a document of this family says beside the common schema, under ``parameters``."""

    row_bytes: Annotated[Count, Field(le=1 << 20, description="bytes of a row, one after the other in DRAM")] = 2048
    banks: Annotated[Count, Field(le=64, description="banks; row n is in bank n modulo banks")] = 8
    miss_cycles: Annotated[
        int, Field(strict=True, ge=0, le=10_000, description="cycles to close a row and open another")
    ] = 20


class OpenRowFamily(ExplicitFamily):
    """As ``explicit``, but for the clock: see :class:`accel.isa.family.Family` for what each method must do."""

    name = "open_row"
    parameters = OpenRowParameters

    def check(self, accelerator: Accelerator) -> None:
        """What ``explicit`` can execute, in the order of the program: only then is the order of the copies known.

        Raises:
            InvalidAccelerator: ``field`` is the path in the document.
        """
        kind = accelerator.synchronisation.kind
        require(kind == "in_order", "synchronisation.kind", f"{kind}; the family open_row takes in_order only")
        require(not accelerator.shares_bus, "dram.shared_by", "rows and banks are all that copies of open_row wait for")
        super().check(accelerator.model_copy(update={"parameters": {}}))

    def time(self, decoded: Decoded, tokens: dict[str, int]) -> Timing:
        """The clock of ``explicit``, with what opening rows adds to each copy; all rows are closed at first."""
        accelerator = decoded.accelerator
        memory = OpenRowParameters.model_validate(accelerator.parameters)
        opening = memory.miss_cycles * rows_opened(boxes_of(decoded), memory, len(decoded))
        cycles, unit = cycles_of(decoded) + opening, units_of(decoded)
        times = np.zeros((TIMES, len(decoded)), np.int64)
        waits = np.zeros((CAUSES, len(decoded)), np.int64)
        blockers = np.full((BLOCKERS, len(decoded)), -1, np.int64)
        run(_stream(decoded, unit, cycles), len(accelerator.units), times, waits, blockers)
        (start, end), held = times, blockers[HELD_ADDRESSES]
        busy = np.bincount(unit, weights=cycles, minlength=len(accelerator.units)).astype(np.int64)
        return Timing(
            start=start,
            end=end,
            waits={"issue": waits[ORDER], "hazard": waits[HAZARD], "port": waits[PORT], "memory": opening},
            cycles=int(end.max(initial=0)),
            busy=dict(zip(accelerator.units, busy.tolist(), strict=True)),
            tokens=tokens,
            blockers={"issue": PREVIOUS, "hazard": units_waited_for(held, unit)},
            awaited={"hazard": places_back(np.where(waits[HAZARD] > 0, held, -1))},
        )

    def timing_model(self, accelerator: Accelerator, launches: Iterable[Decoded] = ()) -> TimingModel:
        """That of ``explicit``, which was compared with no hardware either."""
        memory = OpenRowParameters.model_validate(accelerator.parameters)
        told = f" A copy takes {memory.miss_cycles} cycles more for each row of {memory.row_bytes} bytes that it opens."
        found = super().timing_model(accelerator, launches)
        return found.model_copy(update={"statement": found.statement + told})


def rows_opened(boxes: Boxes, memory: OpenRowParameters, count: int) -> Int64:
    """How many rows of DRAM each of ``count`` instructions finds closed (count,), the copies in the program's order.

    A copy goes along its rows of bytes, and touches every row of DRAM from the first byte of each to the last.
    """
    whole = np.repeat(np.arange(len(boxes.begin)), boxes.rows)
    turn = np.arange(len(whole)) - np.repeat(np.cumsum(boxes.rows) - boxes.rows, boxes.rows)
    begin = boxes.begin[whole] + turn * boxes.row_stride[whole]
    first, last = begin // memory.row_bytes, (begin + boxes.row_bytes[whole] - 1) // memory.row_bytes
    each = last - first + 1
    touched = np.repeat(first - np.cumsum(each) + each, each) + np.arange(each.sum())
    instruction = np.repeat(boxes.instruction[whole], each)
    bank = touched % memory.banks
    order = np.argsort(bank, kind="stable")  # by bank, each in the order of the program
    touched, bank, instruction = touched[order], bank[order], instruction[order]
    closed = np.ones(len(touched), np.bool_)
    closed[1:] = (bank[1:] != bank[:-1]) | (touched[1:] != touched[:-1])
    return np.bincount(instruction[closed], minlength=count).astype(np.int64)


def _stream(decoded: Decoded, unit: Int64, cycles: Int64) -> Stream:
    """The launch as the clock of ``explicit`` takes it; units that start in order have no tokens, and share no bus."""
    accesses = ranges_of(decoded)
    counts = [memory.ports for memory in decoded.accelerator.memories]
    ports = np.full((len(counts), max(counts)), 1 << 62, np.int64)  # a port that is not there is never free
    for memory, count in enumerate(counts):
        ports[memory, :count] = 0
    none, starts = np.zeros(0, np.int64), np.zeros(len(decoded) + 1, np.int64)
    beats, bus = np.zeros_like(cycles), np.zeros((STRETCH, 0), np.int64)
    return Stream(unit, cycles, accesses.table, accesses.start, none, starts, none, starts, ports, beats, bus)


FAMILY = OpenRowFamily()
"""The entry point ``open_row`` of the group ``cyclops.isa``."""
