"""Candidates that fit, the orders of their loops behind each other: a price takes longer to begin than by candidates.

Nothing in them depends on time, so that they are kept for jobs that price them otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from pydantic import TypeAdapter

from accel.region.tilings import Candidates, Order
from accel.util.arrays import Bools

_ARRAYS = tuple(each.name for each in fields(Candidates) if each.name not in ("contexts", "result_contexts"))
_LENGTH = 8  # bytes of the header's length


@dataclass(frozen=True)
class FittingCandidates:
    """Candidates (n,) of the same contexts; ``ends`` has each order of loops with the place behind its last one."""

    candidates: Candidates
    ends: tuple[tuple[Order, int], ...]

    @classmethod
    def joined(cls, parts: Sequence[tuple[Order, Candidates, Bools]]) -> "FittingCandidates":
        """Returns the candidates that fit of each order, with their contexts."""
        arrays = {name: np.concatenate([getattr(c, name)[fits] for _, c, fits in parts]) for name in _ARRAYS}
        ends = np.cumsum([np.count_nonzero(fits) for _, _, fits in parts]).tolist()
        orders, first = [order for order, _, _ in parts], parts[0][1]
        candidates = Candidates(**arrays, contexts=first.contexts, result_contexts=first.result_contexts)
        return cls(candidates, tuple(zip(orders, ends, strict=True)))

    def order(self, place: int) -> Order:
        """Returns the order of the candidate at a place."""
        return next(order for order, end in self.ends if place < end)


@dataclass(frozen=True)
class _Header:
    """Contexts of operands and of results, and the ends of orders."""

    contexts: int
    result_contexts: int
    ends: tuple[tuple[Order, int], ...]


_HEADERS = TypeAdapter(list[_Header])


def dump_candidates(found: Sequence[FittingCandidates]) -> bytes:
    """Returns candidates as headers and the arrays of each, in 32 bits where these hold them."""
    headers = [_Header(each.candidates.contexts, each.candidates.result_contexts, each.ends) for each in found]
    text = _HEADERS.dump_json(headers)
    arrays = [np.stack([getattr(each.candidates, name) for name in _ARRAYS]) for each in found]
    narrow = all(int(np.abs(each).max(initial=0)) < 1 << 31 for each in arrays)
    data = [each.astype("<i4" if narrow else "<i8").tobytes() for each in arrays]
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *data])


def load_candidates(data: bytes) -> list[FittingCandidates]:
    """Returns what :func:`dump_candidates` was given.

    Raises:
        ValueError: it is no such dump.
    """
    at = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    headers = _HEADERS.validate_json(data[_LENGTH:at])
    counts = [header.ends[-1][1] for header in headers]
    width = (len(data) - at) // max(sum(counts) * len(_ARRAYS), 1)
    if width not in (0, 4, 8):
        raise ValueError(f"arrays of {width} bytes")
    elements = np.frombuffer(data, f"<i{width or 4}", offset=at).astype(np.int64)
    found, begin = [], 0
    for header, count in zip(headers, counts, strict=True):
        end = begin + count * len(_ARRAYS)
        arrays = elements[begin:end].reshape(len(_ARRAYS), count)
        named = dict(zip(_ARRAYS, arrays, strict=True))
        candidates = Candidates(**named, contexts=header.contexts, result_contexts=header.result_contexts)
        found.append(FittingCandidates(candidates, header.ends))
        begin = end
    return found
