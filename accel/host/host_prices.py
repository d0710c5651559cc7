"""What host steps, launches and caches cost by a document's host, in cycles of the host's own clock.

An operator takes ``operator_cycles``, and then as long as its elements or its bytes, whichever take longer: the host
computes while its memory answers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accel.accelerator.host_costs import HostCosts, OperatorClass
from accel.host.operator_work import OperatorWork


def operator_cycles(work: OperatorWork, host: HostCosts) -> float:
    """Returns the cycles of an operator."""
    computing = sum(count / host.elements_per_cycle.of(kind) for kind, count in work.elements.items())
    return host.operator_cycles + max(computing, work.nbytes / host.bytes_per_cycle)


def cache_cycles(tensors: Iterable[int], host: HostCosts) -> float:
    """Returns the cycles of cleaning or invalidating the cache over tensors of so many bytes each."""
    if host.cache is None:
        return 0.0
    cache = host.cache
    return sum(cache.call_cycles + -(-nbytes // cache.line_bytes) * cache.line_cycles for nbytes in tensors)


@dataclass(frozen=True)
class StepPrice:
    """A host step: cycles of what computes, cycles of what only moves elements, and what both are made of."""

    computing: float
    moving: float
    elements: Mapping[OperatorClass, int]
    nbytes: int


def step_price(works: Sequence[OperatorWork], host: HostCosts) -> StepPrice:
    """Returns the price of operators one after the other."""
    elements: dict[OperatorClass, int] = {}
    for work in works:
        for kind, count in work.elements.items():
            elements[kind] = elements.get(kind, 0) + count
    return StepPrice(
        computing=sum(operator_cycles(work, host) for work in works if not work.moves),
        moving=sum(operator_cycles(work, host) for work in works if work.moves),
        elements=elements,
        nbytes=sum(work.nbytes for work in works),
    )
