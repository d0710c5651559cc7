"""The normaliser against the state machine of ``Normalizer.scala``, cycle by cycle."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import STATISTICS, GemminiParameters
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.build import new_machine
from accel.isa.gemmini.timing.machine.memory.normaliser import give_row, row_is_taken_from, take_row, takes_row

ROW = at.NORM + at.HEADER
BEHIND = {rocc.MEAN: "get_mean", rocc.INV_STDDEV: "get_variance", rocc.INV_SUM_EXP: "get_inv_sum_exp"}
AGAIN = {"waiting_for_variance": "get_stddev", "waiting_for_stddev": "get_inv_stddev"}
UNITS = ("mean", "variance"), ("stddev",), ("inv_stddev",), ("inv_sum_exp",)
LATENCY = 4


@dataclass
class Unit:
    """A divider that counts down (DivSqrtRecFN_small.scala ``cycleNum``)."""

    cycles: int
    left: int = 0

    def step(self, begins: bool) -> None:
        self.left = self.cycles if begins else max(self.left - 1, 0)


@dataclass
class Statistics:
    state: str = "idle"
    command: int = rocc.RESET

    @property
    def drains(self) -> bool:
        """``waiting_for_lanes_to_drain``."""
        return (self.command, self.state) in {
            (rocc.MEAN, "get_sum"),
            (rocc.MEAN, "get_mean"),
            (rocc.INV_STDDEV, "get_sum"),
            (rocc.INV_STDDEV, "get_variance"),
            (rocc.MAX, "get_max"),
            (rocc.INV_SUM_EXP, "get_sum"),
        }


@dataclass
class Normaliser:
    """Its registers; ``step`` is a cycle."""

    stats: list[Statistics] = field(default_factory=lambda: [Statistics() for _ in range(STATISTICS)])
    pipe: list[bool] = field(default_factory=lambda: [False] * LATENCY)
    integer: Unit = field(default_factory=lambda: Unit(32 + 2))
    root: Unit = field(default_factory=lambda: Unit(32 + 1))
    reciprocal: Unit = field(default_factory=lambda: Unit(24 + 2))
    quotient: Unit = field(default_factory=lambda: Unit(24 + 2))

    def step(self, offered: tuple[int, int] | None, scale_ready: bool) -> tuple[bool, bool]:
        """Whether the row that is offered, a number and a command, is taken; and whether the scale got one."""
        lanes = any(each.state == "get_sum" for each in self.stats)
        busy = lanes or any(self.pipe)
        done, following = [each.state == "idle" for each in self.stats], [each.state for each in self.stats]
        units = (self.integer, self.root, self.reciprocal, self.quotient)
        begins, gives = [False] * len(units), False
        asking = [self._unit(each.state) if each.state.startswith("get_") else None for each in self.stats]
        outputs = [number for number, each in enumerate(self.stats) if each.state == "output"]
        for number, each in enumerate(self.stats):
            state, unit = each.state, self._unit(each.state)
            if state == "output" and scale_ready and number == outputs[0]:
                done[number], following[number], gives = True, "idle", True
            elif state in ("get_sum", "get_max"):
                following[number] = BEHIND.get(each.command, "idle")
                done[number] = each.command not in BEHIND
            elif unit is not None and state.startswith("get_"):
                summed = state in ("get_stddev", "get_inv_stddev") or not busy
                if summed and units[unit].left <= 1 and asking.index(unit) == number:
                    following[number], begins[unit] = state.replace("get_", "waiting_for_"), True
            elif unit is not None and units[unit].left == 1:
                following[number] = AGAIN.get(state, "idle")
                done[number] = following[number] == "idle"
        takes = offered is not None and done[offered[0]] and not any(each.drains for each in self.stats)
        if offered is not None and takes:
            number, command = offered
            following[number] = "output" if command == rocc.RESET else "get_max" if command == rocc.MAX else "get_sum"
            self.stats[number].command = command
        for each, state in zip(self.stats, following, strict=True):
            each.state = state
        self.pipe = [lanes, *self.pipe[:-1]]
        for each_unit, begin in zip(units, begins, strict=True):
            each_unit.step(begin)
        return takes, gives

    @staticmethod
    def _unit(state: str) -> int | None:
        name = state.removeprefix("get_").removeprefix("waiting_for_")
        return next((number for number, names in enumerate(UNITS) if name in names), None)


def machine(*, normalizations: bool = True) -> np.ndarray:
    parameters = GemminiParameters(normalizations=normalizations)
    return new_machine(parameters, LaunchContext.fresh(parameters))


def offer(m: np.ndarray, number: int, command: int) -> None:
    m[ROW + at.W_STATISTICS], m[ROW + at.W_NORM] = number, command


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_taken_and_given_when_the_rtl_does(seed: int) -> None:
    rng, rtl, m = np.random.default_rng(seed), Normaliser(), machine()
    numbers = 1 + seed % STATISTICS
    rows = [(int(rng.integers(numbers)), int(rng.integers(8))) for _ in range(60)]
    pause, ready, taken, held = 0, 1.0 - 0.3 * (seed % 3), 0, False
    for now in range(1, 60 * 120):
        if taken == len(rows):
            break
        row = rows[taken]
        outputs = [number for number, each in enumerate(rtl.stats) if each.state == "output"]
        held = row[1] == rocc.RESET and any(number != row[0] for number in outputs)  # two would be an error of the RTL
        offered = None if pause or held else row
        pause = max(pause - 1, 0)
        scales = bool(rng.random() < ready)
        takes, gives = rtl.step(offered, scales)
        assert (scales and give_row(m, now)) == gives, now
        offer(m, *row)
        if offered is not None:
            assert takes_row(m, ROW, now) == takes, (now, row)
            assert not takes or row_is_taken_from(m, ROW) <= now
        if takes:
            take_row(m, ROW, now)
            taken, pause = taken + 1, int(rng.choice([0, 0, 0, 1, 7, 40]))
    assert taken == len(rows)


def test_a_design_without_it_has_a_queue_of_two_rows() -> None:
    m = machine(normalizations=False)
    offer(m, 0, rocc.INV_STDDEV)
    for now in (1, 2):
        assert takes_row(m, ROW, now)
        take_row(m, ROW, now)
    assert not takes_row(m, ROW, 3)
    assert give_row(m, 3)
    assert takes_row(m, ROW, 4)
