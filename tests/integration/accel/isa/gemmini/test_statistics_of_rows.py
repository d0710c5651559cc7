"""Statistics of rows in time and traffic, by what ``Normalizer.scala`` and ``Scratchpad.scala`` do with such rows."""

import numpy as np
import pytest

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream.dram_races import find_dram_races
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.stream.loop_expansion import expand_loops
from accel.isa.gemmini.timing.stream_timing import cycles_of
from accel.isa.gemmini.timing.stream_traffic import dram_accesses

NORMALISING = GemminiParameters(normalizations=True)
DRAM = 4096
BEGIN = (rocc.CONFIG, rocc.CONFIG_ST, rocc.ONE << 32 | 64)
STATISTICS = range(rocc.SUM, rocc.INV_SUM_EXP + 1)
APART, APART_WIDE = 2, 1  # cycles from the last block of a mvout to the next mvout: of one block, or of several


def mvout(command, rows=1, columns=16):
    return rocc.MVOUT, DRAM, rows << 48 | columns << 32 | rocc.ACCUMULATOR | command << 26


def of_number(number):
    return rocc.CONFIG, 1 << 17 | number << 8 | rocc.CONFIG_NORM, 0


def words(*stream):
    return np.array([BEGIN, *stream], np.uint64)


def cycles(*stream, parameters=NORMALISING):
    return cycles_of(words(*stream), parameters, LaunchContext.fresh(parameters))


@pytest.mark.parametrize("command", STATISTICS)
def test_their_rows_are_scaled_and_written_nowhere(command):
    """Time in the scale's pipeline, or a row of traffic."""
    slow = NORMALISING.model_copy(update={"accumulator_scale_latency": 40})
    stream = [mvout(command, rows=16, columns=64)] * 3
    assert cycles(*stream, parameters=slow) == cycles(*stream)
    assert not len(dram_accesses(words(*stream), NORMALISING, LaunchContext.fresh(NORMALISING)).begin)


def test_they_race_with_no_load_of_the_place_that_they_name():
    context = LaunchContext.fresh(NORMALISING)
    load = rocc.MVIN, DRAM, 16 << 48 | 16 << 32
    for command, races in ((rocc.MAX, 0), (rocc.RESET, 1)):
        expanded = expand_loops(words(mvout(command, rows=16), load), NORMALISING, context.loops.copy())
        assert len(find_dram_races(expanded, NORMALISING, context, 0)) == races


@pytest.mark.parametrize(
    ("command", "each"), [(rocc.SUM, 1), (rocc.VARIANCE, 1), (rocc.SUM_EXP, 1), (rocc.MAX, 2), (rocc.MEAN, 40)]
)
def test_rows_are_taken_as_fast_as_their_statistic_is_gathered(command, each):
    """A row a cycle, but that the lanes of the largest drain between two, and that a mean is one division."""
    taken = [cycles(*[mvout(command, rows=16)] * count) for count in (4, 8)]
    assert taken[1] - taken[0] == 4 * 16 * each


@pytest.mark.parametrize(("last", "behind"), [(rocc.MEAN, 40), (rocc.INV_STDDEV, 40 + 34 + 27), (rocc.INV_SUM_EXP, 32)])
def test_a_row_waits_for_its_own_quotients_alone(last, behind):
    """Quotients of other numbers, or those of a row's blocks before the last one."""
    stored = mvout(rocc.RESET)
    gathered = cycles(mvout(rocc.SUM_EXP), stored)
    assert cycles(mvout(last), stored) == gathered + behind - APART
    wide = cycles(mvout(rocc.SUM_EXP, columns=64), stored)
    assert cycles(mvout(last, columns=64), stored) == wide + behind - APART_WIDE
    other = cycles(mvout(rocc.SUM_EXP), of_number(1), stored)
    assert cycles(mvout(last), of_number(1), stored) < other + 8


def test_the_number_of_statistics_is_kept_between_launches():
    """A number that is another one in the next launch."""
    context = LaunchContext.fresh(NORMALISING).after(words(of_number(1)), NORMALISING)
    stream = np.array([mvout(rocc.INV_STDDEV), of_number(0), mvout(rocc.RESET)], np.uint64)
    fresh = cycles_of(stream, NORMALISING, LaunchContext.fresh(NORMALISING))
    assert cycles_of(stream, NORMALISING, context) < fresh - 50


def test_a_loop_that_normalises_ends():
    loop = [
        (rocc.CONFIG, 1 << 16 | 1 << 2, 1 << 48),
        *((rocc.CONFIG, rocc.ONE << 32 | 16 << 16 | 1 << 8 | state << 3 | rocc.CONFIG_LD, 64) for state in range(3)),
        (rocc.LOOP_BOUNDS, 0, 1 << 32 | 2 << 16 | 2),
        (rocc.LOOP_AB, 1 << 16, 1 << 17),
        (rocc.LOOP_DC, 0, 1 << 18),
        (rocc.LOOP_STRIDES_AB, 64, 64),
        (rocc.LOOP_STRIDES_DC, 64, 64),
        (rocc.LOOP_WS, rocc.LAYERNORM << 8, 0),
    ]
    plain = cycles(*loop, parameters=GemminiParameters())
    rows = 32
    assert cycles(*loop) > plain + rows // 4 * 40
