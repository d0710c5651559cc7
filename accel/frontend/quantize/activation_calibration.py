"""Calibration: the samples, and the error of int8 for each activation on them, scale by scale."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnxruntime import GraphOptimizationLevel

from accel.errors import InvalidModel, InvalidTensors
from accel.frontend.onnx_model.ort_session import session
from accel.frontend.quantize.scale_grid import INT8_MAX, OCTAVES, Grid, Loss
from accel.util.arrays import Array

Sample = dict[str, Array]

RANDOM_SAMPLES = 8
_BINS_PER_STEP = 8  # of the finest candidate scale
_BINS = 2 * 128 * 2**OCTAVES * _BINS_PER_STEP  # on either side of 0: twice what the widest candidate scale reaches
_BLOCK = 1 << 17  # elements that are counted together, as many as stay in the cache


def calibration_samples(model: onnx.ModelProto, calibration: Mapping[str, Array] | None, seed: int) -> list[Sample]:
    """Returns the samples to run, one dict of inputs each.

    Raises:
        InvalidTensors: an input is missing, unknown, of another shape or type, not finite, or the numbers of
            samples differ; ``field`` is ``calibration.<input>``.
    """
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in initializers]
    if calibration is None:
        random = np.random.default_rng(seed)
        return [{info.name: _draw(random, info) for info in inputs} for _ in range(RANDOM_SAMPLES)]
    unknown = sorted(set(calibration) - {info.name for info in inputs})
    if unknown:
        raise InvalidTensors(f"the model has no input {unknown[0]!r}", field=f"calibration.{unknown[0]}")
    stacks = {info.name: _stack(info, calibration.get(info.name)) for info in inputs}
    counts = {name: len(stack) for name, stack in stacks.items()}
    for name, count in counts.items():
        if count != next(iter(counts.values())):
            raise InvalidTensors(f"the inputs have different numbers of samples: {counts}", field=f"calibration.{name}")
    samples = zip(*stacks.values(), strict=True)
    return [dict(zip(stacks, map(np.asarray, values), strict=True)) for values in samples]


def activation_losses(model: onnx.ModelProto, grids: Mapping[str, Grid], inputs: Sequence[Sample]) -> dict[str, Loss]:
    """Returns the error of each tensor over the samples, at every candidate scale of its grid.

    Raises:
        InvalidModel: onnxruntime cannot run the model.
    """
    histograms = {name: _Histogram(grid) for name, grid in grids.items()}
    for values in _runs(model, list(grids), inputs):
        for name, value in values.items():
            if not histograms[name].add(value):
                raise InvalidModel(f"the values of {name!r} are not finite on the samples", field="model")
    return {name: histogram.loss() for name, histogram in histograms.items()}


class _Histogram:
    """The values of a tensor in narrow bins: their number, and the sum and squared sum of how far they lie in each.

    From these follows the error of int8 at any scale, as the values of a bin are mostly rounded alike. A bin is a part
    of the finest candidate scale, so that none straddles a rounding boundary of a scale that is a power of two of it;
    where one does, its values are rounded as its middle is, which adds under a hundredth to the error. Distances are
    in widths of a bin.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._largest = 0.0
        self._width = self._width_for(0.0)
        self._first = 0  # the bin of 0 begins at it
        self._counts = np.zeros(1, np.int64)
        self._moments = np.zeros((2, 1), np.float64)

    def add(self, value: Array) -> bool:
        """Count the elements of an array; returns whether all are finite, and else does nothing."""
        low, high = float(value.min(initial=0)), float(value.max(initial=0))
        if not (math.isfinite(low) and math.isfinite(high)):
            return False
        if max(-low, high) > self._largest:
            self._widen(max(-low, high))
        most = self._width * _BINS
        if max(-low, high) > most:  # as only beyond the widest scale, where every scale clips it
            value, low, high = np.clip(value, -most, most), max(low, -most), min(high, most)
        self._extend(math.floor(low / self._width), math.floor(high / self._width))
        flat = value.reshape(-1)
        for at in range(0, flat.size, _BLOCK):
            within = np.divide(flat[at : at + _BLOCK], self._width, dtype=np.float64)
            whole = np.floor(within)
            within -= whole
            whole -= self._first
            bins = whole.astype(np.intp)
            self._counts += np.bincount(bins, minlength=self._counts.size)
            self._moments[0] += np.bincount(bins, within, self._counts.size)
            within *= within
            self._moments[1] += np.bincount(bins, within, self._counts.size)
        return True

    def loss(self) -> Loss:
        """Returns the energy of the values, and their error at each candidate scale."""
        used = self._counts.nonzero()[0]
        counts, (sums, squares) = self._counts[used], self._moments[:, used]
        begins = (used + self._first).astype(np.float64)

        def squared(distances: Array) -> float:
            """The squared distance of the values from points that lie so far below the beginnings of their bins."""
            total = ((counts * distances + 2 * sums) * distances + squares).sum()  # np.dot would start threads
            return float(total) * self._width**2

        errors = {}
        for index in self._grid.candidates(self._largest):
            step = self._grid.scale(index) / self._width
            errors[index] = squared(begins - step * np.clip(np.rint((begins + 0.5) / step), -INT8_MAX - 1, INT8_MAX))
        return Loss(squared(begins), errors)

    def _width_for(self, largest: float) -> float:
        return self._grid.scale(self._grid.candidates(largest)[-1]) / _BINS_PER_STEP

    def _widen(self, largest: float) -> None:
        """Join bins in pairs, as wider scales become candidates; the zeros before any other value fit each width."""
        width, zeros = self._width_for(largest), not self._largest
        while not zeros and self._width < width:
            self._extend(self._first & ~1, self._first + self._counts.size - 1 | 1)
            pairs = self._counts.reshape(-1, 2), *self._moments.reshape(2, -1, 2)
            (low, high), (low_sums, sums), (low_squares, squares) = (pair.T for pair in pairs)
            self._counts = low + high
            self._moments = np.stack(
                [(low_sums + sums + high) / 2, (low_squares + squares + 2 * sums + high) / 4],
            )
            self._first //= 2
            self._width *= 2
        self._largest, self._width = largest, width

    def _extend(self, first: int, last: int) -> None:
        """Have bins from ``first`` to ``last`` at least."""
        before, after = max(self._first - first, 0), max(last - self._first - self._counts.size + 1, 0)
        if before or after:
            self._counts = np.pad(self._counts, (before, after))
            self._moments = np.pad(self._moments, ((0, 0), (before, after)))
            self._first -= before


