"""What each instruction of a trace does: the expression that its fields choose."""

import numpy as np

from accel.trace.names import Names
from accel.trace.rows import Column, Rows


def does_of(rows: Rows) -> tuple[list[str], Column]:
    """The expressions that occur, the first of them empty, and for each row (n,) which one it is.

    An instruction has none where the document says none, or its own fields leave it open which.
    """
    names: Names = rows.names
    texts, which = [""], np.zeros(len(rows), np.int64)
    for kind, operation in enumerate(names.operations):
        lines = np.flatnonzero(rows["kind"] == kind) if operation.does else np.zeros(0, np.int64)
        if not len(lines):
            continue
        chosen = np.zeros(len(lines), np.int64)
        for meaning in operation.does:
            fits = np.ones(len(lines), np.bool_)
            for name, value in meaning.when.items():
                fits &= rows[f"field/{name}"][lines] == value
            texts.append(meaning.text)
            # one that fits beside another leaves it open
            chosen = np.where(fits, np.where(chosen == 0, len(texts) - 1, -1), chosen)
        which[lines] = np.maximum(chosen, 0)
    return texts, which
