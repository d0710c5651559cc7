"""Close calls between options of a layer."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from accel.lowering.partition.autotune import Measure, autotune
from accel.region.epilogue import Epilogue
from accel.region.kinds import Region, TilingOption
from accel.region.shapes import Convolution, PackedActivation
from accel.region.tilings import Tiling

SHAPE = Convolution(PackedActivation(1, 1, 8, 8, 8, 8), 1, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 8, 8)
TILING = Tiling(1, 8, 8, 1, 1, 1, "stream", 2, 2, 8, 8)


def region(rows: int, width: int = 8) -> Region:
    """A region told by its tile's rows and its image's width."""
    shape = replace(SHAPE, out_width=width)
    return Region(shape, Epilogue(()), replace(TILING, out_rows=rows))


def each(measure: Callable[[Region], int | None]) -> Measure:
    """Measures one region after the other."""

    def all_of(regions: Sequence[Region], _ahead: Sequence[Region]) -> list[int | None]:
        return [measure(one) for one in regions]

    return all_of


def test_the_estimate_decides_where_it_is_plain() -> None:
    asked: list[Region] = []
    chosen = autotune({"a": [TilingOption(100, region(1)), TilingOption(120, region(2))]}, each(asked.append))
    assert chosen == {"a": region(1)}
    assert asked == []


def test_of_equal_estimates_the_one_that_keeps_the_weights_is_taken() -> None:
    kept = replace(region(2), tiling=replace(TILING, out_rows=2, order="weights"))
    options = [TilingOption(100, region(1)), TilingOption(100, kept), TilingOption(100.5, region(4))]
    assert autotune({"a": options, "b": options[:1]}, None) == {"a": kept, "b": region(1)}


def test_the_measure_decides_close_calls() -> None:
    options = {"a": [TilingOption(100, region(1)), TilingOption(101, region(2)), TilingOption(101.5, region(4))]}
    assert autotune(options, each(lambda one: 120 - one.tiling.out_rows)) == {"a": region(2)}
    assert autotune(options, None) == {"a": region(1)}


def test_an_estimate_that_was_right_is_not_doubted() -> None:
    asked: list[Region] = []

    def measure(one: Region) -> int:
        asked.append(one)
        return 101 - one.tiling.out_rows

    options = {
        f"{width}": [TilingOption(100, region(1, width)), TilingOption(101, region(2, width))] for width in (8, 9)
    }
    assert autotune(options, each(measure)) == {"8": region(1, 8), "9": region(1, 9)}
    assert asked == [region(1, 8), region(1, 9)]


def test_two_options_of_the_only_layer_in_doubt_are_measured_at_once() -> None:
    asked: list[list[Region]] = []

    def measure(some: Sequence[Region], _ahead: Sequence[Region]) -> list[int | None]:
        asked.append(list(some))
        return [110 - one.tiling.out_rows for one in some]

    options = [TilingOption(100, region(1)), TilingOption(101, region(2))]
    assert autotune({"a": options}, measure) == {"a": region(2)}
    assert asked == [[region(1), region(2)]]


def test_it_tells_what_it_asks_for_next() -> None:
    asked: list[Region] = []
    told: list[Region] = []

    def measure(some: Sequence[Region], ahead: Sequence[Region]) -> list[int | None]:
        assert all(one in some for one in told)
        told[:] = ahead
        asked.extend(some)
        return [110 - one.tiling.out_rows for one in some]

    options = {
        f"{width}": [TilingOption(100, region(1, width)), TilingOption(101, region(2, width))] for width in (8, 9)
    }
    assert autotune(options, measure) == {"8": region(2, 8), "9": region(2, 9)}
    assert asked == [region(1, 8), region(1, 9), region(2, 8), region(2, 9)]


def test_what_cannot_be_measured_stays_with_the_estimate() -> None:
    options = {"a": [TilingOption(100, region(1)), TilingOption(101, region(2))]}
    assert autotune(options, each(lambda one: None if one.tiling.out_rows == 1 else 5)) == {"a": region(1)}


def test_equal_layers_are_measured_once_and_the_heaviest_first() -> None:
    """A network ten times as deep takes as many trials."""
    asked: list[Region] = []

    def measure(one: Region) -> int:
        asked.append(one)
        return 1000 * one.shape.out_width

    options = {
        f"{depth}_{width}": [TilingOption(1000 * width, region(2, width)), TilingOption(1001 * width, region(1, width))]
        for depth in range(10)
        for width in range(1, 40)
    }
    autotune(options, each(measure))
    assert 5 < len(asked) == len(set(asked)) < 25
    assert {one.shape.out_width for one in asked} == set(range(40 - len(asked), 40))


def test_trials_go_where_an_estimate_was_wrong() -> None:
    wrong = 3
    options = {
        f"{width}": [TilingOption(1000, region(2, width)), TilingOption(1001, region(1, width))]
        for width in range(1, 20)  # each is worth a trial
    }

    def measure(one: Region) -> int:
        return 1000 + (500 if one.shape.out_width == wrong else 0) * one.tiling.out_rows

    chosen = autotune(options, each(measure))
    assert {name for name, one in chosen.items() if one.tiling.out_rows == 1} == {f"{wrong}"}


def test_the_other_way_to_run_a_layer_is_tried() -> None:
    """Catches two prices of other sources that are taken for as near to each other as those of one."""
    loop = replace(region(1), tiling=replace(TILING, layer="loop"))
    options = {"a": [TilingOption(100, loop), TilingOption(101, region(2)), TilingOption(112, region(4))]}
    assert autotune(options, each(lambda one: 90 if one.tiling.layer else 95)) == {"a": loop}
    assert autotune(options, each(lambda one: 95 if one.tiling.layer else 90)) == {"a": region(2)}
    assert autotune(options, each(lambda _: None)) == {"a": region(2)}  # untried, by the smaller instructions
    far = {"a": [TilingOption(100, loop), TilingOption(130, region(2))]}
    assert autotune(far, each(lambda _: None)) == {"a": loop}


def test_smaller_instructions_are_tried_where_a_layers_price_is_much_less() -> None:
    """Catches weights from behind the caches: a loop of 142,000 cycles took 349,000, single products 266,000 of 299."""
    loop = replace(region(1), tiling=replace(TILING, layer="loop"))
    options = {"a": [TilingOption(142, loop), TilingOption(299, region(2))]}
    assert autotune(options, each(lambda one: 349 if one.tiling.layer else 266)) == {"a": region(2)}
    assert autotune(options, each(lambda one: 142 if one.tiling.layer else 299)) == {"a": loop}
    cheap = {"a": [TilingOption(142, region(2)), TilingOption(299, loop)]}
    assert autotune(cheap, lambda _: pytest.fail("nothing is tried")) == {"a": region(2)}


def test_prices_that_are_far_off_leave_more_to_the_clock() -> None:
    """Catches an order by prices of which the clock has shown that they say little, and trials where they say much."""
    options = {"a": [TilingOption(100 + rows, region(rows)) for rows in (1, 2, 4, 8)] + [TilingOption(130, region(16))]}
    taken = {1: 160, 2: 155, 4: 150, 8: 140, 16: 120}
    assert autotune(options, each(lambda one: taken[one.tiling.out_rows])) == {"a": region(8)}
    assert autotune(options, each(lambda one: taken[one.tiling.out_rows] - 40)) == {"a": region(2)}


def test_where_the_other_way_is_faster_its_next_option_is_tried() -> None:
    """Of loops only the cheapest by its price was, whatever the next took."""
    loops = [replace(region(rows), tiling=replace(TILING, out_rows=rows, layer="loop")) for rows in (1, 2)]
    options = [
        TilingOption(100, region(1)),
        *(TilingOption(price, loop) for price, loop in zip((108, 109), loops, strict=True)),
    ]
    found = autotune({"a": options}, each(lambda one: 97 - one.tiling.out_rows if one.tiling.layer else 103))
    assert found == {"a": loops[1]}
    asked: list[Region] = []

    def measure(one: Region) -> int:
        asked.append(one)
        return 101 if one.tiling.layer else 100

    assert autotune({"a": options}, each(measure)) == {"a": region(1)}
    assert loops[1] not in asked


def test_the_other_way_is_tried_where_it_is_priced_at_less_than_the_cheapest_takes() -> None:
    """With few accumulators a loop was priced at 690,000 cycles and took 3.3 million, single products 1.7."""
    loops = [replace(region(rows), tiling=replace(TILING, out_rows=rows, layer="loop")) for rows in (1, 2)]
    options = [
        *(TilingOption(690, loop) for loop in loops),
        *(TilingOption(2133, region(rows)) for rows in (1, 2)),
    ]
    found = autotune({"a": options}, each(lambda one: 3281 if one.tiling.layer else 1730 - one.tiling.out_rows))
    assert found == {"a": region(2)}
    assert autotune({"a": options}, each(lambda one: 700 if one.tiling.layer else 500)) == {"a": loops[0]}
