"""Figures of ended jobs, read off the reports that they left, and kept: what an ended job left does not change."""

import threading
from collections import OrderedDict
from collections.abc import Callable

from accel.report.compare.run_figures import RunFigures, run_figures
from worker.records.job_artifacts import Artifacts

_REPORT, _DOCUMENT = "report.json", "accelerator.json"
_MOST_BYTES = 8 << 20  # of a report or a document: of a network of thousands of layers


class RunFiguresCache:
    """Keeps the figures of the jobs that were asked for last; a few hundred bytes each."""

    def __init__(self, *, keep: int = 4000) -> None:
        self._keep = keep
        self._found: OrderedDict[str, RunFigures | None] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, job_id: str, open_artifacts: Callable[[], Artifacts]) -> RunFigures | None:
        """Returns the figures of an ended job; None if its report is missing, too large, or of another version."""
        with self._lock:
            if job_id in self._found:
                self._found.move_to_end(job_id)
                return self._found[job_id]
        found = _read(open_artifacts())
        with self._lock:
            self._found[job_id] = found
            while len(self._found) > self._keep:
                self._found.popitem(last=False)
        return found


def _read(artifacts: Artifacts) -> RunFigures | None:
    try:
        report = _bounded(artifacts, _REPORT)
        return None if report is None else run_figures(report, _bounded(artifacts, _DOCUMENT))
    except (ValueError, KeyError, TypeError, AttributeError):  # another version wrote it, in another form
        return None


def _bounded(artifacts: Artifacts, name: str) -> bytes | None:
    """Returns a file; None if there is none, or it is too large."""
    known = {each.name: each.bytes for each in artifacts.all()}
    return artifacts.read(name, 0, known[name]) if known.get(name, _MOST_BYTES + 1) <= _MOST_BYTES else None
