"""Where the rows of a trace come from."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from accel.trace.names import Names
from accel.trace.rows import Rows

Int64 = npt.NDArray[np.int64]

STRETCH = 32768  # rows
_LINES = 16384
_BYTES = 1 << 24


@dataclass(frozen=True)
class Index:
    """What is known of each stretch of ``STRETCH`` rows without reading it; the last of the k may be shorter.

    ``spans`` (k, 2): the first start and the last end in the stretch, cycles. ``tokens`` (k, 2, queues): tokens pushed,
    tokens popped.
    """

    spans: Int64
    tokens: Int64


class Source(Protocol):
    """The rows of a trace."""

    @property
    def names(self) -> Names:
        """What they mean."""

    def __len__(self) -> int: ...

    def read(self, begin: int, end: int) -> Rows:
        """Rows ``[begin, end)``, which exist."""

    def index(self) -> Index:
        """What is known of its stretches."""


def stretches(source: Source) -> Iterator[Rows]:
    """All rows, a stretch at a time."""
    return (source.read(begin, min(begin + STRETCH, len(source))) for begin in range(0, len(source), STRETCH))


def spread(source: Source, *, longest: int = 0) -> Iterator[Rows]:
    """All rows, some thousand at a time; fewer where a line's ``longest`` text would make them too large to hold."""
    step = step_for(longest)
    for begin in range(0, len(source), step):
        yield source.read(begin, min(begin + step, len(source)))


def step_for(longest: int) -> int:
    """Lines to make at a time where one of their texts has ``longest`` bytes."""
    return max(min(_LINES, _BYTES // (longest + 1)), 1)
