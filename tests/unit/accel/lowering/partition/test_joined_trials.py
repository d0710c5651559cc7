"""Trials of tilings with the launches around them."""

from collections.abc import Sequence
from dataclasses import replace

from accel.lowering.partition.joined_trials import tune_joined
from accel.lowering.partition.launch_rows import RowLaunch, row_around, without_neighbours
from accel.region.epilogue import Epilogue
from accel.region.kinds import Region, TilingOption
from accel.region.shapes import Convolution, PackedActivation
from accel.region.tilings import Tiling

SHAPE = Convolution(PackedActivation(1, 1, 8, 8, 8, 8), 1, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 8, 8)
TILING = Tiling(1, 8, 8, 1, 1, 1, "stream", 2, 2, 8, 8)


def region(rows: int) -> Region:
    return Region(SHAPE, Epilogue(()), replace(TILING, out_rows=rows))


def options(*prices: float) -> list[TilingOption]:
    """Tilings of 8, 4, 2 and 1 rows at these prices."""
    return [TilingOption(price, region(8 >> place)) for place, price in enumerate(prices)]


def rows(row: Sequence[RowLaunch]) -> list[int]:
    return [launch.region.tiling.out_rows for launch in row]


def test_a_layer_takes_the_tiles_that_are_faster_between_its_neighbours() -> None:
    """The middle one of three is fastest in four rows where the first has eight, whatever it costs alone."""

    def measure(row: Sequence[RowLaunch]) -> int:
        return 300 - 50 * (rows(row) == [8, 4, 8])

    given = {name: options(100, 110) for name in "abc"}
    chosen = {name: given[name][0].region for name in "abc"}
    found = tune_joined(given, chosen, {"a": [""], "b": ["a"], "c": ["b"]}, measure, 8, 0.01)
    assert [found[name].tiling.out_rows for name in "abc"] == [8, 4, 8]


def test_what_costs_much_more_is_not_tried_and_no_more_are_tried_than_may_be() -> None:
    asked: list[list[int]] = []

    def measure(row: Sequence[RowLaunch]) -> int:
        asked.append(rows(row))
        return 100

    given = {"a": options(100, 110, 190), "b": options(10, 11)}
    chosen = {name: ranked[0].region for name, ranked in given.items()}
    tune_joined(given, chosen, {"a": [""], "b": ["a"]}, measure, 1, 0.01)
    assert asked == [[8, 8], [4, 8]]


def test_rows_are_told_before_they_are_timed() -> None:
    """Catches trials whose regions nobody has lowered meanwhile, and rows that are told in vain."""
    told, asked = list[list[int]](), list[list[int]]()

    def measure(row: Sequence[RowLaunch]) -> int:
        asked.append(rows(row))
        return 100

    def expect(ahead: Sequence[Sequence[RowLaunch]]) -> None:
        assert len(asked) == 1
        told.extend(map(rows, ahead))

    given = {name: options(100, 110, 119) for name in "ab"}
    chosen = {name: ranked[0].region for name, ranked in given.items()}
    tune_joined(given, chosen, {"a": [""], "b": ["a"]}, measure, 3, 0.01, expect)
    assert told == [[4, 8], [2, 8], [8, 4]]
    assert asked == [[8, 8], *told[:2], [8, 8], told[2]]


def test_a_launch_between_host_steps_and_short_tiles_are_not_tried() -> None:
    given = {"a": options(100, 101), "b": options(1, 1.1)}
    chosen = {name: ranked[0].region for name, ranked in given.items()}
    assert tune_joined(given, chosen, {"a": [""], "b": [""]}, lambda _: 1 // 0, 8, 0.01) == chosen
    cheap = {"b": given["b"], "c": options(0.9, 1)} | {"a": given["a"][:1]}
    chosen = {name: ranked[0].region for name, ranked in cheap.items()}
    assert tune_joined(cheap, chosen, {"a": [""], "b": ["a"], "c": ["b"]}, lambda _: 1 // 0, 8, 0.05) == chosen


def test_rows_end_where_all_data_come_from_the_host() -> None:
    operands = {"a": [""], "b": ["a"], "c": ["a", "b"], "d": [""], "e": [""]}
    regions = {name: region(8) for name in operands}
    row = row_around(list(operands), operands, regions, "b")
    assert [launch.reads for launch in row] == [(None,), (0,), (0, 1)]
    assert without_neighbours(operands) == {"d", "e"}
