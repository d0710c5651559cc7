"""Places in a memory for results that stay: elements that nothing else needs for as long."""

from collections.abc import Sequence

import numpy as np

from accel.isa.explicit.residency.result_flow import ResultFlow, RowFlow


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
    numbers = {id(flow): number for number, flow in enumerate(row.flows)}
    gone = {numbers[id(flow)] for flow in staying}
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
