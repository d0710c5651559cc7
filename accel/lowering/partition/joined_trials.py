"""Autotuning of launches that run as one: tilings are timed with the launches around them.

What a tiling adds to its neighbours depends on theirs: whether the first load waits for the last store, and what runs
beside it. So of a layer whose tiles are long, where a seam counts, tilings of other extents are timed between the
tilings of the layers before and behind, one layer after the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from accel.lowering.partition.launch_rows import RowLaunch, row_around
from accel.region.kinds import Region, TilingOption

MeasureRow = Callable[[Sequence[RowLaunch]], int | None]
"""Cycles of launches as they run as one, or None if that would take too long to say."""

ExpectRows = Callable[[Sequence[Sequence[RowLaunch]]], None]
"""Takes note of rows that will be timed, so that what they have may be made meanwhile."""

_CLOSE_RATIO = 1.2  # of prices: a seam may cost a fifth of a small layer
_SEVERAL = 2  # launches
_MOST_OTHERS = 4  # tilings of a layer beside the one that is taken


def tune_joined(
    options: Mapping[str, Sequence[TilingOption]],
    chosen: Mapping[str, Region],
    operands: Mapping[str, list[str]],
    measure: MeasureRow,
    most: int,
    least_tile: float,
    expect: ExpectRows = lambda _rows: None,
) -> dict[str, Region]:
    """Returns the regions that take the fewest cycles with those around them.

    Args:
        options: of each layer, the cheapest first.
        chosen: the region of each layer so far.
        operands: whose results each launch reads, by name and in the order of the launches.
        measure: times launches as one.
        most: trials, those of layers with the longest tiles first.
        least_tile: of the cycles of all layers, those of a tile for a trial: a seam shows no more than its load and its
            store.
        expect: is told what will be timed, as far as that is known, when a row has been.
    """
    names, regions = list(operands), dict(chosen)
    prices = {name: _price(options[name], regions[name]) for name in names}
    least = least_tile * sum(prices.values())
    tiles = {name: prices[name] / regions[name].tiles for name in names}
    order = [name for name in sorted(names, key=lambda name: -tiles[name]) if tiles[name] >= least]
    others = {name: _others(options[name], regions[name])[:_MOST_OTHERS] for name in order}
    alone = {name for name in order if len(row_around(names, operands, regions, name)) < _SEVERAL}
    tried = [name for name in order if others[name] and name not in alone]
    trials = [(name, other) for name in tried for other in others[name]][:most]
    left, told = most, False
    for name in tried:
        now = measure(row_around(names, operands, regions, name)) if left > 0 else None
        if now is None:
            continue
        if not told:
            told = True
            expect([row_around(names, operands, regions | {each: other}, each) for each, other in trials])
        some = others[name][:left]
        left -= len(some)
        for other in some:
            cycles = measure(row_around(names, operands, regions | {name: other}, name))
            if cycles is not None and cycles < now:
                now, regions[name] = cycles, other
    return regions


def _price(options: Sequence[TilingOption], region: Region) -> float:
    return next((option.cycles for option in options if option.region == region), options[0].cycles)


def _others(options: Sequence[TilingOption], region: Region) -> list[Region]:
    """The regions worth a trial beside the one that is taken: of other tiles, at a close price."""
    close = [option for option in options if option.cycles <= _CLOSE_RATIO * options[0].cycles]
    found, seen = list[Region](), {_extents(region)}
    for option in close:
        if not option.region.tiling.layer and _extents(option.region) not in seen:
            seen.add(_extents(option.region))
            found.append(option.region)
    return found


def _extents(region: Region) -> Region:
    """A region but for its loops' order and its contexts, which hardly matter to a seam."""
    return replace(
        region, tiling=replace(region.tiling, order="stream", operand_contexts=1, result_contexts=1, layer="")
    )
