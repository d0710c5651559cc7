"""The reference of a job's outputs, computed beside its compilation: both begin with the integer graph."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import Self

from accel.frontend.integer_recovery.recover_integers import ImportedModel
from accel.util.arrays import Array
from accel.util.deadline import Deadline
from accel.verify.reference_graph import ReferenceRun, run_reference
from accel.verify.vector_results import VectorResult


class ReferenceTask:
    """Runs an integer graph on the host, in a thread of its own.

    numpy and onnxruntime compute without Python's lock, which the compiler holds nearly all the time. Used as a context
    manager it ends with the block, at the next operator, whether or not the graph was run to its end.

    Args:
        seconds: how long it may take; 0: nothing is run.
        every: whether all tensors are kept that it computes; else those that measure the quality of activations.
    """

    def __init__(self, seconds: float, *, every: bool = False) -> None:
        self._seconds, self._every = seconds, every
        self._deadline = Deadline(seconds)
        self._run: Future[ReferenceRun] | None = None

    def __enter__(self) -> Self:
        self._thread = ThreadPoolExecutor(1, "reference")
        return self

    def __exit__(self, *_error: object) -> None:
        self._deadline.end()
        self._thread.shutdown()

    def start(
        self,
        imported: ImportedModel,
        inputs: Sequence[Array],
        measured: Mapping[str, VectorResult] = MappingProxyType({}),
    ) -> None:
        """Start to run ``main`` of the integer graph; ``inputs`` in its order, ``measured`` as for that."""
        if self._seconds:
            self._deadline = Deadline(self._seconds)
            self._run = self._thread.submit(self._reference, imported, inputs, measured)

    def found(self) -> ReferenceRun | None:
        """Returns what the graph computes once that is known; None if it is not to be run.

        Raises:
            OutOfTimeError, CompileError, VerificationError: as :func:`run_reference`.
        """
        return None if self._run is None else self._run.result()

    def _reference(
        self, imported: ImportedModel, inputs: Sequence[Array], measured: Mapping[str, VectorResult]
    ) -> ReferenceRun:
        found = run_reference(imported, inputs, self._deadline, measured)
        if self._every:
            return found
        wanted = {each.integers for each in imported.activations}
        tensors = {name: array for name, array in found.tensors.items() if name in wanted}
        return replace(found, tensors=tensors)
