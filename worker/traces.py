"""Traces of jobs, kept open for the next page."""

import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

from accel.trace import Trace
from worker.artifacts import Artifacts

_FILE = "trace.npz"


class Traces:
    """Opens the traces of ended jobs, and keeps the last few in memory."""

    def __init__(self, scratch: Path, *, keep: int = 4) -> None:
        self._scratch = scratch
        self._keep = keep
        self._open: OrderedDict[str, Trace] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, job_id: str, artifacts: Artifacts) -> Trace:
        """The trace of an ended job; KeyError if it has none."""
        with self._lock:
            if job_id not in self._open:
                self._open[job_id] = self._load(artifacts)
                while len(self._open) > self._keep:
                    self._open.popitem(last=False)
            self._open.move_to_end(job_id)
            return self._open[job_id]

    def _load(self, artifacts: Artifacts) -> Trace:
        artifacts.size(_FILE)
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix="trace-") as directory:
            artifacts.fetch(_FILE, Path(directory, _FILE))
            return Trace.load(Path(directory))