def _draw(random: np.random.Generator, info: onnx.ValueInfoProto) -> Array:
    shape, dtype = _signature(info)
    if dtype.kind == "f":
        return np.asarray(random.standard_normal(shape)).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize == 1:  # an image, say; wider integers are mostly indices
        limits = np.iinfo(dtype)
        return np.asarray(random.integers(limits.min, limits.max, shape, dtype, endpoint=True))
    return np.asarray(random.integers(0, 2, shape)).astype(dtype)


def _stack(info: onnx.ValueInfoProto, array: Array | None) -> Array:
    """The samples of one input, along the leading axis."""
    field = f"calibration.{info.name}"
    shape, dtype = _signature(info)
    if array is None:
        raise InvalidTensors(f"no samples for the input {info.name!r}", field=field)
    if array.shape == shape:
        array = array[None]
    if array.shape[1:] != shape or len(array) == 0:
        raise InvalidTensors(f"{array.shape} is neither {shape} nor samples of it", field=field)
    if array.dtype.kind not in "fiub" or (dtype.kind != "f" and array.dtype != dtype):
        raise InvalidTensors(f"the element type is {array.dtype}, not {dtype}", field=field)
    converted = array.astype(dtype)
    if not np.isfinite(converted).all():
        raise InvalidTensors("some values are not finite", field=field)
    return converted


def _signature(info: onnx.ValueInfoProto) -> tuple[tuple[int, ...], np.dtype[Any]]:
    tensor = info.type.tensor_type
    return tuple(size.dim_value for size in tensor.shape.dim), np.dtype(
        onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    )


def _runs(model: onnx.ModelProto, tensors: Sequence[str], inputs: Sequence[Sample]) -> Iterator[Sample]:
    """The values of ``tensors``, sample by sample.

    Raises:
        InvalidModel: onnxruntime cannot load the model, or run it.
    """
    observed = onnx.ModelProto()
    observed.CopyFrom(model)
    computed = {name for node in model.graph.node for name in node.output}
    present = {output.name for output in model.graph.output}
    wanted = [name for name in tensors if name in computed]
    observed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted if name not in present)
    try:
        running = session(observed, GraphOptimizationLevel.ORT_DISABLE_ALL)
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise InvalidModel(f"onnxruntime cannot load the model: {error}", field="model") from error
    for sample in inputs:
        try:
            results = running.run(wanted, sample) if wanted else []
        except Exception as error:  # as above
            raise InvalidModel(f"onnxruntime cannot run the model: {error}", field="model") from error
        given = {name: sample[name] for name in tensors if name not in computed and name in sample}
        yield dict(zip(wanted, results, strict=True)) | given
