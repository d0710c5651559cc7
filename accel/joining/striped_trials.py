"""Trials of depth-first orders: which launches of a row run stripe by stripe, and in how many stripes."""

from collections.abc import Iterator, Sequence

from accel.isa.family import ResidentRow
from accel.joining.depth_first import Chain, StripedRow, TiledRow
from accel.joining.row_trials import RowTrials
from accel.program.program_model import StripedChain
from accel.util.arrays import Words

_WORK = 1 << 15  # instructions of all chains of a row that are tried by themselves
_WORSE = 2  # numbers of stripes, one after the other, of which none is better: finer ones are not tried
_CUT = 2  # launches from the first to the last of a chain that has halves


class StripedTrials:
    """Trials of depth-first orders of a row, with what stays on the chip in each.

    A chain is tried by itself first, in several numbers of stripes; one that is better so is tried within the row.
    """

    def __init__(
        self,
        row: RowTrials,
        tiled: TiledRow,
        words: Words,
        layered: ResidentRow | None,
        uses: Sequence[tuple[int, int]],
        *,
        by_bytes: bool,
    ) -> None:
        """Begin with the row layer by layer.

        Args:
            row: tries what stays in all of it.
            tiled: its tiles.
            words: its instructions (n, words_each), with all results in DRAM.
            layered: what stays of its results; None where nothing does.
            uses: by result the first launch that makes it, and the last that reads it.
            by_bytes: whether fewer bytes of DRAM are better at any cycles.
        """
        self._row, self._tiled, self._all_uses, self._by_bytes = row, tiled, uses, by_bytes
        self._value = self._layered = row.value(words if layered is None else layered.words)
        stay = {each.number for each in layered.residents} if layered else set[int]()
        self._uses = [use for number, use in enumerate(uses) if number not in stay]
        self._best: tuple[ResidentRow, StripedRow] | None = None
        self._chains: list[Chain] = []
        self._work = _WORK

    def best(self) -> tuple[ResidentRow, StripedRow] | None:
        """Returns the best order with what stays in it; None where layer by layer is as good.

        Chains are of launches between which results go to DRAM, with a launch more at either end or without; where
        none is better, their halves are tried.
        """
        left = list(_overlapping(self._uses))
        while left:
            first, last = left.pop(0)
            if self._takes(first, last) or last - first < _CUT:
                continue
            middle = (first + last) // 2
            left += [(first, middle), (middle, last)]
        return self._best

    @property
    def chains(self) -> tuple[StripedChain, ...]:
        """The chains of the best order."""
        return tuple(
            StripedChain(self._tiled.names(each.first, each.last), each.stripes, *self._told()) for each in self._chains
        )

    def _told(self) -> tuple[int, int, int, int]:
        """Cycles so and layer by layer, and bytes likewise."""
        return self._value[0], self._layered[0], self._value[1], self._layered[1]

    def _rank(self, value: tuple[int, int]) -> tuple[int, int]:
        """What is less where cycles and bytes are better."""
        cycles, moved = value
        return (moved, cycles) if self._by_bytes else (cycles, moved)

    def _takes(self, first: int, last: int) -> bool:
        """Whether a chain around launches ``[first, last]`` makes the row better; it is in the best order then."""
        ends = self._tiled.launches - 1
        ranges = {(max(first - before, 0), min(last + behind, ends)) for before in (0, 1) for behind in (0, 1)}
        found = [self._alone(*each) for each in sorted(ranges) if not self._meets(*each)]
        for _, chain in sorted((each for each in found if each is not None), key=lambda each: each[0]):
            order = self._tiled.ordered([*self._chains, chain])
            words = self._tiled.words(order.place)
            tried = self._row.chosen(words)
            if tried is None:
                continue
            value = self._row.value(tried.words)
            if self._rank(value) < self._rank(self._value):
                self._best, self._value = (tried, order), value
                self._chains.append(chain)
                return True
        return False

    def _meets(self, first: int, last: int) -> bool:
        return any(first <= chain.last and chain.first <= last for chain in self._chains)

    def _alone(self, first: int, last: int) -> tuple[int, Chain] | None:
        """Launches ``[first, last]`` in the best number of stripes, and what these add to layer by layer.

        None where nothing is less for them.
        """
        numbers = [number for number, use in enumerate(self._all_uses) if first <= use[0] and use[1] <= last]
        alone = self._row.of(numbers)
        stripes = [self._tiled.tiles_of(last)]
        while stripes[-1] > 1:
            stripes.append(stripes[-1] // 2)
        ranks, worse = dict[int, tuple[int, int]](), 0
        for count in reversed(stripes):
            words = self._tiled.words(self._tiled.ordered_alone(Chain(first, last, count)))
            self._work -= len(words)
            if self._work < 0 or worse == _WORSE:
                break
            tried = alone.chosen(words)
            ranks[count] = self._rank(alone.value(words if tried is None else tried.words))
            worse = 0 if ranks[count] <= min(ranks.values()) else worse + 1
        best = min(ranks, key=lambda count: ranks[count], default=1)
        return (ranks[best][0] - ranks[1][0], Chain(first, last, best)) if best > 1 else None


def _overlapping(uses: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges of launches ``[first, last]``, those with a launch in common as one."""
    begin, reach = None, 0
    for first, last in sorted(uses):
        if begin is not None and first > reach:
            yield begin, reach
            begin = None
        begin, reach = (first, last) if begin is None else (begin, max(reach, last))
    if begin is not None:
        yield begin, reach
