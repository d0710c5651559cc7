"""Streams that Gemmini's hardware runs otherwise than its instructions say, or never ends: found in the recordings.

A maximum that sums of exponentials do not take over is found in the RTL alone (Normalizer.scala), of designs that have
normalisations: ``stat.max`` is set where a row of SUM_EXP comes in, and ``running_max`` six cycles after one of MAX.

Two designs were recorded, and both do so. Of the programs whose bytes differed from ours on the 16x16 one, ten had an
accumulating load beside an accumulating mesh, and one, as one on the 8x8 design, a short compute before a config_ex.
"""

import numpy as np

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import STATISTICS, GemminiParameters
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.gemmini.stream.configuration_registers import load_configuration_of
from accel.isa.gemmini.stream.loop_expansion import ExpandedStream
from accel.isa.hazard_findings import Erratum, ErratumKind
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, VECTOR
from accel.util.arrays import Int64

SHORT_ROWS = 4
_PRELOAD_ALONE, _SHORT_COMPUTE, _BOTH_ACCUMULATE, _STALE_MAXIMUM = range(4)
_KINDS: tuple[ErratumKind, ...] = ("preload-alone", "short-compute", "adders-shared", "stale-maximum")
_ROOM = 100  # findings of a launch
_IDLE, _CONFIGURED, _PRELOADED, _COMPUTED_FEW, _COMPUTED = range(5)  # what the execute queue had last
_INDEX, _BEGIN, _END = range(3)  # of what is in flight: primitive instruction, rows of the accumulator
_FIELDS = 3
_DIM, _ACC_BANK, _LOADS, _EXECUTES, _NORMALISES = range(5)  # of the accelerator
_MAXIMUM_LATENCY = 6  # cycles from a row of MAX to its maximum
_SINCE, _TAKEN = range(2)  # of a number of statistics: the MAX that no exponentials took over, or -1; when it came


@compiled
def _rows_of(word: int, rows: int) -> tuple[int, int]:
    """The rows of the accumulator at a local address; none of the scratchpad's, nor of no address."""
    if word & rocc.GARBAGE == rocc.GARBAGE or not word & rocc.ACCUMULATOR:
        return 0, 0
    first = word & rocc.STORE_ROW
    return first, first + rows


