"""The launches of a choice of regions in their order, and which of them read whose results."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from accel.lowering.partition.composite_graph import CompositeGraph
from accel.region.kinds import Region


@dataclass(frozen=True)
class RowLaunch:
    """A launch that runs in one with others.

    ``reads`` are the places in the row of the launches whose results its activations are; None of what is made
    elsewhere.
    """

    region: Region
    reads: tuple[int | None, ...]


def launches_of(graph: CompositeGraph, joined: Mapping[str, int], regions: Collection[str]) -> dict[str, list[str]]:
    """Returns the launches whose results each launch reads, by its name and in its order; "" of what the host makes.

    Of a launch that the host parts from those before it, all are "": what it reads has been made of their results by
    the host, by operators that no accelerator runs or by composites without a region.

    Args:
        graph: the composites.
        joined: the contractions that additions and poolings take in, as places among their operands, by name.
        regions: the names of what has a region.
    """
    found: dict[str, list[str]] = {}
    hosted = set[str]()  # what the host makes of results of launches
    for name, placed in graph.composites.items():
        if name not in regions:
            reads = set(placed.use.operands)
            if name not in joined and (placed.use.parted or not reads.isdisjoint(found.keys() | hosted)):
                hosted.add(name)
            continue
        operands, pair = list(placed.use.operands), graph.pairs.get(name)
        if pair is not None and pair.made in joined:
            taken = graph.composites[pair.made].use.operands
            operands = [*taken[:1], *operands[1 - pair.place : 2 - pair.place]]
        pooled = graph.pooled.get(name)
        if pooled is not None and pooled.made in joined:
            operands = list(graph.composites[pooled.made].use.operands[:1])
        parted = placed.use.parted or not hosted.isdisjoint(operands)
        found[name] = ["" if parted or each not in found else each for each in operands]
    return found


def row_around(
    names: Sequence[str], operands: Mapping[str, list[str]], regions: Mapping[str, Region], of: str
) -> list[RowLaunch]:
    """Returns a launch with all before and behind it that no host step parts from it."""
    begin = end = names.index(of)
    while begin > 0 and not _begins(operands[names[begin]]):
        begin -= 1
    while end + 1 < len(names) and not _begins(operands[names[end + 1]]):
        end += 1
    places = {name: place for place, name in enumerate(names[begin : end + 1])}
    return [RowLaunch(regions[name], tuple(map(places.get, operands[name]))) for name in places]


def without_neighbours(operands: Mapping[str, list[str]]) -> set[str]:
    """Returns the launches between two host steps, by name, of all in their order."""
    names = list(operands)
    begins = [_begins(operands[name]) for name in names]
    return {name for name, own, following in zip(names, begins, [*begins[1:], True], strict=False) if own and following}


def _begins(operands: list[str]) -> bool:
    """Whether a launch has all its data from the host: it stands behind a host step."""
    return not any(operands)
