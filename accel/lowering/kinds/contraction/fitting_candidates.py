"""Candidates that fit, the orders of their loops behind each other: a price takes longer to begin than by candidates.

Nothing in them depends on time, so that they are kept for jobs that price them otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from pydantic import TypeAdapter

from accel.region.tilings import Candidates, Order
from accel.util.arrays import Bools

_ARRAYS = tuple(each.name for each in fields(Candidates) if each.name != "contexts")
_LENGTH = 8  # bytes of the header's length


@dataclass(frozen=True)
class FittingCandidates:
    """Candidates (n,); ``ends`` has each order of loops with the place behind its last one."""

    candidates: Candidates
    ends: tuple[tuple[Order, int], ...]

    @classmethod
    def joined(cls, parts: Sequence[tuple[Order, Candidates, Bools]]) -> "FittingCandidates":
        """Returns the candidates that fit of each part; all have as many contexts of operands."""
        arrays = {name: np.concatenate([getattr(c, name)[fits] for _, c, fits in parts]) for name in _ARRAYS}
        ends = np.cumsum([np.count_nonzero(fits) for _, _, fits in parts]).tolist()
        orders, first = [order for order, _, _ in parts], parts[0][1]
        return cls(Candidates(**arrays, contexts=first.contexts), tuple(zip(orders, ends, strict=True)))

    def order(self, place: int) -> Order:
        """Returns the order of the candidate at a place."""
        return next(order for order, end in self.ends if place < end)


@dataclass(frozen=True)
class _Header:
    """Contexts of operands, and the ends of orders."""

    contexts: int
    ends: tuple[tuple[Order, int], ...]


_HEADER = TypeAdapter(_Header)


def dump_candidates(found: FittingCandidates) -> bytes:
    """Returns candidates as a header and their arrays, in 32 bits where these hold them."""
    text = _HEADER.dump_json(_Header(found.candidates.contexts, found.ends))
    arrays = np.stack([getattr(found.candidates, name) for name in _ARRAYS])
    narrow = int(np.abs(arrays).max(initial=0)) < 1 << 31
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, arrays.astype("<i4" if narrow else "<i8").tobytes()])


def load_candidates(data: bytes) -> FittingCandidates:
    """Returns what :func:`dump_candidates` was given.

    Raises:
        ValueError: it is no such dump.
    """
    at = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    header = _HEADER.validate_json(data[_LENGTH:at])
    count = header.ends[-1][1] if header.ends else 0
    width = (len(data) - at) // max(count * len(_ARRAYS), 1)
    if width not in (0, 4, 8):
        raise ValueError(f"arrays of {width} bytes")
    elements = np.frombuffer(data, f"<i{width or 4}", offset=at).astype(np.int64)
    arrays = dict(zip(_ARRAYS, elements.reshape(len(_ARRAYS), count), strict=True))
    return FittingCandidates(Candidates(**arrays, contexts=header.contexts), header.ends)
