"""The reference of a job's outputs, computed beside its compilation: both begin with the integer graph.

So is the quality of these outputs, as the program's are equal to them, or else the job fails.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import Self

from accel.frontend.integer_recovery.recover_integers import ImportedModel
from accel.util.arrays import Array
from accel.util.deadline import Deadline
from accel.verify.model_quality import ModelQuality, QualityInputs
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
        self._quality: Future[ModelQuality] | None = None

    def __enter__(self) -> Self:
        self._thread = ThreadPoolExecutor(1, "reference")
        return self

    def __exit__(self, *_error: object) -> None:
        self._deadline.end()
        self._thread.shutdown(cancel_futures=True)

    def start(
        self,
        imported: ImportedModel,
        inputs: Sequence[Array],
        measured: Mapping[str, VectorResult] = MappingProxyType({}),
        quality: QualityInputs | None = None,
    ) -> None:
        """Start to run ``main`` of the integer graph, and then to measure ``quality``, if it is given.

        ``inputs`` are in the graph's order, ``measured`` as for :func:`run_reference`.
        """
        if self._seconds:
            self._deadline = Deadline(self._seconds)
            self._run = self._thread.submit(self._reference, imported, inputs, measured)
            if quality is not None:
                self._quality = self._thread.submit(self._measure, quality, imported, self._run)

    def found(self) -> ReferenceRun | None:
        """Returns what the graph computes once that is known; None if it is not to be run.

        Raises:
            OutOfTimeError, CompileError, VerificationError: as :func:`run_reference`.
        """
        return None if self._run is None else self._run.result()

    def quality(self) -> ModelQuality | None:
        """Returns the quality of what the graph computes once that is known; None if it is not to be measured.

        Raises:
            InvalidModel: as :meth:`QualityInputs.measure`.
            OutOfTimeError, CompileError, VerificationError: as :meth:`found`.
        """
        return None if self._quality is None else self._quality.result()

    @staticmethod
    def _measure(quality: QualityInputs, imported: ImportedModel, run: Future[ReferenceRun]) -> ModelQuality:
        found = run.result()  # there is one thread: it has run before
        return quality.measure(found.outputs, imported.activations, found.tensors)

    def _reference(
        self, imported: ImportedModel, inputs: Sequence[Array], measured: Mapping[str, VectorResult]
    ) -> ReferenceRun:
        found = run_reference(imported, inputs, self._deadline, measured)
        if self._every:
            return found
        wanted = {each.integers for each in imported.activations}
        tensors = {name: array for name, array in found.tensors.items() if name in wanted}
        return replace(found, tensors=tensors)
