"""For whom Gemmini's instructions wait: against the rows of scratchpad and accumulator that each touches."""

from dataclasses import dataclass

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.isa.gemmini.timing.machine import log_columns as log
from accel.isa.gemmini.timing.stream_timing import StreamTiming, time_stream
from tests.helpers.programs.gemmini_vectors import names, needs_gemmini_golden, read, trace

CONFIG, MVIN, MVOUT, COMPUTE, ACCUMULATE, PRELOAD = 0, 2, 3, 4, 5, 6
UNITS = ("load", "execute", "store")
DIM = 16
NOWHERE = 0xFFFFFFFF
AFTER = {"load": ("execute", "store", "unit"), "execute": ("store", "unit"), "store": ("unit",)}


@dataclass
class Touch:
    """What an instruction touches: (memory, first row, end) of what it reads and of what it writes."""

    unit: str
    reads: list[tuple[int, int, int]]
    writes: list[tuple[int, int, int]]


def rows(operand: int, count: int) -> list[tuple[int, int, int]]:
    address = operand & NOWHERE
    first = address & ((1 << 14) - 1)
    return [] if address == NOWHERE else [(address >> 31, first, first + count)]


def touches(words: list[list[int]]) -> list[Touch | None]:
    """Written from the manual of the instructions; None for those that touch nothing."""
    found: list[Touch | None] = []
    block, a_stride, c_stride = DIM, 1, 1
    for funct, rs1, rs2 in words:
        count, columns = rs2 >> 48, rs2 >> 32 & 0xFFFF
        blocks = -(-columns // DIM)
        if funct == CONFIG:
            if rs1 & 3 == 1 and rs1 >> 3 & 3 == 0:
                block = rs1 >> 16 & 0xFFFF
            elif rs1 & 3 == 0:
                a_stride, c_stride = rs1 >> 16 & 0xFFFF, rs2 >> 48
            found.append(None)
        elif funct == MVIN:
            found.append(Touch("load", [], rows(rs2, (blocks - 1) * block + count)))
        elif funct == MVOUT:
            found.append(Touch("store", rows(rs2, (blocks - 1) * DIM + count), []))
        elif funct == PRELOAD:
            found.append(Touch("execute", rows(rs1, rs1 >> 48), rows(rs2, count * c_stride)))
        elif funct in (COMPUTE, ACCUMULATE):
            found.append(Touch("execute", [*rows(rs1, (rs1 >> 48) * a_stride), *rows(rs2, count)], []))
        else:
            found.append(None)
    return found


def meet(one: Touch, other: Touch) -> bool:
    """Whether they share a row that one of them writes."""
    pairs = [(a, b) for a in one.writes for b in (*other.reads, *other.writes)]
    pairs += [(a, b) for a in one.reads for b in other.writes]
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a, b in pairs)


def checked(words: np.ndarray, timing: StreamTiming) -> int:
    """Compares every wait for rows with the rows themselves; returns how many there are."""
    touched = touches(words.tolist())
    entered = {int(row[log.ORIGIN]): int(row[log.ENTERED]) for row in timing.log}
    compared = 0
    for cause in UNITS:
        for index, (lost, back) in enumerate(zip(timing.waits[cause].tolist(), timing.awaited[cause], strict=True)):
            if not lost:
                assert back == 0
                continue
            mine, awaited = touched[index], touched[index - back]
            assert mine is not None
            assert awaited is not None
            assert awaited.unit == cause
            assert meet(mine, awaited)
            until = timing.start[index] - sum(timing.waits[later][index] for later in AFTER[cause])
            assert timing.end[index - back] == until
            ends = [
                timing.end[other]
                for other in range(index)
                if (there := touched[other]) is not None and there.unit == cause and meet(mine, there)
                if entered[index] < timing.end[other]
            ]
            assert max(ends) == until
            compared += 1
    return compared


PRIMITIVE = ("matmul_ws", "matrix_add", "mvin_mvout", "raw_hazard", "tiled_matmul_os", "transpose")


@needs_gemmini_golden
@pytest.mark.parametrize("name", PRIMITIVE)
def test_who_is_waited_for_holds_the_rows_and_lets_go_as_the_wait_ends(name: str) -> None:
    """Catches a wait whose other end is another instruction, of another unit, or one that touches other rows."""
    assert name in names()
    words = np.concatenate([step.words for step in read(name)])
    parameters = parameters_of(load_accelerator("gemmini"))
    assert checked(words, time_stream(words, parameters)) > 0


@needs_gemmini_golden
def test_a_loop_waits_for_other_instructions_and_never_for_itself() -> None:
    """Catches the row of the machine's log taken for the place of the instruction: a loop is many rows."""
    words = trace("tiled_matmul_ws_perf")
    timing = time_stream(words, parameters_of(load_accelerator("gemmini-lean")))
    some = 0
    for cause in UNITS:
        of = UNITS.index(cause)
        for index in np.flatnonzero(timing.awaited[cause]).tolist():
            other = index - int(timing.awaited[cause][index])
            waits = timing.log[timing.log[:, log.ORIGIN] == index][:, log.CLEARED + of]
            ends = timing.log[(timing.log[:, log.ORIGIN] == other) & (timing.log[:, log.QUEUE] == of)][:, log.COMPLETE]
            assert np.isin(ends, waits).any()
            some += 1
    assert some > 0
