"""Calibration: the samples, and the error of int8 for each activation on them, scale by scale."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnxruntime import GraphOptimizationLevel

from accel.errors import InvalidModel, InvalidTensors
from accel.frontend.onnx_model.ort_session import session
from accel.frontend.quantize.scale_grid import INT8_MAX, Grid, Loss
from accel.util.arrays import Array

Sample = dict[str, Array]

RANDOM_SAMPLES = 8
_KEPT_BYTES = 256 << 20  # of activations, so that most networks run once
_BINS_PER_STEP = 8  # of the finest candidate scale
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
    return [dict(zip(stacks, values, strict=True)) for values in zip(*stacks.values(), strict=True)]


def activation_losses(model: onnx.ModelProto, grids: Mapping[str, Grid], inputs: Sequence[Sample]) -> dict[str, Loss]:
    """Returns the error of each tensor over the samples, at every candidate scale of its grid.

    Raises:
        InvalidModel: onnxruntime cannot run the model.
    """
    tensors = list(grids)
    runs = _Runs(model, tensors, inputs)
    ranges = dict.fromkeys(tensors, (0.0, 0.0))
    for values in runs:
        for name, value in values.items():
            low, high = float(value.min(initial=0)), float(value.max(initial=0))
            if not (np.isfinite(low) and np.isfinite(high)):
                raise InvalidModel(f"the values of {name!r} are not finite on the samples", field="model")
            ranges[name] = min(low, ranges[name][0]), max(high, ranges[name][1])
    candidates = {name: grids[name].candidates(max(-low, high)) for name, (low, high) in ranges.items()}
    histograms = {name: _Histogram(*ranges[name], grids[name].scale(candidates[name][-1])) for name in tensors}
    for values in runs:
        for name, value in values.items():
            histograms[name].add(value)
    return {name: histograms[name].loss(grids[name], candidates[name]) for name in tensors}


class _Histogram:
    """The values of a tensor in narrow bins: their number, and the sum and squared sum of how far they lie in each.

    From these follows the error of int8 at any scale, as the values of a bin are mostly rounded alike. A bin is a part
    of the finest candidate scale, so that none straddles a rounding boundary of a scale that is a power of two of it;
    where one does, its values are rounded as its middle is, which adds under a hundredth to the error.

    Args:
        low, high: the range of the values; finite, and 0 is in it.
        finest: the finest candidate scale.
    """

    def __init__(self, low: float, high: float, finest: float) -> None:
        self._width = finest / _BINS_PER_STEP
        self._first = math.floor(low / self._width)
        bins = math.floor(high / self._width) - self._first + 1
        self._counts = np.zeros(bins, np.int64)
        self._moments = np.zeros((2, bins), np.float64)

    def add(self, value: Array) -> None:
        """Count the elements of an array, which lie within the range."""
        flat = value.reshape(-1)
        for at in range(0, flat.size, _BLOCK):
            offset = np.divide(flat[at : at + _BLOCK], self._width, dtype=np.float64)
            whole = np.floor(offset)
            offset -= whole
            whole -= self._first
            bins = whole.astype(np.intp)
            self._counts += np.bincount(bins, minlength=self._counts.size)
            self._moments[0] += np.bincount(bins, offset, self._counts.size)
            offset *= offset
            self._moments[1] += np.bincount(bins, offset, self._counts.size)

    def loss(self, grid: Grid, candidates: Sequence[int]) -> Loss:
        """Returns the energy of the values, and their error at the scale of each candidate."""
        used = self._counts.nonzero()[0]
        counts, (sums, squares) = self._counts[used], self._moments[:, used]
        begins = (used + self._first).astype(np.float64)

        def squared(distances: Array) -> float:
            """The squared distance of the values, in widths, from points so far below the beginnings of their bins."""
            total = np.dot(counts * distances + 2 * sums, distances) + squares.sum()
            return float(total) * self._width**2

        errors = {}
        for index in candidates:
            step = grid.scale(index) / self._width
            errors[index] = squared(begins - step * np.clip(np.rint((begins + 0.5) / step), -INT8_MAX - 1, INT8_MAX))
        return Loss(squared(begins), errors)


def _draw(random: np.random.Generator, info: onnx.ValueInfoProto) -> Array:
    shape, dtype = _signature(info)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize == 1:  # an image, say; wider integers are mostly indices
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return random.integers(0, 2, shape).astype(dtype)


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


class _Runs:
    """The values of ``tensors``, sample by sample; each iteration runs the model, but the first samples are cached.

    Raises:
        InvalidModel: onnxruntime cannot load the model, or, during iteration, run it.
    """

    def __init__(self, model: onnx.ModelProto, tensors: Sequence[str], inputs: Sequence[Sample]) -> None:
        observed = onnx.ModelProto()
        observed.CopyFrom(model)
        computed = {name for node in model.graph.node for name in node.output}
        present = {output.name for output in model.graph.output}
        self._wanted = [name for name in tensors if name in computed]
        observed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._wanted if name not in present)
        self._given = [name for name in tensors if name not in computed]
        self._inputs = inputs
        self._kept: list[Sample] = []
        self._room = _KEPT_BYTES
        try:
            self._session = session(observed, GraphOptimizationLevel.ORT_DISABLE_ALL)
        except Exception as error:  # onnxruntime's exceptions have no common base
            raise InvalidModel(f"onnxruntime cannot load the model: {error}", field="model") from error

    def __iter__(self) -> Iterator[Sample]:
        for number, sample in enumerate(self._inputs):
            values = self._kept[number] if number < len(self._kept) else self._run(sample)
            if number == len(self._kept):
                self._room -= sum(value.nbytes for value in values.values())
                if self._room >= 0:
                    self._kept.append(values)
            yield values

    def _run(self, sample: Sample) -> Sample:
        try:
            results = self._session.run(self._wanted, sample) if self._wanted else []
        except Exception as error:  # as above
            raise InvalidModel(f"onnxruntime cannot run the model: {error}", field="model") from error
        given = {name: sample[name] for name in self._given if name in sample}
        return dict(zip(self._wanted, results, strict=True)) | given
