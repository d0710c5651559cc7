"""Places in a memory for results that stay: elements that nothing else needs for as long.

Where the elements of a result are needed one after the other, as its rows are when layers run in stripes, later ones
take the place of earlier ones: along an axis of the tensor the place is a ring.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from accel.isa.explicit.residency.result_flow import ResultFlow, RowFlow
from accel.util.arrays import Int64

_WORTH = 0.75  # of a tensor: a larger ring saves little, and what reaches across its seam takes an execution more


@dataclass(frozen=True)
class TensorPlace:
    """Where the elements of a tensor lie, seen as (outer, extent, inner): along its middle axis in a ring.

    ``address`` is the first element of the memory; of ``extent`` indices those that differ by ``ring`` share a place.
    """

    outer: int
    extent: int
    ring: int
    inner: int
    address: int = 0

    @property
    def size(self) -> int:
        """The elements that it takes of the memory."""
        return self.outer * self.ring * self.inner

    def of(self, elements: Int64) -> Int64:
        """Returns where elements (n,) of the tensor are in the memory."""
        index, within = elements // self.inner, elements % self.inner
        at = index // self.extent * self.ring + index % self.extent % self.ring
        return np.asarray(self.address + at * self.inner + within)


def smallest_place(row: RowFlow, flow: ResultFlow) -> TensorPlace:
    """Returns the place of a tensor with the smallest ring, at no address yet; all of it where none is worth it."""
    whole = TensorPlace(1, 1, 1, flow.elements)
    shapes = list(_axes(flow))
    if not shapes:
        return whole
    begin, end = _lifetimes(row, flow)
    rings = (
        TensorPlace(outer, extent, least_ring(begin, end, extent, inner), inner) for outer, extent, inner in shapes
    )
    best = min(rings, key=lambda place: place.size)
    return best if best.size <= _WORTH * whole.size else whole


def _axes(flow: ResultFlow) -> Iterator[tuple[int, int, int]]:
    """The axes of a tensor of whole elements, as the elements around it, its extent, and the elements within."""
    shape, size = flow.tensor.shape, flow.tensor.end - flow.tensor.begin
    for axis, extent in enumerate(shape):
        inner = size // math.prod(shape[: axis + 1])
        if extent > 1 and not inner % flow.element_bytes and math.prod(shape[:axis]) * extent * inner == size:
            yield math.prod(shape[:axis]), extent, inner // flow.element_bytes


def _lifetimes(row: RowFlow, flow: ResultFlow) -> tuple[Int64, Int64]:
    """The instructions from and to which each element (n,) takes a place; from the last to -1 if it never does."""
    number = row.number_of(flow)
    begin = np.full(flow.elements, np.iinfo(np.int64).max, np.int64)
    end = np.full(flow.elements, -1, np.int64)
    touched = [(at, shape.tensor_points()) for at, (_, shape) in flow.stores.items()]
    touched += [(at, shape.tensor_points()) for at, shape in flow.loads.items()]
    touched += [(at, read) for at in flow.reads for whose, read in row.reads[at].values() if whose == number]
    for at, elements in touched:
        begin[elements] = np.minimum(begin[elements], at)
        end[elements] = np.maximum(end[elements], at)
    return begin, end


def least_ring(begin: Int64, end: Int64, extent: int, inner: int) -> int:
    """Returns the least distance of indices along an axis that are never there together.

    Args:
        begin: the instruction from which each element takes a place (outer * extent * inner,).
        end: the one to which it does, so that the next one may have it; before ``begin`` where it takes none.
        extent: of the axis.
        inner: the elements within an index.
    """
    first = begin.reshape(-1, extent, inner).min(axis=(0, 2))
    last = end.reshape(-1, extent, inner).max(axis=(0, 2))
    for ring in range(1, extent):
        rows = -(-extent // ring)
        spare = rows * ring - extent
        begins = np.append(first, np.full(spare, np.iinfo(np.int64).max)).reshape(rows, ring)
        ends = np.append(last, np.full(spare, -1)).reshape(rows, ring)
        order = np.argsort(begins, axis=0, kind="stable")
        begins, ends = np.take_along_axis(begins, order, 0), np.take_along_axis(ends, order, 0)
        if (ends[:-1] < begins[1:]).all():
            return ring
    return extent


def free_place(
    row: RowFlow,
    staying: Sequence[ResultFlow],
    taken: Sequence[tuple[int, int, int, int]],
    span: tuple[int, int],
    elements: int,
    depth: int,
) -> int | None:
    """Returns the first of so many elements that are free throughout ``span``; None where there are none.

    Args:
        row: what the instructions need of the memory.
        staying: results that stay, whose loads and readers need nothing.
        taken: places of results that stay: from which instruction to which, and from which element to which.
        span: the first and the last instruction.
        elements: how many.
        depth: of the memory, elements.
    """
    gone = {row.number_of(flow) for flow in staying}
    loads = {at for flow in staying for at in flow.loads}
    first, last = span
    change = np.zeros(depth + 1, np.int64)
    for each in row.occupied:
        if each.begin > last or each.end < first or each.load in loads:
            continue
        at, tensor = each.reader
        if at >= 0 and row.reads[at][tensor][0] in gone:
            continue
        change[each.low] += 1
        change[each.high] -= 1
    for begin, end, low, high in taken:
        if begin <= last and end >= first:
            change[low] += 1
            change[high] -= 1
    free = np.cumsum(change[:depth]) == 0
    edges = np.flatnonzero(np.diff(np.concatenate([[0], free.astype(np.int64), [0]])))
    begins, ends = edges[::2], edges[1::2]
    wide = np.flatnonzero(ends - begins >= elements)
    # from the end of the memory on: layers' own buffers begin at its first element
    return int(ends[wide[-1]]) - elements if len(wide) else None
