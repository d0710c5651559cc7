"""Rows: what a list of jobs is searched, filtered and sorted by, one row a job, as the index keeps it."""

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Literal, NamedTuple, Self

from worker.records.job_record import Job, State
from worker.records.listing.list_order import Position, Sort, has_words

Verified = Literal["true", "false", "null"]
JobSort = Literal[
    "-submitted", "submitted", "-cycles", "cycles", "-duration", "duration", "-label", "label"
]  # fmt: skip
NEWEST: JobSort = "-submitted"
_DIGEST = 64  # digits


class JobRow(NamedTuple):
    """A job in a list.

    Attributes:
        document: what its owner called the accelerator when the job was submitted.
        duration: microseconds from its start to its end; None before both.
        verified: ``result.verified`` of the record, in JSON; None if there is no result.
    """

    id: str
    state: State
    model: str | None
    program: str | None
    accelerator: str | None
    document: str | None
    label: str | None
    note: str | None
    tags: tuple[str, ...]
    pinned: bool
    verified: Verified | None
    cycles: int | None
    duration: int | None

    @classmethod
    def of(cls, job: Job) -> Self:
        """Returns the job's row."""
        duration = None
        if job.started is not None and job.finished is not None:
            duration = max(0, (job.finished - job.started) // timedelta(microseconds=1))
        result = job.result
        texts: dict[bool | None, Verified] = {True: "true", False: "false", None: "null"}
        return cls(
            job.id,
            job.state,
            job.model,
            job.program,
            job.accelerator,
            job.document.label,
            job.label,
            job.note,
            tuple(job.tags),
            job.pinned,
            None if result is None else texts[result.verified],
            None if result is None else result.cycles,
            duration,
        )

    def encode(self) -> str:
        """Returns the row as one line of JSON."""
        return json.dumps(self, ensure_ascii=False, separators=(",", ":"))

    def has_words(self, words: Iterable[str], names: Mapping[str, str]) -> bool:
        """Returns whether each word is in what is said of the job; ``names`` has names of models and the like by id."""
        preset = self.accelerator if self.accelerator and len(self.accelerator) < _DIGEST else None
        ids = (self.id, self.model, self.program, self.accelerator)
        called = (names.get(each) for each in ids if each)
        return has_words(words, (self.label, self.note, *self.tags, self.document, preset, *called), ids)


_TAGS = JobRow._fields.index("tags")


def decode_rows(lines: Iterable[bytes]) -> list[JobRow]:
    """Returns the rows that :meth:`JobRow.encode` has written."""
    rows = json.loads(b"[" + b",".join(lines) + b"]")
    for row in rows:
        row[_TAGS] = tuple(row[_TAGS])
    return [JobRow(*row) for row in rows]


def _label(row: JobRow) -> str | None:
    return None if row.label is None else row.label.casefold()


def _id(row: JobRow) -> str:
    return row.id


# the id of a job begins with the time of its submission: jobs without another key are sorted by that
JOB_SORTS: Mapping[JobSort, Sort[JobRow]] = {
    "-submitted": Sort("-submitted", lambda _: None, _id, plain=lambda cursor: Position(None, cursor)),
    "submitted": Sort("submitted", lambda _: None, _id, ids_descend=False),
    "-cycles": Sort("-cycles", lambda row: row.cycles, _id, numeric=True),
    "cycles": Sort("cycles", lambda row: row.cycles, _id, numeric=True),
    "-duration": Sort("-duration", lambda row: row.duration, _id, numeric=True),
    "duration": Sort("duration", lambda row: row.duration, _id, numeric=True),
    "-label": Sort("-label", _label, _id),
    "label": Sort("label", _label, _id),
}
