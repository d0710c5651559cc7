"""Running samples through a float model, and counting the tensors of each."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnxruntime
from onnxruntime import GraphOptimizationLevel

from accel.errors import InvalidModel
from accel.frontend.onnx_model.ort_session import session, with_outputs
from accel.frontend.quantize.threads import THREADS, in_threads
from accel.util.arrays import Array

Sample = dict[str, Array]


def count_values(
    model: onnx.ModelProto,
    tensors: Sequence[str],
    samples: Sequence[Sample],
    count: Callable[[str, Sequence[Array]], None],
) -> None:
    """Calls ``count`` with the name and the values of each of ``tensors``, of one or some samples, in their order.

    The arrays are written to again when ``count`` has returned. Samples are run in threads, one in each, and then
    tensors are counted so: each in one at a time, so that its sums have one order.

    Raises:
        InvalidModel: onnxruntime cannot load the model, or run it.
        Exception: as ``count`` does.
    """
    computed = {name for node in model.graph.node for name in node.output}
    wanted = [name for name in tensors if name in computed]
    given = [name for name in tensors if name not in computed]
    try:
        # how an operator's sums are rounded depends on the number of its threads
        running = session(with_outputs(model, wanted), GraphOptimizationLevel.ORT_DISABLE_ALL, threads=1)
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise InvalidModel(f"onnxruntime cannot load the model: {error}", field="model") from error
    runs = [_Run(running, wanted) for _ in range(THREADS)]
    for begin in range(0, len(samples), THREADS):
        some = samples[begin : begin + THREADS]
        values = in_threads(lambda run: run[0].values(run[1]), zip(runs, some, strict=False))
        for found, sample in zip(values, some, strict=True):
            found.update({name: sample[name] for name in given if name in sample})
        _count_in_threads(values, count)


def _count_in_threads(values: Sequence[Sample], count: Callable[[str, Sequence[Array]], None]) -> None:
    """Count the tensors of some samples, the largest first: none is left to one thread at the end."""
    names = sorted(values[0], key=lambda name: -values[0][name].size)
    in_threads(lambda name: count(name, [each[name] for each in values]), names)


class _Run:
    """Runs of a session, whose results lie where those of the first lay.

    Args:
        running: the session, which others may run at the same time.
        wanted: the tensors.
    """

    def __init__(self, running: onnxruntime.InferenceSession, wanted: Sequence[str]) -> None:
        self._running = running
        self._wanted = wanted
        self._places: list[Array] = []

    def values(self, sample: Sample) -> Sample:
        """Returns the tensors of a sample.

        Raises:
            InvalidModel: onnxruntime cannot run the model.
        """
        if self._wanted and not self._run_in_place(sample):
            try:
                self._places = self._running.run(self._wanted, sample)
            except Exception as error:  # onnxruntime's exceptions have no common base
                raise InvalidModel(f"onnxruntime cannot run the model: {error}", field="model") from error
        return dict(zip(self._wanted, self._places, strict=True))

    def _run_in_place(self, sample: Sample) -> bool:
        """Returns whether the results are as large as the last ones, and lie in their place."""
        if not self._places:
            return False
        binding = self._running.io_binding()
        inputs = {name: np.ascontiguousarray(value) for name, value in sample.items()}  # kept while it runs
        try:
            for name, value in inputs.items():
                binding.bind_cpu_input(name, value)
            for name, place in zip(self._wanted, self._places, strict=True):
                binding.bind_output(name, "cpu", 0, place.dtype, place.shape, place.ctypes.data)
            self._running.run_with_iobinding(binding)
        except Exception:  # noqa: BLE001 - onnxruntime's have no common base; of other sizes, perhaps
            return False
        return True
