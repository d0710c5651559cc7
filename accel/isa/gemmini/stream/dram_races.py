"""Loads and stores of a stream that touch the same DRAM in no fixed order.

The reservation station orders what is on the chip. A store is done for it when its rows have gone to the writer
(StoreController.scala), and loads have a port of their own to memory: a load of what was stored is behind the store
only where a fence stands between them. A store is behind a load of what it writes over if it waits for an instruction
that waited for the load. Stores leave by one port, in their order.
"""

import numpy as np

from accel.isa.dram_stretches import Stretches
from accel.isa.family import Boxes
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.stream.loop_expansion import ExpandedStream
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.build import new_machine
from accel.isa.gemmini.timing.machine.commands import EXECUTE, LOAD, STORE, queue_of
from accel.isa.gemmini.timing.machine.station import entry_at, fill_entry, note_configuration, rows_of
from accel.isa.gemmini.timing.stream_traffic import primitive_accesses
from accel.isa.hazard_findings import Race
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, VECTOR
from accel.util.arrays import Int64

_ROOM = 1000  # pairs of instructions that are told
_NONE = 1 << 60
_LOADED, _MADE = range(2)  # of a row: the last load, and the last product by its preload, that wrote it
_USED, _STORED, _DONE = range(3)  # of a load: the first product, and store, that waits for it; of a store: the products
_FIRST, _SECOND, _BEGIN, _END = range(4)
_OF = 2  # of a row of DRAM, behind its begin and end: the instruction


@compiled
def _access(rows: Int64, row: int, queue: int, index: int, facts: Int64) -> None:
    """Note that an instruction accesses a row: a product, by its preload, waits for its load, as a store does."""
    load = rows[row, _LOADED]
    if queue == LOAD:
        rows[row, _LOADED] = index
    elif load >= 0:
        kind = _USED if queue == EXECUTE else _STORED
        facts[load, kind] = min(facts[load, kind], index)


@compiled
def _follow(m: Int64, words: Int64, rows: Int64, facts: Int64) -> None:
    """What waits for what on the chip: ``facts`` (n, 3) of each instruction; ``rows`` (rows, 2) begin with -1.

    A product counts as its preload, which is complete when the result is written.
    """
    preload, done = 0, -1
    for index in range(len(words)):
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        queue = queue_of(funct, rs1)
        entry = entry_at(queue, 0)
        fill_entry(m, entry, queue, funct, rs1, rs2)
        if funct == rocc.PRELOAD:
            preload = index
        for operand in (at.S_A, at.S_B):
            begin, end = rows_of(m, entry + operand)
            for row in range(begin, end):
                _access(rows, row, queue, preload if queue == EXECUTE else index, facts)
                if queue == STORE:
                    done = max(done, rows[row, _MADE])
                elif funct == rocc.PRELOAD and operand == at.S_A:
                    rows[row, _MADE] = index
        if queue == STORE:
            facts[index, _DONE] = done
        note_configuration(m, queue, funct, rs1, rs2)


@compiled
def _note(found: Int64, first: int, second: int, begin: int, end: int) -> None:
    """Put a pair into ``found`` (room + 1, 4), whose last row counts them, or to the one that was found last."""
    count = found[-1, 0]
    if count and found[count - 1, _FIRST] == first and found[count - 1, _SECOND] == second:
        found[count - 1, _BEGIN] = min(found[count - 1, _BEGIN], begin)
        found[count - 1, _END] = max(found[count - 1, _END], end)
    elif count < len(found) - 1:
        found[count, _FIRST], found[count, _SECOND], found[count, _BEGIN], found[count, _END] = (
            first,
            second,
            begin,
            end,
        )
        found[-1, 0] = count + 1


@compiled
def _meet(reads: Int64, writes: Int64, facts: Int64, found: Int64) -> None:
    """Note the pairs of rows of DRAM, both (n, 3) sorted, that meet in no fixed order."""
    first, reach = 0, np.empty(len(writes), np.int64)
    for place in range(len(writes)):
        reach[place] = max(writes[place, 1], reach[place - 1] if place else 0)
    for place in range(len(reads)):
        begin, end, load = reads[place, 0], reads[place, 1], reads[place, _OF]
        while first < len(writes) and reach[first] <= begin:
            first += 1
        other = first
        while other < len(writes) and writes[other, 0] < end:
            store = writes[other, _OF]
            if writes[other, 1] > begin:
                low, high = max(begin, writes[other, 0]), min(end, writes[other, 1])
                if store < load:
                    _note(found, store, load, low, high)
                elif facts[load, _USED] > facts[store, _DONE] and facts[load, _STORED] > store:
                    _note(found, load, store, low, high)
            other += 1


def race_signatures() -> tuple[Signature, ...]:
    """Returns what looks for them."""
    return Signature(_follow, VECTOR, MATRIX, MATRIX, MATRIX), Signature(_meet, MATRIX, MATRIX, MATRIX, MATRIX)


def find_dram_races(
    expanded: ExpandedStream, parameters: GemminiParameters, context: LaunchContext, first: int
) -> list[Race]:
    """Returns pairs of a load and a store that touch the same bytes in no fixed order.

    Args:
        expanded: the stream, its loops written out.
        parameters: of the accelerator.
        context: what the stream finds in the registers.
        first: the place of the stream's first instruction in the program.
    """
    boxes = primitive_accesses(expanded.words, context)
    fences = np.flatnonzero(expanded.words[:, 0] == rocc.FENCE)
    after = np.searchsorted(fences, boxes.instruction)
    found = np.zeros((_ROOM + 1, 4), np.int64)
    facts: Int64 | None = None
    for between in np.unique(after[boxes.write]).tolist():
        own = boxes.of(after == between)
        reads, writes = own.of(~own.write), own.writes()
        reads, writes = reads.of(Stretches.of(writes).meet(reads)), writes.of(Stretches.of(reads).meet(writes))
        if len(reads.begin) and len(writes.begin):
            facts = _facts(expanded.words, parameters, context) if facts is None else facts
            _meet(_dram_rows(reads), _dram_rows(writes), facts, found)
    return [
        Race(first + int(expanded.origin[one]), first + int(expanded.origin[other]), "dram", begin, end)
        for one, other, begin, end in found[: found[-1, 0]].tolist()
    ]


def _facts(words: Int64, parameters: GemminiParameters, context: LaunchContext) -> Int64:
    facts = np.tile(np.array([_NONE, _NONE, -1], np.int64), (len(words), 1))
    rows = np.full((parameters.scratchpad_rows + parameters.accumulator_rows, 2), -1, np.int64)
    bare = parameters.model_copy(update={"core": None, "memory": None})
    _follow(new_machine(bare, context), words, rows, facts)
    return facts


def _dram_rows(boxes: Boxes) -> Int64:
    """The rows (n, 3) of boxes by their first byte: begin, end, instruction."""
    single = boxes.single_rows()
    rows = np.stack([single.begin, single.begin + single.row_bytes, single.instruction], axis=1)
    return np.ascontiguousarray(rows[np.argsort(single.begin, kind="stable")])