@compiled
def _other_bank(begin: int, end: int, first: int, last: int, bank: int) -> bool:
    """Whether rows of one access lie in another bank than some of the other's."""
    low, high = begin // bank, (end - 1) // bank
    return not (low == high == first // bank == (last - 1) // bank)


@compiled
def _note(found: Int64, kind: int, index: int, since: int) -> None:
    """Put a finding into ``found`` (room + 1, 3), whose last row counts them."""
    count = found[-1, 0]
    if count < len(found) - 1:
        found[count, 0], found[count, 1], found[count, 2] = kind, index, since
        found[-1, 0] = count + 1


@compiled
def _push(window: Int64, index: int, begin: int, end: int) -> None:
    """Put an access into a window (entries + 1, FIELDS) of those in flight, of which the oldest leaves."""
    used = window[-1, 0]
    if used == len(window) - 1:
        _drop(window, 1)
        used -= 1
    window[used, _INDEX], window[used, _BEGIN], window[used, _END] = index, begin, end
    window[-1, 0] = used + 1


@compiled
def _move(window: Int64, source: int, target: int) -> None:
    for field in range(_FIELDS):  # a slice would compile a message of shapes that do not fit
        window[target, field] = window[source, field]


@compiled
def _drop(window: Int64, count: int) -> None:
    """Take the oldest out of a window."""
    left = window[-1, 0] - count
    for place in range(left):
        _move(window, place + count, place)
    window[-1, 0] = left


@compiled
def _meet(window: Int64, index: int, begin: int, end: int, bank: int, found: Int64) -> None:
    """Note an accumulating access, and the first in flight that accumulates into another bank."""
    for place in range(window[-1, 0]):
        if _other_bank(begin, end, window[place, _BEGIN], window[place, _END], bank):
            _note(found, _BOTH_ACCUMULATE, index, window[place, _INDEX])
            return


@compiled
def _load(index: int, rs2: int, rows: int, bank: int, loads: Int64, results: Int64, found: Int64) -> None:
    begin, end = _rows_of(rs2, rows)
    if end <= begin:
        return
    done = 0
    for place in range(results[-1, 0]):  # who waits for one result waits for all before it
        if begin < results[place, _END] and results[place, _BEGIN] < end:
            done = place + 1
    _drop(results, done)
    if rs2 & rocc.ACCUMULATE:
        _meet(results, index, begin, end, bank, found)
        _push(loads, index, begin, end)


@compiled
def _product(index: int, rs2: int, stride: int, bank: int, loads: Int64, results: Int64, found: Int64) -> None:
    begin, end = _rows_of(rs2, (rs2 >> 48 & 0xFFFF) * stride)
    if end <= begin:
        return
    kept = 0
    for place in range(loads[-1, 0]):
        if not (begin < loads[place, _END] and loads[place, _BEGIN] < end):
            _move(loads, place, kept)
            kept += 1
    loads[-1, 0] = kept
    if rs2 & rocc.ACCUMULATE:
        _meet(loads, index, begin, end, bank, found)
        _push(results, index, begin, end)


@compiled
def _follow(found: Int64, queue: Int64, index: int, what: int) -> None:
    """Note what the execute queue may not have in a row; ``queue`` is what was last in it, and where."""
    if queue[0] == _PRELOADED and what in (_IDLE, _CONFIGURED):  # of preloads in a row the last counts
        _note(found, _PRELOAD_ALONE, queue[1], index)
    elif queue[0] == _COMPUTED_FEW and what == _CONFIGURED:
        _note(found, _SHORT_COMPUTE, queue[1], index)
    queue[0], queue[1] = what, index


@compiled
def _find_stale_maxima(words: Int64, dim: int, number: int, found: Int64) -> None:
    """Note sums of exponentials without the maximum of their row: the normaliser takes a row a cycle at most.

    ``number`` is that of the statistics that the stream finds. Of a row's blocks that end with INV_SUM_EXP those before
    the last have SUM_EXP.
    """
    maxima, now = np.full((STATISTICS, 2), -1, np.int64), 0
    for index in range(len(words)):
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        if funct == rocc.CONFIG and rs1 & 3 == rocc.CONFIG_NORM:
            number = rs1 >> 8 & STATISTICS - 1
        elif funct == rocc.MVOUT:
            blocks = ((rs2 >> 32 & 0xFFFF) + dim - 1) // dim
            count, command = (rs2 >> 48 & 0xFFFF) * blocks, rs2 >> 26 & 7 if rs2 & rocc.ACCUMULATOR else rocc.RESET
            now += 2 * count if command == rocc.MAX else count  # the lanes drain behind each
            if command == rocc.MAX:
                maxima[number, _SINCE], maxima[number, _TAKEN] = index, now - 2
            elif command in (rocc.SUM_EXP, rocc.INV_SUM_EXP) and maxima[number, _SINCE] >= 0:
                late = now - count >= maxima[number, _TAKEN] + _MAXIMUM_LATENCY
                if not late or (command == rocc.INV_SUM_EXP and blocks == 1):
                    _note(found, _STALE_MAXIMUM, index, maxima[number, _SINCE])
                maxima[number, _SINCE] = -1


@compiled
def _find_in_products(words: Int64, facts: Int64, state: Int64, found: Int64) -> None:
    """Note what products, and loads beside them, do otherwise; ``state`` is updated."""
    bank, queue = facts[_ACC_BANK], np.zeros(2, np.int64)
    loads = np.zeros((facts[_LOADS] + 1, _FIELDS), np.int64)
    results = np.zeros((facts[_EXECUTES] + 1, _FIELDS), np.int64)
    for index in range(len(words)):
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        if funct == rocc.FENCE:
            loads[-1, 0] = results[-1, 0] = 0
            if queue[0] != _PRELOADED:  # which may wait for its compute behind a fence
                queue[0] = _IDLE
        elif funct == rocc.CONFIG:
            if rs1 & 3 == rocc.CONFIG_LD and rs1 >> 3 & 3 < 3:
                state[at.LD_BLOCK + (rs1 >> 3 & 3)] = rs1 >> 16 & 0xFFFF
            elif rs1 & 3 == rocc.CONFIG_EX:
                state[at.C_STRIDE] = rs2 >> 48 & 0xFFFF
                _follow(found, queue, index, _CONFIGURED)
        elif funct in (rocc.MVIN, rocc.MVIN2, rocc.MVIN3):
            blocks = ((rs2 >> 32 & 0xFFFF) + facts[_DIM] - 1) // facts[_DIM]
            step = state[at.LD_BLOCK + load_configuration_of(funct)]
            _load(index, rs2, (blocks - 1) * step + (rs2 >> 48 & 0xFFFF), bank, loads, results, found)
        elif funct == rocc.PRELOAD:
            _follow(found, queue, index, _PRELOADED)
            _product(index, rs2, state[at.C_STRIDE], bank, loads, results, found)
        elif funct in (rocc.COMPUTE_PRELOADED, rocc.COMPUTE_ACCUMULATED):
            few = rs1 & rocc.GARBAGE != rocc.GARBAGE and rs1 >> 48 & 0xFFFF <= SHORT_ROWS
            _follow(found, queue, index, _COMPUTED_FEW if few else _COMPUTED)
    _follow(found, queue, queue[1], _IDLE)


@compiled
def _find(words: Int64, facts: Int64, state: Int64, found: Int64) -> None:
    """Note in ``found`` (room + 1, 3) kinds, instructions, and those that they meet; ``state`` is updated."""
    if facts[_NORMALISES]:
        _find_stale_maxima(words, facts[_DIM], state[at.STAT], found)
    _find_in_products(words, facts, state, found)


def errata_signature() -> Signature:
    """Returns what looks for them."""
    return Signature(_find, MATRIX, VECTOR, VECTOR, MATRIX)


def find_errata(expanded: ExpandedStream, parameters: GemminiParameters, state: Int64, first: int) -> list[Erratum]:
    """Returns what the recorded designs, or the RTL's normaliser, do not do as the instructions say.

    A load and a product count as at once if no dependence orders them and both may be in the reservation station; a
    fence ends all. Whether they meet to the cycle depends on the memory.

    Args:
        expanded: the stream, its loops written out.
        parameters: of the accelerator.
        state: (CONFIGURATION,) registers that the stream finds; they stay as they are.
        first: the place of the stream's first instruction in the program.
    """
    facts = np.array(
        [
            parameters.dim,
            parameters.accumulator_rows // parameters.accumulator_banks,
            parameters.load_entries,
            parameters.execute_entries,
            parameters.normalizations,
        ],
        np.int64,
    )
    found = np.zeros((_ROOM + 1, 3), np.int64)
    _find(expanded.words, facts, state.copy(), found)
    return [
        Erratum(_KINDS[kind], first + int(expanded.origin[index]), first + int(expanded.origin[since]))
        for kind, index, since in found[: found[-1, 0]].tolist()
    ]
