"""What a trace's file knows of each stretch of rows, so that a window of cycles needs no other stretches."""

from typing import Literal

import numpy as np

from accel.trace.cells import Bools
from accel.trace.rows import Rows
from accel.trace.source import Index, Int64, Source, stretches


def make_index(source: Source) -> Index:
    """The index of all rows."""
    spans, tokens = [], []
    for rows in stretches(source):
        spans.append((int(rows["start"].min()), int(until(rows).max())))
        tokens.append([[int(moved.sum()) for moved in tokens_of(rows, verb)] for verb in ("push", "pop")])
    queues = len(source.names.queues)
    return Index(np.array(spans, np.int64).reshape(-1, 2), np.array(tokens, np.int64).reshape(len(tokens), 2, queues))


def until(rows: Rows) -> Int64:
    """The cycle before which each row has ended (n,); a row that takes no cycles still has its own."""
    return np.maximum(rows["end"], rows["start"].astype(np.int64) + 1)


def tokens_of(rows: Rows, verb: Literal["push", "pop"]) -> list[Bools]:
    """For each queue, which rows push a token, or pop one (n,)."""
    return [_moved(rows, getattr(queue, verb)) for queue in rows.names.queues]


def _moved(rows: Rows, fields: tuple[str | None, ...]) -> Bools:
    """``fields`` are those of the operations, which mostly share one."""
    moved = np.zeros(len(rows), np.bool_)
    for field in dict.fromkeys(field for field in fields if field is not None):
        has = np.array([name == field for name in fields])
        moved |= (rows[f"field/{field}"] != 0) & np.take(has, rows["kind"])
    return moved
