"""Finding an instruction of a trace by the names that belong to it."""

from collections.abc import Iterable

import numpy as np

from accel.trace.trace_rows import STRETCH, RowSource
from accel.util.arrays import Bools


def first_match(source: RowSource, text: str, begin: int, end: int) -> int | None:
    """Returns the first of rows ``[begin, end)`` to which a name with ``text`` in it belongs, or None.

    The names are those of the row's operation, launch and function, and of the nodes that it comes from; upper and
    lower case are one.
    """
    names, wanted = source.names, text.casefold()

    def having(lists: Iterable[Iterable[str]]) -> Bools:
        return np.array([any(wanted in name.casefold() for name in found) for found in lists], np.bool_)

    operations = having([operation.name] for operation in names.operations)
    launches = having([launch.name] for launch in names.launches)
    # the last is that of rows without an origin, whose number is -1
    origins = having([*((origin.function, *origin.nodes) for origin in names.origins), ()])
    if not (operations.any() or launches.any() or origins.any()):
        return None
    for at in range(begin, end, STRETCH):
        rows = source.read(at, min(at + STRETCH, end))
        found = np.flatnonzero(operations[rows["kind"]] | launches[rows["launch"]] | origins[rows["origin"]])
        if len(found):
            return at + int(found[0])
    return None
