"""Traces of jobs, kept open for the next page. A trace is read where it lies, so that an open one is small."""

import threading
from collections import OrderedDict

from accel.trace import Trace
from accel.trace.ranges import Ranges
from worker.artifacts import Artifacts

_FILE = "trace.npz"


class Traces:
    """Opens the traces of ended jobs, and keeps the last few open."""

    def __init__(self, *, keep: int = 16) -> None:
        self._keep = keep
        self._open: OrderedDict[str, Trace] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, job_id: str, artifacts: Artifacts) -> Trace:
        """The trace of an ended job.

        Raises:
            KeyError: the job has none.
            CyclopsError: it is damaged, or of another version.
        """
        with self._lock:
            found = self._open.get(job_id)
        if found is None:
            size = artifacts.get(_FILE).bytes
            found = Trace.open(Ranges(lambda begin, end: artifacts.read(_FILE, begin, end), size))
        with self._lock:
            self._open[job_id] = found
            self._open.move_to_end(job_id)
            while len(self._open) > self._keep:
                self._open.popitem(last=False)
        return found
