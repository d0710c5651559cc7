"""What candidates take where instructions are sent as they would start: a few tiles of each, in pieces, as machines do.

What sums of cycles do not say is who waits for whom: accumulators are loaded behind the store of the tile before, all
other loads behind them, and on a machine in order products wait behind a load that waits. A few tiles show it. Each
load, the products and each store of a step are cut into some pieces, which take turns as instructions do: first with
nominal cycles, as in :mod:`accel.isa.explicit.issue_order`, and in the order of these with the document's. From the
last of these tiles the time of one more of them is known, and so that of all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from accel.isa.explicit import tile_replay_kernel as kernel
from accel.isa.explicit.issue_order import WINDOW
from accel.region.tilings import Candidates
from accel.util.arrays import Float64


def _zeros() -> Float64:
    return np.zeros(1)


@dataclass(frozen=True)
class Work:
    """What a step or a tile of each candidate (n,) takes of a kind of work.

    Attributes:
        unit: what does it.
        count: instructions.
        cycles: of all of them.
        nominal: their cycles where the order is made in which they are sent.
        bus: their cycles of the bus that units share.
    """

    unit: str
    count: Float64
    cycles: Float64
    nominal: Float64
    bus: Float64 = field(default_factory=_zeros)

    def beside(self, other: "Work") -> "Work":
        """Returns both, on the unit of the first."""
        count, cycles = self.count + other.count, self.cycles + other.cycles
        return Work(self.unit, count, cycles, self.nominal + other.nominal, self.bus + other.bus)


def replayed(
    c: Candidates, works: Mapping[int, Work], window: int, guess: Float64, least: Float64, *, tile_each: bool
) -> Float64:
    """Returns the cycles of the candidates (n,); of those that take five quarters of the cheapest or more ``least``.

    Args:
        c: the candidates, with two contexts of operands.
        works: by the kinds of :mod:`accel.isa.explicit.tile_replay_kernel`.
        window: instructions that the machine looks at; 1: it starts them in order.
        guess: cycles; what has few is looked at first.
        least: cycles that they take at least.
        tile_each: an instruction multiplies one tile, and not all that a loop passes.
    """
    steps = c.tiles * c.reductions
    table = np.zeros((len(steps), kernel.COLUMNS), np.int64)
    table[:, kernel.TILES], table[:, kernel.REDUCTIONS] = c.tiles, c.reductions
    table[:, kernel.DATA_STAY] = steps // np.maximum(c.data_loads, 1)
    table[:, kernel.WEIGHTS_STAY] = steps // np.maximum(c.weight_loads, 1)
    table[:, kernel.OUT_BLOCKS] = c.out_blocks if tile_each else 1
    table[:, kernel.RESULT_CONTEXTS] = c.result_contexts
    names = sorted({work.unit for work in works.values()})
    units = np.array([0] * kernel.KINDS + [len(names)], np.int64)
    for kind, work in works.items():
        at, units[kind] = kernel.WORKS + kernel.EACH * kind, names.index(work.unit)
        table[:, at + kernel.COUNT] = np.rint(work.count)
        for column, value in (
            (kernel.CYCLES, work.cycles), (kernel.NOMINAL, work.nominal), (kernel.BUS, work.bus),
        ):  # fmt: skip
            table[:, at + column] = np.rint(kernel.PARTS * value)
    found, windows = np.rint(kernel.PARTS * least).astype(np.int64), np.array([WINDOW, window], np.int64)
    kernel.replay(table, np.argsort(guess, kind="stable"), units, windows, kernel.new_room(), found)
    return np.asarray(found / kernel.PARTS)
